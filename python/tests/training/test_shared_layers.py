# SPDX-License-Identifier: Apache-2.0
"""A layer, or a tensor, that a model has at several paths: it moves once, along the sum of its gradients."""

import numpy as np
import pytest

import etude as et
from etude import nn, optim

X = et.random.normal((16, 2), key=et.random.key(1))
Y = et.random.normal((16, 2), key=et.random.key(2))


def mse(p, t):
    return et.mean((p - t) ** 2)


class Once(et.Module):
    def __init__(self, **options):
        with et.SeedScope(3):
            self.a = nn.Dense(2, 2, **options)

    def __call__(self, x):
        return self.a(nn.tanh(self.a(x)))


class Twice(Once):
    def __init__(self, **options):
        super().__init__(**options)
        self.b = self.a

    def __call__(self, x):
        return self.b(nn.tanh(self.a(x)))


def clipped(optimizer):
    optimizer.add(optim.clip_by_global_norm(0.1), optim.ema(0.9))
    return optimizer


OPTIMIZERS = {
    "SGD": lambda: optim.SGD(lr=1.0),
    "momentum": lambda: optim.SGD(lr=0.1, momentum=0.9),
    "AdamW": lambda: optim.AdamW(lr=0.01, weight_decay=0.1),
    "clipped": lambda: clipped(optim.SGD(lr=0.1)),
}


def weights(model):
    return np.concatenate([np.asarray(model.a.weight).ravel(), np.asarray(model.a.bias)])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_update_moves_a_shared_layer_along_the_sum_of_its_gradients(name):
    models = Once(), Twice()
    optimizers = OPTIMIZERS[name](), OPTIMIZERS[name]()
    for _ in range(3):
        for model, optimizer in zip(models, optimizers):
            optimizer.update(model, et.gradient(lambda m: mse(m(X), Y))(model))
    once, twice = models
    assert twice.a is twice.b
    np.testing.assert_allclose(weights(twice), weights(once), rtol=2e-5, atol=1e-6)
    if name == "clipped":
        averaged = optimizers[1].averaged(twice)
        assert averaged.b.weight.tolist() == averaged.a.weight.tolist() != twice.a.weight.tolist()


@pytest.mark.parametrize("mode", ["eager", "staged", "lazy"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fit_trains_a_shared_layer_once(name, mode):
    models = Once(), Twice()
    for model in models:
        data = et.data.Loader(X, Y, batch=8, seed=1)
        nn.fit(model, OPTIMIZERS[name](), data, mse, epochs=2, mode=mode)
    once, twice = models
    assert twice.a is twice.b
    np.testing.assert_allclose(weights(twice), weights(once), rtol=2e-5, atol=1e-6)


def test_a_layer_in_a_list_twice_and_a_tied_tensor():
    with et.SeedScope(3):
        layer = nn.Dense(2, 2)
    layers = [layer, nn.relu, layer]

    def run(model):
        return mse(model[2](model[1](model[0](X))), Y)

    slopes = et.gradient(run)(layers)
    wanted = layer.weight - slopes[0].weight - slopes[2].weight
    optim.SGD(lr=1.0).update(layers, slopes)
    et.testing.assert_close(layers[0].weight, wanted)

    tied = et.asarray([1.0, 2.0])
    model = {"in": tied, "out": tied}
    optim.SGD(lr=1.0).update(model, et.gradient(lambda m: et.sum(m["in"] * m["out"]))(model))
    assert tied.tolist() == [-1.0, -2.0]


def test_a_tied_embedding():
    class Words(et.Module):
        def __init__(self):
            with et.SeedScope(4):
                self.embed = nn.Embedding(5, 3)
            self.table = self.embed.weight if hasattr(self.embed, "weight") else self.embed.table

        def __call__(self, ids):
            return et.matmul(self.embed(ids), et.matrix_transpose(self.table))

    ids = et.asarray([0, 1, 1, 4])
    model = Words()
    slopes = et.gradient(lambda m: et.sum(m(ids) ** 2))(model)
    before = np.asarray(model.table)
    parts = [np.asarray(et.to_dense(s) if hasattr(et, "to_dense") else s) for s in et.tree.leaves(slopes) if s is not None]
    optim.SGD(lr=0.1).update(model, slopes)
    np.testing.assert_allclose(np.asarray(model.table), before - 0.1 * sum(parts), rtol=1e-5)


class Normed(et.Module):
    def __init__(self):
        self.a = nn.BatchNorm(2)
        self.b = self.a

    def __call__(self, x):
        return self.b(self.a(x) * 2)


def test_two_changes_of_one_state_are_refused():
    model = Normed()
    with et.PhaseScope("training"):
        slopes = et.gradient(lambda m: mse(m(X), Y))(model)
    before = et.tree.copy(model)
    message = "the layer at 'a' is also at 'b', and its state 'running/mean' changes at both. Keep the layer at one path"
    with pytest.raises(et.InvalidArgumentError, match=message):
        optim.SGD(lr=0.1).update(model, slopes)
    et.testing.assert_close(model.a.scale, before.a.scale)
    assert model.a.running.mean.tolist() == [0.0, 0.0]


def test_fit_changes_a_shared_state_call_by_call():
    class Once(Normed):
        def __init__(self):
            self.a = nn.BatchNorm(2)

        def __call__(self, x):
            return self.a(self.a(x) * 2)

    models = Once(), Normed()
    for model in models:
        nn.fit(model, optim.SGD(lr=0.1), et.data.Loader(X, Y, batch=8, seed=1), mse, epochs=2)
    et.testing.assert_close(models[1].a.running.mean, models[0].a.running.mean)
    et.testing.assert_close(models[1].a.scale, models[0].a.scale)
    assert models[1].a.running.mean.tolist() != [0.0, 0.0]


def test_a_donated_model_has_each_layer_once():
    @et.function(donate=("model", "optimizer"))
    def step(model, optimizer):
        optimizer.update(model, et.gradient(lambda m: mse(m(X), Y))(model))

    with pytest.raises(et.InvalidArgumentError, match="same object.*Keep a layer at one path and call it twice"):
        step(Twice(), optim.SGD(lr=0.1))
