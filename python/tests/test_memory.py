# SPDX-License-Identifier: Apache-2.0
"""Memory stays flat over many calls of each kind."""
import copy
import gc
import os
import pickle

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
# About a microsecond each: 100,000 calls.
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


class Net(et.Module):
    def __init__(self):
        self.hidden, self.norm = et.nn.Dense(4, 4), et.nn.BatchNorm(4)

    def __call__(self, x):
        return self.norm(self.hidden(x))


NET, ADAM = Net(), et.optim.Adam(lr=1e-3)
SLOPES = et.gradient(lambda m: et.sum(m(X)))(NET)
DATA = et.data.from_tensors(et.ones(3))
STAGED = et.function(lambda x: x * 2)
LAZY = et.function(lambda x, y: {"sum": x + y["a"], "rows": [x, None]})


@et.function(donate=("model", "optimizer"))
def step(model, optimizer):
    optimizer.update(model, et.gradient(lambda m: et.sum(m(X)))(model))


def taped():
    with et.GradientTape() as tape:
        tape.watch(X)
        y = et.sum(X * X)
    return tape.gradient(y, X)


HOST = et.function(et.py_function(lambda x: x, out=et.TensorSpec((4, 4))))
# Some ten microseconds each: 20,000 calls.
PROGRAMS = {
    "staged": lambda: STAGED(X),
    "staged structures": lambda: LAZY(X, {"a": X}),
    "staged error": lambda: fail(lambda: STAGED.trace(X)(et.ones(3))),
    "staged step": lambda: step(NET, ADAM),
    "layer": lambda: NET(X),
    "update": lambda: ADAM.update(NET, SLOPES),
    "gradient": lambda: et.gradient(lambda x: et.sum(x * x))(X),
    "tape": taped,
    "jvp": lambda: et.jvp(lambda x: x * x, X, X),
    "vmap": lambda: et.vmap(lambda x: x * 2)(X),
    "cond": lambda: et.cond(et.asarray(True), lambda: X, lambda: X),
    "fold": lambda: et.fold(lambda s, x: s + x, et.zeros(4), X),
    "host function": lambda: HOST(X),
    "tree": lambda: et.tree.map(lambda leaf: leaf, {"a": [X, (X, 1.0)], "n": NET}),
    "copy": lambda: (copy.copy(NET), copy.deepcopy(ADAM)),
    "data set": lambda: list(DATA.map(lambda x: x + 1)),
    "state": lambda: ADAM.restore(ADAM.state()),
}
# Some hundred: 2,000 calls.
SLOW = {
    "pickle": lambda: pickle.loads(pickle.dumps((X, NET, ADAM, STAGED.__wrapped__.__name__))),
    "trace": lambda: et.function(lambda x: x * 3, name="again")(X),
    "layer made": lambda: et.nn.Dense(3, 4),
    "optimizer made": lambda: et.optim.Adam(lr=0.1),
    "fit": lambda: et.nn.fit(et.nn.Dense(4, 4), et.optim.SGD(lr=0.0), (X, X), lambda p, t: et.sum(p * 0)),
    "html": lambda: X._repr_html_(),
}


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "name, calls",
    [*((n, 100_000) for n in CALLS), *((n, 20_000) for n in PROGRAMS), *((n, 2_000) for n in SLOW)],
)
def test_flat(name, calls):
    call = {**CALLS, **PROGRAMS, **SLOW}[name]
    for _ in range(min(2000, calls // 4)):
        call()
    # An object of 32 bytes a call that is not freed is 3.2 MB, 640 kB and 64 kB.
    most = {100_000: 1_600_000, 20_000: 600_000, 2_000: 600_000}[calls]
    grown = []
    while len(grown) < 3 and min(grown, default=most) >= most:  # a heap may grow once; a leak grows each time
        gc.collect()
        before = resident()
        for _ in range(calls):
            call()
        gc.collect()
        grown.append(resident() - before)
    assert min(grown) < most, grown
