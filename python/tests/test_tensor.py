# SPDX-License-Identifier: Apache-2.0
"""Tensors as Python objects: operators, conversions, value semantics."""
import copy
import operator
import pickle
import weakref

import numpy as np
import pytest

import etude as et


def values(x):
    return x.tolist()


# spec: IM-01
def test_matmul_prints():
    y = et.matmul(et.asarray([[1.0, 0.0]]), et.asarray([[2.0], [-2.0]]))
    assert values(y) == [[2.0]]
    assert y.shape == (1, 1)
    assert y.dtype == et.float32
    assert str(y) == "[[2.]], shape (1, 1), float32"


# spec: IM-02.a, IM-02.b
def test_dtypes_of_literals():
    assert (et.asarray([1.0, 2.0]) + [3.0, 4.0]).tolist() == [4.0, 6.0]
    assert et.asarray(1).dtype == et.int32
    assert et.asarray(1.5).dtype == et.float32
    assert et.asarray(True).dtype == et.bool
    assert et.asarray(2**33).dtype == et.int64 and int(et.asarray(2**33)) == 2**33
    assert et.asarray([1, 2**40]).dtype == et.int64
    assert et.asarray(2**63).dtype == et.uint64
    assert et.asarray([True, False]).dtype == et.bool
    assert et.asarray([1, 2.5]).tolist() == [1.0, 2.5]
    assert et.asarray([1 + 2j]).dtype == et.complex64
    assert et.asarray([]).shape == (0,)
    with pytest.raises(TypeError, match="a str was given"):
        et.asarray("text")


# spec: IM-03.b
def test_numbers_adapt():
    assert (et.ones([2]) + 1).dtype == et.float32
    assert (1 + et.ones([2])).tolist() == [2.0, 2.0]
    assert (et.asarray([1, 2], dtype=et.float16) * 0.5).dtype == et.float16
    assert (et.asarray([1 + 1j]) * 2j).tolist() == [-2 + 2j]
    assert (et.asarray([1.0]) + 1j).dtype == et.complex64
    assert (et.asarray([1.0], dtype=et.float64) + 1j).dtype == et.complex128
    with pytest.raises(et.InvalidArgumentError, match="the number 300 is outside the range of int8"):
        et.asarray([1], dtype=et.int8) + 300


@pytest.mark.parametrize(
    "call",
    [
        lambda: et.asarray([300], dtype=et.uint8),
        lambda: et.asarray(-1, dtype=et.uint64),
        lambda: et.tensor([2**63], dtype=et.int64),
        lambda: et.asarray([-1, 2**63]),
        lambda: et.full((1,), 300, dtype=et.uint8),
        lambda: et.full_like(et.asarray([1], dtype=et.int8), 300),
        lambda: et.pad(et.asarray([1, 2]), 1, value=2**40),
        lambda: et.pad(et.asarray([1, 2]), 1, value=2.5),
        lambda: et.one_hot(et.asarray([1]), 3, on=300, dtype=et.uint8),
    ],
)
def test_numbers_do_not_wrap(call):
    with pytest.raises(et.InvalidArgumentError, match="is outside the range of u?int|is not a number of u?int"):
        call()


def test_numbers_at_the_limits_of_their_dtype():
    assert et.asarray([255, 0], dtype=et.uint8).tolist() == [255, 0]
    assert et.asarray([-(2**63)], dtype=et.int64).tolist() == [-(2**63)]
    assert et.asarray([2**64 - 1]).tolist() == [2**64 - 1]
    assert et.asarray(np.asarray([300]), dtype=et.uint8).tolist() == [44]  # a cast of an array
    assert et.pad(et.asarray([1]), 1, value=float("-inf")).tolist() == [-(2**31), 1, -(2**31)]


