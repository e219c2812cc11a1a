# SPDX-License-Identifier: Apache-2.0
"""Training steps in JAX: each is one compiled program, which writes into the memory of the parameters."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from arrays import conv
from small import SMALL_PRODUCTS
from values import glorot, hashed, l2hmc_net, l2hmc_times, labels, resnet56_layers


def cross_entropy(logits, y):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()


class Training:
    """Steps of plain SGD; the check is the losses of the first three."""
    units = 1
    rate = None
    options = None

    def __init__(self, parameters, *data):
        self.parameters, self.data = jax.tree.map(jnp.array, (parameters, data))
        self.step = jax.jit(self.update, donate_argnums=0, compiler_options=self.options)

    def update(self, parameters, *data):
        loss, gradients = jax.value_and_grad(self.loss)(parameters, *data)
        return self.descend(parameters, gradients), loss

    def descend(self, parameters, gradients):
        return jax.tree.map(lambda p, g: p - self.rate * g, parameters, gradients)

    def run(self):
        self.parameters, loss = jax.block_until_ready(self.step(self.parameters, *self.data))
        return loss

    def check(self):
        return [float(self.run()) for _ in range(3)]


def dense(h, layers):
    """Affine layers with relu between them."""
    for i, (w, b) in enumerate(layers):
        h = (jax.nn.relu(h) if i else h) @ w + b
    return h


class Mlp(Training):
    rate = .05

    def __init__(self, batch):
        sizes = (784, 256, 256, 10)
        layers = [(glorot(i + 1, sizes[i:i + 2]), np.zeros(sizes[i + 1], np.float32)) for i in range(3)]
        super().__init__(layers, hashed(4, (batch, 784)), labels(batch))

    @staticmethod
    def loss(layers, x, y):
        return cross_entropy(dense(x, layers), y)


def mean_pool(x):
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 2, 2, c).mean((2, 4))


class Lenet(Training):
    rate = .05
    shapes = ((5, 5, 1, 6), (5, 5, 6, 16), (400, 120), (120, 84), (84, 10))

    def __init__(self, batch):
        layers = [(glorot(i + 1, s), np.zeros(s[-1], np.float32)) for i, s in enumerate(self.shapes)]
        super().__init__(layers, hashed(6, (batch, 28, 28, 1)), labels(batch))

    @staticmethod
    def loss(layers, x, y):
        for (w, b), padding in zip(layers[:2], ("SAME", "VALID")):
            x = mean_pool(jax.nn.relu(conv(x, w, padding=padding) + b))
        return cross_entropy(dense(x.reshape(x.shape[0], 400), layers[2:]), y)


class Epoch(Lenet):
    """Batches taken from all images in memory, and Adam: a tenth of an epoch is timed."""
    images, batch, timed = 60000, 128, 47
    units = timed * batch / images

    def __init__(self):
        super().__init__(self.images)
        moments = jax.tree.map(jnp.zeros_like, self.parameters)
        self.parameters = self.parameters, moments, jax.tree.map(jnp.copy, moments), jnp.int32(0)

    def update(self, state, images, y):
        parameters, means, squares, done = state
        at = done % (self.images // self.batch) * self.batch
        x, y = (lax.dynamic_slice_in_dim(a, at, self.batch) for a in (images, y))
        loss, gradients = jax.value_and_grad(self.loss)(parameters, x, y)
        done += 1
        means = jax.tree.map(lambda m, g: .9 * m + .1 * g, means, gradients)
        squares = jax.tree.map(lambda s, g: .999 * s + .001 * g * g, squares, gradients)
        first, second = 1 - .9**done, 1 - .999**done
        parameters = jax.tree.map(lambda p, m, s: p - 1e-3 * (m / first) / (jnp.sqrt(s / second) + 1e-8),
                                  parameters, means, squares)
        return (parameters, means, squares, done), loss

    def run(self):
        for _ in range(self.timed):
            super().run()

    def check(self):
        return [float(super(Epoch, self).run()) for _ in range(3)]


class Rnn(Training):
    rate = 1e-2

    def __init__(self):
        super().__init__((glorot(1, (64, 64)), glorot(2, (64, 64)), hashed(3, (64,), .1)), hashed(4, (50, 16, 64)))

    @staticmethod
    def loss(parameters, xs):
        wx, wh, b = parameters
        h, _ = lax.scan(lambda h, x: (jnp.tanh(x @ wx + h @ wh + b), None), jnp.zeros((16, 64)), xs)
        return (h * h).mean()


class L2hmc(Training):
    """Ten leapfrog steps of n chains, steered by two networks of 14 arrays."""
    rate = 1e-5
    options = SMALL_PRODUCTS
    precision = np.array([[2, .6], [.6, 1]], np.float32)

    def __init__(self, n):
        masks = np.tile(np.eye(2, dtype=np.float32), (5, 1))
        super().__init__((l2hmc_net(0), l2hmc_net(1), np.float32(.1)), hashed(250, (n, 2), 2),
                         hashed(251, (n, 2), 1.5), masks, l2hmc_times())

    @staticmethod
    def steer(net, a, b, t):
        wa, wb, wt, b1, w2, b2, ws, bs, wf, bf, wq, bq, cs, cf = net
        h = jax.nn.relu(a @ wa + b @ wb + t @ wt + b1)
        h = jax.nn.relu(h @ w2 + b2)
        return jnp.tanh(h @ ws + bs) * jnp.exp(cs), h @ wq + bq, jnp.tanh(h @ wf + bf) * jnp.exp(cf)

    def energy(self, x, v):
        return .5 * ((x @ self.precision) * x).sum(-1) + .5 * (v * v).sum(-1)

    def loss(self, parameters, x0, v0, masks, times):
        still, moving, eps = parameters

        def momentum(x, v, logdet, t):
            g = x @ self.precision
            s, q, f = self.steer(moving, x, g, t)
            half = .5 * eps
            return v * jnp.exp(half * s) - half * (jnp.exp(eps * q) * g - f), logdet + half * s.sum(-1)

        def position(x, v, logdet, t, k, u):
            s, q, f = self.steer(still, v, k * x, t)
            x = k * x + u * (x * jnp.exp(eps * s) + eps * (jnp.exp(eps * q) * v + f))
            return x, logdet + eps * (u * s).sum(-1)

        def leap(state, row):
            (x, v, logdet), (k, t) = state, row
            v, logdet = momentum(x, v, logdet, t)
            x, logdet = position(x, v, logdet, t, k, 1 - k)
            x, logdet = position(x, v, logdet, t, 1 - k, k)
            v, logdet = momentum(x, v, logdet, t)
            return (x, v, logdet), None

        (x, v, logdet), _ = lax.scan(leap, (x0, v0, jnp.zeros(len(x0))), (masks, times))
        change = self.energy(x0, v0) - self.energy(x, v) + logdet
        accept = jnp.exp(jnp.minimum(change, 0))
        far = ((x0 - x)**2).sum(-1) * accept + 1e-4
        return (.1 / far - far / .1).mean()


class ResNet56(Training):
    """The state is the parameters and the running statistics of each norm."""
    rate = 1e-3

    def __init__(self, batch):
        layers = list(resnet56_layers())
        running = [(np.zeros_like(scale), np.ones_like(scale)) for _, scale, _ in layers]
        head = glorot(99, (64, 10)), np.zeros(10, np.float32)
        super().__init__(((layers, head), running), hashed(98, (batch, 32, 32, 3)), labels(batch))

    @staticmethod
    def loss(parameters, running, images, y):
        layers, (w, b) = parameters
        todo, seen = iter(layers), []

        def conv_norm(x, stride=1):
            filters, scale, offset = next(todo)
            x = conv(x, filters, stride, [(filters.shape[0] // 2,) * 2] * 2)
            mean = x.mean((0, 1, 2))
            variance = jnp.maximum((x * x).mean((0, 1, 2)) - mean * mean, 0)
            seen.append((mean, variance))
            return (x - mean) * (scale * lax.rsqrt(variance + 1e-5)) + offset

        x = jax.nn.relu(conv_norm(images))
        for stage in range(3):
            for block in range(9):
                is_narrow = stage > 0 and block == 0
                stride = 2 if is_narrow else 1
                h = conv_norm(jax.nn.relu(conv_norm(x, stride)))
                x = jax.nn.relu(h + (conv_norm(x, stride) if is_narrow else x))
        running = jax.tree.map(lambda old, new: .9 * old + .1 * new, running, lax.stop_gradient(seen))
        return cross_entropy(x.mean((1, 2)) @ w + b, y), running

    def update(self, state, *data):
        parameters, running = state
        (loss, running), gradients = jax.value_and_grad(self.loss, has_aux=True)(parameters, running, *data)
        return (self.descend(parameters, gradients), running), loss


class Transformer(Training):
    rate = 1e-2

    def __init__(self):
        d = 256
        shapes = (d, 3 * d), (d, d), (d, 4 * d), (4 * d, d)
        affine = [(glorot(i + 1, s), np.zeros(s[1], np.float32)) for i, s in enumerate(shapes)]
        norms = [(np.ones(d, np.float32), np.zeros(d, np.float32)) for _ in range(2)]
        super().__init__((affine, norms), hashed(5, (8, 128, d)))

    @staticmethod
    def norm(x, scale, offset):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean)**2).mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + offset

    def loss(self, parameters, x):
        ((wqkv, bqkv), (wo, bo), (w1, c1), (w2, c2)), (first, second) = parameters
        x = x.reshape(-1, 256)
        parts = jnp.split(self.norm(x, *first) @ wqkv + bqkv, 3, -1)
        q, k, v = (p.reshape(8, 128, 8, 32) for p in parts)
        y = x + jax.nn.dot_product_attention(q, k, v).reshape(-1, 256) @ wo + bo
        y = y + jax.nn.gelu(self.norm(y, *second) @ w1 + c1, approximate=True) @ w2 + c2
        return (y * y).mean()


STAGED = {"rnn_fb": Rnn, "transformer": Transformer, "epoch": Epoch}
STAGED |= {f"l2hmc_{n}": (lambda n=n: L2hmc(n)) for n in (10, 200)}
STAGED |= {f"mlp_b{b}": (lambda b=b: Mlp(b)) for b in (32, 128)}
STAGED |= {f"lenet_b{b}": (lambda b=b: Lenet(b)) for b in (64, 128)}
STAGED |= {f"resnet56_b{b}": (lambda b=b: ResNet56(b)) for b in (32, 128)}
