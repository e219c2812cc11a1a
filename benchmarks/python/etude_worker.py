# SPDX-License-Identifier: Apache-2.0
"""The rows of the table of Python in Etude."""
import os
import tempfile
import time

import statements
from statements import Call

os.environ["ETUDE_THREADS"] = str(statements.THREADS)

import etude as et  # noqa: E402
from etude import nn  # noqa: E402

from serve import serve  # noqa: E402
from values import glorot, hashed, labels  # noqa: E402


def tape_100():
    sources = list(map(et.asarray, statements.tape_data()))

    def run():
        x, b, c = sources
        with et.GradientTape() as tape:
            tape.watch(sources)
            y = x
            for _ in range(50):
                y = y + b
                y = y * c
            y = et.sum(y)
        return tape.gradient(y, sources)
    return Call(run)


class Staged(Call):
    """A call of a staged function in its steady state: machine code comes after some calls, from another process."""

    def check(self):
        for _ in range(10):
            begin = time.perf_counter()
            while time.perf_counter() - begin < 0.02:
                self.run()
            time.sleep(0.2)
        return super().check()


def call(count):
    return Staged(et.function(statements.total), *map(et.asarray, statements.call_data(count)))


def call_dict():
    parts = {f"part{i}": et.asarray(a) for i, a in enumerate(statements.call_data(100))}
    return Staged(et.function(statements.total_of_dict), parts)


def predictor():
    """A staged function of a model, the model, and an input."""
    model = nn.Sequential(nn.Dense(4, 8, activation=nn.relu), nn.Dense(8, 3))
    for seed, layer in enumerate((model[0], model[1]), 1):
        layer.weight = et.asarray(hashed(seed, layer.weight.shape))
    x = et.asarray(hashed(3, (2, 4)))
    predict = et.function(lambda net, x: net(x), name="predict")
    predict(model, x)
    return predict, model, x


def call_staged():
    predict, model, x = predictor()
    return Staged(predict, model, x)


def call_loaded():
    predict, model, x = predictor()
    with tempfile.TemporaryDirectory() as folder:
        et.saved.save(folder, {"predict": et.saved.bind(predict, model)})
        return Staged(et.saved.load(folder).function("predict"), x)


def matmul_many(x, w):
    """The Primer's program."""
    for _ in et.arange(100):
        x = x @ w
    return x


def matmul_row(n, staged):
    data = map(et.asarray, statements.matmul_data(n))
    return Staged(et.function(matmul_many), *data) if staged else Call(matmul_many, *data)


class Epoch:
    """The workload `epoch` of C++ (workloads/networks.cc): a tenth of an epoch is timed."""
    images, batch, timed = 60000, 128, 47
    units = timed * batch / images

    def __init__(self):
        self.model = nn.Sequential(
            nn.Conv2D(5, 1, 6, padding="same", activation=nn.relu), nn.AvgPool2D(2),
            nn.Conv2D(5, 6, 16, activation=nn.relu), nn.AvgPool2D(2), nn.Flatten(),
            nn.Dense(400, 120, activation=nn.relu), nn.Dense(120, 84, activation=nn.relu), nn.Dense(84, 10),
        )  # fmt: skip
        filters = {0: (5, 5, 1, 6), 2: (5, 5, 6, 16)}
        weights = {5: (400, 120), 6: (120, 84), 7: (84, 10)}
        for seed, (at, shape) in enumerate((filters | weights).items(), 1):
            setattr(self.model[at], "filter" if at in filters else "weight", et.asarray(glorot(seed, shape)))
        self.optimizer = et.optim.Adam(lr=1e-3)
        inputs, expected = et.asarray(hashed(6, (self.images, 28, 28, 1))), et.asarray(labels(self.images))
        self.data = et.data.Loader(inputs, expected, batch=self.batch, shuffle=False)

    def step(self):
        inputs, expected = self.data.next()
        loss, slopes = et.value_and_gradient(lambda m: nn.softmax_cross_entropy(m(inputs), expected))(self.model)
        self.optimizer.update(self.model, slopes)
        return loss

    def run(self):
        for _ in range(self.timed):
            self.step()

    def check(self):
        return [float(self.step()) for _ in range(3)]


ROWS = statements.statements(et.asarray, et.asarray) | {"tape_100": tape_100, "epoch": Epoch}
ROWS |= {f"call_{n}": (lambda n=n: call(n)) for n in (1, 8, 64)} | {"call_dict_100": call_dict}
ROWS |= {f"matmul_many_{n}x{n}": (lambda n=n: matmul_row(n, False)) for n in (2, 16)}
ROWS |= {f"matmul_many_{n}x{n}_function": (lambda n=n: matmul_row(n, True)) for n in (2, 16)}
ROWS |= {"call_loaded": call_loaded}
serve("etude", et.__version__, {"python": ROWS, "staged": {"call_loaded": call_staged}})
