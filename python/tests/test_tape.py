# SPDX-License-Identifier: Apache-2.0
"""GradientTape in Python."""

import threading

import pytest

import etude as et


# spec: TP-01
def test_nested_tapes():
    x = et.asarray(3.0)
    with et.GradientTape() as outer:
        outer.watch(x)
        with et.GradientTape() as inner:
            inner.watch(x)
            y = x * x
        dy = inner.gradient(y, x)
    assert float(dy) == 6.0
    assert float(outer.gradient(dy, x)) == 2.0
    v = et.Variable(3.0)
    with et.GradientTape() as tape:
        y = v * v
    assert float(tape.gradient(y, v)) == 6.0


# spec: TP-02
def test_structures_of_sources_and_targets():
    x = et.asarray(2.0)
    with et.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = 2 * x
    assert float(tape.gradient(x, x)) == 1.0
    assert [float(g) for g in tape.gradient(y, [x, x])] == [2.0, 2.0]
    assert float(tape.gradient([y, y], x)) == 4.0
    nested = tape.gradient(y, {"a": {"b": x}, "c": (x,)})
    assert float(nested["a"]["b"]) == 2.0 and type(nested["c"]) is tuple


# spec: TP-03, TP-04
def test_targets_and_sources_in_between():
    x = et.asarray(3.0)
    with et.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * y
    assert float(tape.gradient(z, x)) == 108.0
    assert float(tape.gradient(z, y)) == 18.0
    x = et.asarray(2.0)
    with et.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert float(tape.gradient([x, y], x)) == 5.0


# spec: TP-05.a, TP-05.d
def test_unconnected():
    x, z = et.asarray(1.0), et.asarray([1.0, 2.0])
    with et.GradientTape(persistent=True) as tape:
        tape.watch([x, z])
        y = x * x
    assert tape.gradient(y, z) is None
    assert tape.gradient(y, [x, z])[1] is None
    assert tape.gradient(y, z, unconnected="zero").tolist() == [0.0, 0.0]
    with pytest.raises(
        et.InvalidArgumentError, match="unconnected is 'maybe', but must be 'none' or 'zero'"
    ):
        tape.gradient(y, z, unconnected="maybe")


# spec: TP-06
def test_seeds():
    x, y = et.asarray(2.0), et.asarray(2.0)
    with et.GradientTape() as tape:
        tape.watch((x, y))
        targets = [x * y, x]
    dx, dy = tape.gradient(targets, [x, y], [et.asarray(1.0), et.asarray(2.0)])
    assert (float(dx), float(dy)) == (4.0, 2.0)


def test_a_target_that_is_none():
    x = et.asarray(1.0)
    with et.GradientTape() as tape:
        tape.watch(x)
    with pytest.raises(
        et.InvalidArgumentError,
        match="the target is None. Does the function of the loss return a value",
    ):
        tape.gradient(None, x)


# spec: TP-08.a
def test_a_used_up_tape():
    x = et.asarray(1.0)
    with et.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)
    with pytest.raises(et.FailedPreconditionError, match="persistent"):
        tape.gradient(y, x)


# spec: TP-09.a, TP-10.a
def test_persistent_tapes():
    x, y = et.asarray(3.0), et.asarray(5.0)
    with et.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        z = x * x + x * y
    for _ in range(2):
        assert float(tape.gradient(z, y)) == 3.0
        assert float(tape.gradient(z, x)) == 11.0
    x = et.asarray(3.0)
    with et.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**3
        first = tape.gradient(y, x)
        second = tape.gradient(first, x)
        third = tape.gradient(second, x)
    assert [float(d) for d in (first, second, third)] == [27.0, 18.0, 6.0]


# spec: TP-12.a, TP-12.b, TP-12.c, TP-12.d
def test_variables():
    v, frozen = et.Variable(2.0, name="v"), et.Variable(3.0, trainable=False)
    with et.GradientTape(watch_variables=False, persistent=True) as tape:
        tape.watch(frozen)
        y = v * frozen
    assert tape.gradient(y, v) is None
    assert float(tape.gradient(y, frozen)) == 2.0
    with et.GradientTape() as tape:
        v * v * frozen
        v + 1
    assert [w.ref() for w in tape.watched_variables()] == [v.ref()]


# spec: TP-13, TP-14.a, TP-14.b, TP-14.c
def test_pause_reset_and_reentry():
    x = et.asarray(2.0)
    with et.GradientTape(persistent=True) as tape:
        tape.watch(x)
        with tape.pause():
            y = x * x
        z = y + x
        with pytest.raises(et.FailedPreconditionError):
            tape.__enter__()
    assert float(tape.gradient(z, x)) == 1.0
    with tape:
        w = z * 2
    assert float(tape.gradient(w, x)) == 2.0
    tape.reset()
    assert tape.gradient(z, x) is None
    with pytest.raises(ZeroDivisionError):
        with et.GradientTape() as broken:
            1 / 0
    assert not broken.recording


# spec: TP-15.a, TP-16.a
def test_host_decisions_carry_no_gradient():
    x = et.asarray(-3.0)
    with et.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x if x > 0 else -x
        z = et.asarray(float(x)) * 2
    assert float(tape.gradient(y, x)) == -1.0
    assert tape.gradient(z, x) is None


# spec: TP-18.a
def test_values_are_snapshots():
    v, x = et.Variable(3.0), et.asarray([3.0])
    with et.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = v * v
        z = x * x
    v.assign(10.0)
    x_before = x.copy()
    assert float(tape.gradient(y, v)) == 6.0
    assert tape.gradient(z, x).tolist() == [6.0]
    assert x_before.tolist() == [3.0]


def test_jacobians():
    x = et.asarray([1.0, 2.0])
    with et.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    assert tape.jacobian(y, x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert tape.jacobian(y, x, vectorize=False).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    m = et.asarray([[1.0, 2.0], [3.0, 4.0]])
    with et.GradientTape() as tape:
        tape.watch(m)
        y = m * m
    assert tape.batch_jacobian(y, m).tolist() == [
        [[2.0, 0.0], [0.0, 4.0]],
        [[6.0, 0.0], [0.0, 8.0]],
    ]


def test_jacobians_of_complex_targets():
    x = et.asarray([1.0, 2.0])
    with et.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * (1 + 2j)
        parts = et.real(y), et.imag(y)
    assert tape.jacobian(parts[1], x).tolist() == [[2.0, 0.0], [0.0, 2.0]]
    for derivatives in (tape.jacobian, tape.batch_jacobian):
        with pytest.raises(et.InvalidArgumentError, match=r"Take the derivatives of et\.real\(target\) and of et\.imag\(target\)"):
            derivatives(y, x)


def test_explain():
    x, z = et.asarray(1.0), et.asarray(1.0)
    with et.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * z
    assert "watch" in tape.explain(y, z)


def test_a_tape_belongs_to_its_thread():
    x = et.asarray(3.0)
    seen = []
    with et.GradientTape() as tape:
        tape.watch(x)

        def other():
            try:
                tape.gradient(x * x, x)
            except et.FailedPreconditionError as error:
                seen.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        y = x * x
    assert "tape of another thread" in seen[0]
    assert float(tape.gradient(y, x)) == 6.0
