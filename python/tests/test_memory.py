# SPDX-License-Identifier: Apache-2.0
"""Memory stays flat over many calls of each kind."""
import os

import numpy as np
import pytest

import etude as et


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fail(call):
    try:
        call()
    except et.Error:
        pass


X, ARRAY, LIST = et.ones([4, 4]), np.ones((4, 4), np.float32), [[1.0] * 4] * 4
V = et.Variable(X)
CALLS = {
    "operator": lambda: X + X,
    "number": lambda: X * 2.0,
    "keywords": lambda: et.sum(X, axis=0, keepdims=True),
    "list": lambda: et.concat([X, X]),
    "named results": lambda: et.unique_all(X),
    "error": lambda: fail(lambda: et.matmul(X, et.ones([3]))),
    "index": lambda: X[1:, None, et.asarray([0, 1])],
    "iteration": lambda: list(X),
    "tolist": lambda: X.tolist(),
    "nested list": lambda: et.asarray(LIST),
    "from NumPy": lambda: et.asarray(ARRAY),
    "pinned": lambda: et.asarray(ARRAY, copy=False),
    "to NumPy": lambda: np.asarray(X),
    "DLPack out": lambda: np.from_dlpack(X),
    "DLPack in": lambda: et.from_dlpack(ARRAY),
    "Variable": lambda: V.assign_add(1.0),
    "random": lambda: et.random.normal([4]),
    "repr": lambda: repr(X),
    "dtype": lambda: et.zeros([2], dtype="int8").dtype,
}


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
@pytest.mark.parametrize("name", CALLS)
def test_flat(name):
    call = CALLS[name]
    for _ in range(2000):
        call()
    before = resident()
    for _ in range(10000):
        call()
    # An object of 32 bytes a call that is not freed is 320 kB.
    assert resident() - before < 300_000
