# SPDX-License-Identifier: Apache-2.0
"""Saved functions: state by path, structures, derivatives, modes, programs."""
import dataclasses
from typing import NamedTuple

import numpy as np
import pytest

import etude as et


class Net(et.Module):
    def __init__(self):
        self.hidden = et.nn.Dense(4, 8, activation=et.nn.relu)
        self.norm = et.nn.BatchNorm(8)
        self.output = et.nn.Dense(8, 3)
        self.scale = 2.0

    def __call__(self, x):
        return self.output(self.norm(self.hidden(x))) * self.scale

    @et.function
    def predict(self, x):
        return et.nn.softmax(self(x))


@et.function(donate=("net", "adam"))
def train(net, adam, x, labels):
    with et.PhaseScope("training"):
        loss, slope = et.value_and_gradient(lambda n: et.nn.softmax_cross_entropy(n(x), labels))(net)
    adam.update(net, slope)
    return loss


def data(n=8):
    return et.random.normal((n, 4)), et.asarray([i % 3 for i in range(n)], dtype=et.int32)


def same(a, b):
    """Of one dtype and shape, with the same bits."""
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def reloaded(folder, entries, **options):
    et.saved.save(folder, entries, **options)
    return et.saved.load(folder)


@pytest.fixture
def trained():
    et.set_seed(1)
    net, adam = Net(), et.optim.Adam(lr=1e-2)
    x, labels = data()
    for _ in range(3):
        train(net, adam, x, labels)
    net.predict(x)
    net.predict(et.zeros((5, 4)))
    return net, adam, x, labels


# spec: SV-01.a, SV-01.b, SV-02.a, SV-06.a, SV-09.a
def test_a_model_is_state_by_path(trained, tmp_path):
    net, adam, x, labels = trained
    program = reloaded(tmp_path / "net", {"predict": net.predict, "train": et.saved.bind(train, net, adam)})
    assert program.functions() == ["predict", "train"] and et.saved.is_saved(tmp_path / "net")
    predict, step = program.function("predict"), program.function("train")
    assert predict.arguments == ["x"] and step.arguments == ["x", "labels"] and predict.name == "predict"
    assert [str(s) for s in predict.signatures()] == ["(x: float32[n,4])"]
    paths = program.variables()
    assert {"net/hidden/weight", "net/norm/scale", "net/output/bias"} < set(paths) and any(p.startswith("adam/") for p in paths)
    weight = program.variable("net/hidden/weight")
    assert weight.trainable and weight.dtype == et.float32 and same(weight.read(), net.hidden.weight)
    statistics = [v for p, v in paths.items() if p.startswith("net/norm/") and not v.trainable]
    assert len(statistics) >= 2
    for n in (0, 1, 2, 8, 50):
        rows = et.random.normal((n, 4))
        assert same(predict(rows), net.predict(rows)), n
    for _ in range(3):  # the state is shared: predict sees the steps of train
        assert same(step(x, labels), train(net, adam, x, labels))
        assert same(predict(x), net.predict(x))
        assert same(weight.read(), net.hidden.weight)


# spec: SV-01.c
def test_three_rounds_agree(trained, tmp_path):
    net, _, x, _ = trained
    program = reloaded(tmp_path / "a", {"predict": net.predict})
    files = {f.name: f.read_bytes() for f in (tmp_path / "a").iterdir()}
    for name in ("b", "c"):
        et.saved.save(tmp_path / name, program)
        assert {f.name: f.read_bytes() for f in (tmp_path / name).iterdir()} == files
        program = et.saved.load(tmp_path / name)
        assert same(program.function("predict")(x), net.predict(x))


def test_an_entry_names_the_state(trained, tmp_path):
    net, _, x, _ = trained
    program = reloaded(tmp_path / "a", {"classify": net.predict, "model": net})
    assert set(program.variables()) == {"model/" + p for p in et.tree.paths(net) if p != "scale"}
    assert program.objects() == [] and same(program.function("classify")(x), net.predict(x))
    et.saved.save(tmp_path / "b", {"base": program, "one": program.function("classify")})
    again = et.saved.load(tmp_path / "b")
    assert again.functions() == ["base/classify", "one"] and same(again.function("one")(x), net.predict(x))
    assert again.variable("base/model/hidden/weight").ref() == again.variable("one/model/hidden/weight").ref()


