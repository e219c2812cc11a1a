# SPDX-License-Identifier: Apache-2.0
"""The listings of the TensorFlow Eager paper and the code of the Primer, in the names of Etude, with
the values that they print. More of the Primer: test_control_flow_with_others.py."""

import numpy as np
import pytest

import etude as et


# spec: IM-01
def test_select_prints_a_matrix(capsys):
    def select(vector):
        A = et.asarray([[1.0, 0.0]])
        return et.matmul(A, vector)

    x = et.asarray([[2.0], [-2.0]])
    print(select(x))
    printed = capsys.readouterr().out
    assert "[[2.]]" in printed and "float32" in printed
    assert select(x).shape == (1, 1)
    assert et.function(select)(x).tolist() == [[2.0]]


# spec: ST-03.a, ST-03.b
def test_add_noise():
    def add_noise(key=None):
        eye = et.eye(5)
        randn = np.random.randn(5, 5).astype(np.float32)
        return eye + randn

    assert add_noise().tolist() != add_noise().tolist()
    staged = et.function(add_noise)
    assert staged().tolist() == staged().tolist()
    drawn = et.function(lambda: et.eye(5) + et.random.normal((5, 5)))
    assert drawn().tolist() != drawn().tolist()


def test_listing_1_and_2():
    x = et.asarray(3.0)
    with et.GradientTape() as t1:
        with et.GradientTape() as t2:
            t1.watch(x)
            t2.watch(x)
            y = x * x
        dy_dx = t2.gradient(y, x)  # 6.0
    d2y_dx2 = t1.gradient(dy_dx, x)  # 2.0
    assert (float(dy_dx), float(d2y_dx2)) == (6.0, 2.0)

    x = et.Variable(3.0)
    with et.GradientTape() as t1:
        with et.GradientTape() as t2:
            y = x * x
        dy_dx = t2.gradient(y, x)
    d2y_dx2 = t1.gradient(dy_dx, x)
    assert (float(dy_dx), float(d2y_dx2)) == (6.0, 2.0)


def test_listing_3(tmp_path):
    class Net(et.Module):
        def __init__(self):
            self.v = et.asarray(1.0)
            self.out = et.nn.Dense(1, 1)

        def __call__(self, x):
            return self.out(et.nn.softplus(x * self.v))

    first, second = Net(), Net()
    assert et.tree.paths(first) == ["v", "out/weight", "out/bias"]  # edges from attribute names
    et.io.save(first, tmp_path / "net")
    et.io.load(second, tmp_path / "net")
    x = et.ones((2, 1))
    assert second(x).tolist() == first(x).tolist()


def test_listings_4_and_5():
    other = et.add_cpu_device()
    a = et.asarray(1.0)
    b = a.to_device(other)
    assert b.device == other and a.device == "cpu:0"
    b = et.asarray(2.0)
    with et.device(other):
        c = et.add(a, b)
    assert c.device == other and float(c) == 3.0


# spec: TC-02.b
def test_listing_6():
    @et.function
    def lossy_matmul(W, x, training=True):
        outputs = et.matmul(W, x)
        if training:
            with et.PhaseScope("training"):
                outputs = et.nn.Dropout(0.2)(outputs)
        return outputs

    W = et.random.normal((3, 5))
    x = et.random.normal((5, 1))
    lossy_outputs = lossy_matmul(W, x, training=True)
    exact_outputs = lossy_matmul(W, x, training=False)
    assert lossy_matmul.trace_count() == 2
    assert exact_outputs.tolist() == et.matmul(W, x).tolist()
    kept = [(l, e) for l, e in zip(lossy_outputs[:, 0].tolist(), exact_outputs[:, 0].tolist()) if l != 0]
    assert all(l == pytest.approx(e / 0.8) for l, e in kept)


# spec: LC-01
def test_listing_7():
    v = et.Variable(0.0)

    @et.function
    def mutate():
        v.assign_add(1.0)
        return v.read()

    mutate()
    assert float(v.read()) == 1.0
    v.assign_add(1.0)
    assert float(v.read()) == 2.0
    mutate()
    assert float(v.read()) == 3.0
    assert mutate.trace_count() == 1


# spec: CO-01.a
def test_listing_8():
    @et.function
    def inner(a):
        return et.nn.relu(a)

    @et.function
    def outer(a, b):
        return inner(et.matmul(a, b))

    result = outer(et.eye(3), et.eye(3) * et.asarray([-1.0, 1.0, 2.0]))
    assert result.tolist() == [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 2.0]]
    assert (inner.trace_count(), outer.trace_count()) == (1, 1)
    own = str(outer.traces()[0]).partition("graph inner")[0]
    assert "call" in own and "relu" not in own  # a call node, not the body


def convnet():
    max_pool = et.nn.MaxPool2D(2, strides=2, padding="same")
    return et.nn.Sequential(
        lambda x: et.reshape(x, (-1, 28, 28, 1)),
        et.nn.Conv2D(5, 1, 32, padding="same", activation=et.nn.relu),
        max_pool,
        et.nn.Conv2D(5, 32, 64, padding="same", activation=et.nn.relu),
        max_pool,
        et.nn.Flatten(),
        et.nn.Dense(7 * 7 * 64, 1024, activation=et.nn.relu),
        et.nn.Dropout(0.3),
        et.nn.Dense(1024, 10),
    )


class ConvNet(et.Module):
    def __init__(self):
        self.conv1 = et.nn.Conv2D(5, 1, 32, padding="same", activation=et.nn.relu)
        self.pool = et.nn.MaxPool2D(2, strides=2, padding="same")
        self.conv2 = et.nn.Conv2D(5, 32, 64, padding="same", activation=et.nn.relu)
        self.flt = et.nn.Flatten()
        self.d1 = et.nn.Dense(7 * 7 * 64, 1024, activation=et.nn.relu)
        self.dropout = et.nn.Dropout(0.3)
        self.d2 = et.nn.Dense(1024, 10)

    def __call__(self, x):
        x = et.reshape(x, (-1, 28, 28, 1))
        x = self.conv1(x)
        x = self.pool(x)
        x = self.conv2(x)
        x = self.pool(x)
        x = self.flt(x)
        x = self.d1(x)
        x = self.dropout(x)
        return self.d2(x)


@pytest.mark.parametrize("mode", ["eager", "staged"])
def test_the_network_of_the_primer_in_both_forms(mode):
    images = et.random.uniform((16, 28, 28), key=et.random.key(0))
    labels = et.arange(16) % 10

    def losses(make):
        with et.SeedScope(5):
            model = make()
            data = et.data.Loader(images, labels, batch=8, seed=1)
            history = et.nn.fit(
                model, et.optim.Adam(), data, et.nn.softmax_cross_entropy, epochs=5, mode=mode
            )
        return history.batch_losses

    first, second = losses(convnet), losses(ConvNet)
    assert first == second and len(first) == 10 and first[-1] < first[0]


def test_imperative_execution_and_state():
    assert str(et.asarray([1.0, 2.0]) + et.asarray([3.0, 4.0])).startswith("[4., 6.]")
    v = et.Variable(et.random.normal([3, 5]))
    assert v.shape == (3, 5) and v.dtype == et.float32
