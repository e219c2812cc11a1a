# SPDX-License-Identifier: Apache-2.0
"""A gradient for each example in one run, clipped and with noise, as differentially private training
needs it: ``python -m etude.examples.per_example_gradients``."""

import etude as et


def loss(model, x, y):  # of one example
    return et.nn.sigmoid_cross_entropy(model(x[None]), y[None])


def clipped(slopes, limit):
    """The gradients of all examples, each shortened to a norm of at most `limit`."""
    leaves = et.tree.leaves(slopes)
    norms = sum(et.sum(et.reshape(g, (g.shape[0], -1)) ** 2, axis=1) for g in leaves) ** 0.5
    factors = et.minimum(limit / (norms + 1e-6), 1.0)
    return et.tree.map(lambda g: g * et.reshape(factors, (-1,) + (1,) * (g.ndim - 1)), slopes)


@et.function(donate=("model", "optimizer"))
def step(model, optimizer, x, y, limit=1.0, noise=0.1):
    each = et.vmap(et.gradient(loss, argnums=0), in_axes=(None, 0, 0))(model, x, y)
    count = x.shape[0]
    private = et.tree.map(
        lambda g: (et.sum(g, axis=0) + noise * limit * et.random.normal(g.shape[1:])) / count,
        clipped(each, limit),
    )
    optimizer.update(model, private)


def main(steps: int = 300) -> float:
    et.set_seed(3)
    x = et.random.normal((512, 2))
    y = et.astype(x[:, :1] + x[:, 1:] > 0, et.float32)
    model, optimizer = et.nn.Dense(2, 1), et.optim.SGD(lr=0.5)
    for i in range(steps):
        first = (i * 64) % 512
        step(model, optimizer, x[first : first + 64], y[first : first + 64])
    right = et.mean(et.astype((model(x) > 0) == (y > 0.5), et.float32))
    print(f"accuracy {float(right):.3f} after {optimizer.updates} private steps")
    return float(right)


if __name__ == "__main__":
    main()
