# SPDX-License-Identifier: Apache-2.0
"""Layers, optimisers, losses and training in Python, from the kinds of the library."""

import copy
import dataclasses
import inspect

import pytest

import etude as et


def test_layers_are_classes():
    layer = et.nn.Dense(3, 4, activation=et.nn.relu)
    assert isinstance(layer, et.nn.Dense) and isinstance(layer, et.nn.Layer)
    assert layer.weight.shape == (3, 4) and layer.bias.shape == (4,)
    x = et.ones((2, 3))
    expected = et.nn.relu(et.matmul(x, layer.weight) + layer.bias)
    assert layer(x).tolist() == expected.tolist()
    signature = inspect.signature(et.nn.Dense)
    assert list(signature.parameters)[:3] == ["in_", "out", "activation"]
    assert et.nn.Dense(in_=3, out=4).weight.shape == (3, 4)
    assert "activation" in et.nn.Dense.__doc__
    with pytest.raises(
        et.InvalidArgumentError, match="there is no option 'activaton'. Similar: activation"
    ):
        et.nn.Dense(3, 4, activaton="relu")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        et.nn.nothing
    assert "Dense" in dir(et.nn) and "SGD" in dir(et.optim)


def test_parameters_are_attributes():
    layer = et.nn.Dense(2, 1, weight_init="ones")
    x = et.ones((1, 2))
    assert layer(x).tolist() == [[2.0]]
    layer.weight[0] = 5.0
    assert layer(x).tolist() == [[6.0]]
    layer.bias = et.asarray([10.0])
    assert layer(x).tolist() == [[16.0]]
    other = copy.copy(layer)
    other.weight[0] = 0.0
    assert layer(x).tolist() == [[16.0]] and other(x).tolist() == [[11.0]]
    assert et.tree.paths(layer) == ["weight", "bias"]
    with pytest.raises(AttributeError, match="has no attribute 'weights'"):
        layer.weights


def test_a_python_function_as_activation():
    layer = et.nn.Dense(1, 1, activation=lambda x: x * 3, weight_init="ones")
    assert layer(et.ones((1, 1))).tolist() == [[3.0]]
    assert float(et.gradient(lambda x: et.sum(layer(x)))(et.ones((1, 1)))[0, 0]) == 3.0


class Net(et.Module):
    def __init__(self):
        self.hidden = et.nn.Dense(2, 8, activation=et.nn.tanh)
        self.norm = et.nn.BatchNorm(8)
        self.output = et.nn.Dense(8, 1)

    def __call__(self, x):
        return self.output(self.norm(self.hidden(x)))


def test_gradients_of_models_carry_state():
    model = Net()
    x = et.random.normal((16, 2))
    mean = model.norm.running_mean if "running_mean" in et.tree.structure(model) else None
    with et.PhaseScope("training"):
        loss, slopes = et.value_and_gradient(lambda m: et.mean(m(x) ** 2))(model)
    assert type(slopes) is Net and slopes.hidden.weight.shape == (2, 8)
    before = et.tree.leaves(model)
    states = [leaf.value.copy() for leaf in before if type(leaf).__name__ == "_State"]
    et.move(model, slopes)
    after = [leaf.value for leaf in et.tree.leaves(model) if type(leaf).__name__ == "_State"]
    assert len(states) == 2 and any(a.tolist() != b.tolist() for a, b in zip(states, after))
    del mean


def test_a_hand_written_loop_trains():
    et.random.set_seed(0) if hasattr(et.random, "set_seed") else et.set_seed(0)
    x = et.random.normal((64, 2))
    y = et.sum(x, axis=1, keepdims=True)
    model = et.nn.Dense(2, 1)
    optimizer = et.optim.SGD(lr=0.1)
    for _ in range(100):
        loss, slopes = et.value_and_gradient(lambda m: et.mean((m(x) - y) ** 2))(model)
        optimizer.update(model, slopes)
    assert float(loss) < 1e-3 and optimizer.updates == 100
    assert abs(float(model.weight[0, 0]) - 1.0) < 0.05


