# SPDX-License-Identifier: Apache-2.0
"""Training steps in TensorFlow: each is one function, which writes into the variables that are its parameters."""
import numpy as np
import tensorflow as tf

from small import function
from values import glorot, hashed, l2hmc_net, l2hmc_times, labels, resnet56_layers


def cross_entropy(logits, y):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))


class Training:
    """Steps of plain SGD; the check is the losses of the first three."""
    units = 1
    rate = None

    def __init__(self, compiled, parameters, *data):
        self.parameters = tf.nest.map_structure(tf.Variable, parameters)
        self.data = [tf.constant(x) for x in data]
        self.compiled, self.step, self.start = compiled, None, []

    def update(self, *data):
        parameters = tf.nest.flatten(self.parameters)
        with tf.GradientTape() as tape:
            loss = self.loss(*data)
        self.descend(parameters, tape.gradient(loss, parameters))
        return loss

    def descend(self, parameters, gradients):
        for p, g in zip(parameters, gradients):
            p.assign_sub(self.rate * g)

    def run(self):
        if self.step is None:
            self.step = function(self.update, self.compiled, self.data)
            self.start = [(v, v.numpy()) for v in self.step.variables]
        return self.step(*self.data)

    def restart(self):
        """As it was when it was made, but compiled."""
        for variable, value in self.start:
            variable.assign(value)

    def check(self):
        return [float(self.run()) for _ in range(3)]


def affine(shapes):
    return [[glorot(seed, s), np.zeros(s[-1], np.float32)] for seed, s in enumerate(shapes, 1)]


def dense(h, layers):
    """Affine layers with relu between them."""
    for i, (w, b) in enumerate(layers):
        h = tf.nn.bias_add((tf.nn.relu(h) if i else h) @ w, b)
    return h


class Mlp(Training):
    rate = .05

    def __init__(self, compiled, batch):
        super().__init__(compiled, affine(((784, 256), (256, 256), (256, 10))), hashed(4, (batch, 784)), labels(batch))

    def loss(self, x, y):
        return cross_entropy(dense(x, self.parameters), y)


class Lenet(Training):
    rate = .05

    def __init__(self, compiled, batch):
        shapes = ((5, 5, 1, 6), (5, 5, 6, 16), (400, 120), (120, 84), (84, 10))
        super().__init__(compiled, affine(shapes), hashed(6, (batch, 28, 28, 1)), labels(batch))

    def loss(self, x, y):
        for (w, b), padding in zip(self.parameters[:2], ("SAME", "VALID")):
            x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, 1, padding), b))
            x = tf.nn.avg_pool2d(x, 2, 2, "VALID")
        return cross_entropy(dense(tf.reshape(x, (-1, 400)), self.parameters[2:]), y)


class Epoch(Lenet):
    """Batches taken from all images in memory, and Adam: a tenth of an epoch is timed. They are taken by calls of
    their own: a program of XLA that is handed all images takes a second."""
    images, batch, timed = 60000, 128, 47
    units = timed * batch / images

    def __init__(self, compiled):
        super().__init__(compiled, self.images)
        zeros = lambda p: tf.Variable(tf.zeros_like(p))  # noqa: E731
        self.means, self.squares = ([zeros(p) for p in tf.nest.flatten(self.parameters)] for _ in range(2))
        self.done, self.all, self.at = tf.Variable(0), self.data, 0

    def descend(self, parameters, gradients):
        done = tf.cast(self.done.assign_add(1), tf.float32)
        first, second = 1 - .9**done, 1 - .999**done
        for p, m, s, g in zip(parameters, self.means, self.squares, gradients):
            m.assign(.9 * m + .1 * g)
            s.assign(.999 * s + .001 * g * g)
            p.assign_sub(1e-3 * (m / first) / (tf.sqrt(s / second) + 1e-8))

    def advance(self):
        self.at = 0 if self.at + self.batch > self.images else self.at
        self.data = [each[self.at:self.at + self.batch] for each in self.all]
        self.at += self.batch
        return super().run()

    def restart(self):
        super().restart()
        self.at = 0

    def run(self):
        for _ in range(self.timed):
            self.advance()

    def check(self):
        return [float(self.advance()) for _ in range(3)]


class Rnn(Training):
    rate = 1e-2

    def __init__(self, compiled):
        parameters = [glorot(1, (64, 64)), glorot(2, (64, 64)), hashed(3, (64,), .1)]
        super().__init__(compiled, parameters, hashed(4, (50, 16, 64)))

    def loss(self, xs):
        wx, wh, b = self.parameters
        h = tf.zeros((16, 64))
        for x in tf.unstack(xs):
            h = tf.tanh(x @ wx + h @ wh + b)
        return tf.reduce_mean(h * h)


