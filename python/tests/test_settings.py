# SPDX-License-Identifier: Apache-2.0
"""Settings and counters of the process: every one of C++ is here."""
import os
import pathlib
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import etude as et

ETUDE = pathlib.Path(__file__).resolve().parent.parent.parent / "etude"
# Functions of C++ that set something, and what a program of Python has instead.
INSTEAD = {
    "set_warning_handler": "warnings.showwarning",  # warnings are warnings of Python
    "set_print_sink": "sys.stdout",  # the package prints there
    "set_index": "Tensor.__setitem__",
    "set_forks": "ETUDE_FORKS",  # for benchmarks, by the environment
}


def test_every_setting_of_cpp_has_a_name_here():
    found = set()
    for folder in ("base", "core", "device", "files", "lazy", "stage", "variables", "codegen", "eager", "plan"):
        for header in (ETUDE / folder).rglob("*.h"):
            if not {"internal", "op", "llvm"} & set(header.parts):
                public = re.sub(r"namespace internal \{.*?\n\}  // namespace internal", "", header.read_text(), flags=re.S)
                found |= set(re.findall(r"^(?:inline )?[\w:]+ (set_\w+)\(", public, flags=re.M))
    assert {"set_thread_count", "set_denormals", "set_memory_limit", "set_read_limits", "set_lazy_options", "set_diagnostics", "set_seed"} <= found
    for name in sorted(found):
        assert hasattr(et, name) or name in INSTEAD, name


def test_threads():
    before = et.worker_count()
    x = et.random.normal((200, 300))
    want = np.asarray(x @ x.T)
    try:
        for count in (1, 2, 3):
            et.set_thread_count(count)
            assert et.worker_count() == count and np.asarray(x @ x.T).tobytes() == want.tobytes()
        for wrong in (-1, 1025):
            with pytest.raises(et.InvalidArgumentError, match=str(wrong)):
                et.set_thread_count(wrong)
        with pytest.raises(TypeError):
            et.set_thread_count("two")
        assert et.worker_count() == 3
    finally:
        et.set_thread_count(0)
    assert et.worker_count() == before


def test_denormals():
    assert et.denormals() == "flush"
    tiny = et.asarray([1e-40])
    try:
        et.set_denormals("keep")
        assert et.denormals() == "keep" and float((tiny * 1)[0]) > 0
    finally:
        et.set_denormals("flush")
    assert float((tiny * 1)[0]) == 0
    with pytest.raises(et.InvalidArgumentError, match="set_denormals: mode is 'drop', but must be one of 'flush', 'keep'"):
        et.set_denormals("drop")


def test_promotion():
    ints, floats = et.asarray([1]), et.asarray([0.5])
    assert et.promotion() == "kinds" and (ints + floats).dtype == et.float32
    try:
        et.set_promotion("strict")
        with pytest.raises(et.InvalidArgumentError):
            ints + floats
        assert et.promotion() == "strict"
    finally:
        et.set_promotion("kinds")
    assert (ints + floats).dtype == et.float32


def test_memory():
    before = et.memory_stats()
    x = et.zeros(1_000_000)
    after = et.memory_stats()
    assert after.live_bytes >= before.live_bytes + 4_000_000 and after.peak_bytes >= after.live_bytes
    assert "live_bytes=" in repr(after)
    del x
    et.reset_peak_memory()
    assert et.memory_stats().peak_bytes < after.peak_bytes
    second = et.add_cpu_device()
    there = et.ones(1000, device=second)
    assert et.memory_stats(second).live_bytes >= 4000 and there.device == second
    et.set_memory_limit(et.memory_stats(second).live_bytes + 10_000, device=second)
    with pytest.raises(et.ResourceExhaustedError):
        et.ones(1_000_000, device=second)
    et.set_memory_limit(0, device=second)
    assert et.ones(1_000_000, device=second).shape == (1_000_000,)
    et.trim_memory()
    y = et.ones(1000)
    z = y.copy()
    y[0] = 2.0
    assert float(z[0]) == 1.0 and isinstance(et.explain_copy(), str)


def test_limits_of_readers(tmp_path):
    et.io.save({"x": et.ones(10)}, tmp_path / "x.safetensors")
    before = et.set_read_limits(free_bytes=1, bytes_per_byte=1)
    try:
        assert et.read_limits().free_bytes == 1 and et.read_limits().depth == before.depth
        with pytest.raises(et.InvalidArgumentError, match="depth"):
            et.set_read_limits(depth=0)
        with pytest.raises(et.InvalidArgumentError, match="there is an unknown option. It has: depth, free_bytes"):
            et.set_read_limits(levels=3)
        with pytest.raises(et.InvalidArgumentError, match="depth is 1.5, but must be an integer"):
            et.set_read_limits(depth=1.5)
    finally:
        et.set_read_limits()
    assert repr(et.read_limits()) == repr(before)


def test_diagnostics():
    former = et.set_diagnostics(independent_result="error")
    try:
        assert former.independent_result == "warn" and et.diagnostics().independent_result == "error"
        with pytest.raises(et.InvalidArgumentError):
            et.gradient(lambda x: et.asarray(1.0))(et.asarray(2.0))
        with pytest.raises(et.InvalidArgumentError, match="independent_result is 'loud', but must be one of 'ignore', 'warn', 'error'"):
            et.set_diagnostics(independent_result="loud")
    finally:
        et.set_diagnostics()


def test_lazy_options():
    assert et.lazy_options().roll is True and not et.is_lazy() and et.pending_nodes() == 0
    try:
        et.set_lazy_options(roll=False, max_nodes=100)
        assert et.lazy_options().roll is False and et.lazy_options().max_nodes == 100
        with et.LazyScope():
            x = et.ones(3) + 1
            assert et.is_lazy() and et.is_pending(x) and et.pending_nodes() >= 1 and "add" in et.dump_pending()
        with pytest.raises(et.InvalidArgumentError, match="max_nodes is -1, but must be an integer of at least 0"):
            et.set_lazy_options(max_nodes=-1)
        with pytest.raises(et.InvalidArgumentError, match="roll is a int, but must be a bool"):
            et.set_lazy_options(roll=1)
    finally:
        et.set_lazy_options()
    assert not et.is_pending(x) and not et.is_pending(3)
    et.wait_for_compile()
    assert et.compiler_report().waiting == 0


def test_a_process_of_one_thread():
    code = "import etude as et; print(et.worker_count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "ETUDE_THREADS": "3"})
    assert done.stdout == "3\n", done.stderr


def test_cancellation():
    x, enough = et.ones((50, 50)), et.Cancellation()

    def work():
        y = x
        while not et.is_cancelled():
            y = et.tanh(y @ x)
        return y @ x

    timer = threading.Timer(0.05, enough.cancel)
    with et.CancelScope(enough):
        (x @ x).tolist()
        timer.start()
        with pytest.raises(et.CancelledError) as error:
            work()
    assert error.value.file == __file__ and error.value.op in ("matmul", "tanh") and enough.is_cancelled and not et.is_cancelled()
    assert (x @ x).shape == (50, 50)
