# SPDX-License-Identifier: Apache-2.0
"""Graphs from specs, warnings about retracing, and host functions on devices and in files."""

import threading
import warnings

import pytest

import etude as et


# spec: SG-07.b, TC-13.c
def test_trace_takes_specs():
    traced = []

    @et.function
    def f(x, y, scale=2.0):
        traced.append(1)
        return et.sum(x @ y) * scale

    graph = f.trace(et.TensorSpec((None, 3), name="rows"), et.ones((3, 1)))
    count = len(traced)
    assert f.trace_count() == 1 and str(f.traces()[0]) == str(graph)
    assert graph.inputs == [("rows", "float32[n,3]"), ("y", "float32[3,1]")]
    assert "from specs" in f.explain() and "rows: float32[?,3]" in f.explain()
    for n in (1, 2, 7):
        assert float(f(et.ones((n, 3)), et.ones((3, 1)))) == 6.0 * n
        assert float(graph(et.ones((n, 3)), et.ones((3, 1)))) == 6.0 * n
    # The graph of the specs serves all sizes; for size 1, which broadcasts, f runs once more.
    assert f.trace_count() == 1 and len(traced) == count + 1
    # The same specs are the same graph; other host values are another one.
    assert str(f.trace(et.TensorSpec((None, 3), name="rows"), et.ones((3, 1)))) == str(graph)
    assert f.trace_count() == 1
    f.trace(et.TensorSpec((None, 3), name="rows"), et.ones((3, 1)), scale=3.0)
    assert f.trace_count() == 2 and float(f(et.ones((4, 3)), et.ones((3, 1)), 3.0)) == 36.0
    assert f.trace_count() == 2
    # Other types are traced as ever.
    f(et.ones((2, 3), dtype=et.float64), et.ones((3, 1), dtype=et.float64))
    assert f.trace_count() == 3


# spec: SG-07.b
def test_specs_in_structures_and_of_variables():
    @et.function
    def f(params, x):
        return params["v"] * x["a"]

    graph = f.trace({"v": et.VariableSpec((2,))}, {"a": et.TensorSpec((2,))})
    v = et.Variable([1.0, 2.0])
    assert graph({"v": v}, {"a": et.ones(2)}).tolist() == [1.0, 2.0]
    assert f({"v": v}, {"a": et.ones(2)}).tolist() == [1.0, 2.0] and f.trace_count() == 1
    with pytest.raises(et.InvalidArgumentError):
        graph({"v": v}, {"a": et.ones(3)})


class Unbiased(et.Module):
    def __init__(self):
        self.layer = et.nn.Dense(4, 3, bias=False)

    @et.function
    def predict(self, x):
        return self.layer(x)


# spec: SG-07.b
def test_specs_beside_absent_tensors():
    """An operand that a layer does not have, such as the bias of a layer without one, is no input of the graph."""

    @et.function
    def apply(layer, x):
        return layer(x)

    layer, spec = et.nn.Dense(4, 3, bias=False), et.TensorSpec((None, 4))
    graph = apply.trace(layer, spec)
    assert graph.inputs == [("layer/weight", "float32[4,3]"), ("x", "float32[n,4]")]
    assert "(float32[4,3], absent, float32[?,4])" in apply.explain()
    model = Unbiased()
    assert model.predict.trace(spec).inputs == [("self/layer/weight", "float32[4,3]"), ("x", "float32[n,4]")]
    for n in (1, 3, 8):
        x = et.random.normal((n, 4))
        want = x @ layer.weight
        assert et.array_equal(apply(layer, x), want) and et.array_equal(graph(layer, x), want)
        assert et.array_equal(model.predict(x), x @ model.layer.weight)
    assert apply.trace_count() == 1 and model.predict.trace_count() == 1
    # A layer with the operand has a graph of its own.
    biased = et.nn.Dense(4, 3)
    assert len(apply.trace(biased, spec).inputs) == 3 and apply.trace_count() == 2
    assert apply(biased, et.ones((5, 4))).shape == (5, 3) and apply.trace_count() == 2
    with pytest.raises(et.InvalidArgumentError, match="graph function 'apply': the structure is"):
        graph(biased, et.ones((5, 4)))