def test_tensors_by_position_take_the_short_way(tmp_path):
    """A call with tensors by position builds no structure. Its results, derivatives and errors are equal to those of a
    call by keyword, which builds a structure."""
    layer = et.nn.Dense(4, 3)

    @et.function
    def apply(layer, x, y):
        return layer(x) * y

    for n in (2, 5):
        apply(layer, et.ones((n, 4)), et.ones(3))
    loaded = reloaded(tmp_path / "a", {"apply": et.saved.bind(apply, layer)}).function("apply")
    y = et.random.normal((3,))
    for n in (1, 2, 5, 9):
        x = et.random.normal((n, 4))
        want = apply(layer, x, y)
        assert same(loaded(x, y), want) and same(loaded(x, y=y), want) and same(loaded(y=y, x=np.asarray(x)), want)
    # Derivatives for inputs and for state; in other staged functions, vmaps and lazy scopes.
    weights = loaded.trainable_variables()
    for call in (lambda a, b: loaded(a, b), lambda a, b: loaded(x=a, y=b), et.function(lambda a, b: loaded(a, b))):
        with et.GradientTape() as tape:
            tape.watch([x, y])
            z = et.sum(call(x, y))
        dx, dy, *slopes = tape.gradient(z, [x, y, *weights])
        assert same(dx, et.gradient(lambda a: et.sum(apply(layer, a, y)))(x)) and dy is not None
        assert [s.shape for s in slopes] == [v.shape for v in weights]
    rows = et.random.normal((3, 2, 4))
    assert same(et.vmap(lambda r: loaded(r, y))(rows), et.vmap(lambda r: loaded(x=r, y=y))(rows))
    with et.LazyScope():
        lazily = loaded(x, y) + 0.0
    assert same(lazily, apply(layer, x, y))
    # It sees the present values of its state.
    weights[0].assign(weights[0].read() * 2.0)
    assert not same(loaded(x, y), apply(layer, x, y)) and same(loaded(x, y), loaded(x=x, y=y))
    for wrong in ((et.ones((2, 5)), y), (x, et.asarray([1, 2, 3])), (x,), (x, y, y), (et.ones(4), y)):
        texts = []
        for call in (lambda: loaded(*wrong), lambda: loaded(*wrong[:-1], **{"xyz"[len(wrong) - 1]: wrong[-1]})):
            with pytest.raises(et.InvalidArgumentError) as error:
                call()
            assert "function 'apply'" in str(error.value) and "test_calls.py" in str(error.value)
            texts.append(str(error.value).partition("\n")[0])
        if len(wrong) == 2:
            assert texts[0] == texts[1]


def test_graphs_with_results_of_two_forms(tmp_path):
    @et.function(relax_shapes=False)
    def f(x):
        return (x, -x) if x.shape[0] == 1 else x * 2

    for n in (1, 2, 3):
        f(et.ones((n, 2)))
    loaded = reloaded(tmp_path / "f", {"f": f}).function("f")
    first, second = loaded(et.ones((1, 2)))
    assert first.tolist() == [[1.0, 1.0]] and second.tolist() == [[-1.0, -1.0]]
    assert loaded(et.ones((3, 2))).tolist() == [[2.0, 2.0]] * 3


class Pair(NamedTuple):
    first: et.Tensor
    second: et.Tensor


@dataclasses.dataclass
class Batch:
    image: et.Tensor
    mask: object = None


def test_structures_in_and_out(tmp_path):
    @et.function
    def f(batch, rows, *, k):
        return {"pair": Pair(batch.image + 1, rows[0]["a"] * k), "rows": [rows[1], (batch.image,)], "none": None}

    x, y = et.ones(3), et.asarray([1.0, 2.0])
    want = f(Batch(x), [{"a": y}, x], k=3.0)
    loaded = reloaded(tmp_path / "f", {"f": f}).function("f")
    got = loaded(Batch(x), [{"a": y}, x], k=3.0)
    assert set(got) == set(want) == {"pair", "rows", "none"} and got["none"] is None
    assert same(got["pair"].first, want["pair"].first) and same(got["pair"].second, want["pair"].second)
    assert isinstance(got["rows"], tuple) and same(got["rows"][1][0], x)
    # A dict has the same paths as the class, a tuple as the list; the keyword has the value of all graphs.
    assert same(loaded({"image": x}, ({"a": y}, x))["pair"].second, want["pair"].second)
    assert [s.name for s in loaded.signatures()[0].inputs] == ["batch/image", "rows/0/a", "rows/1", "k"]
    assert loaded.signatures()[0].inputs[-1].type == "3" and loaded.signatures()[0].inputs[-1].kind == "host"
    total, parts = et.value_and_gradient(lambda b: et.sum(loaded(b, [{"a": y}, x])["pair"].first))(Batch(x))
    assert float(total) == 6.0 and same(parts.image, et.ones(3))
    outputs = loaded.call_named({"batch/image": x, "rows/0/a": y, "rows/1": x})
    assert same(outputs["pair/first"], want["pair"].first)


