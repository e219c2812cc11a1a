# SPDX-License-Identifier: Apache-2.0
"""DLPack both ways."""
import ctypes
import gc
import subprocess
import sys
import threading

import numpy as np
import pytest

import etude as et


class Legacy:
    """A producer or consumer that knows only DLPack 0.x."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def address(array):
    return np.asarray(array).__array_interface__["data"][0]


# spec: V65
def test_export_is_read_only_and_shares():
    x = et.ones([2000])
    array = np.from_dlpack(x)
    assert not array.flags.writeable and address(array) == address(x)
    x[0] = 5
    assert array[0] == 1
    copied = np.from_dlpack(x, copy=True)
    assert copied.flags.writeable and address(copied) != address(x)
    copied[0] = 7
    assert x[0].item() == 5


# spec: V65
def test_import_shares_until_a_write():
    array = np.ones(2000, dtype=np.float32)
    x = et.from_dlpack(array)
    assert address(x) == address(array)
    x[0] = 3
    assert array[0] == 1 and x[0].item() == 3
    y = et.from_dlpack(array, copy=True)
    assert address(y) != address(array)
    with pytest.raises(et.FailedPreconditionError, match="rows are not compact"):
        et.from_dlpack(array[::2], copy=False)
    assert et.from_dlpack(array[::2]).tolist() == [1.0] * 1000
    assert et.from_dlpack(np.arange(6).reshape(2, 3).T).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert et.from_dlpack(np.arange(3)[::-1]).tolist() == [2, 1, 0]
    assert et.from_dlpack(np.zeros((0, 3))).shape == (0, 3)


def test_older_protocol():
    array = np.ones(2000, dtype=np.float32)
    x = et.from_dlpack(Legacy(array))
    assert x.tolist() == array.tolist()
    # A consumer without flags may write, so it gets a copy.
    capsule = et.ones([2000]).__dlpack__()
    assert '"dltensor"' in repr(capsule)
    assert '"dltensor_versioned"' in repr(et.ones([2]).__dlpack__(max_version=(1, 0)))
    with pytest.raises(BufferError, match=r"may write .*max_version=\(1, 0\)"):
        et.ones([2000]).__dlpack__(copy=False)


def test_capsules_are_taken_once():
    x = et.ones([3])
    capsule = x.__dlpack__(max_version=(1, 0))
    assert et.from_dlpack(capsule).tolist() == [1.0, 1.0, 1.0]
    assert "used_dltensor_versioned" in repr(capsule)
    with pytest.raises(TypeError, match="taken before"):
        et.from_dlpack(capsule)
    with pytest.raises(TypeError, match="a list has no __dlpack__"):
        et.from_dlpack([1.0])
    with pytest.raises(ValueError, match="'stream' must be None"):
        x.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="on the CPU only"):
        x.__dlpack__(dl_device=(2, 0))
    assert x.__dlpack_device__() == (1, 0)


def test_memory_is_given_back():
    before = len(gc.get_objects())
    for _ in range(300):
        x = et.from_dlpack(np.ones(5000, dtype=np.float32))
        np.from_dlpack(x)
        x.__dlpack__(max_version=(1, 0))  # dropped without a consumer
        x.__dlpack__()
    gc.collect()
    assert len(gc.get_objects()) < before + 100


def test_a_deleter_runs_on_another_thread():
    holder = [et.from_dlpack(np.ones(5000, dtype=np.float32)), et.asarray(np.ones(5000), copy=False)]

    def drop():
        holder.clear()

    thread = threading.Thread(target=drop)
    thread.start()
    thread.join()
    assert not holder


def test_arrays_outlive_the_interpreter():
    code = """
import sys, numpy as np, etude as et
a = np.ones(5000, dtype=np.float32)
sys.keep = [et.from_dlpack(a), et.asarray(a, copy=False), np.from_dlpack(et.ones([5000])), et.ones([2]).__dlpack__()]
import builtins
builtins.kept = et.from_dlpack(a)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""


def test_foreign_strides_and_bad_capsules():
    array = np.lib.stride_tricks.as_strided(np.arange(4.0), shape=(2, 3), strides=(8, 8))
    assert et.from_dlpack(array).tolist() == [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = b"other"
    with pytest.raises(TypeError, match="no capsule"):
        et.from_dlpack(make(1, name, None))
