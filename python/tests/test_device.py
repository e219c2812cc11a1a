# SPDX-License-Identifier: Apache-2.0
"""Devices: a second CPU device, scopes, copies."""
import threading

import numpy as np
import pytest

import etude as et


@pytest.fixture(scope="module")
def second():
    return et.add_cpu_device()


def test_devices_are_values(second):
    assert second in et.list_devices() and str(et.list_devices()[0]) == "cpu:0"
    assert et.Device(str(second)) == second == str(second)
    assert hash(et.Device("cpu:0")) == hash("cpu:0") and repr(et.Device("cpu:0")) == 'Device("cpu:0")'
    with pytest.raises(TypeError, match="a device is needed"):
        et.Device(3)
    with pytest.raises(LookupError, match="gpu:7"):
        et.Device("gpu:7")


def test_tensors_move(second):
    x = et.ones([3]).to(second)
    assert x.device == second and x.tolist() == [1.0, 1.0, 1.0]
    assert (x + 1).device == second and float(x.sum()) == 3.0
    assert x.to_device("cpu:0").device == "cpu:0"
    assert et.zeros([2], device=second).device == second
    assert et.asarray([1, 2], device=second).device == second and et.full((2,), 1, device=second).device == second
    assert np.asarray(x).tolist() == [1.0, 1.0, 1.0]
    assert et.random.normal([2], device=second).device == second
    with pytest.raises(et.InvalidArgumentError, match="cpu:0"):
        x + et.ones([3])
    with pytest.raises(BufferError, match="needs a copy"):
        x.__dlpack__(copy=False)
    assert np.from_dlpack(x).tolist() == [1.0, 1.0, 1.0]


def test_scopes(second):
    x = et.ones([2])
    assert et.current_device() is None
    scope = et.device(second)
    with scope:
        assert et.current_device() == second
        assert (x + x).device == second and et.zeros([1]).device == second and et.asarray([1]).device == second
        with et.device(None):
            assert (x + x).device == "cpu:0"
        with pytest.raises(RuntimeError, match="open already"):
            scope.__enter__()
        seen = []
        thread = threading.Thread(target=lambda: seen.append(str((x + x).device)))
        thread.start()
        thread.join()
        assert seen == ["cpu:0"]
    assert et.current_device() is None and (x + x).device == "cpu:0"
    with scope:
        assert (x * 2).device == second
    with et.device(str(second), copies="forbid"):
        with pytest.raises(et.FailedPreconditionError, match="'x1'"):
            x + x
    with pytest.raises(ValueError, match="copies is 'loud'"):
        et.device(second, copies="loud")
    with pytest.raises(LookupError):
        et.device("cpu:99").__enter__()


# spec: SC-07.b
def test_variables_of_a_first_call_are_on_the_device_of_its_scope(second):
    class Counter:
        v = w = u = None

        @et.function
        def add(self, x):
            if self.v is None:
                self.v = et.Variable(et.zeros(()), name="traced")
                self.w = et.Variable([1.0], name="of host data")
                with et.device("cpu:0"):
                    self.u = et.Variable(et.ones(()), name="of an inner scope")
            return self.v.assign_add(x)

    first, other = Counter(), Counter()
    with et.device(second):
        assert first.add(et.asarray(2.0)).device == second
        other.add.trace(et.asarray(2.0))
    for counter in (first, other):
        assert counter.v.device == second and counter.w.device == second and counter.u.device == "cpu:0"
    assert float(first.v.read()) == 2.0 and float(other.v.read()) == 0.0 and first.w.read().tolist() == [1.0]
    with et.device(second):
        assert float(first.add(et.asarray(3.0))) == 5.0 and first.add.trace_count() == 1
    third = Counter()  # outside of scopes
    third.add(et.asarray(1.0))
    assert third.v.device == "cpu:0" and third.w.device == "cpu:0"

    @et.function
    def outer(counter, x):  # the scope around the outermost call
        return counter.add(x)

    fourth = Counter()
    with et.device(second):
        outer(fourth, et.asarray(1.0))
    assert fourth.v.device == second
