# SPDX-License-Identifier: Apache-2.0
"""Staged functions in Python."""

import dataclasses
import enum
import gc
import math
import warnings
import weakref

import pytest

import etude as et


# spec: TC-01.a
def test_one_graph_for_each_kind_of_arguments():
    f = et.function(lambda x: x + x + x)
    assert f(et.ones((2, 2))).tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert f(et.ones((2, 2), dtype=et.uint8)).dtype == et.uint8
    assert f.trace_count() == 2
    f(et.zeros((2, 2)))
    assert f.trace_count() == 2


# spec: ST-02
def test_host_effects_happen_while_tracing():
    seen = []

    @et.function
    def f(x):
        seen.append(1)
        return x * 2

    f(et.asarray(1.0)), f(et.asarray(2.0))
    assert len(seen) == 1
    assert f.__name__ == "f" and f.__wrapped__(et.asarray(1.0)) is not None
    assert len(seen) == 2


# spec: TC-03.a
def test_the_style_of_a_call_is_not_in_the_key():
    @et.function
    def f(x, y=2, *, z=3):
        return x * y * z

    a = et.asarray(1.0)
    for value in (f(a), f(a, 2), f(a, y=2), f(x=a), f(z=3, x=a), f(y=2, x=a)):
        assert float(value) == 6.0
    assert f.trace_count() == 1
    assert float(f(a, 5)) == 15.0
    assert f.trace_count() == 2


def test_varargs_and_keywords():
    @et.function
    def f(*xs, scale, **rest):
        out = sum(xs[1:], xs[0]) * scale
        for name in sorted(rest):
            out = out + rest[name]
        return out

    a = et.asarray(1.0)
    assert float(f(a, a, a, scale=2)) == 6.0
    assert float(f(a, scale=2, p=a, q=a)) == 4.0
    assert float(f(a, scale=2, q=a, p=a)) == 4.0
    assert f.trace_count() == 3  # the function sees the order of its keywords


