# SPDX-License-Identifier: Apache-2.0
"""et.testing.assert_close."""

import numpy as np
import pytest

import etude as et
from etude.testing import assert_close


def refused(actual, expected, **options):
    with pytest.raises(AssertionError) as error:
        assert_close(actual, expected, **options)
    return str(error.value)


def test_tolerances_belong_to_the_dtype():
    assert_close(et.asarray([1.0, 2.0]), et.asarray([1.0 + 1e-6, 2.0]))
    refused(et.asarray([1.0], dtype=et.float64), et.asarray([1.0 + 1e-6], dtype=et.float64))
    assert_close(et.asarray([1.0], dtype=et.float16), et.asarray([1.001], dtype=et.float16))
    assert_close(et.asarray([100.0]), et.asarray([101.0]), rtol=0.02, atol=0)
    refused(et.asarray([1]), et.asarray([2]))
    big = 2**53
    refused(et.asarray([big]), et.asarray([big + 1]))
    assert_close(et.asarray([1 + 1j]), et.asarray([1 + 1j]))
    with pytest.raises(et.InvalidArgumentError, match="pass both of rtol and atol, or neither"):
        assert_close(1.0, 1.0, rtol=1.0)


def test_the_message_has_count_place_and_values():
    a, b = et.zeros((2, 3)), et.zeros((2, 3))
    a[1, 2], a[0, 1] = 3.0, 1.0
    text = refused(a, b)
    assert text == (
        "2 of 6 elements differ by more than atol=1e-05 + rtol=1.3e-06 * |expected|. "
        "The greatest difference is 3 at [1, 2]: 3, expected 0"
    )
    assert "at model.weight: " not in text


def test_shapes_dtypes_and_structures():
    assert refused(et.ones(2), et.ones(3)) == "the shape is [2], expected [3]"
    assert refused(et.ones(2), et.ones(2, dtype=et.float64)) == "the dtype is float32, expected float64"
    assert_close(et.ones(2), et.ones(2, dtype=et.float64), check_dtype=False)
    assert refused({"w": et.ones(1)}, {"b": et.ones(1)}).startswith("the structures differ: {'w': ")
    model, other = et.nn.Dense(2, 1), et.nn.Dense(2, 1)
    other.weight = model.weight + 1.0
    assert refused(model, other).startswith("at weight: 2 of 2 elements")
    assert refused({"a": [et.ones(1), et.zeros(1)]}, {"a": [et.ones(1), et.ones(1)]}).startswith("at ['a'][1]: 1 of 1")
    assert refused("a", "b") == "'a' is not equal to 'b'"


def test_numbers_lists_and_arrays():
    assert_close(et.asarray([1.0, 2.0]), [1.0, 2.0])
    assert_close([1.0, 2.0], np.array([1.0, 2.0]))
    assert_close(et.asarray(0.1), 0.1)
    assert_close((et.asarray(1), {"k": 2.5}), (1, {"k": 2.5}))
    assert_close(et.Variable([1.0]), et.asarray([1.0]))
    refused(1.0, 1.1)
    refused(et.asarray([1.0, 2.0]), [1.0, 2.5])


def test_nan_and_infinity():
    nan, inf = float("nan"), float("inf")
    assert_close(et.asarray([inf, -inf]), et.asarray([inf, -inf]))
    refused(et.asarray([inf]), et.asarray([-inf]))
    assert "1 of 2 elements" in refused(et.asarray([nan, 1.0]), et.asarray([nan, 1.0]))
    assert_close(et.asarray([nan, 1.0]), et.asarray([nan, 1.0]), equal_nan=True)
    assert "at [0]" in refused(et.asarray([nan, 5.0]), et.asarray([0.0, 1.0]))
    assert_close(et.zeros((0, 3)), et.zeros((0, 3)))
