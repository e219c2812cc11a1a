# SPDX-License-Identifier: Apache-2.0
"""cond, switch_case, while_loop, fold and scan over pytrees."""

import pytest

import etude as et


def both(f):
    """The function in eager code and staged."""
    return [f, et.function(f)]


# spec: AG-02, FB-07.a
def test_cond():
    def f(x):
        return et.cond(x > 0, lambda a: {"y": a * a}, lambda a: {"y": -a}, x)["y"]

    for call in both(f):
        assert float(call(et.asarray(3.0))) == 9.0
        assert float(call(et.asarray(-3.0))) == 3.0
        assert float(et.gradient(call)(3.0)) == 6.0
    assert et.cond(True, lambda: 1.0, lambda: 2.0).item() == 1.0
    seen = []
    g = et.function(
        lambda x: et.cond(
            x > 0, lambda: (seen.append("a"), x)[1], lambda: (seen.append("b"), -x)[1]
        )
    )
    g(et.asarray(1.0)), g(et.asarray(-1.0))
    assert sorted(seen) == ["a", "b"]


# spec: AG-04
def test_branches_have_one_structure():
    f = et.function(lambda x: et.cond(x > 0, lambda: {"a": x}, lambda: {"b": x}))
    with pytest.raises(
        et.InvalidArgumentError,
        match="cond: the result is .*': tensor.* branch, but .*': tensor.* branch",
    ):
        f(et.asarray(1.0))
    g = et.function(lambda x: et.cond(x > 0, lambda: [x], lambda: (x,)))
    with pytest.raises(et.InvalidArgumentError, match="in the other branch"):
        g(et.asarray(1.0))
    h = et.function(lambda x: et.cond(x > 0, lambda: x, lambda: et.astype(x, et.int32)))
    with pytest.raises(et.InvalidArgumentError, match="^cond: 'result' is .*int32"):
        h(et.asarray(1.0))
    number = et.function(lambda x: et.cond(x > 0, lambda: 1.0, lambda: 2.0))
    assert float(number(et.asarray(-1.0))) == 2.0


# spec: AG-10.b
def test_a_predicate_is_one_bool():
    for x in (et.asarray(1), et.asarray([True, False, True])):
        with pytest.raises(et.InvalidArgumentError):
            et.cond(x, lambda: x, lambda: x)


def test_switch_case():
    branches = [lambda x: x, lambda x: x * 10, lambda x: x * 100]

    def f(i, x):
        return et.switch_case(i, branches, x)

    for call in both(f):
        assert [float(call(et.asarray(i), et.asarray(2.0))) for i in range(3)] == [2.0, 20.0, 200.0]
        with pytest.raises(et.OutOfRangeError):
            call(et.asarray(3), et.asarray(2.0))


def test_while_loop():
    def f(n):
        return et.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t + i), (0, 0))[1]

    for call in both(f):
        assert int(call(et.asarray(5))) == 10
    state = et.while_loop(
        lambda s: s["i"] < 3, lambda s: {"i": s["i"] + 1, "x": s["x"] * 2}, {"i": 0, "x": 1.0}
    )
    assert float(state["x"]) == 8.0
    assert int(et.while_loop(lambda i: i < 100, lambda i: i + 1, 0, max_iterations=7)) == 7
    grown = et.while_loop(
        lambda i, r: i < 3,
        lambda i, r: (i + 1, et.concat([r, et.ones((1, 2))])),
        (0, et.zeros((0, 2))),
        shapes={"state/1": (None, 2)},
    )[1]
    assert grown.shape == (3, 2)


# spec: AG-06.a
def test_a_state_keeps_its_types():
    for stage in both(lambda: et.while_loop(lambda i: i < 3, lambda i: i + 0.5, 0)):
        with pytest.raises(et.InvalidArgumentError, match="int32.*float32|float32.*int32"):
            stage()
    with pytest.raises(
        et.InvalidArgumentError,
        match="while_loop: the state is .* before the first step, but .* after a step",
    ):
        et.while_loop(lambda s: s["i"] < 3, lambda s: {"j": s["i"] + 1}, {"i": 0})


# spec: AG-05.a
def test_fold_and_scan():
    digits = et.asarray([1, 2, 3, 4])

    def folded(xs):
        return et.fold(lambda s, d: s * 10 + d, 0, xs)

    def scanned(xs):
        return et.scan(lambda s, d: (s + d["x"], {"sum": s + d["x"], "d": d["x"]}), 0, {"x": xs})

    for call in both(folded):
        assert int(call(digits)) == 1234
        assert int(call(digits[:0])) == 0
    falling = et.arange(17, 3, -5)
    assert int(et.fold(lambda s, i: s * 100 + i, 0, falling)) == 171207
    for call in both(scanned):
        last, rows = call(digits)
        assert int(last) == 10
        assert rows["sum"].tolist() == [1, 3, 6, 10] and rows["d"].tolist() == [1, 2, 3, 4]
    # A tuple state is passed as separate arguments.
    a, b = et.fold(lambda a, b, x: (a + x, b * x), (0.0, 1.0), et.asarray([1.0, 2.0, 3.0]))
    assert (float(a), float(b)) == (6.0, 6.0)
    with pytest.raises(
        et.InvalidArgumentError, match="scan: the body returned a Tensor|returns a pair"
    ):
        et.scan(lambda s, x: s, 0.0, et.ones(3))


def test_gradients_of_loops():
    w = et.asarray(2.0)
    for call in both(lambda w: et.fold(lambda s, x: s * w + x, 0.0, et.asarray([1.0, 1.0, 1.0]))):
        assert float(call(w)) == 7.0
        assert float(et.gradient(call)(2.0)) == 5.0  # w^2 + w + 1


# spec: ST-08.b
def test_assertions_and_prints(capfd):
    @et.function
    def f(x):
        et.print("x is", x)
        et.assert_true(x > 0, "x has to be positive")
        return x * 2

    assert float(f(et.asarray(1.0))) == 2.0
    with pytest.raises(et.FailedPreconditionError, match="x has to be positive"):
        f(et.asarray(-1.0))
    assert float(f(et.asarray(3.0))) == 6.0  # not sticky
    assert capfd.readouterr().out.count("x is") == 3


# spec: CD-09.b
def test_effects_in_loops():
    v = et.Variable(0.0)

    @et.function
    def f(n):
        def body(i):
            v.assign_add(1.0)
            return i + 1

        et.while_loop(lambda i: i < n, body, 0)
        return v.read()

    assert float(f(et.asarray(3))) == 3.0
    assert float(f(et.asarray(2))) == 5.0


def test_python_exceptions_in_bodies():
    def fails(*_):
        raise KeyError("mine")

    for call in both(lambda: et.while_loop(lambda i: i < 3, fails, 0)):
        with pytest.raises(KeyError, match="mine"):
            call()
