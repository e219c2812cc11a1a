# SPDX-License-Identifier: Apache-2.0
"""Operators, staging and control flow inside each other."""

import pytest

import etude as et


def cube(x):
    return et.sum(x * x * x)


X = [1.0, 2.0]


def x():
    return et.asarray(X)


# spec: FB-04.a, FB-04.b
def test_gradient_of_function_of_gradient():
    staged = et.function(lambda x: et.gradient(cube)(x))
    assert staged(x()).tolist() == [3.0, 12.0]
    assert et.gradient(lambda x: et.sum(staged(x)))(x()).tolist() == [6.0, 12.0]
    twice = et.function(lambda x: et.gradient(lambda y: et.sum(staged(y)))(x))
    assert twice(x()).tolist() == [6.0, 12.0]
    assert et.gradient(lambda x: et.sum(twice(x)))(x()).tolist() == [6.0, 6.0]


def test_vmap_of_gradient_and_gradient_of_vmap():
    rows = et.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert et.vmap(et.gradient(cube))(rows).tolist() == [[3.0, 12.0], [27.0, 48.0]]
    assert et.gradient(lambda r: et.sum(et.vmap(cube)(r)))(rows).tolist() == [
        [3.0, 12.0],
        [27.0, 48.0],
    ]
    assert et.function(et.vmap(et.gradient(cube)))(rows).tolist() == [[3.0, 12.0], [27.0, 48.0]]
    assert et.vmap(et.function(et.gradient(cube)))(rows).tolist() == [[3.0, 12.0], [27.0, 48.0]]


def test_jvp_over_vjp():
    def slope(x):
        return et.vjp(cube, x, 1.0)[1]

    value, tangent = et.jvp(slope, x(), et.asarray([1.0, 1.0]))
    assert (value.tolist(), tangent.tolist()) == ([3.0, 12.0], [6.0, 12.0])
    value, tangent = et.jvp(et.function(slope), x(), et.asarray([1.0, 1.0]))
    assert tangent.tolist() == [6.0, 12.0]


# spec: FB-02.a
def test_tapes_in_and_around_functions():
    @et.function
    def inside(x):
        with et.GradientTape() as tape:
            tape.watch(x)
            y = cube(x)
        return tape.gradient(y, x)

    assert inside(x()).tolist() == [3.0, 12.0]
    outside = et.function(cube)
    at = x()
    with et.GradientTape() as tape:
        tape.watch(at)
        y = outside(at)
    assert tape.gradient(y, at).tolist() == [3.0, 12.0]
    with et.GradientTape() as tape:
        tape.watch(at)
        g = et.sum(inside(at))
    assert tape.gradient(g, at).tolist() == [6.0, 12.0]


# spec: FB-03
def test_a_variable_three_functions_deep():
    v = et.Variable(3.0)
    h = et.function(lambda x: x * v)
    g = et.function(lambda x: h(x) + 1)
    f = et.function(lambda x: g(x) * 2)
    with et.GradientTape() as tape:
        y = f(et.asarray(5.0))
    assert float(tape.gradient(y, v)) == 10.0


# spec: FB-05, FB-06
def test_outputs_without_a_derivative():
    f = et.function(lambda x, y: (x * x, 7, et.stop_gradient(y) * 2))
    a, b = et.asarray(3.0), et.asarray(2.0)
    with et.GradientTape(persistent=True) as tape:
        tape.watch((a, b))
        square, seven, cut = f(a, b)
    assert float(tape.gradient(square, a)) == 6.0 and int(seven) == 7
    assert tape.gradient(square, b) is None
    assert tape.gradient(cut, b) is None


# spec: FB-07.a
def test_control_flow_in_functions_under_tapes():
    @et.function
    def f(x):
        y = et.cond(x > 0, lambda: x * x, lambda: -x)
        _, y = et.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (0, y))
        return y

    assert float(f(et.asarray(3.0))) == 72.0
    assert float(et.gradient(f)(3.0)) == 48.0
    assert float(et.gradient(f)(-3.0)) == -8.0


def test_lazy_scopes():
    with et.LazyScope():
        g = et.gradient(cube)(x())
        h = et.vmap(cube)(et.asarray([[1.0, 2.0]]))
        et.lazy_barrier()
    assert g.tolist() == [3.0, 12.0] and h.tolist() == [9.0]
    with et.LazyScope(), et.StepScope():
        f = et.function(lambda x: x * 2)(x())
    assert f.tolist() == [2.0, 4.0]


# spec: CU-05.a
def test_rules_in_functions():
    @et.custom_gradient
    def square(x):
        return x * x, lambda dy: dy * x * 20

    assert float(et.gradient(et.function(lambda x: square(x)))(3.0)) == 60.0
    assert float(et.gradient(et.gradient(square))(3.0)) == 20.0
    again = et.recompute_grad(cube)
    assert et.function(et.gradient(lambda x: again(x)))(x()).tolist() == [3.0, 12.0]
    assert et.gradient(et.function(again))(x()).tolist() == [3.0, 12.0]


@pytest.mark.parametrize("stage", [lambda f: f, et.function], ids=["eager", "staged"])
def test_dicts_through_everything(stage):
    def loss(p):
        return cube(p["w"]) + p["b"] * p["b"]

    p = {"w": x(), "b": et.asarray(5.0)}
    g = stage(et.gradient(loss))(p)
    assert g["w"].tolist() == [3.0, 12.0] and float(g["b"]) == 10.0
    value, tangent = et.jvp(stage(et.gradient(loss)), p, {"w": et.ones(2), "b": 1.0})
    assert tangent["w"].tolist() == [6.0, 12.0] and float(tangent["b"]) == 2.0
