# SPDX-License-Identifier: Apache-2.0
"""Cells of recurrent layers, and layers of two inputs, in models."""

import copy
import pickle

import pytest

import etude as et

X = et.random.normal((5, 3), key=et.random.key(1))


def test_cells_step_by_step():
    cell = et.nn.LSTMCell(3, 4)
    state = cell.zero_state(5)
    assert isinstance(state, et.nn.LSTMState) and state.h.shape == state.c.shape == (5, 4)
    state = cell(X, state)
    i, g, f, o = [
        (et.concat([X, et.zeros((5, 4))], axis=1) @ cell.weight + cell.bias)[:, k * 4 : k * 4 + 4] for k in range(4)
    ]
    c = et.nn.sigmoid(i) * et.tanh(g)
    et.testing.assert_close(state.c, c)
    et.testing.assert_close(state.h, et.nn.sigmoid(o) * et.tanh(c))
    assert cell(X, (state.h, state.c)).h.tolist() == cell(X, state).h.tolist()
    for kind in (et.nn.GRUCell, et.nn.SimpleRNNCell):
        cell = kind(3, 4)
        assert cell(X, cell.zero_state(5)).shape == (5, 4)
    image = et.nn.ConvLSTM2DCell(3, 2, 6)
    zeros = et.zeros((1, 8, 8, 6))
    assert image(et.ones((1, 8, 8, 2)), (zeros, zeros)).h.shape == (1, 8, 8, 6)


class Reader(et.Module):
    def __init__(self):
        self.cell = et.nn.GRUCell(3, 4)
        self.output = et.nn.Dense(4, 1)

    def __call__(self, sequence):  # [steps, n, 3]
        state, _ = et.scan(lambda s, x: (self.cell(x, s), s), et.zeros((sequence.shape[1], 4)), sequence)
        return self.output(state)


def test_a_cell_is_trained_and_equals_its_layer():
    sequence = et.random.normal((6, 5, 3), key=et.random.key(3))
    model, optimizer = Reader(), et.optim.Adam(lr=0.05)

    @et.function(donate=("model", "optimizer"))
    def step(model, optimizer):
        loss, slopes = et.value_and_gradient(lambda m: et.mean((m(sequence) - 1.0) ** 2))(model)
        optimizer.update(model, slopes)
        return loss

    first = float(step(model, optimizer))
    for _ in range(60):
        last = float(step(model, optimizer))
    assert last < 0.05 * first
    layer = et.nn.Recurrent(et.nn.GRUCell(3, 4))
    cell = et.nn.GRUCell(3, 4)
    for name in ("weight", "recurrent", "bias", "recurrent_bias"):
        setattr(cell, name, getattr(layer.cell, name))
    state = cell.zero_state(5)
    for x in sequence:
        state = cell(x, state)
    et.testing.assert_close(layer(et.permute_dims(sequence, (1, 0, 2)))[:, -1], state)


def test_layers_of_two_inputs():
    layer = et.nn.Bilinear(3, 2, 4)
    y = et.random.normal((5, 2), key=et.random.key(5))
    expected = et.stack([et.sum(X @ layer.weight[:, :, k] * y, axis=1) + layer.bias[k] for k in range(4)], axis=1)
    et.testing.assert_close(layer(X, y), expected)
    slopes = et.gradient(lambda m: et.sum(m(X, y)))(layer)
    assert slopes.weight.shape == (3, 2, 4)
    decoder = et.nn.TransformerDecoderLayer(8, 2)
    assert decoder(et.ones((2, 3, 8)), et.ones((2, 4, 8))).shape == (2, 3, 8)


def test_copies_and_pickles_of_cells():
    cell = et.nn.LSTMCell(3, 4, forget_bias=1.0)
    state = cell.zero_state(5)
    for other in (copy.copy(cell), pickle.loads(pickle.dumps(cell))):
        assert other(X, state).h.tolist() == cell(X, state).h.tolist()


def test_calls_that_do_not_fit():
    cell = et.nn.LSTMCell(3, 4)
    for args in ((X,), (X, X), (X, (X,)), (X, (X, X), X)):
        with pytest.raises(et.InvalidArgumentError, match=r"nn\.LSTMCell.*is called as .*\(x, \(h, c\)\)"):
            cell(*args)
    with pytest.raises(TypeError, match=r"takes one tensor, but 2 arguments were given"):
        et.nn.Dense(3, 4)(X, X)
    with pytest.raises(et.InvalidArgumentError, match="has no zero_state"):
        et.nn.ConvLSTM2DCell(3, 2, 2).zero_state(3)
    with pytest.raises(et.InvalidArgumentError):
        cell(et.ones((5, 7)), cell.zero_state(5))
