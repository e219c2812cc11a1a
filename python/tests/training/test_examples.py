# SPDX-License-Identifier: Apache-2.0
"""The programs of etude.examples, in short runs."""

import importlib
import pathlib
import re
import subprocess
import sys

import pytest

import etude.examples

FOLDER = pathlib.Path(etude.examples.__file__).parent


def example(name):
    return importlib.import_module(f"etude.examples.{name}")


def test_each_example_has_at_most_80_lines_and_is_named_in_its_doc():
    for path in FOLDER.glob("*.py"):
        text = path.read_text()
        assert text.count("\n") <= 80, path
        if path.stem != "__init__":
            assert f"python -m etude.examples.{path.stem}" in " ".join(text.split()), path


def test_matmul_many():
    done = subprocess.run([sys.executable, "-m", "etude.examples.matmul_many"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    imperative, graph = (float(n) for n in re.findall(r"([\d.]+) us per call", done.stdout))
    assert graph < imperative and "scan" in done.stdout


def test_per_example_gradients():
    assert example("per_example_gradients").main(200) > 0.95


def test_the_gradients_are_those_of_each_example():
    import etude as et

    module = example("per_example_gradients")
    model, x = et.nn.Dense(2, 1), et.random.normal((3, 2))
    y = et.asarray([[0.0], [1.0], [1.0]])
    each = et.vmap(et.gradient(module.loss, argnums=0), in_axes=(None, 0, 0))(model, x, y)
    for i in range(3):
        one = et.gradient(module.loss, argnums=0)(model, x[i], y[i])
        et.testing.assert_close(each.weight[i], one.weight)
    short = module.clipped(each, 0.01)
    norms = et.sum(short.weight[:, :, 0] ** 2, axis=1) + et.sum(short.bias**2, axis=1)
    assert float(et.max(norms)) <= 0.01**2 * 1.001


def test_neural_ode():
    first, last = example("neural_ode").main(150)
    assert last < 0.3 * first


def test_gpt():
    loss, text = example("gpt").main(150)
    assert loss < 0.3 and text.startswith("the quick brown fox")


@pytest.mark.skipif(not pathlib.Path("/usr/share/datasets/fashion-mnist").is_dir(), reason="Fashion-MNIST is not installed")
@pytest.mark.parametrize("form", ["list", "class"])
def test_cnn(form):
    assert example("cnn").main(form, epochs=1, images=640) > 0.3
