# SPDX-License-Identifier: Apache-2.0
"""Workloads in TensorFlow that are one operation, or a few, on large arrays."""
import tensorflow as tf

from small import Call
from values import hashed, strided


class Elementwise(Call):
    def __init__(self, compiled, n):
        program = lambda x: tf.tanh(.75 * x + .25) * tf.exp(-(x * x))  # noqa: E731
        super().__init__(compiled, program, hashed(1, (n,), 2))

    def check(self):
        return strided(self.run().numpy())


def gemm(compiled, n):
    return Call(compiled, lambda a, b: a @ b, hashed(1, (n, n)), hashed(2, (n, n)))


def conv3x3(compiled, gradients):
    """Images NHWC, filters HWIO."""
    def forward(x, w):
        return tf.nn.conv2d(x, w, 1, "SAME")

    def both(x, w):
        with tf.GradientTape() as tape:
            tape.watch((x, w))
            loss = tf.reduce_sum(forward(x, w)**2)
        return tape.gradient(loss, (x, w))

    return Call(compiled, both if gradients else forward, hashed(1, (8, 56, 56, 64)), hashed(2, (3, 3, 64, 64), .1))


WORKLOADS = {"conv3x3_fwd": lambda compiled: conv3x3(compiled, False),
             "conv3x3_fb": lambda compiled: conv3x3(compiled, True)}
WORKLOADS |= {f"ew_{name}": (lambda compiled, n=n: Elementwise(compiled, n)) for name, n in
              (("1e3", 1000), ("1e6", 1000000), ("3e7", 30000000))}
WORKLOADS |= {f"gemm_{n}": (lambda compiled, n=n: gemm(compiled, n)) for n in (32, 64, 128, 256, 512, 1024)}