def test_arguments_of_python(tmp_path):
    @et.function
    def f(x, mask=None, training=False, name="plain"):
        y = x if mask is None else x * mask
        return y + 1 if training else y

    x = et.ones((2, 3))
    f(x), f(x, et.zeros((2, 3))), f(x, training=True)
    loaded = reloaded(tmp_path / "f", {"f": f}).function("f")
    assert same(loaded(x, training=False), x) and same(loaded(x, training=True), x + 1)
    assert same(loaded(x, None, True), x + 1)
    assert same(loaded(x, et.zeros((2, 3)), training=False), et.zeros((2, 3)))
    assert same(loaded([[1, 1, 1], [1, 1, 1]], training=False), x)  # host data of the one dtype
    assert same(loaded(np.ones((2, 3), np.float32), training=False), x)
    assert same(loaded(et.Variable(x).read(), training=False), x)
    import inspect

    # `mask` and `name` may be left out, but two values of `training` are known.
    assert str(inspect.signature(loaded)) == "(x, mask, training, name='plain')"
    staged = et.function(lambda v: loaded(v, training=True))
    assert same(staged(x), x + 1)


# spec: SV-03.a
def test_errors_of_calls(tmp_path):
    @et.function
    def f(x, training):
        return x + 1 if training else x

    f(et.ones((2, 3)), True)
    program = reloaded(tmp_path / "f", {"f": f})
    loaded = program.function("f")

    def text(call, kind=et.InvalidArgumentError):
        with pytest.raises(kind) as error:
            call()
        assert error.value.file in (__file__, None), str(error.value)
        return str(error.value)

    message = text(lambda: loaded(et.ones((2, 3)), False))
    assert "function 'f' has no graph for (x: float32[2,3], training: False)" in message
    assert "the nearest first:\n  (x: float32[2,3], training: True)" in message
    assert "has no graph for (x: int32[2], training: True)" in text(lambda: loaded(et.asarray([1, 2])))
    assert "has 2 parameters (x, training), but 3 arguments were given" in text(lambda: loaded(1, 2, 3))
    assert "argument 'x' is given twice" in text(lambda: loaded(et.ones(2), x=et.ones(2)))
    assert "has no parameter 'y'. It has: x, training" in text(lambda: loaded(et.ones((2, 3)), y=1))
    assert "argument 'x' is missing" in text(lambda: loaded(training=True))
    assert "x['a'] is a set, but the arguments of a loaded function are tensors" in text(lambda: loaded({"a": {1}}))
    assert "has no function 'g'. It has: f" in text(lambda: program.function("g"), et.NotFoundError)
    assert "has no Variable 'w'. It has none" in text(lambda: program.variable("w"), et.NotFoundError)
    assert "has no object 'o'" in text(lambda: program.object("o"), et.NotFoundError)
    assert "has no asset 'a'" in text(lambda: program.asset("a"), et.NotFoundError)
    assert "nothing" in text(lambda: et.saved.load(tmp_path / "nothing"), et.NotFoundError)
    assert "max_loop_steps is 'x'" in text(lambda: et.saved.load(tmp_path / "f", max_loop_steps="x"))


# spec: SV-08.a, SV-08.b
def test_derivatives_of_any_order(tmp_path):
    w = et.Variable([1.0, -2.0], name="w")
    f = et.function(lambda x: et.sum(w * x**3))
    x = et.asarray([2.0, 3.0])
    et.gradient(f)(x)  # also if it was differentiated before
    program = reloaded(tmp_path / "f", {"f": f, "w": w})
    loaded, v = program.function("f"), program.variable("w")
    assert same(et.gradient(loaded)(x), et.gradient(f)(x))
    assert same(et.hessian(loaded)(x), et.hessian(f)(x))
    slope = et.gradient(lambda y: et.sum(et.gradient(lambda z: et.sum(et.gradient(loaded)(z)))(y)))(x)
    assert slope.tolist() == [6.0, -12.0]
    with et.GradientTape() as tape:
        tape.watch(x)
        y = loaded(x)
    by_x, by_w = tape.gradient(y, [x, v])
    assert same(by_x, 3 * et.asarray([1.0, -2.0]) * x**2) and by_w.tolist() == [8.0, 27.0]
    assert same(et.gradient(lambda _: loaded(x))([v])[0], by_w)
    assert same(et.jvp(loaded, x, et.ones(2))[1], et.jvp(f, x, et.ones(2))[1])