# spec: SG-07.b
def test_none_in_place_of_a_tensor():
    def add(x, bias=None):
        return x if bias is None else x + bias

    spec = et.TensorSpec((None, 4))
    f = et.function(add, name="add")
    assert f.trace(spec).inputs == [("x", "float32[n,4]")]
    assert f.trace(spec, None).inputs == [("x", "float32[n,4]")] and f.trace_count() == 1
    assert f.trace(spec, et.TensorSpec((4,))).inputs == [("x", "float32[n,4]"), ("bias", "float32[4]")]
    assert f(et.ones((3, 4))).shape == f(et.ones((3, 4)), et.ones(4)).shape == (3, 4) and f.trace_count() == 2

    without = et.function(add, name="add", signature=[spec, None])
    assert without(et.ones((2, 4)), None).shape == (2, 4) and without(et.ones((3, 4))).shape == (3, 4)
    with pytest.raises(et.InvalidArgumentError) as error:
        without(et.ones((2, 4)), et.ones(4))
    assert "function 'add' takes (float32[?,4]), as its signature says, but was given (float32[2,4], float32[4])" in str(error.value)
    always = et.function(add, name="add", signature=[spec, et.TensorSpec((4,))])
    for call in (lambda: always(et.ones((2, 4)), None), lambda: always(et.ones((2, 4)))):
        with pytest.raises(et.InvalidArgumentError) as error:
            call()
        assert (
            "function 'add': argument 'bias' is None, but its signature (float32[?,4], float32[4]) has a tensor for it. "
            "Pass a tensor, or make a function whose signature has None there" in str(error.value)
        )
        assert "test_specs.py" in str(error.value)


# spec: TC-16.a
def test_a_warning_about_retracing():
    @et.function
    def growing(x, n):
        return x * n

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for n in range(1, 5):
            growing(et.ones(2), n)
        assert not seen
        growing(et.ones(2), 5)
    assert len(seen) == 1
    text = str(seen[0].message)
    assert "function 'growing' was traced 5 times within 10 calls" in text
    assert "n is 5, was 1 in trace 1" in text, text
    for cause in ("a number of the host", "shapes that host code looks at", "@et.function inside a loop"):
        assert cause in text, text
    assert seen[0].filename.endswith("test_specs.py")


# spec: TC-16.b
def test_wrapping_a_function_again_is_noticed():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(40):
            et.function(lambda x: x + 1)(et.ones(2))
    assert len(seen) == 2  # at most two for a function
    assert all("it is made again for each call" in str(w.message) for w in seen)


def test_a_filter_may_not_break_the_library():
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        @et.function
        def f(x, n):
            return x * n

        for n in range(8):
            assert f(et.asarray(2.0), n).item() == 2.0 * n


# spec: PY-08
def test_host_functions_on_another_device():
    other, seen = et.add_cpu_device(), []

    @et.py_function
    def double(x):
        seen.append((x.device, et.current_device()))
        return x * 2

    staged = et.function(lambda x: double(x) + 1)
    x = et.asarray(3.0)
    with et.device(other):
        assert float(double(x.to(other))) == 6.0
        assert float(staged(x.to(other))) == 7.0
    assert float(staged(x)) == 7.0
    assert len(seen) >= 3

    def slope(x):
        return et.gradient(staged)(x)

    assert float(slope(x.to(other))) == 2.0


# spec: PY-08
def test_concurrent_host_functions_that_call_staged_functions():
    inner, zero = et.function(lambda x: et.sum(x * x)), et.function(lambda y: y * 0.0)

    @et.py_function
    def through(x):
        return inner(x) + zero(et.sum(x))

    outer = et.function(lambda x: through(x) * 2)
    results, errors = [None] * 8, []

    def body(i):
        try:
            for _ in range(20):
                results[i] = float(outer(et.ones(4) * float(i)))
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=body, args=(i,), daemon=True) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), "a deadlock"
    assert not errors and results == [8.0 * i * i for i in range(8)]