def test_dataclasses_are_models():
    @dataclasses.dataclass
    class Line:
        w: et.Tensor
        b: et.Tensor

        def __call__(self, x):
            return x * self.w + self.b

    model = Line(et.asarray(0.0), et.asarray(0.0))
    x = et.asarray([[0.0], [1.0], [2.0], [3.0]])
    history = et.nn.fit(
        model,
        et.optim.SGD(lr=0.1),
        et.data.Loader(x, x * 2 + 1, batch=4),
        lambda p, y: et.mean((p - y) ** 2),
        epochs=200,
    )
    assert abs(float(model.w) - 2.0) < 0.05 and abs(float(model.b) - 1.0) < 0.1
    assert len(history.epochs) == 200 and history.epochs[-1]["loss"] < history.epochs[0]["loss"]


def test_losses_metrics_and_schedules():
    logits, labels = et.asarray([[2.0, 0.0], [0.0, 2.0]]), et.asarray([0, 1])
    loss = et.nn.softmax_cross_entropy(logits, labels)
    assert abs(float(loss) - 0.126928) < 1e-5
    rate = et.optim.cosine(0.1, 100)
    assert rate(0) == pytest.approx(0.1)
    optimizer = et.optim.SGD(lr=rate)
    assert optimizer.rate == pytest.approx(0.1)


# spec: CK-01
def test_fit_saves_and_resumes_bit_for_bit(tmp_path):
    x = et.random.normal((32, 2))
    y = et.sum(x, axis=1, keepdims=True)
    loss = lambda p, t: et.mean((p - t) ** 2)  # noqa: E731

    def parts():
        return Net(), et.optim.Adam(lr=0.01), et.data.Loader(x, y, batch=8, seed=3)

    model, optimizer, data = parts()
    start = tmp_path / "start.safetensors"
    et.io.save(model, start)
    et.nn.fit(model, optimizer, data, loss, epochs=2)
    again, optimizer, data = parts()
    et.io.load(again, start)
    stop = []

    def interrupt(event, state):
        if event == "batch_end":
            stop.append(1)
            if len(stop) == 5:
                return "fit"

    et.nn.fit(again, optimizer, data, loss, epochs=2, callbacks=[interrupt])
    file = tmp_path / "run.safetensors"
    et.io.save_checkpoint(file, again, optimizer, data)
    resumed, optimizer, data = parts()
    et.io.load_checkpoint(file, resumed, optimizer, data)
    assert data.position == (1, 1)
    et.nn.fit(resumed, optimizer, data, loss, epochs=2)
    assert resumed.hidden.weight.tolist() == model.hidden.weight.tolist()
    assert resumed.output.bias.tolist() == model.output.bias.tolist()


def test_fit_evaluate_predict_of_classes():
    x = et.concat([et.random.normal((50, 2)) + 3.0, et.random.normal((50, 2)) - 3.0])
    y = et.asarray([0] * 50 + [1] * 50)
    model = et.nn.Dense(2, 2)
    history = et.nn.fit(
        model,
        et.optim.Adam(lr=0.05),
        et.data.Loader(x, y, batch=20),
        et.nn.softmax_cross_entropy,
        epochs=10,
        validation=(x, y),
        mode="lazy",
    )
    assert history.epochs[-1]["validation_accuracy"] > 0.95
    assert et.nn.evaluate(model, x, y, et.nn.softmax_cross_entropy)["accuracy"] > 0.95
    assert et.nn.predict(model, x, batch=30).shape == (100, 2)
    assert "parameters" in et.nn.summary(model) and "weight" in et.nn.summary(model)
    with pytest.raises(et.InvalidArgumentError, match="mode is 'fast'"):
        et.nn.fit(model, et.optim.SGD(), (x, y), et.nn.softmax_cross_entropy, mode="fast")
    with pytest.raises(KeyError, match="mine"):

        def broken(event, state):
            raise KeyError("mine")

        et.nn.fit(model, et.optim.SGD(), (x, y), et.nn.softmax_cross_entropy, callbacks=[broken])
    assert model.weight.shape == (2, 2)  # the model has its tensors again