def test_modes(trained, tmp_path):
    net, _, x, _ = trained
    loaded = reloaded(tmp_path / "net", {"predict": net.predict}).function("predict")
    want = net.predict(x)
    assert same(et.function(loaded)(x), want)
    assert same(et.vmap(lambda row: loaded(row[None])[0])(x), et.vmap(lambda row: net.predict(row[None])[0])(x))
    with et.LazyScope():
        lazy = loaded(x) + 0
    assert same(lazy, want)
    text = loaded.explain()
    assert "function 'predict', loaded from" in text and "(x: float32[n,4])" in text and "test_calls.py:" in text
    assert "for sizes of 1 or 0" in text and repr(loaded) == "<etude.saved.Function 'predict' (x: float32[n,4])>"


def test_donated_arguments_change(tmp_path):
    @et.function(donate=("total",))
    def add(total, x):
        total[:] = total + x
        return total * 2

    live, x = et.zeros(2), et.ones(2)
    add(live, x)
    loaded = reloaded(tmp_path / "add", {"add": add}).function("add")
    total = et.zeros(2)
    assert loaded(total, x).tolist() == [2.0, 2.0] and total.tolist() == [1.0, 1.0]
    assert loaded(total, x).tolist() == [4.0, 4.0] and total.tolist() == [2.0, 2.0]
    assert loaded.signatures()[0].changed == ["total"]


def test_variables_among_the_arguments(tmp_path):
    @et.function
    def add(v, x):
        v.assign_add(x)
        return v * 2

    v, x = et.Variable([1.0]), et.ones(1)
    add(v, x)
    loaded = reloaded(tmp_path / "add", {"add": add}).function("add")
    other = et.Variable([5.0])
    assert loaded(other, x).tolist() == [12.0] and other.read().tolist() == [6.0]


# spec: SC-07.a
def test_an_object_owns_the_variables_of_its_methods(tmp_path):
    class Counter:
        def __init__(self):
            self.inner = {"v": [et.Variable(0.0, name="count")]}
            self.log = print

        @et.function
        def add(self, x):
            return self.inner["v"][0].assign_add(x)

    counter = Counter()
    counter.add(et.asarray(2.0))
    program = reloaded(tmp_path / "a", {"add": counter.add})
    assert list(program.variables()) == ["counter/inner/v/0"]
    assert float(program.function("add")(et.asarray(3.0))) == 5.0
    program = reloaded(tmp_path / "b", {"add": counter.add, "mine": counter})
    assert list(program.variables()) == ["mine/inner/v/0"]


def test_variables_of_a_bound_model_have_its_paths(tmp_path):
    class Scaled(et.Module):
        def __init__(self):
            self.w, self.v = et.ones(2), et.Variable([3.0, 4.0])

    @et.function
    def f(model, x):
        return model.w * x * model.v

    model = Scaled()
    want = f(model, et.ones(2))
    program = reloaded(tmp_path / "f", {"f": et.saved.bind(f, model)})
    assert set(program.variables()) == {"model/w", "model/v"}
    assert same(program.function("f")(et.ones(2)), want)
    program.variable("model/v").assign([1.0, 1.0])
    assert program.function("f")(et.ones(2)).tolist() == [1.0, 1.0]


# spec: SV-06.b
def test_constants_objects_and_assets(tmp_path):
    c = et.arange(1000, dtype=et.float32)
    f, g = et.function(lambda x: x + c), et.function(lambda x: x * c)
    f(et.ones(1000)), g(et.ones(1000))
    (tmp_path / "words.txt").write_text("one two")
    v = et.Variable([1.0])
    program = reloaded(
        tmp_path / "p", {"f": f, "g": g, "config": {"rate": 0.5, "v": [v, "text"], "name": "n"}}, assets=[tmp_path / "words.txt"]
    )
    tensors = [p for p in (tmp_path / "p").iterdir() if p.suffix == ".safetensors"]
    assert sum(p.stat().st_size for p in tensors) < 6000  # 4,000 bytes once
    assert program.assets() == ["words.txt"] and open(program.asset("words.txt")).read() == "one two"
    config = program.object("config")
    assert config["rate"] == 0.5 and config["name"] == "n" and config["v"][1] == "text"
    assert config["v"][0].ref() == program.variable("config/v/0").ref() and program.objects() == ["config"]
    assert same(program.function("g")(et.ones(1000)), c)


