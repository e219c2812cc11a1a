# SPDX-License-Identifier: Apache-2.0
"""Mistakes of newcomers. Each is refused with the argument, the value and the next step, or it is no mistake here."""

import pathlib
import re
import warnings

import numpy as np
import pytest

import etude as et


def refused(call, kind=et.InvalidArgumentError):
    """The text of the error of a call."""
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def told(call):
    """The texts of the warnings of a call."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in heard]


class Net(et.Module):
    def __init__(self):
        self.hidden = et.nn.Dense(2, 3)
        self.output = et.nn.Dense(3, 1)

    def __call__(self, x):
        return self.output(self.hidden(x))


# ---- files


def test_exchanged_arguments_of_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net, file = Net(), tmp_path / "net.safetensors"
    for function in (et.io.save, et.io.load):
        name = f"et.io.{function.__name__}"
        assert refused(lambda: function(str(file), net), TypeError) == (
            f"{name}: the model is {str(file)!r}, which is a path. The order is {name}(model, path)"
        )
        assert refused(lambda: function(net, net), TypeError) == (
            f"{name}: the path is a Net, but must be a text or an os.PathLike of one. The order is {name}(model, path)"
        )
    optimizer, data = et.optim.SGD(lr=0.1), et.data.Loader(et.ones((4, 2)), et.ones(4), batch=2)
    for function in (et.io.save_checkpoint, et.io.load_checkpoint):
        name = f"et.io.{function.__name__}"
        order = f"The order is {name}(path, model, optimizer, data)"
        assert refused(lambda: function(net, "run", optimizer, data)) == (
            f"{name}: the path is a Net, but must be a text or an os.PathLike of one. {order}"
        )
        assert refused(lambda: function("run", "run", optimizer, data)) == f"{name}: the model is 'run', which is a path. {order}"
        assert refused(lambda: function("run", net, data, optimizer)) == (
            f"{name}: the optimizer is a Loader, but must be an object of et.optim. {order}"
        )
        assert refused(lambda: function("run", net, optimizer, [1])) == (
            f"{name}: the data is a list, but must be an et.data.Loader. {order}"
        )
    assert "The order is et.saved.save(folder, entries)" in refused(lambda: et.saved.save({}, "folder"))
    f = et.function(lambda x: x)
    assert "The order is et.onnx.save(path, function)" in refused(lambda: et.onnx.save(f, "file"))
    assert "The order is et.stablehlo.save(path, function)" in refused(lambda: et.stablehlo.save(f, "file"))
    assert list(tmp_path.iterdir()) == []
    et.io.save(net, pathlib.Path(file))
    et.io.load(net, file)


# ---- tapes


def test_gradients_of_what_no_tape_watched():
    net, x = Net(), et.ones((4, 2))

    def step(source=net):
        with et.GradientTape() as tape:
            loss = et.mean(net(x))
        return tape.gradient(loss, source)

    heard = told(lambda: (step(), step()))  # once per place
    assert len(heard) == 1 and heard[0].startswith(
        "gradient: the tape watched none of the sources (sources.hidden.weight, sources.hidden.bias, sources.output.weight, "
        "sources.output.bias), so that their gradients are absent or zeros. Call tape.watch(x) before x is used; a "
        "trainable Variable needs only to be read while the tape records\n  at "
    ), heard
    assert float(et.sum(et.abs(step().hidden.weight))) == 0.0
    many = [et.ones(1) for _ in range(6)]

    def of_list():
        with et.GradientTape(persistent=True) as tape:
            y = many[0] * 2
        assert tape.gradient(y, {"w": many})["w"] == [None] * 6

    assert "(sources['w'][0], sources['w'][1], sources['w'][2], sources['w'][3] and 2 more)" in told(of_list)[0]


def test_tapes_are_silent_where_a_source_is_watched():
    net, x, v = Net(), et.ones((4, 2)), et.Variable(2.0)

    def watched():
        with et.GradientTape(persistent=True) as tape:
            tape.watch(net.hidden)
            y = et.sum(net(x)) * v
        tape.gradient(y, net)
        tape.gradient(y, v)
        tape.gradient(y, {"count": 3})
        tape.reset()

    assert told(watched) == []

    def used_up():
        with et.GradientTape() as tape:
            tape.watch(net)
            y = et.sum(net(x))
        tape.gradient(y, net)
        assert "persistent" in refused(lambda: tape.gradient(y, net), et.FailedPreconditionError)

    assert told(used_up) == []


def test_unwatched_sources_as_errors():
    former = et.set_diagnostics(independent_result="error")
    try:
        x = et.ones(2)
        for method in ("gradient", "jacobian"):
            with et.GradientTape() as tape:
                y = x * x
            assert f"{method}: the tape watched none of the sources (sources)" in refused(lambda: getattr(tape, method)(y, x))
    finally:
        et.set_diagnostics(independent_result=former.independent_result)


# ---- shapes


def test_sizes_of_random_tensors():
    for name in ("normal", "truncated_normal", "uniform"):
        draw = getattr(et.random, name)
        options = "low and high" if name == "uniform" else "mean and stddev"
        example = "low=0, high=1" if name == "uniform" else "mean=0, stddev=1"
        end = f"Give {options} by name: et.random.{name}(shape, {example})"
        assert refused(lambda: draw(2, 3), TypeError) == (
            f"{name}(): a shape is one argument: write et.random.{name}((2, 3)). {end}"
        )
        assert refused(lambda: draw(2, 3, 4), TypeError).startswith(
            f"{name}(): a shape is one argument: write et.random.{name}((2, 3, 4)). "
        )
        assert refused(lambda: draw((2, 3), 0.0, 1.0), TypeError) == f"{name}(): {end}"
        assert draw((2, 3)).shape == draw([2, 3]).shape == (2, 3) and draw(2).shape == (2,)
    assert 5.0 < float(et.mean(et.random.normal(100, mean=10.0, stddev=0.1))) < 15.0


def test_sizes_of_filled_tensors():
    for name in ("zeros", "ones", "empty"):
        assert f"{name}(): a shape is one argument: write {name}((2, 3)). The function takes 1 arguments" in refused(
            lambda: getattr(et, name)(2, 3), TypeError
        )


def test_open_sizes_are_none():
    for spec in (et.TensorSpec, et.VariableSpec):
        assert refused(lambda: spec((-1, 2))) == (
            f"{spec.__name__}: the shape has the size -1, but a size is at least 0, and None is an open size"
        )
    assert refused(lambda: et.TensorSpec(et.float32)) == (
        "TensorSpec: the shape is a DType, but must be a tuple of sizes, with None for an open size"
    )
    assert et.TensorSpec(np.array([2, 3])).shape == (2, 3) and et.TensorSpec(3).shape == (3,)
    assert "Variable: the shape has the size -1" in refused(lambda: et.Variable(et.ones((2, 2)), shape=(-1, 2)))
    v = et.Variable(et.ones((2, 2)), shape=(None, 2))
    v.assign(et.ones((3, 2)))
    assert v.read().shape == (3, 2)
    loop = lambda shapes: et.while_loop(lambda s: et.sum(s) < 3, lambda s: s + 1, et.ones(1), shapes=shapes)  # noqa: E731
    assert "while_loop: shapes['state'] has the size -1" in refused(lambda: loop({"state": (-1,)}))
    assert "while_loop: shapes is a tuple, but must be a dict by path" in refused(lambda: loop((None,)))


# ---- attributes


def test_parameters_that_a_layer_does_not_have():
    dense, norm = et.nn.Dense(2, 3), et.nn.BatchNorm(3)
    rest = "An et.Module keeps other values beside a layer"

    def set_to(layer, name):
        return refused(lambda: setattr(layer, name, et.zeros(3)), AttributeError)

    assert set_to(dense, "wieght") == f"Dense has no parameter 'wieght'. Did you mean 'weight'? {rest}"
    assert set_to(dense, "nothing") == f"Dense has no parameter 'nothing'. It has: weight, bias. {rest}"
    assert set_to(dense, "activation") == (
        "Dense: 'activation' is an option, which is fixed when the layer is made. Make another: et.nn.Dense(..., activation=...)"
    )
    assert set_to(et.nn.Dropout(0.5), "weight") == f"Dropout has no parameter 'weight'. It has none. {rest}"
    assert "scale" in dir(norm) and "Did you mean 'scale'?" in set_to(norm, "scael")
    assert set_to(norm, "running") == (
        "BatchNorm: 'running' is a group of parameters. Assign its parts: running.mean, running.variance"
    )
    with pytest.raises(AttributeError, match=r"^BatchNorm.running has no parameter 'maen'. Did you mean 'mean'\?$"):
        norm.running.maen = et.zeros(3)
    assert set_to(et.nn.ResidualBlock(3, 3), "shortcut_norm") == (
        "ResidualBlock: this layer was made without 'shortcut_norm'. Make another that has it"
    )
    dense.weight = et.ones((2, 3))
    assert not hasattr(dense, "wieght")

    class Named(et.nn.Dense):
        pass

    named = Named(2, 3)
    named.title = "first"  # a class of the program
    assert named.title == "first"


def test_options_of_optimizers_are_fixed():
    adam = et.optim.Adam(lr=0.1)
    fixed = refused(lambda: setattr(adam, "lr", 0.2), AttributeError)
    assert fixed == (
        "Adam: 'lr' is fixed when the optimizer is made, as in et.optim.Adam(lr=...). A rate that changes is a schedule, "
        "such as lr=et.optim.cosine(0.001, 1000), or optimizer.scale_rate(0.5)"
    )
    assert "as in et.optim.Adam(lr=...)" in refused(lambda: setattr(adam, "rate", 0.2), AttributeError)
    assert "Adam has no attribute 'beta3', and its options are fixed when it is made. Did you mean 'beta" in refused(
        lambda: setattr(adam, "beta3", 0.2), AttributeError
    )


def test_attributes_of_other_libraries():
    x, net, dense, adam = et.ones((2, 2)), Net(), et.nn.Dense(2, 3), et.optim.Adam()
    rows = [
        (x, "view", "'Tensor' has no attribute 'view'. Use x.reshape(shape)"),
        (x, "backward", "'Tensor' has no attribute 'backward'. Use et.gradient(f)(x) of a function f"),
        (net, "parameters", "'Net' has no attribute 'parameters'. Use et.tree.leaves(model)"),
        (dense, "parameters", "'Dense' has no attribute 'parameters'. Use et.tree.leaves(model)"),
        (adam, "step", "'Adam' has no attribute 'step'. Use optimizer.update(model, gradients)"),
    ]
    for value, name, want in rows:
        assert refused(lambda: getattr(value, name), AttributeError).startswith(want)
        assert not hasattr(value, name) and name not in dir(value)
    assert refused(lambda: dense.nothing, AttributeError) == "'Dense' has no attribute 'nothing'"

    class Own(et.Module):
        def __init__(self):
            self.weights = et.ones(3)

        def parameters(self):
            return [self.weights]

    own = Own()
    assert own.weights.shape == (3,) and own.parameters()[0].shape == (3,) and "weights" in dir(own)
    assert et.tree.paths(own) == ["weights"]


# ---- functions


def test_arguments_of_derivatives():
    def f(a, b):
        return et.sum(a * b)

    x = et.ones(2)
    assert refused(lambda: et.gradient(f, x, x, argnums="b")) == (
        "gradient: argnums is 'b', but must be the position of an argument, from 0, or a tuple of positions. 'b' of f is "
        "argnums=1"
    )
    assert refused(lambda: et.jacobian(f, x, x, argnums=(0, 1.0))) == (
        "jacobian: argnums is (0, 1.0), but must be the position of an argument, from 0, or a tuple of positions"
    )
    assert "'x' of <lambda> at test_mistakes.py:" in refused(lambda: et.gradient(lambda x: x, x, argnums="x"))
    assert et.gradient(f, x, x, argnums=np.int64(1)).tolist() == [1.0, 1.0]
    assert len(et.gradient(f, x, x, argnums=range(2))) == 2
    assert "vmap: in_axes is 'a', but must be an integer, the axis of the examples, or None" in refused(lambda: et.vmap(f, in_axes="a"))
    assert "vmap: out_axes is None, but must be an integer" in refused(lambda: et.vmap(f, out_axes=None))
    for name in ("gradient", "value_and_gradient", "vmap", "value_with_pullback", "jvp", "hvp", "custom_gradient", "recompute_grad"):
        assert "argument is 3.0, but must be a function" in refused(lambda: getattr(et, name)(*[3.0] * (3 if name in ("jvp", "hvp") else 1)))


def test_values_in_place_of_functions():
    p = et.asarray(True)
    assert refused(lambda: et.cond(p, 1, 2)) == (
        "cond: then is 1, but must be a function: et.cond(p, lambda: x, lambda: y). et.where(p, x, y) chooses between values"
    )
    assert refused(lambda: et.cond(p, lambda: 1, et.ones(2))).startswith("cond: otherwise is a Tensor, but must be a function")
    assert refused(lambda: et.switch_case(0, [1, 2])).startswith("switch_case: branch 0 is 1, but must be a function")
    assert refused(lambda: et.switch_case(0, 1)).startswith("switch_case: the branches are a int, but must be a list of functions")
    assert refused(lambda: et.while_loop(True, lambda i: i, 0)).startswith("while_loop: the condition is True, but must be")
    assert refused(lambda: et.while_loop(lambda i: i < 3, None, 0)).startswith("while_loop: the body is None, but must be")
    assert refused(lambda: et.fold(1, 0.0, et.ones(2))).startswith("fold: the body is 1, but must be a function")
    assert refused(lambda: et.scan("f", 0.0, et.ones(2))).startswith("scan: the body is 'f', but must be a function")


def test_lambdas_in_messages():
    signature = 3
    assert re.match(r"function '<lambda> at test_mistakes.py:\d+': its signature is 3", refused(lambda: et.function(lambda x: x, signature=signature)))
    f = et.host_function(lambda x: x, et.float32)
    assert re.match(r"host_function '<lambda> at test_mistakes.py:\d+': ", refused(lambda: et.host_function(lambda *, x: x, et.float32)(x=1.0)))
    assert float(f(et.asarray(2.0))) == 2.0


# ---- training


def test_callbacks_and_metrics():
    x, y = et.ones((4, 2)), et.ones((4, 1))

    def fit(**options):
        et.nn.fit(et.nn.Dense(2, 1), et.optim.SGD(lr=0.1), (x, y), et.nn.mean_squared_error, **options)

    assert refused(lambda: fit(callbacks=et.nn.early_stopping(patience=2))).endswith("but must be a list: callbacks=[callback]")
    assert refused(lambda: fit(callbacks=et.nn.early_stopping)) == (
        "fit: callbacks is et.nn.early_stopping, but must be a list: callbacks=[callback]"
    )
    assert refused(lambda: fit(callbacks=3)) == "fit: callbacks is an int, but must be a list: callbacks=[callback]"
    assert refused(lambda: fit(callbacks=[et.nn.early_stopping])) == (
        "fit: callbacks[0] is et.nn.early_stopping, which makes an object. Call it: et.nn.early_stopping(...)"
    )

    class Log:
        def __call__(self, event, state):
            pass

    assert refused(lambda: fit(callbacks=[Log])) == "fit: callbacks[0] is the class Log. Make an object of it: Log(...)"
    assert refused(lambda: fit(metrics={"top": et.nn.metrics.accuracy})) == (
        "fit: the metric 'top' is et.nn.metrics.accuracy, which makes an object. Call it: et.nn.metrics.accuracy(...)"
    )
    assert refused(lambda: fit(metrics=[et.nn.metrics.accuracy()])) == (
        "fit: metrics is a list, but must be a dict by name: metrics={'right': et.nn.metrics.accuracy()}"
    )
    fit(callbacks=[Log()], metrics={})


def test_lists_of_layers():
    layers = [et.nn.Dense(2, 3), et.nn.relu]
    x = et.ones((1, 2))
    assert et.nn.Sequential(layers)(x).tolist() == et.nn.Sequential(*layers)(x).tolist()
    assert et.tree.paths(et.nn.Sequential(layers)) == ["layers/0/weight", "layers/0/bias", "layers/1"]
    assert refused(lambda: et.nn.Sequential(et.nn.Dense(2, 3), 3)) == (
        "Sequential: layer 1 is 3, but must be a function: a layer, or a function of a tensor such as et.nn.relu"
    )
    assert refused(lambda: et.nn.Sequential([et.nn.Dropout])) == (
        "Sequential: layer 0 is the class Dropout. Make a layer of it: Dropout(...)"
    )


# ---- tensors


def test_none_as_a_tensor():
    end = "but None was given. Does the function that made it return its value?"
    assert refused(lambda: et.asarray(None), TypeError) == (
        f"asarray(): a tensor, a number, an array or a nested list is needed, {end}"
    )
    assert refused(lambda: et.stack([et.ones(2), None]), TypeError).endswith(end)
    assert "operand 'x' is None, but must be a tensor" in refused(lambda: et.exp(None), TypeError)


def test_ranges_of_traced_numbers():
    with pytest.raises(et.FailedPreconditionError) as error:
        et.function(lambda n: et.arange(n))(et.asarray(5))
    assert str(error.value).startswith(
        "arange(): 'stop' is a tensor whose value is not known yet, since a function is being traced or batched, but sizes and "
        "options are fixed in a graph. Pass a number or a size, such as x.shape[0], or make the longest result and mask it "
        "with et.where"
    )
    with pytest.raises(et.FailedPreconditionError, match=r"zeros\(\): 'shape' is a tensor whose value is not known yet"):
        et.function(lambda n: et.zeros((2, n)))(et.asarray(5))
    r = et.arange(et.asarray(5))
    assert r.dtype == et.int32 and r.tolist() == [0, 1, 2, 3, 4]
    assert et.function(lambda x: et.arange(x.shape[0]))(et.ones(3)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", [et.float16, et.float32, et.float64])
def test_round_with_digits(dtype):
    values = [2.675, -1.005, 1234.5678, 0.5, 1e30 if dtype != et.float16 else 1e4, 0.0]
    x = et.asarray(values, dtype=dtype)
    for digits in (-3, -1, 0, 1, 2, 5):
        want = [round(v, digits) for v in x.tolist()]
        for found in (round(x, digits), et.round(x, digits), x.round(decimals=digits)):
            assert found.dtype == dtype
            np.testing.assert_array_equal(found.tolist(), et.asarray(want, dtype=dtype).tolist())
    assert round(et.asarray([2.5, 3.5])).tolist() == [2.0, 4.0]
    random = et.random.uniform(2000, low=-50.0, high=50.0, dtype=dtype, key=et.random.key(3))
    halves = (et.arange(-1000, 1000) / 8).astype(dtype)
    for digits in range(-1, 8):
        for numbers in (random, halves, random * 1e4):
            want = et.asarray([round(v, digits) for v in numbers.tolist()], dtype=dtype)
            np.testing.assert_array_equal(round(numbers, digits).tolist(), want.tolist())
    special = et.asarray([float("inf"), float("-inf"), float("nan")], dtype=dtype)
    for digits in (-400, -2, 2, 400):
        np.testing.assert_array_equal(round(special, digits).tolist(), special.tolist())


def test_round_of_other_kinds():
    i = et.asarray([15, 25, -15, -26, 149, 150, 7])
    assert round(i, -1).tolist() == [20, 20, -20, -30, 150, 150, 10] and round(i, -1).dtype == et.int32
    assert round(i, -2).tolist() == [0, 0, 0, 0, 100, 200, 0] and round(i, 3).tolist() == i.tolist()
    assert round(i, -30).tolist() == [0] * 7
    assert et.round(et.asarray([1.234 - 5.678j]), 1).tolist() == [pytest.approx(1.2 - 5.7j)]
    assert float(round(et.Variable(2.345), 2)) == pytest.approx(2.35, abs=0.011)
    assert refused(lambda: et.round(et.ones(1), 1.5)) == "round: decimals is 1.5, but must be an integer of 64 bits"
    staged = et.function(lambda x: round(x, 1))
    assert staged(et.asarray([1.26])).tolist() == round(et.asarray([1.26]), 1).tolist()


REDUCTIONS = ["sum", "prod", "max", "min", "mean", "std", "var", "all", "any", "argmax", "argmin"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_numpy(name):
    a = np.asarray([[1.0, 2.0, 4.0], [0.0, 3.0, 5.0]], np.float32)
    x, reduce = et.asarray(a), getattr(np, name)
    for options in ({}, {"axis": 1}):
        found = reduce(x, **options)
        assert isinstance(found, et.Tensor)
        np.testing.assert_allclose(np.asarray(found), reduce(a, **options), rtol=1e-6)
    if name in ("std", "var"):
        np.testing.assert_allclose(float(reduce(x, ddof=1)), reduce(a, ddof=1), rtol=1e-6)


def test_other_functions_of_numpy():
    x = et.asarray([0.126, 2.345, 9.0])
    assert np.round(x, 2).tolist() == round(x, 2).tolist() and isinstance(np.round(x, 2), et.Tensor)
    assert np.clip(x, 1.0, 3.0).tolist() == et.clip(x, 1.0, 3.0).tolist()


def test_out_has_no_place():
    x, y = et.ones(3), et.ones(())
    assert refused(lambda: x.sum(out=y)) == "sum: there is no out, since tensors are values: write y = et.sum(x)"
    assert "Tensors are values: write y = max(...). The signature is max(" in refused(lambda: x.max(out=y), TypeError)
    assert "Convert the operand first, as with x.astype(dtype)" in refused(lambda: x.mean(dtype=et.float64), TypeError)


def test_parameters_of_other_libraries():
    x = et.ones((2, 3))
    assert refused(lambda: x.mean(dim=1), TypeError) == (
        "mean(): there is no parameter 'dim'. Here it is 'axis'. The signature is mean(x, /, *, axis=None, keepdims=False)"
    )
    assert "Here it is 'keepdims'" in refused(lambda: x.max(axis=1, keepdim=True), TypeError)


def test_pairs_of_widths():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = et.asarray(a)
    for widths in (((1, 2), (0, 3)), [[1, 2], [0, 3]], ((2, 1),), (1, 2), 2):
        assert et.pad(x, widths).tolist() == np.pad(a, widths).tolist()
        assert x.pad(widths, mode="edge").tolist() == np.pad(a, widths, mode="edge").tolist()
    for widths in (((1, 2), 3), ((1, 2, 3), (1, 2))):
        assert "but must be pairs (before, after), such as ((0, 0), (1, 1)), or one list of all numbers" in refused(lambda: et.pad(x, widths))
