# SPDX-License-Identifier: Apache-2.0
"""Workloads in JAX where calls cost more than arithmetic: single calls, chains, loops over a few numbers."""
import jax
import jax.numpy as jnp
from jax import lax

from values import digest, hashed, rotation

# Products of a few numbers: XLA hands them to YNNPACK, and without it takes a third of the time.
SMALL_PRODUCTS = {"xla_cpu_experimental_ynn_fusion_type": ""}


class Call:
    """A function that is called and waited for; compiled, unless it is an operation of its own."""
    units = 1

    def __init__(self, program, *arguments):
        self.program, self.arguments = program, [jnp.array(a) for a in arguments]

    def run(self):
        return jax.block_until_ready(self.program(*self.arguments))

    def check(self):
        return digest(*jax.tree.leaves(self.run()))


class Add(Call):
    """Calls of one operation, each dispatched by itself."""

    def __init__(self, times=1, scale=1.0):
        super().__init__(self.chain, hashed(1, (2, 2)), hashed(2, (2, 2), scale))
        self.units = times

    def chain(self, y, b):
        for _ in range(self.units):
            y = y + b
        return y


def call(count):
    """One call of a compiled function of so many arguments."""
    return Call(jax.jit(lambda first, *rest: sum(rest, first + 1)), *(hashed(i, (2, 2)) for i in range(count)))


class TapeAdd(Call):
    units = 100

    def __init__(self):
        super().__init__(jax.jit(self.gradients), hashed(1, (2, 2)), hashed(2, (2, 2), .05), jnp.ones((2, 2)))

    def gradients(self, x, b, cotangent):
        def chain(y, b):
            for _ in range(self.units):
                y = y + b
            return y
        return jax.vjp(chain, x, b)[1](cotangent)

    def check(self):
        x, b = self.run()
        return [float(x[1, 1]), float(b[0, 0])]


class Tape100(Call):
    units = 100

    def __init__(self, scalar=False):
        data = hashed(1, (2, 2)), hashed(2, (2, 2), .05), 1 + hashed(3, (2, 2), .05)
        self.scalar = scalar
        super().__init__(jax.jit(jax.grad(self.chain, argnums=(0, 1, 2))), *(t[0, 0] if scalar else t for t in data))

    @staticmethod
    def chain(y, b, c):
        for _ in range(50):
            y = (y + b) * c
        return y.sum()

    def check(self):
        return [float(g) for g in self.run()] if self.scalar else super().check()


class Scan(Call):
    units = 100000

    def __init__(self):
        super().__init__(self.program_of(self.units), jnp.float32(.5))

    @staticmethod
    def program_of(steps):
        return jax.jit(lambda x: lax.fori_loop(0, steps, lambda _, x: x + 1e-3 * (2 - x * x), x))

    def check(self):
        return [float(self.program_of(10000)(*self.arguments))]


def matmul_many(n):
    def program(x, w):
        return lax.fori_loop(0, 100, lambda _, x: x @ w, x)
    return Call(jax.jit(program, compiler_options=SMALL_PRODUCTS), hashed(5, (n, n)), rotation(n))


EAGER = {"add_2x2": Add, "add_chain_2x2": lambda: Add(1000, 1e-3)}
STAGED = {"tape_add_2x2": TapeAdd, "tape100_2x2": Tape100, "tape100_scalar": lambda: Tape100(scalar=True),
          "scan": Scan}
STAGED |= {f"matmul_many_{n}x{n}": (lambda n=n: matmul_many(n)) for n in (2, 16)}
STAGED |= {f"call_{n}": (lambda n=n: call(n)) for n in (1, 8)}