class L2hmc(Training):
    """Ten leapfrog steps of n chains, steered by two networks of 14 arrays."""
    rate = 1e-5
    precision = np.array([[2, .6], [.6, 1]], np.float32)

    def __init__(self, compiled, n):
        super().__init__(compiled, [l2hmc_net(0), l2hmc_net(1), np.float32(.1)], hashed(250, (n, 2), 2),
                         hashed(251, (n, 2), 1.5))

    @staticmethod
    def steer(net, a, b, t):
        wa, wb, wt, b1, w2, b2, ws, bs, wf, bf, wq, bq, cs, cf = net
        h = tf.nn.relu(a @ wa + b @ wb + t @ wt + b1)
        h = tf.nn.relu(h @ w2 + b2)
        return tf.tanh(h @ ws + bs) * tf.exp(cs), h @ wq + bq, tf.tanh(h @ wf + bf) * tf.exp(cf)

    def momentum(self, x, v, logdet, t):
        _, net, eps = self.parameters
        g = x @ self.precision
        s, q, f = self.steer(net, x, g, t)
        half = .5 * eps
        return v * tf.exp(half * s) - half * (tf.exp(eps * q) * g - f), logdet + half * tf.reduce_sum(s, -1)

    def position(self, x, v, logdet, t, k, u):
        net, _, eps = self.parameters
        s, q, f = self.steer(net, v, k * x, t)
        x = k * x + u * (x * tf.exp(eps * s) + eps * (tf.exp(eps * q) * v + f))
        return x, logdet + eps * tf.reduce_sum(u * s, -1)

    def energy(self, x, v):
        return .5 * tf.reduce_sum((x @ self.precision) * x, -1) + .5 * tf.reduce_sum(v * v, -1)

    def loss(self, x0, v0):
        x, v, logdet = x0, v0, tf.zeros(x0.shape[0])
        masks, times = np.eye(2, dtype=np.float32), l2hmc_times()
        for i in range(10):
            k, u, t = masks[i % 2], masks[1 - i % 2], times[i:i + 1]
            v, logdet = self.momentum(x, v, logdet, t)
            x, logdet = self.position(x, v, logdet, t, k, u)
            x, logdet = self.position(x, v, logdet, t, u, k)
            v, logdet = self.momentum(x, v, logdet, t)
        change = self.energy(x0, v0) - self.energy(x, v) + logdet
        far = tf.reduce_sum((x0 - x)**2, -1) * tf.exp(tf.minimum(change, 0)) + 1e-4
        return tf.reduce_mean(.1 / far - far / .1)


class ResNet56(Training):
    rate = 1e-3

    def __init__(self, compiled, batch):
        layers = list(resnet56_layers())
        head = [glorot(99, (64, 10)), np.zeros(10, np.float32)]
        super().__init__(compiled, [layers, head], hashed(98, (batch, 32, 32, 3)), labels(batch))
        self.running = [[tf.Variable(tf.zeros_like(s)), tf.Variable(tf.ones_like(s))] for _, s, _ in layers]

    @staticmethod
    def conv_norm(x, layer, running, stride=1):
        (w, scale, offset), size = layer, layer[0].shape[0]
        if stride > 1 and size > 1:  # "SAME" puts the odd zero at the other end
            x = tf.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        x = tf.nn.conv2d(x, w, stride, "SAME" if stride == 1 else "VALID")
        x, mean, variance = tf.compat.v1.nn.fused_batch_norm(x, scale, offset, epsilon=1e-5)
        for old, new in zip(running, (mean, variance)):
            old.assign(.9 * old + .1 * tf.stop_gradient(new))
        return x

    def loss(self, images, y):
        layers, (w, b) = self.parameters
        todo = iter(zip(layers, self.running))
        x = tf.nn.relu(self.conv_norm(images, *next(todo)))
        for stage in range(3):
            for block in range(9):
                is_narrow = stage > 0 and block == 0
                stride = 2 if is_narrow else 1
                h = self.conv_norm(tf.nn.relu(self.conv_norm(x, *next(todo), stride)), *next(todo))
                x = tf.nn.relu(h + (self.conv_norm(x, *next(todo), stride) if is_narrow else x))
        return cross_entropy(tf.reduce_mean(x, (1, 2)) @ w + b, y)


class Transformer(Training):
    rate = 1e-2

    def __init__(self, compiled):
        d = 256
        norms = [[np.ones(d, np.float32), np.zeros(d, np.float32)] for _ in range(2)]
        layers = affine(((d, 3 * d), (d, d), (d, 4 * d), (4 * d, d)))
        super().__init__(compiled, [layers, norms], hashed(5, (8, 128, d)))

    @staticmethod
    def norm(x, scale, offset):
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + 1e-5) * scale + offset

    def loss(self, x):
        ((wqkv, bqkv), (wo, bo), (w1, c1), (w2, c2)), (first, second) = self.parameters
        x = tf.reshape(x, (-1, 256))
        parts = tf.split(tf.nn.bias_add(self.norm(x, *first) @ wqkv, bqkv), 3, -1)
        q, k, v = (tf.transpose(tf.reshape(p, (8, 128, 8, 32)), (0, 2, 1, 3)) for p in parts)
        weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / np.float32(np.sqrt(32)))
        heads = tf.reshape(tf.transpose(weights @ v, (0, 2, 1, 3)), (-1, 256))
        y = x + tf.nn.bias_add(heads @ wo, bo)
        h = tf.nn.gelu(tf.nn.bias_add(self.norm(y, *second) @ w1, c1), approximate=True)
        y = y + tf.nn.bias_add(h @ w2, c2)
        return tf.reduce_mean(y * y)


WORKLOADS = {"rnn_fb": Rnn, "transformer": Transformer, "epoch": Epoch}
WORKLOADS |= {f"l2hmc_{n}": (lambda compiled, n=n: L2hmc(compiled, n)) for n in (10, 200)}
WORKLOADS |= {f"mlp_b{b}": (lambda compiled, b=b: Mlp(compiled, b)) for b in (32, 128)}
WORKLOADS |= {f"lenet_b{b}": (lambda compiled, b=b: Lenet(compiled, b)) for b in (64, 128)}
WORKLOADS |= {f"resnet56_b{b}": (lambda compiled, b=b: ResNet56(compiled, b)) for b in (32, 128)}
