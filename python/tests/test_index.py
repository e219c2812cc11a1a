# SPDX-License-Identifier: Apache-2.0
"""x[...] and x[...] = v beside NumPy."""
import numpy as np
import pytest

import etude as et

A = np.arange(60).reshape(3, 4, 5)
KEYS = [
    0, -1, (1, 2), (1, 2, 3), (0, -1), slice(None), slice(1, 3), slice(None, None, 2), slice(None, None, -1),
    slice(10, None), slice(2, 0, -1), (slice(None), 1), (slice(None), slice(1, 3)), ..., (..., 1), (0, ...), (..., 1, 2),
    (0, ..., 2), None, (None, 1), (slice(None), None, 2), (..., None), (slice(None, None, -2), ..., slice(3, None)),
    np.array([0, 2]), np.array([[0, 1], [2, -1]]), [0, 1], (np.array([0, 1]), np.array([1, 3])),
    (slice(None), np.array([1, 0])), (np.array([2, 0]), slice(None), np.array([4, 4])), (0, np.array([1, 2])),
    A > 20, A[:, :, 0] > 20, A[:, 0, 0] > 20, (slice(None), np.array([True, False, True, True])), np.array(1),
    np.int64(2), True, False, (slice(0, 0),), (), (np.array([], dtype=np.int64),),
]  # fmt: skip


def own(key):
    """The key with tensors in place of arrays."""
    if isinstance(key, tuple):
        return tuple(own(item) for item in key)
    return et.asarray(key) if isinstance(key, np.ndarray) else key


# spec: T5.a, T5.b
@pytest.mark.parametrize("number", range(len(KEYS)))
def test_get_and_set_as_numpy(number):
    key, x = KEYS[number], et.asarray(A)
    wanted = A[key]
    for mine in (key, own(key)):
        got = x[mine]
        assert got.shape == np.shape(wanted)
        assert np.array_equal(np.asarray(got), wanted)
        for value in (7, np.asarray(wanted) * 2):
            y, z = x.copy(), A.copy()
            y[mine] = value
            z[key] = value
            assert np.array_equal(np.asarray(y), z)
    assert np.array_equal(np.asarray(x), A)


# spec: IM-10.b, IM-10.c
def test_index_errors():
    x = et.zeros([3, 4])
    with pytest.raises(IndexError, match="index 3 is out of range for axis 0 of size 3"):
        x[3]
    with pytest.raises(IndexError):
        x[0, -5]
    with pytest.raises(IndexError):
        x[2**70]
    with pytest.raises(IndexError):
        x[0, 0, 0]
    with pytest.raises(TypeError, match="an index is an int"):
        x["a"]
    with pytest.raises(TypeError):
        x[1.5]
    with pytest.raises(TypeError, match="cannot be deleted"):
        del x[0]
    with pytest.raises(ValueError, match="the step of axis 0 is 0"):
        x[::0]
    with pytest.raises(ValueError):
        x[:, 0] = et.ones([2])
    with pytest.raises(IndexError, match="the mask has shape"):
        x[et.asarray([True, False])]
    assert x[1:100].shape == (2, 4)
