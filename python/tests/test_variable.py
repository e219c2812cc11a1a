# SPDX-License-Identifier: Apache-2.0
"""Variables."""
import threading

import pytest

import etude as et


def test_read_and_assign():
    v = et.Variable([1.0, 2.0], name="w")
    before = v.read()
    assert v.assign_add(1).tolist() == [2.0, 3.0]
    assert before.tolist() == [1.0, 2.0]
    assert v.assign([5.0, 6.0]).tolist() == [5.0, 6.0]
    assert v.assign_sub([1.0, 1.0]).tolist() == [4.0, 5.0]
    assert (v.name, v.trainable, v.dtype, v.shape, v.ndim, len(v)) == ("w", True, et.float32, (2,), 1, 2)
    assert repr(v) == "Variable(w, [4., 5.], shape=[2], dtype=float32, device=cpu:0)"
    with pytest.raises(ValueError, match="'w'"):
        v.assign([1.0])
    with pytest.raises(TypeError, match="a Variable is assigned a tensor"):
        v.assign("text")


# spec: V68
def test_augmented_assignment_names_assign_add():
    v = et.Variable(1.0, name="w")
    with pytest.raises(TypeError, match="the name of Variable 'w' a tensor. Call assign_add"):
        v += 1
    with pytest.raises(ValueError, match="assign_add"):
        v *= 2
    with pytest.raises(ValueError, match="assign_add"):
        v **= 2


# spec: VR-05
def test_parts():
    v = et.Variable([1.0, 2.0, 3.0])
    v[1:3] = [7.0, 8.0]
    assert v.read().tolist() == [1.0, 7.0, 8.0]
    assert v.at[et.asarray([0, 0])].assign_add(1.0).tolist() == [3.0, 7.0, 8.0]
    v.at[0].assign_sub(1.0)
    v.at[1].assign(0)
    assert v[:2].tolist() == [2.0, 0.0] and v.at[2].read().item() == 8.0


def test_operators_use_the_value():
    v = et.Variable([1.0, 2.0])
    for result in (v + 1, 1 + v, v * v, -v, abs(v), v @ v, v**2, v / 2, v - et.ones([2])):
        assert type(result) is et.Tensor
    assert (v > 1).tolist() == [False, True] and (v == 1).tolist() == [True, False]
    assert float(et.Variable(2.5)) == 2.5 and int(et.Variable(2)) == 2 and bool(et.Variable(True))
    assert [row.item() for row in v] == [1.0, 2.0]
    assert et.sum(v).item() == 3.0


def test_identity():
    v, w = et.Variable(1.0), et.Variable(1.0)
    assert v == v and (v == w) is False and (v != w) is True
    assert {v: 1, w: 2}[v] == 1 and hash(v) == hash(v) and v.ref() != w.ref()


def test_initialiser_runs_once():
    calls = []

    def make():
        calls.append(1)
        return et.ones([2])

    v = et.Variable(make)
    assert v.initialized and v.read().tolist() == [1.0, 1.0] and v.read().shape == (2,)
    assert len(calls) == 1
    seen = []
    w = et.Variable(make)
    thread = threading.Thread(target=lambda: seen.append(w.read().tolist()))
    thread.start()
    thread.join()
    assert seen == [[1.0, 1.0]]

    def broken():
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        et.Variable(broken).read()


def test_declared_types():
    v = et.Variable([1, 2], dtype=et.float64, trainable=False, shape=(None,))
    assert v.dtype == et.float64 and not v.trainable
    v.assign(et.ones([5], dtype=et.float64))
    assert v.shape == (5,)
    u = et.Variable(None, dtype=et.float32, shape=(2,))
    with pytest.raises(RuntimeError):
        u.read()
    u.assign([1.0, 2.0])
    assert u.read().tolist() == [1.0, 2.0]


# spec: V53.c
def test_threads_add_atomically():
    v = et.Variable(0.0)

    def work():
        for _ in range(200):
            v.assign_add(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert v.read().item() == 800