# spec: SV-07.a, SV-07.b
def test_exported_signatures(trained, tmp_path):
    net, _, x, _ = trained
    program = reloaded(tmp_path / "p", {"predict": net.predict}, signatures=["predict"])
    (exported,) = program.signatures()
    assert (exported.function, exported.inputs, exported.input_paths, exported.outputs) == ("predict", ["x"], ["x"], ["output"])
    assert same(program.function("predict").call_named({"x": x})["output"], net.predict(x))
    assert "exported: x -> output" in str(program) and repr(program) == "<etude.saved.Program: predict>"
    with pytest.raises(et.InvalidArgumentError, match="has no input 'y'. It has: x"):
        program.function("predict").call_named({"y": x})


# spec: SV-04.a, SV-04.b
def test_functions_that_were_never_called(tmp_path):
    plain, signed = et.function(lambda x: x * 2), et.function(lambda x: x * 2, signature=[et.TensorSpec((None, 3))])
    with pytest.warns(UserWarning, match="et.saved.save: function 'plain' has no graph, so it cannot be called after loading"):
        program = reloaded(tmp_path / "p", {"plain": plain, "signed": signed})
    for n in (0, 1, 4):
        assert program.function("signed")(et.ones((n, 3))).shape == (n, 3)
    assert program.function("signed")([[1, 2, 3]]).tolist() == [[2.0, 4.0, 6.0]]
    with pytest.raises(et.FailedPreconditionError, match="function 'plain' was saved without a graph"):
        program.function("plain")(et.ones(3))


def test_traces_of_specs_are_saved(tmp_path):
    net = Net()
    net.predict.trace(et.TensorSpec((None, 4)))
    loaded = reloaded(tmp_path / "p", {"predict": net.predict}).function("predict")
    for n in (0, 1, 3):
        x = et.random.normal((n, 4))
        assert same(loaded(x), net.predict(x)), n


def test_updates_equal_those_of_the_model(tmp_path):
    et.set_seed(2)
    layer, x, y = et.nn.Dense(4, 1), et.random.normal((16, 4)), et.random.normal((16, 1))

    @et.function
    def predict(layer, x):
        return layer(x)

    predict(layer, x)
    loaded = reloaded(tmp_path / "p", {"predict": et.saved.bind(predict, layer)}).function("predict")
    weights = loaded.trainable_variables()
    assert [w.name for w in weights] == ["layer/weight", "layer/bias"] and len(loaded.variables()) == 2
    live, ours = et.optim.Adam(lr=0.1), et.optim.Adam(lr=0.1)
    for _ in range(5):
        slope = et.gradient(lambda m: et.mean((predict(m, x) - y) ** 2))(layer)
        live.update(layer, slope)
        et.saved.update(ours, weights, et.gradient(lambda _: et.mean((loaded(x) - y) ** 2))(weights))
        assert same(weights[0].read(), layer.weight) and same(weights[1].read(), layer.bias)
    before = weights[0].read()
    with pytest.raises(et.InvalidArgumentError):
        et.saved.update(ours, weights, [et.ones(3), et.ones(1)])
    assert same(weights[0].read(), before)
    with pytest.raises(et.InvalidArgumentError, match="variables holds a Tensor, but must be a list of Variables"):
        et.saved.update(ours, [before], [before])
    with pytest.raises(et.InvalidArgumentError, match="the optimizer is a float"):
        et.saved.update(0.5, weights, weights)


# spec: SV-08.d, SV-08.e
def test_custom_gradients(tmp_path):
    @et.custom_gradient
    def doubled(x):
        return x * x, lambda ct: ct * 100

    f = et.function(lambda x: doubled(x) + 1)
    f(et.asarray(3.0))
    plain = reloaded(tmp_path / "a", {"f": f}).function("f")
    with pytest.raises(et.Error, match="custom_gradients=True"):
        et.gradient(plain)(et.asarray(3.0))
    kept = reloaded(tmp_path / "b", {"f": f}, custom_gradients=True).function("f")
    assert float(et.gradient(kept)(et.asarray(3.0))) == 100.0 and float(kept(et.asarray(3.0))) == 10.0


def test_random_numbers_and_phases(tmp_path):
    dropout = et.nn.Dropout(0.5)
    f = et.function(lambda x: dropout(x) + et.random.normal((4,)))
    x = et.ones(4)
    with et.PhaseScope("training"):
        f(x)
    f(x)
    loaded = reloaded(tmp_path / "f", {"f": f}).function("f")
    assert [s.phase for s in loaded.signatures()] == ["training", "inference"]
    for phase in ("training", "inference"):
        with et.PhaseScope(phase):
            et.set_seed(7)
            want = [f(x), f(x)]
            et.set_seed(7)
            got = [loaded(x), loaded(x)]
        assert same(got[0], want[0]) and same(got[1], want[1]) and not same(got[0], got[1])
