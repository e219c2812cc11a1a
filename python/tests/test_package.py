# SPDX-License-Identifier: Apache-2.0
"""The package as a whole: names, stubs, modules, import."""
import os
import subprocess
import sys
import threading
import time

import pytest

import etude as et

SOURCES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def names_of_cpp():
    """The functions of etude/ops.h, by namespace."""
    import re

    path = os.path.join(os.path.dirname(SOURCES), "etude", "ops.h")
    space, found = "", set()
    with open(path, encoding="utf-8") as file:
        for line in file:
            if match := re.match(r"namespace (\w+) \{$", line):
                space = match[1] + "."
            elif match := re.match(r"(?:inline )?(?:Tensor|std::vector<Tensor>|\w+Result) (\w+)\(", line):
                found.add(space + match[1])
    return found


def test_python_has_the_functions_of_cpp_and_no_other_ops():
    cpp, python = names_of_cpp(), set(et._core._ops)
    assert len(cpp) > 250
    assert python - cpp == set() and cpp - python == set()
    for name in python:
        space, _, function = name.rpartition(".")
        assert callable(getattr(getattr(et, space) if space else et, function))


def test_stubs_are_current():
    script = os.path.join(SOURCES, "generate_stubs.py")
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_import_is_quick():
    """An upper bound with room for a loaded machine; the speed table has the figure."""
    code = "import time; t = time.perf_counter(); import etude; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    assert min(float(done.stdout) for done in runs) < 0.5


def test_a_free_threaded_interpreter_gets_its_lock():
    """docs/install.md: the module does not say that it runs without the lock."""
    import sysconfig

    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("this interpreter always has the lock")
    assert sys._is_gil_enabled()


def another_thread_runs_during_a_product():
    x = et.ones([1500, 1500])
    stamps, stop = [], threading.Event()

    def note():
        while not stop.is_set():
            stamps.append(time.perf_counter())
            time.sleep(0.0005)

    thread = threading.Thread(target=note)
    thread.start()
    begin = time.perf_counter()
    et.matmul(x, x)
    end = time.perf_counter()
    stop.set()
    thread.join()
    quarter = (end - begin) / 4  # the other thread may get the GIL before and after the call in any case
    return any(begin + quarter < stamp < end - quarter for stamp in stamps)


def test_large_calls_release_the_interpreter():
    # On a loaded machine the other thread may get no processor in time.
    assert any(another_thread_runs_during_a_product() for _ in range(10))


def test_threads_share_tensors():
    x = et.ones([64])
    results = []

    def work():
        y = x
        for i in range(300):
            y = y + 1
            z = y[:]
            z[0] = i
        results.append(y.sum().item())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [64.0 * 301] * 8 and x.tolist() == [1.0] * 64


def test_bad_arguments_never_crash():
    endless = []
    endless.append(endless)
    bad = [None, "text", b"bytes", 2**70, -(2**70), object(), {}, set(), [None], [[1], [2, 3]], endless, float("nan"),
           [float("nan")], "a\0b", ..., slice(1), int, lambda: 1, [[]], [1, "a"], 1j, et, et.float32, et.Device("cpu:0")]  # fmt: skip
    calls = 0
    for op in et._core._ops.values():
        for value in bad:
            for args, kwargs in (((value,), {}), ((value, value), {}), ((et.ones([2]), value), {}), ((et.ones([2]),), {"axis": value})):
                calls += 1
                try:
                    op(*args, **kwargs)
                except (TypeError, ValueError, IndexError, RuntimeError, NotImplementedError, OverflowError, MemoryError, LookupError):
                    pass
    assert calls > 20000


@pytest.mark.parametrize("version", ["1999.12", "2030.12"])
def test_unknown_versions_of_the_standard(version):
    with pytest.raises(ValueError, match=version):
        et.ones([1]).__array_namespace__(api_version=version)
    assert et.ones([1]).__array_namespace__(api_version="2025.12") is et
