# SPDX-License-Identifier: Apache-2.0
"""Differential operators on Python functions, with values from closed forms."""

import dataclasses
import math

import pytest

import etude as et


def test_numbers():
    assert float(et.gradient(lambda x: x * x)(3.0)) == 6.0
    assert float(et.gradient(lambda x: x * x, 3.0)) == 6.0
    value, slope = et.value_and_gradient(lambda x: x**3)(2.0)
    assert (float(value), float(slope)) == (8.0, 12.0)
    assert et.value_and_gradient is et.value_with_gradient


def test_structures():
    params = {"w": et.asarray([1.0, 2.0]), "layers": [et.asarray(3.0), (et.asarray(4.0),)]}

    def f(p):
        return et.sum(p["w"] ** 2) * p["layers"][0] + p["layers"][1][0]

    g = et.gradient(f)(params)
    assert g["w"].tolist() == [6.0, 12.0]
    assert float(g["layers"][0]) == 5.0
    assert type(g["layers"][1]) is tuple and float(g["layers"][1][0]) == 1.0


# spec: D6
def test_dataclasses_keep_their_class_and_options():
    @dataclasses.dataclass
    class Line:
        w: et.Tensor
        b: et.Tensor
        power: int = 2

    def f(line):
        return et.sum(line.w**line.power)

    g = et.gradient(f)(Line(et.asarray([3.0]), et.asarray([1.0])))
    assert type(g) is Line and g.power == 2
    assert g.w.tolist() == [6.0]
    assert g.b.tolist() == [0.0]  # the result does not depend on it


def test_several_arguments():
    f = lambda x, y: x * x * y  # noqa: E731
    dx, dy = et.gradient(f)(3.0, 5.0)
    assert (float(dx), float(dy)) == (30.0, 9.0)
    assert float(et.gradient(f, argnums=1)(3.0, 5.0)) == 9.0
    both = et.gradient(f, argnums=(1, 0))(3.0, 5.0)
    assert [float(d) for d in both] == [9.0, 30.0]
    assert float(et.gradient(f)(3.0, et.no_derivative(5.0))) == 30.0
    # Integers and texts have no derivative, keywords are not differentiated.
    assert float(et.gradient(lambda x, n, how="a": x**n)(2.0, 3, how="b")) == 12.0
    labels = et.asarray([0, 1])
    assert et.gradient(lambda x, y: et.sum(x * et.astype(y, et.float32)))(
        [1.0, 2.0][0] * et.ones(2), labels
    ).tolist() == [0.0, 1.0]


def test_closures():
    a = et.asarray(4.0)
    assert float(et.gradient(lambda x: x * a)(2.0)) == 4.0
    assert float(et.gradient(lambda x: et.gradient(lambda y: x * y * y)(a))(2.0)) == 8.0


def test_aux():
    (value, aux), g = et.value_and_gradient(lambda x: (x * x, {"seen": x + 1}), has_aux=True)(3.0)
    assert (float(value), float(aux["seen"]), float(g)) == (9.0, 4.0, 6.0)
    g, aux = et.gradient(lambda x: (x * x, "text"), has_aux=True)(3.0)
    assert (float(g), aux) == (6.0, "text")


def test_errors_of_gradient():
    with pytest.raises(
        et.InvalidArgumentError,
        match=r"the function returns None, but must return one scalar tensor \(is a return missing\?\)",
    ):
        et.gradient(lambda x: None)(1.0)
    with pytest.raises(et.InvalidArgumentError, match="returns a dict"):
        et.gradient(lambda x: {"a": x})(1.0)
    with pytest.raises(et.InvalidArgumentError, match="no argument has a derivative"):
        et.gradient(lambda n: n)(3)
    with pytest.raises(et.InvalidArgumentError, match="argument 0 has no derivative"):
        et.gradient(lambda n, x: x, argnums=0)(3, 1.0)
    with pytest.raises(et.OutOfRangeError, match="argnums names argument 2, but the call has 1"):
        et.gradient(lambda x: x, argnums=2)(1.0)
    with pytest.raises(et.InvalidArgumentError, match="must be a function"):
        et.gradient(3.0)
    with pytest.raises(et.Error, match="scalar"):
        et.gradient(lambda x: x * et.ones(3))(1.0)
    with pytest.raises(KeyError):
        et.gradient(lambda x: {}["missing"])(1.0)


def test_pullback():
    value, pull = et.value_with_pullback(lambda x, y: {"p": x * y, "s": x + y}, 3.0, 5.0)
    assert (float(value["p"]), float(value["s"])) == (15.0, 8.0)
    dx, dy = pull({"p": 1.0, "s": 10.0})
    assert (float(dx), float(dy)) == (15.0, 13.0)
    dx, dy = pull({"p": None, "s": 1.0})  # as often as wanted; None: no cotangent
    assert (float(dx), float(dy)) == (1.0, 1.0)
    assert float(et.pullback(lambda x: x * x, 3.0)(2.0)) == 12.0
    with pytest.raises(
        et.InvalidArgumentError, match="the cotangent is a list, but must have the structure"
    ):
        pull([1.0])


def test_vjp_and_jvp():
    f = lambda x, y: x * x * y  # noqa: E731
    value, (dx, dy) = et.vjp(f, (3.0, 5.0), 2.0)
    assert (float(value), float(dx), float(dy)) == (45.0, 60.0, 18.0)
    value, tangent = et.jvp(f, (3.0, 5.0), (1.0, 10.0))
    assert (float(value), float(tangent)) == (45.0, 30.0 + 90.0)
    value, tangent = et.jvp(lambda p: {"out": p["a"] ** 2}, {"a": 3.0}, {"a": 0.5})
    assert (float(value["out"]), float(tangent["out"])) == (9.0, 3.0)
    assert float(et.derivative(et.sin, 0.0)) == 1.0


