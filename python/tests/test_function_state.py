# SPDX-License-Identifier: Apache-2.0
"""Captures, Variables and init_scope in staged functions."""

import pytest

import etude as et


# spec: LC-01, LC-02, LC-05
def test_captures():
    v = et.Variable(0.0, name="v")

    @et.function
    def mutate():
        v.assign_add(1)
        return v.read()

    assert float(mutate()) == 1.0
    v.assign_add(1)
    assert float(mutate()) == 3.0
    assert mutate.trace_count() == 1
    assert [w.ref() for w in mutate.variables()] == [v.ref()]
    c = et.ones(2)
    f = et.function(lambda x: x + c)
    f(et.zeros(2))
    c[0] = 100.0
    assert f(et.zeros(2)).tolist() == [1.0, 1.0]


# spec: LC-06.a
def test_call_time_values():
    k = 1.0
    f = et.function(lambda: et.call_time_value(lambda: et.asarray(k)) + 2)
    assert float(f()) == 3.0
    k = 2.0
    assert float(f()) == 4.0
    assert f.trace_count() == 1


# spec: SC-01, SC-03.b
def test_variables_made_in_the_first_call():
    made = []
    count = [0]

    @et.function
    def f(x):
        count[0] += 1
        if not made:
            made.append(et.Variable(2.0))
        return made[0] * x

    assert float(f(et.asarray(1.0))) == 2.0
    assert float(f(et.asarray(3.0))) == 6.0
    assert count[0] == 2
    later = []

    @et.function
    def g(x):
        if not later:
            later.append(et.Variable(2 * x))
        return later[0] * x

    assert float(g(et.asarray(1.0))) == 2.0
    assert float(g(et.asarray(3.0))) == 6.0

    @et.function
    def h(x):
        return et.Variable(1.0) * x

    with pytest.raises(et.FailedPreconditionError, match="made whenever|is gone after"):
        h(et.asarray(1.0))


# spec: IS-01, IS-05.a, IS-06
def test_init_scope():
    count = et.Variable(0)
    made = []

    @et.function
    def f():
        with et.init_scope():
            count.assign_add(1)
            if not made:
                made.append(et.Variable(3.0))
        made[0].assign_add(1)
        return made[0].read()

    assert [float(f()), float(f())] == [4.0, 5.0]
    assert int(count) == 1
    with et.init_scope():
        assert float(et.asarray(1.0) + 1) == 2.0
