# SPDX-License-Identifier: Apache-2.0
"""custom_gradient in Python."""

import pytest

import etude as et


# spec: CU-01.b, CU-01.c
def test_log1pexp():
    @et.custom_gradient
    def log1pexp(x):
        e = et.exp(x)
        return et.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))

    # exp(100) is infinite: a cotangent of 0 arrives at it, and a zero is strong.
    assert float(et.gradient(lambda x: et.log(1 + et.exp(x)))(100.0)) == 0.0
    assert float(et.gradient(log1pexp)(100.0)) == 1.0
    assert float(et.gradient(et.function(lambda x: log1pexp(x)))(100.0)) == 1.0


# spec: CU-02.a
def test_wrong_numbers_of_gradients():
    @et.custom_gradient
    def two(x, y):
        return x * y, lambda dy: (dy,)

    with pytest.raises(
        et.InvalidArgumentError, match="returned 1 gradients, but the function has 2 arguments"
    ):
        et.gradient(two)(1.0, 2.0)

    @et.custom_gradient
    def bare(x, y):
        return x * y, lambda dy: dy

    with pytest.raises(et.InvalidArgumentError, match="Return a tuple with one gradient for each"):
        et.gradient(bare)(1.0, 2.0)

    @et.custom_gradient
    def no_pair(x):
        return x

    with pytest.raises(et.InvalidArgumentError, match="returns a pair: the value and its pullback"):
        no_pair(1.0)


# spec: CU-03.a, CU-03.b
def test_variables():
    v = et.Variable(3.0, name="v")

    @et.custom_gradient
    def scaled(x):
        def pullback(dy, variables=None):
            return dy * v, [dy * x for _ in variables]

        return x * v, pullback

    for call in (scaled, et.function(lambda x: scaled(x))):
        x = et.asarray(2.0)
        with et.GradientTape() as tape:
            tape.watch(x)
            y = call(x)
        dx, dv = tape.gradient(y, [x, v])
        assert (float(dx), float(dv)) == (3.0, 2.0)

    @et.custom_gradient
    def forgets(x):
        return x * v, lambda dy: dy

    with pytest.raises(et.FailedPreconditionError, match="'v'"):
        forgets(et.asarray(1.0))


# spec: CU-04
def test_keywords_are_bound_to_the_order_of_parameters():
    @et.custom_gradient
    def f(x, y, n=2):
        return x * y * n, lambda dy: (dy * 10, dy * 20, None)

    dx, dy = et.gradient(lambda a, b: f(y=b, x=a))(1.0, 1.0)
    assert (float(dx), float(dy)) == (10.0, 20.0)


def test_structures():
    @et.custom_gradient
    def f(p):
        return {"s": p["a"] * p["b"]}, lambda dy: {"a": dy["s"] * 7, "b": None}

    g = et.gradient(lambda p: f(p)["s"])({"a": 2.0, "b": 3.0})
    assert float(g["a"]) == 7.0 and float(g["b"]) == 0.0

    @et.custom_gradient
    def pair(x):
        return (x, x * x), lambda da, db: da + db

    def both(x):
        a, b = pair(x)
        return a * 2 + b * 3

    assert float(et.gradient(both)(5.0)) == 5.0

    @et.custom_gradient
    def partly(x):
        return (x, x), lambda da, db: da if db is None else db  # a missing cotangent is None

    assert float(et.gradient(lambda x: partly(x)[0] * 2)(5.0)) == 2.0


# spec: CU-08.b
def test_straight_through():
    @et.custom_gradient
    def through(x):
        return x * x, lambda dy: dy

    assert float(through(3.0)) == 9.0
    assert float(et.gradient(through)(3.0)) == 1.0