# spec: SG-04
def test_errors_of_binding():
    @et.function
    def f(x, y):
        return x + y

    with pytest.raises(
        TypeError,
        match=r"function 'f': missing a required argument: 'y'. Its signature is \(x, y\)",
    ):
        f(et.asarray(1.0))
    with pytest.raises(TypeError, match="too many positional arguments"):
        f(1, 2, 3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        f(1, 2, z=3)


# spec: TC-04.a, TC-04.b, TC-05
def test_structure_counts():
    f = et.function(lambda *a, **k: a[0][0] if isinstance(a[0][0], et.Tensor) else a[0][0][0])
    a, b, c = (et.asarray(float(i)) for i in range(3))
    f([[a], b, c])
    f([[a, b], c])
    assert f.trace_count() == 2
    f(([a], b, c))
    assert f.trace_count() == 3
    g = et.function(lambda d: d["a"] - d["b"])
    assert float(g({"a": a, "b": b})) == -1.0
    assert float(g({"b": b, "a": a})) == -1.0
    assert g.trace_count() == 2  # the function sees the order of the keys
    h = et.function(lambda x: et.asarray(x))
    h([12, 1]), h([1, 21])
    assert h.trace_count() == 2
    k = et.function(lambda *a, **b: et.asarray(1.0))
    k(1, x=2), k(1, {"x": 2})
    assert k.trace_count() == 2


# spec: TC-06.a, TC-06.b
def test_numbers_count_by_type_and_bits():
    f = et.function(lambda n, x: x * 2)
    x = et.asarray(1.0)
    for n in (1, 1.0, True, 2**70, 2**71):
        f(n, x)
    assert f.trace_count() == 5
    f(math.nan, x), f(math.nan, x)
    assert f.trace_count() == 6
    f(0.0, x), f(-0.0, x)
    assert f.trace_count() == 8
    f(1, x), f(2**70, x)
    assert f.trace_count() == 8


# spec: TC-07, TC-08
def test_objects():
    class Equal:
        def __init__(self, key, value):
            self.key, self.value = key, value

        def __eq__(self, other):
            return self.key == other.key

        def __hash__(self):
            return 1

    f = et.function(lambda o, x: x * o.value)
    x = et.asarray(1.0)
    assert float(f(Equal(1, 2.0), x)) == 2.0
    assert float(f(Equal(1, 3.0), x)) == 2.0  # equal: the same graph
    assert float(f(Equal(2, 3.0), x)) == 3.0  # one hash, another value
    assert f.trace_count() == 2

    class Plain:
        value = 5.0

    g = et.function(lambda o, x: x * o.value)
    alive = []
    for _ in range(5):
        o = Plain()
        alive.append(weakref.ref(o))
        assert float(g(o, x)) == 5.0
        assert float(g(o, x)) == 5.0
        del o
    gc.collect()
    assert [r() for r in alive] == [None] * 5
    assert g.trace_count() <= 1  # graphs of dead objects are dropped

    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    h = et.function(lambda c, x: x * c.value)
    assert [float(h(c, x)) for c in (Color.RED, Color.BLUE, Color.RED)] == [1.0, 2.0, 1.0]
    assert h.trace_count() == 2


# spec: TC-09
def test_arrays_are_tensors():
    np = pytest.importorskip("numpy")
    f = et.function(lambda x: x * 2)
    a = np.ones(3, dtype=np.float32)
    assert f(a).tolist() == [2.0] * 3
    a[:] = 2
    assert f(a).tolist() == [4.0] * 3
    assert f.trace_count() == 1


# spec: TC-10
def test_an_argument_that_is_no_key():
    f = et.function(lambda s, x: x, name="f")
    with pytest.raises(
        et.InvalidArgumentError,
        match="argument 's' of function 'f' is a set, which cannot be a key",
    ):
        f({1, 2}, et.asarray(1.0))


# spec: TC-11, TC-12
def test_variables_as_arguments():
    @et.function
    def h(a, b):
        a.assign_add(1)
        return a + b

    v, w = et.Variable(1.0), et.Variable(1.0)
    assert float(h(v, v)) == 4.0
    v.assign(1.0)
    assert float(h(v, w)) == 3.0
    assert float(v) == 2.0
    assert h.trace_count() == 2
    k = et.function(lambda v: v + 1)
    k(v), k(w)
    assert k.trace_count() == 1


# spec: TC-14.a, TC-14.b
def test_sizes_relax():
    f = et.function(lambda x: et.sum(x * 2))
    for n in range(2, 7):
        assert float(f(et.ones(n))) == 2.0 * n
    assert f.trace_count() == 2
    g = et.function(lambda x: et.sum(x), relax_shapes=False)
    for n in range(2, 6):
        g(et.ones(n))
    assert g.trace_count() == 4


def test_a_warning_of_many_graphs(capfd):
    f = et.function(lambda n, x: x * n, name="often")
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        for n in range(5):
            f(n, et.asarray(1.0))
    assert "often" in f.explain() or f.trace_count() == 5


# spec: TC-17.a
def test_methods_have_graphs_for_each_instance():
    class Scale:
        def __init__(self, by):
            self.by = et.Variable(by)
            self.traced = 0

        @et.function
        def __call__(self, x, power=1):
            self.traced += 1
            return self.by * x**power

        @et.function
        def other(self, x):
            return self(x) + 1

    a, b = Scale(2.0), Scale(3.0)
    x = et.asarray(1.0)
    assert [float(s(x)) for s in (a, b, a, b)] == [2.0, 3.0, 2.0, 3.0]
    assert (a.traced, b.traced) == (1, 1)
    a.by.assign(5.0)
    assert float(a(x)) == 5.0 and float(a.other(x)) == 6.0
    gone = weakref.ref(a)
    del a
    gc.collect()
    assert gone() is None
    assert float(Scale(7.0)(x)) == 7.0
    assert float(b(x)) == 3.0


def test_methods_of_structures_take_them_as_arguments():
    class Net(et.Module):
        def __init__(self, w):
            self.w = et.asarray(w)

        @et.function
        def __call__(self, x):
            return self.w * x

    a, b = Net(2.0), Net(3.0)
    x = et.asarray(1.0)
    assert (float(a(x)), float(b(x))) == (2.0, 3.0)
    assert Net.__call__.trace_count() == 1
    a.w = et.asarray(5.0)
    assert float(a(x)) == 5.0
    assert Net.__call__.trace_count() == 1


# spec: TC-18.c
def test_if_tracing_raises_nothing_is_kept():
    fails = [True]

    @et.function
    def f(x):
        if fails[0]:
            raise ValueError("not yet")
        return x

    with pytest.raises(ValueError, match="not yet"):
        f(et.asarray(1.0))
    assert f.trace_count() == 0
    fails[0] = False
    assert float(f(et.asarray(1.0))) == 1.0


# spec: TC-19.a
def test_the_last_reference_frees_everything():
    class Marker:
        pass

    marker = Marker()
    gone = weakref.ref(marker)
    captured = et.ones(1000)

    def make():
        inside = marker

        @et.function
        def f(x):
            assert inside is not None
            return x * captured

        return f

    gc.disable()
    try:
        f = make()
        f(et.ones(1000))
        del f, marker
        assert gone() is None  # by reference counts alone
    finally:
        gc.enable()


# spec: SG-01.a, SG-02, SG-03.a, SG-05
def test_signatures():
    f = et.function(lambda x: x * 2, signature=[et.TensorSpec((None,))], name="f")
    graph = f.trace(et.ones(3))
    assert str(graph).strip() != ""
    for n in (1, 2, 7):
        assert f(et.ones(n)).shape == (n,)
    assert f.trace_count() == 1
    column = et.function(lambda x: x, signature=[et.TensorSpec((None, 1))])
    assert column([[0], [1.0], [1]]).tolist() == [[0.0], [1.0], [1.0]]
    with pytest.raises(et.InvalidArgumentError, match=r"float32\[2,2\]"):
        f(et.ones((2, 2)))
    with pytest.raises(et.InvalidArgumentError, match="must be a list of specs"):
        et.function(lambda x: x, signature=et.TensorSpec((1,)))
    with pytest.raises(et.InvalidArgumentError, match="has 2 specs, but it has 1 parameters"):
        et.function(lambda x: x, signature=[et.TensorSpec(()), et.TensorSpec(())])
    with_default = et.function(lambda x, n=2: x * n, signature=[et.TensorSpec(())], name="g")
    assert float(with_default(3.0)) == 6.0
    with pytest.raises(et.InvalidArgumentError, match="argument 'n' is not in its signature"):
        with_default(3.0, 5)


# spec: SG-07.a, SG-09
def test_graph_functions():
    f = et.function(lambda a, b: {"power": a["x"] ** b}, name="power")
    graph = f.trace({"x": et.asarray(10.0)}, 2)
    assert f.trace({"x": et.asarray(1.0)}, 2).name == graph.name and f.trace_count() == 1
    assert graph.inputs[0] == ("a/x", "float32[]")
    assert float(graph({"x": et.asarray(10.0)}, 2)["power"]) == 100.0
    with pytest.raises(et.InvalidArgumentError, match="b is 3, but the graph was made for 2"):
        graph({"x": et.asarray(10.0)}, 3)
    assert [g.name for g in f.traces()] == [graph.name]


# spec: SG-11.a, SG-11.c, SG-11.d, SG-11.e
def test_results_keep_their_structure():
    @dataclasses.dataclass
    class Out:
        y: et.Tensor
        nothing: None = None

    v = et.Variable(4.0)
    f = et.function(lambda x: (None, Out(x), [v, 7, 1.5], {"k": x}))
    none, out, (a, b, c), d = f(et.asarray(2.0))
    assert none is None and type(out) is Out and out.nothing is None and float(out.y) == 2.0
    assert isinstance(a, et.Tensor) and (float(a), int(b), float(c)) == (4.0, 7, 1.5)
    assert float(d["k"]) == 2.0
    with pytest.raises(et.InvalidArgumentError, match=r"returns 'text', a str, as the result\[1\]"):
        et.function(lambda x: (x, "text"))(et.asarray(1.0))


# spec: ST-11.a, ST-11.b, ST-11.d
def test_changed_arguments_are_refused():
    @et.function
    def append(xs):
        xs.append(xs[0])
        return xs[0]

    with pytest.raises(et.InvalidArgumentError, match="changes the structure of argument 'xs'"):
        append([et.asarray(1.0)])

    @et.function
    def write(x):
        x[0] = 9.0
        return x

    x = et.zeros(3)
    with pytest.raises(
        et.InvalidArgumentError, match="writes to argument 'x', which is not in `donate`"
    ):
        write(x)
    assert x.tolist() == [0.0, 0.0, 0.0]

    @et.function
    def option(d):
        d["n"] = 5
        return d["x"]

    with pytest.raises(et.InvalidArgumentError, match="d/n"):
        option({"n": 1, "x": et.asarray(1.0)})


# spec: V63
def test_writes_to_local_tensors():
    def f(x):
        y = x * 1
        z = y
        y[0] = 9.0
        y += 1
        z[1] = 5.0
        return y, z

    x = et.asarray([1.0, 2.0])
    expected = ([10.0, 3.0], [9.0, 5.0])
    for call in (f, et.function(f)):
        y, z = call(x)
        assert (y.tolist(), z.tolist()) == expected
        with et.LazyScope():
            y, z = call(x)
        assert (y.tolist(), z.tolist()) == expected
    assert x.tolist() == [1.0, 2.0]

    def write(x):
        x[0] = 9.0
        return x * 1

    with pytest.raises(et.InvalidArgumentError, match="not in `donate`"):
        et.function(write)(x)
    assert et.function(write, donate="x")(x).tolist() == [9.0, 2.0] and x.tolist() == [9.0, 2.0]


# spec: ST-11.c
def test_donated_arguments_are_in_and_out():
    @et.function(donate="state")
    def step(state, x):
        state["total"] += x
        state["last"] = x * 1
        return state["total"] * 2

    total, last = et.asarray(1.0), et.asarray(0.0)
    state = {"total": total, "last": last}
    assert float(step(state, et.asarray(2.0))) == 6.0
    assert float(step(state, et.asarray(3.0))) == 12.0
    assert (float(total), float(last)) == (6.0, 3.0)
    assert step.trace_count() == 1
    with pytest.raises(
        et.InvalidArgumentError, match="state/last and state/total are the same object"
    ):
        step({"total": total, "last": total}, et.asarray(1.0))
    with pytest.raises(et.InvalidArgumentError, match="donate names 'y', which is no parameter"):
        et.function(lambda x: x, donate="y")


def test_a_failed_call_leaves_donated_arguments():
    @et.function(donate=("x",))
    def f(x, ok):
        x[:] = x + 1
        et.assert_true(ok, "refused")
        return x * 2

    x = et.zeros(2)
    f(x, et.asarray(True))
    with pytest.raises(et.FailedPreconditionError, match="refused"):
        f(x, et.asarray(False))
    assert x.tolist() == [1.0, 1.0]


# spec: ST-10
def test_running_eagerly():
    seen = []
    f = et.function(lambda x: (seen.append(1), x * 2)[1])
    f(et.asarray(1.0)), f(et.asarray(1.0))
    assert len(seen) == 1
    et.run_functions_eagerly(True)
    try:
        assert float(f(et.asarray(2.0))) == 4.0
        assert len(seen) == 2
    finally:
        et.run_functions_eagerly(False)
    g = et.function(lambda x: (seen.append(1), x)[1], run_eagerly=True)
    g(et.asarray(1.0)), g(et.asarray(1.0))
    assert len(seen) == 4 and g.trace_count() == 0


# spec: ST-06
def test_a_tensor_that_leaves_its_trace():
    kept = []
    f = et.function(lambda x: (kept.append(x * 2), x)[1], name="leaky")
    f(et.asarray(1.0))
    with pytest.raises(et.FailedPreconditionError, match="leaky"):
        kept[0] + 1
    with pytest.raises(et.FailedPreconditionError):
        float(kept[0])


# spec: CO-04.a, CO-05.a, CO-05.b
def test_recursion():
    @et.function
    def factorial(n, x):
        return x if n == 0 else n * factorial(n - 1, x)

    assert float(factorial(5, et.asarray(1.0))) == 120.0
    assert float(et.gradient(lambda x: factorial(5, x))(2.0)) == 120.0

    @et.function
    def endless(x):
        return endless(x)

    with pytest.raises(et.UnimplementedError, match="while_loop"):
        endless(et.asarray(1.0))


def test_staged_functions_of_functions():
    inner = et.function(lambda x: x * 2)
    outer = et.function(lambda g, x: g(x) + 1)
    assert float(outer(inner, et.asarray(3.0))) == 7.0
    assert float(outer(inner, et.asarray(4.0))) == 9.0
    assert outer.trace_count() == 1
    assert et.function(inner) is inner


def test_explain_names_the_argument():
    f = et.function(lambda x, mode: x, name="f")
    f(et.asarray(1.0), "a"), f(et.asarray(1.0), "b")
    assert "mode is 'b', was 'a'" in f.explain()
