# SPDX-License-Identifier: Apache-2.0
"""Every activation of et.nn is a function on tensors, and an option of layers: eager, staged, lazy, differentiated."""
import inspect
import math

import numpy as np
import pytest

import etude as et

X = [-3.5, -1.0, -0.25, 0.0, 0.5, 1.0, 2.0, 7.0]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def softmax(xs):
    return [math.exp(x) / sum(math.exp(y) for y in xs) for x in xs]


# Computed by the definitions, number by number.
NUMBERS = {
    "elu": lambda x: x if x > 0 else math.expm1(x),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "hard_sigmoid": lambda x: min(max(x + 3, 0), 6) / 6,
    "hard_swish": lambda x: x * min(max(x + 3, 0), 6) / 6,
    "leaky_relu": lambda x: x if x > 0 else 0.2 * x,
    "log_sigmoid": lambda x: math.log(sigmoid(x)),
    "mish": lambda x: x * math.tanh(math.log1p(math.exp(x))),
    "relu": lambda x: max(x, 0.0),
    "relu6": lambda x: min(max(x, 0.0), 6.0),
    "selu": lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * math.expm1(x)),
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "softplus": lambda x: math.log1p(math.exp(x)),
    "softsign": lambda x: x / (1 + abs(x)),
    "swish": lambda x: x * sigmoid(x),
    "tanh": math.tanh,
}
LISTS = {"softmax": softmax, "log_softmax": lambda xs: [math.log(p) for p in softmax(xs)]}
NAMES = [k["name"].partition(".")[2] for k in et._core._kinds() if k["group"] == "activation"]


def test_all_are_here():
    assert sorted(NAMES) == sorted([*NUMBERS, *LISTS])


@pytest.mark.parametrize("name", NAMES)
def test_values_and_modes(name):
    f, x = getattr(et.nn, name), et.asarray(X)
    want = LISTS[name](X) if name in LISTS else [NUMBERS[name](v) for v in X]
    np.testing.assert_allclose(np.asarray(f(x)), want, rtol=2e-5, atol=2e-6)
    eager = np.asarray(f(x)).tobytes()
    assert np.asarray(et.function(lambda v: f(v))(x)).tobytes() == eager
    assert np.asarray(et.function(f)(x)).tobytes() == eager
    with et.LazyScope():
        lazy = f(x)
    assert np.asarray(lazy).tobytes() == eager
    assert np.asarray(et.vmap(f)(x[None])[0]).tobytes() == eager
    step = 1e-3
    slope = et.gradient(lambda v: et.sum(f(v) * et.asarray(X)))(x)
    for i in (0, 4, 6):  # not at a kink
        up, down = list(X), list(X)
        up[i] += step
        down[i] -= step
        values = [LISTS[name](v) if name in LISTS else [NUMBERS[name](u) for u in v] for v in (up, down)]
        difference = sum((a - b) * w for a, b, w in zip(*values, X)) / (2 * step)
        assert abs(float(slope[i]) - difference) < 2e-3 * (1 + abs(difference)), i
    if name in NUMBERS:
        assert abs(float(f(0.5)) - NUMBERS[name](0.5)) < 1e-6  # a number is a scalar
    assert next(iter(inspect.signature(f).parameters)) == "x"


# Layers with the option `activation`: their arguments and an input.
LAYERS = {
    "Dense": ((3, 2), (2, 3)),
    "MLP": (([3, 4, 2],), (2, 3)),
    "Conv1D": ((3, 1, 2), (1, 6, 1)),
    "Conv2D": (((3, 3), 1, 2), (1, 6, 6, 1)),
    "SeparableConv2D": (((3, 3), 2, 2), (1, 6, 6, 2)),
    "SqueezeExcite": ((2, 1), (1, 4, 4, 2)),
    "TransformerEncoderLayer": ((4, 2), (1, 3, 4)),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layer", LAYERS)
def test_layers_take_it_by_function_and_by_name(layer, name):
    args, shape = LAYERS[layer]
    x, outcomes, texts = et.random.normal(shape), set(), set()
    for activation in (getattr(et.nn, name), name, "nn." + name):
        et.set_seed(3)
        made = getattr(et.nn, layer)(*args, activation=activation)
        outcomes |= {np.asarray(made(x)).tobytes(), np.asarray(et.function(made)(x)).tobytes()}
        texts.add(repr(made))
    assert len(outcomes) == 1 and len(texts) == 1, texts
    if layer == "Dense":
        et.set_seed(3)
        assert np.asarray(getattr(et.nn, name)(et.nn.Dense(*args)(x))).tobytes() in outcomes


@pytest.mark.parametrize("name", ["tanh", "swish"])
def test_wrong_calls(name):
    f = getattr(et.nn, name)
    with pytest.raises(TypeError):
        f()
    with pytest.raises(TypeError):
        f(et.ones(2), et.ones(2))
    with pytest.raises(TypeError):
        f("text")