# spec: IM-04
def test_ragged_lists():
    with pytest.raises(ValueError, match="the nesting is not rectangular: level 1 has 1 and 2 items"):
        et.asarray([[1], [2, 3]])
    with pytest.raises(ValueError, match="level 0 mixes numbers and lists"):
        et.asarray([1, [2]])
    endless = []
    endless.append(endless)
    with pytest.raises(et.InvalidArgumentError):
        et.asarray(endless)


# spec: IM-05.a..c
def test_integer_arithmetic():
    seven = et.asarray(7)
    assert int(-seven // 2) == -4
    assert int(-seven % 3) == 2
    assert float(seven / 2) == 3.5 and (seven / 2).dtype == et.float32
    small = et.asarray(200, dtype=et.uint8) + et.asarray(100, dtype=et.uint8)
    assert int(small) == 44
    with pytest.raises(et.InvalidArgumentError):
        seven // 0
    assert float(et.asarray(1.0) / 0) == float("inf")


# spec: IM-06.a..c
def test_equality_is_elementwise():
    x = et.asarray([1.0, float("nan")])
    assert (x == x).tolist() == [True, False]
    assert (x != 1).tolist() == [False, True]
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    assert hash(x.ref()) == hash(x.copy().ref())
    with pytest.raises(ValueError, match="broadcast"):
        et.ones([2]) == et.ones([3])
    assert (x == "text") is False
    assert (x == None) is False  # noqa: E711


# spec: IM-07.a..c
def test_conversions_of_one_element():
    with pytest.raises(IndexError, match="the index has 1 items that take an axis, but the shape is"):
        et.asarray(1)[0]
    assert bool(et.asarray([1])) and not bool(et.asarray(0.0))
    with pytest.raises(ValueError, match="ambiguous. Use any.. or all.. first"):
        bool(et.ones([2]))
    with pytest.raises(TypeError):
        len(et.asarray(1))
    with pytest.raises(TypeError):
        iter(et.asarray(1))
    with pytest.raises(TypeError):
        operator.index(et.asarray(1.0))
    with pytest.raises(TypeError):
        operator.index(et.asarray([1]))
    with pytest.raises(ValueError, match="exactly one element"):
        et.ones([2]).item()
    assert [10, 20, 30][et.asarray(1)] == 20
    assert float(et.asarray([2.5])) == 2.5 and int(et.asarray(2.9)) == 2
    assert complex(et.asarray(1 + 2j)) == 1 + 2j
    with pytest.raises(TypeError):
        float(et.asarray(1j))
    with pytest.raises(OverflowError):
        int(et.asarray(float("inf")))
    assert int(et.asarray(2**64 - 1, dtype=et.uint64)) == 2**64 - 1


# spec: V60, IM-08.a
def test_an_object_is_a_variable():
    a = et.asarray([1.0, 2.0])
    b = a
    others = [a.copy(), a[:], a + 0, copy.copy(a), copy.deepcopy(a), et.reshape(a, (2,))]
    a[0] = 9
    assert b is a and b.tolist() == [9.0, 2.0]
    for other in others:
        assert other is not a and other.tolist() == [1.0, 2.0]


# spec: V61
def test_item_assignment_writes_one_variable():
    a = et.asarray([1.0, 2.0, 3.0])
    b = a[:]
    r = a.reshape(-1)
    a[0] = 9
    r[1] = 7
    assert a.tolist() == [9.0, 2.0, 3.0]
    assert b.tolist() == [1.0, 2.0, 3.0]
    assert r.tolist() == [1.0, 7.0, 3.0]


# spec: V62
def test_augmented_assignment_gives_a_new_value():
    a = et.asarray([1.0, 2.0])
    c = a
    a += 1
    assert a.tolist() == [2.0, 3.0] and c.tolist() == [1.0, 2.0] and a is not c

    def change(x):
        x += 1
        return x

    assert change(a).tolist() == [3.0, 4.0] and a.tolist() == [2.0, 3.0]
    assert operator.iadd(a, 1).tolist() == [3.0, 4.0] and a.tolist() == [2.0, 3.0]
    a -= 1
    a *= 4
    a /= 2
    a **= 2
    a //= 3
    a %= 4
    assert a.tolist() == [1.0, 1.0]
    n = et.asarray([6, 3])
    n &= 3
    n |= 8
    n ^= 1
    n <<= 1
    n >>= 1
    assert n.tolist() == [11, 10] and n.dtype == et.int32
    with pytest.raises(et.InvalidArgumentError, match="truncated to int32"):
        n += 0.5
    with pytest.raises(et.InvalidArgumentError, match="larger"):
        a += et.ones([2, 2])
    assert n.tolist() == [11, 10]


# spec: V62
def test_augmented_assignment_is_in_place_without_other_names():
    x, y = et.ones([5000]), et.ones([5000])
    x += y
    address = memoryview(x).__class__ and _address(x)
    kept = id(x)
    for _ in range(10):
        x += y
        x *= 0.5
    assert id(x) == kept
    assert _address(x) == address


def _address(x):
    numpy = pytest.importorskip("numpy")
    return numpy.asarray(x).__array_interface__["data"][0]


def test_weak_references_and_free_list():
    x = et.ones([2])
    seen = []
    reference = weakref.ref(x, seen.append)
    assert reference() is x
    del x
    assert reference() is None and len(seen) == 1
    again = et.ones([2])
    assert weakref.getweakrefcount(again) == 0


# Tensors, dtypes and ops by name; models are a matter of their own.
def test_pickle():
    for dtype in ("bool", "int8", "uint64", "float16", "bfloat16", "float64", "complex64"):
        x = et.asarray([[0, 1, 1]], dtype=dtype)
        y = pickle.loads(pickle.dumps(x))
        assert y.dtype == x.dtype and y.tolist() == x.tolist() and y.shape == (1, 3)
    assert pickle.loads(pickle.dumps(et.float32)) is et.float32
    assert pickle.loads(pickle.dumps(et.matmul)) is et.matmul
    assert pickle.loads(pickle.dumps(et.Device("cpu:0"))) == et.Device("cpu:0")


# spec: IM-14.a
def test_printing():
    assert repr(et.asarray([[1, 2], [3, 4]])) == (
        "Tensor([[1, 2],\n        [3, 4]], shape=[2,2], dtype=int32, device=cpu:0)"
    )
    assert "..." in repr(et.zeros([5000]))
    assert f"{et.asarray(2.5):.2f}" == "2.50"
    assert "&lt;" not in et.ones([2])._repr_html_()
    assert "<pre>[1., 1.]</pre>" in et.ones([2])._repr_html_()


def test_properties():
    x = et.zeros([2, 3])
    assert (x.shape, x.ndim, x.size, x.nbytes, len(x)) == ((2, 3), 2, 6, 24, 2)
    assert x.device == "cpu:0" and str(x.device) == "cpu:0"
    assert x.T.shape == (3, 2) and et.zeros([4, 2, 3]).mT.shape == (4, 3, 2)
    with pytest.raises(ValueError, match="T needs two axes, but the tensor has 3"):
        et.zeros([1, 2, 3]).T
    assert x.to(et.float64).dtype == et.float64 and x.to("cpu:0").tolist() == x.tolist()
    assert x.astype("int8").dtype == et.int8


# spec: V10
def test_iteration_sees_the_old_value():
    x = et.asarray([[1.0], [2.0], [3.0]])
    seen = []
    for row in x:
        x[2] = 9
        seen.append(row.item())
    assert seen == [1.0, 2.0, 3.0]
    assert [float(v) for v in et.asarray([1, 2])] == [1.0, 2.0]
    assert 2 in et.asarray([1, 2]) and 5 not in et.asarray([1, 2])


def test_methods_are_functions_with_x_first():
    x = et.asarray([[3.0, 4.0]])
    assert x.sum(axis=1).tolist() == [7.0]
    assert x.reshape((2, 1)).shape == (2, 1)
    assert x.mean().item() == 3.5
    assert x.max().item() == 4.0
