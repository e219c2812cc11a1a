# SPDX-License-Identifier: Apache-2.0
"""NumPy and the buffer protocol, both ways."""
import ctypes
import io
import subprocess
import sys

import numpy as np
import pytest

import etude as et

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize("name", DTYPES)
def test_round_trip(name):
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(name)
    x = et.asarray(array)
    assert x.dtype.name == name and x.shape == (2, 3)
    back = np.asarray(x)
    assert back.dtype == array.dtype and np.array_equal(back, array)
    assert et.asarray(array.T).tolist() == array.T.tolist()
    assert et.asarray(array[::-1, ::2]).tolist() == array[::-1, ::2].tolist()
    assert et.asarray(array[:0]).shape == (0, 3)
    assert et.asarray(array[0, 0]).dtype.name == name and et.asarray(array[0, 0]).shape == ()
    swapped = array.astype(array.dtype.newbyteorder(">"))
    assert et.asarray(swapped).tolist() == array.tolist()


class View(ctypes.Structure):
    """Py_buffer."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t)]
    _fields_ += [("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p)]
    _fields_ += [("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


@pytest.mark.parametrize(("flags", "ndim", "parts"), [(0, 1, []), (4, 1, ["format"]), (8, 2, ["shape"]), (24, 2, ["shape", "strides"])])
def test_a_buffer_has_what_was_asked_for(flags, ndim, parts):
    view, x = View(), et.ones((2, 3))
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(x), ctypes.byref(view), flags)
    seen = view.ndim, view.len, view.itemsize, view.readonly, [p for p in ("format", "shape", "strides") if getattr(view, p)]
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    assert seen == (ndim, 24, 4, 1, parts)
    if sys.version_info >= (3, 12):  # Python's own view of it reads sizes that were not asked for
        assert x.__buffer__(flags).nbytes == 24


# spec: V64, IM-08.b
def test_arrays_are_read_only_and_pin_the_value():
    x = et.ones([2000])
    view = np.asarray(x)
    assert not view.flags.writeable
    with pytest.raises(ValueError):
        view[0] = 3
    assert view.__array_interface__["data"][0] == np.asarray(x).__array_interface__["data"][0]
    x[0] = 9
    assert view[0] == 1 and x[0].item() == 9
    assert x.numpy()[0] == 9
    with pytest.raises(TypeError, match="read-write"):
        io.BytesIO(b"1234").readinto(x)


# spec: V64, IM-08.b
def test_asarray_copies_unless_it_must_not():
    array = np.ones(2000, dtype=np.float32)
    x = et.asarray(array)
    pinned = et.asarray(array, copy=False)
    assert np.asarray(pinned).__array_interface__["data"][0] == array.__array_interface__["data"][0]
    array[0] = 5
    assert x[0].item() == 1 and pinned[0].item() == 5
    pinned[1] = 7  # the first write copies
    assert array[1] == 1 and pinned[1].item() == 7
    with pytest.raises(ValueError, match="rows of this numpy.ndarray are not compact"):
        et.asarray(array[::2], copy=False)
    with pytest.raises(ValueError, match="a list becomes a tensor only by a copy"):
        et.asarray([1.0], copy=False)


def test_array_protocol():
    x = et.asarray([1.5, 2.5])
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert np.array(x, copy=True).flags.writeable
    with pytest.raises(ValueError, match="copy=False forbids"):
        x.__array__(np.float64, copy=False)
    assert x.__array__(copy=True).flags.owndata


def test_operators_with_arrays_and_scalars():
    x, a = et.asarray([1.0, 2.0]), np.array([3.0, 4.0], dtype=np.float32)
    for result in (x + a, a + x, a * x, np.float32(2) * x, x - np.float64(1), np.int64(3) * x):
        assert type(result) is et.Tensor and result.dtype == et.float32
    assert (a + x).tolist() == [4.0, 6.0] and (a @ x).item() == 11.0
    assert (x == a).tolist() == [False, False]


def test_foreign_dtypes_are_refused():
    with pytest.raises(ValueError, match="elements of object, which no dtype has"):
        et.asarray(np.array([object()]))
    with pytest.raises(ValueError, match="str"):
        et.asarray(np.array(["a"]))
    with pytest.raises(ValueError, match="datetime64"):
        et.asarray(np.array(["2020-01-01"], dtype="datetime64[D]"))


def test_buffers():
    import array

    assert et.asarray(array.array("d", [1.0, 2.0])).tolist() == [1.0, 2.0]
    assert et.asarray(memoryview(bytearray(b"\x01\x02"))).tolist() == [1, 2]
    view = memoryview(et.asarray([[1, 2], [3, 4]]))
    assert (view.format, view.shape, view.readonly, view.tolist()) == ("i", (2, 2), True, [[1, 2], [3, 4]])


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = et.asarray([1.0, 2.5], dtype=et.bfloat16)
    array = x.numpy()
    assert array.dtype == ml_dtypes.bfloat16 and array.tolist() == [1.0, 2.5]
    assert et.asarray(array).dtype == et.bfloat16 and et.asarray(array).tolist() == [1.0, 2.5]
    with pytest.raises(BufferError, match="ml_dtypes"):
        memoryview(x)


def test_import_does_not_load_numpy():
    code = "import sys, etude; print('numpy' in sys.modules, 'inspect' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