def test_models_in_staged_functions():
    model, x = Net(), et.random.normal((4, 2))
    f = et.function(lambda m, x: m(x))
    assert et.allclose(f(model, x), model(x))
    model.output.weight[0] = 5.0
    assert et.allclose(f(model, x), model(x))
    assert f.trace_count() == 1
    g = et.function(lambda m: et.gradient(lambda n: et.mean(n(x) ** 2))(m))
    assert g(model).hidden.weight.shape == (2, 8)


def test_an_interrupt_ends_fit_after_a_batch_and_it_resumes():
    import os
    import signal

    x = et.random.normal((32, 2))
    y = et.sum(x, axis=1, keepdims=True)

    def loss(p, t):
        return et.mean((p - t) ** 2)

    def parts():
        return (
            et.nn.Dense(2, 1, weight_init="ones"),
            et.optim.Adam(lr=0.01),
            et.data.Loader(x, y, batch=8),
        )

    model, optimizer, data = parts()
    et.nn.fit(model, optimizer, data, loss, epochs=3)
    again, optimizer, data = parts()
    seen = []

    def interrupt(event, state):
        if event == "batch_end":
            seen.append(1)
            if len(seen) == 5:
                os.kill(os.getpid(), signal.SIGINT)

    # A shell starts jobs in the background with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            et.nn.fit(again, optimizer, data, loss, epochs=3, callbacks=[interrupt])
    finally:
        signal.signal(signal.SIGINT, before)
    assert data.position == (1, 1) and again.weight.shape == (2, 1)
    et.nn.fit(again, optimizer, data, loss, epochs=3)
    assert again.weight.tolist() == model.weight.tolist()


@pytest.mark.parametrize("mode", ["eager", "staged", "lazy"])
def test_an_interrupt_in_the_middle_of_a_batch_undoes_the_batch(mode):
    import os
    import signal

    x = et.random.normal((32, 2))
    y = et.sum(x, axis=1, keepdims=True)
    calls = []

    def loss(p, t):
        calls.append(1)
        if len(calls) == 6:
            os.kill(os.getpid(), signal.SIGINT)
        return et.mean((p - t) ** 2)

    def interrupt(event, state):  # a staged step calls the loss once
        if mode == "staged" and event == "update_start":
            loss(0.0, 0.0)

    def parts():
        et.set_seed(3)
        return (
            et.nn.Sequential(et.nn.Dense(2, 4), et.nn.Dropout(0.5), et.nn.Dense(4, 1)),
            et.optim.Adam(lr=0.01),
            et.data.Loader(x, y, batch=8),
        )

    whole, optimizer, data = parts()
    calls = [1] * 10
    et.nn.fit(whole, optimizer, data, loss, epochs=3, mode=mode)
    model, optimizer, data = parts()
    calls = [] if mode != "staged" else [0]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            et.nn.fit(model, optimizer, data, loss, epochs=3, mode=mode, callbacks=[interrupt])
    finally:
        signal.signal(signal.SIGINT, before)
    assert 0 < data.position[0] * 4 + data.position[1] < 6
    calls = [1] * 10
    et.nn.fit(model, optimizer, data, loss, epochs=3, mode=mode)
    for a, b in zip(et.tree.leaves(model), et.tree.leaves(whole)):
        assert a.tolist() == b.tolist()


# spec: CK-01, V67
def test_files_name_the_paths_of_cpp(tmp_path):
    import json
    import struct

    model = et.nn.Sequential(et.nn.Dense(2, 3), et.nn.BatchNorm(3))
    file = tmp_path / "model.safetensors"
    et.io.save(model, file, {"note": "text"})
    content = file.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    names = sorted(name for name in header if name != "__metadata__")
    assert names[:2] == ["layers/0/bias", "layers/0/weight"]
    assert any("running" in name or "mean" in name for name in names)
    other = et.nn.Sequential(et.nn.Dense(2, 3), et.nn.BatchNorm(3))
    et.io.load(other, file)
    assert other[0].weight.tolist() == model[0].weight.tolist()
    with pytest.raises(et.InvalidArgumentError, match="layers/0"):
        et.io.load(et.nn.Sequential(et.nn.Dense(3, 3)), file)