def test_second_order():
    f = lambda x: et.sum(x**3)  # noqa: E731
    x = et.asarray([1.0, 2.0])
    assert et.hvp(f, x, et.asarray([1.0, 1.0])).tolist() == [6.0, 12.0]
    assert et.hessian(f)(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert float(et.gradient(et.gradient(et.gradient(lambda x: x**4)))(2.0)) == 48.0


# spec: TP-25
def test_jacobian():
    assert et.jacobian(lambda x: x * x)(et.asarray([1.0, 2.0])).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    j = et.jacobian(lambda p: {"y": p["a"] * p["b"]})(
        {"a": et.asarray([1.0, 2.0]), "b": et.asarray(3.0)}
    )
    assert j["y"]["a"].tolist() == [[3.0, 0.0], [0.0, 3.0]]
    assert j["y"]["b"].tolist() == [1.0, 2.0]
    a, b = et.jacobian(lambda x, y: x * y)(2.0, 3.0)
    assert (float(a), float(b)) == (3.0, 2.0)


def test_jacobian_of_complex_numbers():
    a = et.asarray([1j, 2 + 1j, 3])
    r = et.asarray([1.0, 2.0, 3.0])
    assert et.jacobian(lambda r: et.sum(r * a))(r).tolist() == [1j, 2 + 1j, 3]
    assert et.function(et.jacobian(lambda r: et.sum(r * a)))(r).tolist() == [1j, 2 + 1j, 3]
    wide = et.jacobian(lambda z: z * z * et.ones(5, dtype=et.complex64), holomorphic=True)
    assert wide(et.asarray([1 + 2j])).tolist() == [[2 + 4j]] * 5
    assert et.jacobian(lambda z: z * z, holomorphic=True)(a).tolist() == [[2j, 0, 0], [0, 4 + 2j, 0], [0, 0, 6]]
    for operator in (et.jacobian, et.hessian):
        with pytest.raises(et.InvalidArgumentError, match=f"{operator.__name__}: the argument is complex64, but must"):
            operator(lambda z: et.sum(et.real(z * z)))(a)
    with pytest.raises(et.InvalidArgumentError, match="holomorphic=True needs a complex result"):
        et.jacobian(et.real, holomorphic=True)(a)
    parts = et.jacobian(lambda re, im: et.real((re + 1j * im) ** 2))(et.real(a), et.imag(a))
    assert parts[1].tolist() == [[-2, 0, 0], [0, -2, 0], [0, 0, 0]]


def test_vmap():
    x = et.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert et.vmap(et.sum)(x).tolist() == [3.0, 7.0, 11.0]
    assert et.vmap(et.sum, in_axes=1)(x).tolist() == [9.0, 12.0]
    assert et.vmap(lambda a, b: a * b, in_axes=(0, None))(x[:, 0], 10.0).tolist() == [
        10.0,
        30.0,
        50.0,
    ]
    out = et.vmap(lambda r: {"s": et.sum(r), "d": r * 2}, out_axes=0)(x)
    assert out["s"].tolist() == [3.0, 7.0, 11.0] and out["d"].shape == (3, 2)
    assert et.vmap(lambda r: r * 2, out_axes=1)(x).shape == (2, 3)
    # The gradient for each example.
    g = et.vmap(et.gradient(lambda r: et.sum(r**2)))(x)
    assert g.shape == (3, 2) and g[0].tolist() == [2.0, 4.0]
    with pytest.raises(
        et.InvalidArgumentError, match="in_axes has 1 entries, but the call has 2 arguments"
    ):
        et.vmap(lambda a, b: a, in_axes=(0,))(x, x)
    with pytest.raises(et.InvalidArgumentError, match="'randomness' is 'some'"):
        et.vmap(et.sum, randomness="some")(x)


# spec: CU-08.a
def test_stop_gradient():
    assert float(et.gradient(lambda x: et.stop_gradient(x * x) * x)(3.0)) == 9.0
    x = et.asarray(3.0)
    with et.GradientTape() as tape:
        tape.watch(x)
        y = et.stop_gradient({"a": x * x})["a"]
    assert float(y) == 9.0
    assert tape.gradient(y, x) is None


# spec: CU-06.a
def test_recompute_runs_the_function_again():
    calls = []

    @et.recompute_grad
    def f(x, n=2):
        calls.append(1)
        return et.exp(x) * n

    value, pull = et.value_with_pullback(lambda x: f(x, n=3), 0.0)
    assert float(value) == 3.0 and len(calls) == 1
    assert float(pull(1.0)) == 3.0 and len(calls) == 2


def test_python_exceptions_pass_unchanged():
    class Own(Exception):
        pass

    def f(x):
        raise Own("as it is")

    for call in (
        lambda: et.gradient(f)(1.0),
        lambda: et.jvp(f, 1.0, 1.0),
        lambda: et.vmap(f)(et.ones(2)),
        lambda: et.value_with_pullback(f, 1.0),
        lambda: et.recompute_grad(f)(1.0),
    ):
        with pytest.raises(Own, match="as it is"):
            call()


def test_gradients_of_many_shapes():
    for shape in [(), (1,), (3, 4), (0,)]:
        x = et.ones(shape)
        assert et.gradient(lambda x: et.sum(et.sin(x)))(x).shape == shape
    assert math.isclose(float(et.gradient(et.cos)(1.0)), -math.sin(1.0), rel_tol=1e-6)
