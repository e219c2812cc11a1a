#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python_process_test.py WRITER READER ETUDE: functions that Python saves run in C++ with the same bits, and the other way
round. WRITER and READER are C++ programs, which have no Python."""
# spec: SV-01.d
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import etude as et


class Net(et.Module):
    def __init__(self):
        self.hidden = et.nn.Dense(4, 8, activation=et.nn.relu)
        self.norm = et.nn.BatchNorm(8)
        self.dropout = et.nn.Dropout(0.25)
        self.output = et.nn.Dense(8, 3)

    def __call__(self, x):
        return self.output(self.dropout(self.norm(self.hidden(x))))

    @et.function
    def predict(self, x):
        return et.nn.softmax(self(x))


@et.function(donate=("net", "adam"))
def train(net, adam, x, labels):
    with et.PhaseScope("training"):
        loss, slope = et.value_and_gradient(lambda n: et.nn.softmax_cross_entropy(n(x), labels))(net)
    adam.update(net, slope)
    return loss


def run(*command, status=0):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == status, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def from_python(folder, reader, etude):
    """C++ runs, trains and saves again what Python has saved."""
    et.set_seed(1)
    net, adam = Net(), et.optim.Adam(lr=1e-2)
    x, labels = et.random.normal((8, 4)), et.asarray([0, 1, 2, 0, 1, 2, 0, 1], dtype=et.int32)
    for _ in range(3):
        train(net, adam, x, labels)
    net.predict(x), net.predict(et.zeros((5, 4)))
    path, file = folder / "python", folder / "python.safetensors"
    et.saved.save(path, {"predict": net.predict, "train": et.saved.bind(train, net, adam)}, signatures=["predict"])
    values = {"x": x, "labels": labels, "scores": net.predict(x)}
    et.set_seed(5)
    for i in range(3):
        values[f"loss{i}"] = train(net, adam, x, labels)
    values |= {"trained": net.predict(x), "one": net.predict(x[:1]), "net": {"hidden": {"weight": net.hidden.weight}}}
    et.io.save(values, file)
    np.save(folder / "x.npy", np.asarray(x))
    run(etude, "run", str(path), "--function", "predict", "--input", f"x={folder / 'x.npy'}", "--output", str(folder / "y.npy"))
    assert same(np.load(folder / "y.npy"), values["scores"])
    shown = run(etude, "inspect", str(path))
    for part in ("function predict\n  (x: float32[n,4]) -> (output: float32[n,3])\n", "  exported: x -> output\n",
                 "variable net/hidden/weight: float32[4,8]\n", "(x: float32[8,4], labels: int32[8])"):
        assert part in shown, (part, shown)
    assert run(reader, str(path), str(file)) == "same\n"
    again = et.saved.load(path)  # the reader has saved its trained state
    assert same(again.function("predict")(x), values["trained"])
    assert same(again.variable("net/hidden/weight").read(), net.hidden.weight)


def from_cpp(folder, writer):
    """Python runs and trains what C++ has saved."""
    path, file = folder / "cpp", folder / "cpp.safetensors"
    run(writer, str(path), str(file))
    with open(file, "rb") as content:
        names = json.loads(content.read(int.from_bytes(content.read(8), "little")))
    values = {name: et.zeros(entry["shape"], dtype=et.int32 if entry["dtype"] == "I32" else et.float32)
              for name, entry in names.items() if name != "__metadata__" and "/" not in name}
    values["net"] = {"hidden": {"weight": et.zeros((4, 8))}}
    et.io.load(values, file)
    program = et.saved.load(path)
    predict, train_step = program.function("predict"), program.function("train")
    x, labels = values["x"], values["labels"]
    assert same(predict(x), values["scores"])
    et.set_seed(5)
    for i in range(3):
        assert same(train_step(x, labels=labels), values[f"loss{i}"]), i
    assert same(predict(x), values["trained"]) and same(predict(x[:1]), values["one"])
    assert same(program.variable("net/hidden/weight").read(), values["net"]["hidden"]["weight"])
    assert same(predict.call_named({"x": x})["output"], values["trained"])
    slope = et.gradient(lambda _: -et.mean(et.log(predict(x))))(predict.trainable_variables())
    assert len(slope) == len(predict.trainable_variables()) and all(g is not None for g in slope)


def main():
    writer, reader, etude = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        from_python(pathlib.Path(name), reader, etude)
        from_cpp(pathlib.Path(name), writer)


if __name__ == "__main__":
    main()
