# SPDX-License-Identifier: Apache-2.0
"""py_function and host_function."""

import gc
import weakref

import pytest

import etude as et


# spec: PY-01
def test_eager():
    f = et.py_function(lambda x: x * x)
    assert float(f(et.asarray(3.0))) == 9.0
    assert float(et.gradient(lambda x: f(x))(3.0)) == 6.0


# spec: PY-02
def test_it_runs_at_every_execution():
    calls = []

    @et.py_function(out=et.float32)
    def f(x):
        calls.append(float(x))
        return x + 1

    g = et.function(lambda x: f(x) * 2)
    assert [float(g(et.asarray(float(i)))) for i in range(3)] == [2.0, 4.0, 6.0]
    assert calls == [0.0, 1.0, 2.0]


# spec: PY-03
def test_staged_derivatives():
    f = et.py_function(lambda x, y: x * x + y * y)
    dx, dy = et.gradient(et.function(lambda x, y: f(x, y)))(3.0, 4.0)
    assert (float(dx), float(dy)) == (6.0, 8.0)

    @et.py_function
    def huber(x, m):
        if abs(float(x)) <= float(m):
            return x * x
        return m * (2 * abs(x) - m)

    g = et.function(lambda x: huber(x, 2.0))
    assert float(g(et.asarray(1.0))) == 1.0
    assert float(et.gradient(g)(1.0)) == 2.0
    assert float(et.gradient(g)(5.0)) == 4.0
    assert float(et.jvp(g, 1.0, 1.0)[1]) == 2.0

    # An input without a gradient gets none, as in eager mode.
    @et.py_function
    def power(x, n):
        for _ in range(int(n)):
            x = x * x
        return x

    x, n = et.asarray(3.0), et.asarray(1)
    for call in (power, et.function(lambda x, n: power(x, n))):
        with et.GradientTape() as tape:
            tape.watch(x)
            y = call(x, n)
        dx, dn = tape.gradient(y, [x, n])
        assert float(y) == 9.0 and float(dx) == 6.0 and dn is None


# spec: PY-04
def test_declared_results():
    @et.py_function(out={"a": et.TensorSpec((2,), et.int32), "b": et.float32})
    def f(x):
        return {"a": et.asarray([1, 2]), "b": x}

    for call in (f, et.function(lambda x: f(x))):
        out = call(et.asarray(5.0))
        assert out["a"].tolist() == [1, 2] and float(out["b"]) == 5.0
    pair = et.py_function(lambda x: (x, x), out=[et.float32, et.float32, et.float32])
    for call in (pair, et.function(lambda x: pair(x))):
        with pytest.raises(
            et.InvalidArgumentError, match="returned 2 results, but 3 were declared"
        ):
            call(et.asarray(1.0))
    wrong = et.py_function(lambda x: et.asarray(1), out=et.float32)
    for call in (wrong, et.function(lambda x: wrong(x))):
        with pytest.raises(
            et.InvalidArgumentError,
            match=r"returned int32\[\] as result 0, which was declared as float32",
        ):
            call(et.asarray(1.0))
    ragged = et.py_function(lambda x: [[1], [2, 3]], out=et.TensorSpec((2, 2), et.int32))
    with pytest.raises(et.InvalidArgumentError):
        et.function(lambda x: ragged(x))(et.asarray(1.0))
    seen = []
    nothing = et.py_function(lambda x: seen.append(float(x)), out=())
    g = et.function(lambda x: (nothing(x), x)[1])
    g(et.asarray(1.0)), g(et.asarray(2.0))
    assert seen == [1.0, 2.0]


# spec: PY-05
@pytest.mark.parametrize(
    "raised, code",
    [
        (ValueError, et.InvalidArgumentError),
        (TypeError, et.InvalidArgumentError),
        (StopIteration, et.OutOfRangeError),
        (MemoryError, et.ResourceExhaustedError),
        (NotImplementedError, et.UnimplementedError),
        (RuntimeError, et.FailedPreconditionError),
    ],
)
def test_exceptions(raised, code):
    @et.py_function
    def fails(x):
        raise raised("the reason")

    with pytest.raises(raised, match="the reason"):  # a plain call in eager code
        fails(et.asarray(1.0))
    f = et.function(lambda x: fails(x))
    with pytest.raises(code, match=f"fails.*raised (.|\n)*{raised.__name__}: the reason") as caught:
        f(et.asarray(1.0))
    assert isinstance(caught.value.__cause__, raised)
    assert "test_host.py" in str(caught.value)


# spec: PY-07
def test_the_graph_owns_the_callable():
    class Callable:
        def __call__(self, x):
            return x

    alive = []
    for _ in range(1000):
        c = Callable()
        alive.append(weakref.ref(c))
        f = et.function(lambda x, h=et.py_function(c): h(x))
        f(et.asarray(1.0))
        del c, f
    gc.collect()
    assert sum(r() is not None for r in alive) == 0


# spec: PY-10
def test_variables():
    v = et.Variable(3.0, name="v")
    listed = et.py_function(lambda x: x * v, variables=[v])
    f = et.function(lambda x: listed(x))
    with et.GradientTape() as tape:
        y = f(et.asarray(2.0))
    assert float(tape.gradient(y, v)) == 2.0
    unlisted = et.py_function(lambda x: x * v)
    g = et.function(lambda x: unlisted(x))
    assert float(g(et.asarray(2.0))) == 6.0
    x = et.asarray(2.0)
    with pytest.raises(et.FailedPreconditionError, match="'v'.*variables"):
        with et.GradientTape() as tape:
            tape.watch(x)
            y = g(x)
        tape.gradient(y, x)
    with pytest.raises(et.UnimplementedError, match="second derivative"):
        et.gradient(et.gradient(et.function(lambda x: et.py_function(lambda a: a * a)(x))))(1.0)
    with pytest.raises(et.InvalidArgumentError, match="takes Variables"):
        et.py_function(lambda x: x, variables=[1.0])


def test_in_vmaps_and_loops():
    f = et.py_function(lambda x: x * x)
    assert et.vmap(et.function(lambda x: f(x)))(et.asarray([1.0, 2.0, 3.0])).tolist() == [
        1.0,
        4.0,
        9.0,
    ]
    g = et.function(
        lambda n: et.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, f(y)), (0, 2.0))[1]
    )
    assert float(g(et.asarray(3))) == 256.0


def test_host_values_among_arguments():
    f = et.py_function(lambda x, how, scale=1.0: x * scale if how == "up" else x / scale)
    g = et.function(lambda x: f(x, "up", scale=4.0))
    assert float(g(et.asarray(2.0))) == 8.0
    with pytest.raises(TypeError):
        f(et.asarray(1.0))
