# SPDX-License-Identifier: Apache-2.0
"""Pickling of tensors, Variables, models, optimisers and functions; process pools."""

import copy
import dataclasses
import json
import pickle
import struct

import pytest

import etude as et

X = et.random.normal((16, 3), key=et.random.key(2))


class Net(et.Module):
    def __init__(self, width=4):
        self.layers = [et.nn.Dense(3, width, activation=et.nn.relu), et.nn.BatchNorm(width)]
        self.scale = et.asarray([2.0], dtype=et.float64)
        self.rate, self.name = 0.5, "net"
        self.missing = None

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@dataclasses.dataclass
class Line:
    w: et.Tensor
    b: et.Tensor


@et.function
def double(x):
    return x * 2


def again(x, protocol=pickle.HIGHEST_PROTOCOL):
    return pickle.loads(pickle.dumps(x, protocol))


def bits(structure):
    leaves = et.tree.leaves(structure)
    return [x.value.tolist() if hasattr(x, "value") else x.tolist() if hasattr(x, "tolist") else x for x in leaves]


# spec: V66
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_models(protocol):
    model = Net()
    model.layers[0].weight[0, 0] = float("nan")
    with et.PhaseScope("training"):
        slopes = et.gradient(lambda m: et.sum(m(X[:, :])))(Net())
    et.move(model, slopes)  # moves the running statistics
    made = again(model, protocol)
    assert type(made) is Net and et.tree.structure(made) == et.tree.structure(model)
    assert repr(bits(made)) == repr(bits(model))  # NaN included
    assert made.rate == 0.5 and made.name == "net" and made.missing is None
    assert made.scale.dtype == et.float64
    made.layers[0].bias[:] = 9.0
    assert model.layers[0].bias.tolist() != made.layers[0].bias.tolist()


# spec: V66
def test_a_pickled_model_holds_the_file_of_io_save(tmp_path):
    model = Net()
    content = model.__reduce_ex__(5)[1][1]
    et.io.save(model, tmp_path / "model")
    assert content == (tmp_path / "model").read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    names = set(json.loads(content[8 : 8 + size])) - {"__metadata__"}
    assert {"layers/0/weight", "layers/0/bias", "scale"} <= names


def test_layers_losses_and_schedules():
    for layer in (
        et.nn.Dense(3, 4, activation="relu"),
        et.nn.Dense(3, 4, bias=False),
        et.nn.Sequential(et.nn.Dense(3, 4), et.nn.relu, et.nn.Dense(4, 2)),
    ):
        made = again(layer)
        assert type(made) is type(layer) and made(X).tolist() == layer(X).tolist()
    schedule = again(et.optim.cosine(0.1, 100))
    assert schedule(50) == et.optim.cosine(0.1, 100)(50)
    loss = again(et.nn.softmax_cross_entropy)
    logits, labels = et.asarray([[1.0, 2.0]]), et.asarray([0])
    assert float(loss(logits, labels)) == float(et.nn.softmax_cross_entropy(logits, labels))
    assert again(et.nn.relu) is et.nn.relu


def test_making_a_pickled_layer_draws_no_random_numbers():
    data = pickle.dumps(et.nn.Dense(3, 4))
    with et.SeedScope(3):
        first = et.random.normal((2,)).tolist()
    with et.SeedScope(3):
        pickle.loads(data)
        assert et.random.normal((2,)).tolist() == first


def test_what_cannot_be_pickled():
    layer = et.nn.Dense(3, 4, activation=lambda x: x)
    with pytest.raises(et.FailedPreconditionError, match="Dense cannot be pickled"):
        pickle.dumps(layer)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(et.function(lambda x: x))

    @et.function
    def traced(x):
        return len(pickle.dumps(x)) * x

    with pytest.raises(et.Error, match="is being traced"):
        traced(X)


def test_damaged_pickles_are_errors():
    make, (places, content) = Net().__reduce_ex__(5)
    with pytest.raises(et.DataLossError):
        make(places, content[:-7])
    with pytest.raises(et.DataLossError):
        make(places, b"")


def test_optimizers_continue_with_the_same_bits():
    def train(model, optimizer, n):
        for _ in range(n):
            optimizer.update(model, et.gradient(lambda m: et.mean(m(X) ** 2))(model))

    model = et.nn.Dense(3, 2)
    optimizer = et.optim.Adam(lr=et.optim.cosine(0.1, 20))
    train(model, optimizer, 3)
    optimizer.scale_rate(0.5)
    other, own = again((model, optimizer))
    assert own.updates == 3 and own.rate == optimizer.rate and repr(own) == repr(optimizer)
    train(model, optimizer, 3)
    train(other, own, 3)
    assert bits(other) == bits(model)
    assert again(et.optim.SGD(lr=0.1)).updates == 0


class Trainer(et.Module):
    def __init__(self):
        self.model, self.optimizer = et.nn.Dense(3, 2), et.optim.Adam(lr=0.1)

    def step(self):
        self.optimizer.update(self.model, et.gradient(lambda m: et.mean(m(X) ** 2))(self.model))


def test_a_module_with_its_optimizer():
    trainer = Trainer()
    trainer.step()
    other = again(trainer)
    for each in (trainer, other):
        each.step()
    assert bits(other.model) == bits(trainer.model) and other.optimizer.updates == 2


def test_values():
    line = again(Line(et.ones(2), et.zeros(2)))
    assert line.w.tolist() == [1.0, 1.0]
    v = again(et.Variable([1.0, 2.0], name="w", trainable=False))
    assert v.read().tolist() == [1.0, 2.0] and v.name == "w" and not v.trainable
    w = copy.deepcopy(v)
    w.assign_add(1.0)
    assert v.read().tolist() == [1.0, 2.0]
    generator = et.Generator(5)
    generator.next_key()
    other = again(generator)
    assert other == generator and other.next_key().tolist() == generator.next_key().tolist()
    assert again(et.TensorSpec((None, 3), et.float64)) == et.TensorSpec((None, 3), et.float64)
    assert again(double) is double


POOL = """
import concurrent.futures, multiprocessing
import etude as et

class Net(et.Module):
    def __init__(self):
        self.layers = [et.nn.Dense(3, 4, activation=et.nn.relu), et.nn.BatchNorm(4)]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

@et.function
def double(x):
    return x * 2

def apply(model, x):
    return model(x)

if __name__ == "__main__":
    model, x = Net(), et.random.normal((16, 3))
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        results = list(pool.map(apply, [model, model], [x[:8], x[8:]]))
        doubled = pool.submit(double, x).result()
    assert [r.tolist() for r in results] == [model(x[:8]).tolist(), model(x[8:]).tolist()]
    assert doubled.tolist() == (x * 2).tolist()
    print("done")
"""


def test_process_pools(run_program):
    run_program(POOL)
