# SPDX-License-Identifier: Apache-2.0
"""Converted control flow with signatures, vmap, Variables, NumPy, host functions, gradients."""

import linecache
import os
import re

import pytest

import etude as et


def t(value):
    return et.asarray(value)


# spec: AG-13
def test_open_sizes():
    def total(xs):
        s = 0.0
        for x in xs:
            if x > 2:
                break
            s = s + x
        return s

    staged = et.function(total, signature=[et.TensorSpec((None,))])
    assert [float(staged(t(x))) for x in ([1.0, 2.0, 3.0], [1.0], [2.0, 2.0, 2.0, 2.0, 9.0])] == [
        3,
        1,
        8,
    ]
    assert staged.trace_count() == 1
    length = et.function(lambda xs: len(xs), signature=[et.TensorSpec((None,))])
    assert [int(length(t(x))) for x in ([1.0, 2.0, 3.0], [1.0])] == [3, 1]


# spec: TC-14.a
def test_loops_do_not_pin_sizes():
    @et.function
    def total(xs, y):
        s = 0.0
        for x in xs:
            s = s + x
        for k, x in enumerate(xs):
            if k > y:
                break
            s = s + x
        return s

    for n in (2, 3, 5, 9, 12):
        xs = [float(k) for k in range(n)]
        assert float(total(t(xs), t(3))) == sum(xs) + sum(xs[:4])
    assert total.trace_count() == 2


# spec: CO-05.a
def test_recursion_that_a_tensor_ends():
    def fact(n):
        if n <= 1:
            return 1.0
        return n * fact(n - 1)

    with pytest.raises(et.UnimplementedError, match="recursion while tracing: 'fact' calls itself"):
        et.function(fact)(t(3.0))


def test_batches_of_converted_functions():
    def f(x):
        while x < 10.0:
            x = x * 2.0
        return x if x > 12 else -x

    assert et.vmap(et.function(f))(t([1.0, 3.0, 5.0])).tolist() == [16, -12, -10]


def test_variables_in_branches_and_loops():
    v = et.Variable(1.0)

    @et.function
    def f(xs):
        for x in xs:
            v.assign(v * 0.5 + x)
            if v > 3:
                v.assign_sub(1.0)
        return v.read()

    want = 1.0
    for x in (1.0, 2.0, 3.0):
        want = want * 0.5 + x
        want -= 1.0 if want > 3 else 0.0
    assert float(f(t([1.0, 2.0, 3.0]))) == want == float(v.read())


def test_arrays_of_numpy():
    numpy = pytest.importorskip("numpy")

    @et.function
    def f(x):
        y = numpy.zeros(2, dtype=numpy.float32)
        if et.sum(x) > 0:
            y = x
        return y

    assert f(t([1.0, 2.0])).tolist() == [1, 2]
    assert f(t([-1.0, -2.0])).tolist() == [0, 0]


def test_staged_methods_and_structures():
    class Net(et.Module):
        def __init__(self, w):
            self.w = t(w)

        @et.function
        def __call__(self, x):
            if x > 0:
                return x * self.w
            return x

    assert [float(net(t(x))) for net in (Net(2.0), Net(3.0)) for x in (1.0, -1.0)] == [2, -1, 3, -1]

    @et.function
    def moved(n):
        net = Net(1.0)
        while n > 0:
            net.w = net.w * 2.0
            n = n - 1
        return net.w

    assert float(moved(t(3))) == 8


def test_host_functions_in_branches():
    @et.py_function(out=et.float32)
    def host(x):
        return float(x) + 1 if float(x) > 0 else 0.0

    @et.function
    def f(x):
        if x > 0:
            y = host(x)
        else:
            y = x
        return y

    assert [float(f(t(x))) for x in (2.0, -2.0)] == [3, -2]


def test_the_page_of_the_docs():
    page = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "python_control_flow.md")
    with open(page, encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
    names = {"__name__": "__main__"}
    for k, block in enumerate(blocks):
        name = f"<block {k}>"
        linecache.cache[name] = (len(block), None, block.splitlines(True), name)
        exec(compile(block, name, "exec"), names)
    assert int(names["collatz"](t(27))) == 111
    assert float(names["power"](t(2.0), 4)) == 32
    assert [float(x) for x in names["signs"](t([1.0, -2.0, 3.0]))] == [2, 3]
    assert names["squares"](t([1.0, 2.0, 3.0])).tolist() == [1, 4, 9]


def test_gradients_through_converted_control_flow():
    def f(x):
        y = x
        while y < 100.0:
            y = y * x
        for _ in et.arange(2):
            if y > 1:
                y = y * 2.0
        return y

    staged = et.function(f)
    assert float(et.gradient(staged)(t(3.0))) == float(et.gradient(f)(t(3.0))) == 4 * 5 * 3**4

    x = t(3.0)
    with et.GradientTape() as tape:
        tape.watch(x)
        y = staged(x)
    assert float(tape.gradient(y, x)) == 4 * 5 * 3**4


def test_the_primer():
    assert str(t([1.0, 2.0]) + t([3.0, 4.0])).startswith("[4., 6.]")

    @et.function
    def add(tensor):
        return tensor + tensor + tensor

    assert add(et.ones((2, 2))).tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert add(et.ones((2, 2), dtype=et.uint8)).dtype == et.uint8

    a, b = et.Variable(1.0), et.Variable(1.0)

    @et.function
    def f(x, y):
        a.assign(y * b)
        b.assign_add(x * a)
        return a + b

    assert float(f(t(1.0), t(2.0))) == 5
    assert (float(a.read()), float(b.read())) == (2, 3)

    def matmul_many(tensor):
        accum = tensor
        for _ in et.arange(100):  # will be converted by autograph
            accum = et.matmul(accum, tensor)
        return accum

    assert "ag__.for_stmt" in et.autograph.to_code(matmul_many)
    graph_fn = et.function(matmul_many)
    halves = et.ones((2, 2)) / 2
    assert graph_fn(halves).tolist() == matmul_many(halves).tolist() == [[0.5, 0.5], [0.5, 0.5]]
