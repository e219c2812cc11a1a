# SPDX-License-Identifier: Apache-2.0
"""A network as the right side of a differential equation, fitted to a spiral:
``python -m etude.examples.neural_ode [STEPS]``.

The solver is a loop over a tensor, so it is one node of the graph, and its derivative one more.
"""

import sys

import etude as et
from etude import nn

POINTS, SPAN = 40, 6.0


class Field(et.Module):
    def __init__(self):
        self.hidden = nn.Dense(2, 32, activation=nn.tanh)
        self.output = nn.Dense(32, 2)

    def __call__(self, x):
        return self.output(self.hidden(x**3))


def spiral(x):
    return et.matmul(x**3, et.asarray([[-0.1, -2.0], [2.0, -0.1]]))


def trajectory(field, start, points=POINTS, span=SPAN):
    """The states at all points, by the method of Runge and Kutta with steps of span / points."""
    h = span / points

    def advance(x, _):
        k1 = field(x)
        k2 = field(x + 0.5 * h * k1)
        k3 = field(x + 0.5 * h * k2)
        k4 = field(x + h * k3)
        x = x + (h / 6) * (k1 + 2 * k2 + 2 * k3 + k4)
        return x, x

    return et.scan(advance, start, et.arange(points))[1]


@et.function(donate=("model", "optimizer"))
def step(model, optimizer, start, target):
    def loss(m):
        return et.mean(et.abs(trajectory(m, start, points=target.shape[0], span=SPAN * target.shape[0] / POINTS) - target))

    value, slopes = et.value_and_gradient(loss)(model)
    optimizer.update(model, slopes)
    return value


def main(steps: int = 400) -> tuple[float, float]:
    et.set_seed(2)
    true = trajectory(spiral, et.asarray([[2.0, 0.0]]))
    model, optimizer = Field(), et.optim.Adam(lr=0.01)
    first = last = 0.0
    for i in range(steps):
        at = (7 * i) % (POINTS - 10)  # a piece of ten points
        last = float(step(model, optimizer, true[at], true[at + 1 : at + 11]))
        first = first or last
        if i % 100 == 0:
            print(f"step {i:4d}  loss {last:.4f}")
    print(f"loss {first:.4f} -> {last:.4f}")
    return first, last


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
