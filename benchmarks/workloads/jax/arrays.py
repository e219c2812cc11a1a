# SPDX-License-Identifier: Apache-2.0
"""Workloads in JAX that are one operation, or a few, on large arrays."""
import jax
import jax.numpy as jnp
from jax import lax

from small import SMALL_PRODUCTS, Call
from values import digest, hashed, strided


def conv(x, w, stride=1, padding="SAME"):
    """Images NHWC, filters HWIO."""
    return lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


class Elementwise(Call):
    def __init__(self, n):
        super().__init__(jax.jit(lambda x: jnp.tanh(.75 * x + .25) * jnp.exp(-(x * x))), hashed(1, (n,), 2))

    def check(self):
        return strided(self.run())


class Gemm:
    """The product goes into the memory of the one before it."""
    units = 1

    def __init__(self, n):
        self.product = jax.jit(lambda a, b, out: a @ b, donate_argnums=2, keep_unused=True,
                               compiler_options=SMALL_PRODUCTS if n <= 32 else None)
        self.a, self.b, self.out = jnp.array(hashed(1, (n, n))), jnp.array(hashed(2, (n, n))), jnp.empty((n, n))

    def run(self):
        self.out = self.product(self.a, self.b, self.out).block_until_ready()
        return self.out

    def check(self):
        return digest(self.run())


def conv3x3(gradients):
    program = jax.grad(lambda x, w: (conv(x, w)**2).sum(), argnums=(0, 1)) if gradients else conv
    return Call(jax.jit(program), hashed(1, (8, 56, 56, 64)), hashed(2, (3, 3, 64, 64), .1))


STAGED = {"conv3x3_fwd": lambda: conv3x3(False), "conv3x3_fb": lambda: conv3x3(True)}
STAGED |= {f"ew_{name}": (lambda n=n: Elementwise(n)) for name, n in
           (("1e3", 1000), ("1e6", 1000000), ("3e7", 30000000))}
STAGED |= {f"gemm_{n}": (lambda n=n: Gemm(n)) for n in (32, 64, 128, 256, 512, 1024)}
