# SPDX-License-Identifier: Apache-2.0
"""Workloads in TensorFlow where calls cost more than arithmetic: single calls, chains, loops over a few numbers."""
import tensorflow as tf

from values import digest, hashed, rotation


def function(program, compiled, arguments):
    """A graph, run node by node or compiled by XLA; Python's loops are unrolled in it.

    It is made for these arguments: tf.function looks for the graph of its arguments at each call, .1 ms.
    """
    return tf.function(program, autograph=False, jit_compile=compiled).get_concrete_function(*arguments)


class Call:
    """Calls of a program: as it is if `compiled` is None. A call on a processor returns when it is done."""
    units = 1

    def __init__(self, compiled, program, *arguments):
        self.arguments = [tf.constant(a) for a in arguments]
        self.program = program if compiled is None else function(program, compiled, self.arguments)

    def run(self):
        return self.program(*self.arguments)

    def restart(self):
        pass

    def check(self):
        return digest(*tf.nest.flatten(self.run()))


class Add(Call):
    """Calls of one operation, each dispatched by itself."""

    def __init__(self, times=1, scale=1.0):
        super().__init__(None, self.chain, hashed(1, (2, 2)), hashed(2, (2, 2), scale))
        self.units = times

    def chain(self, y, b):
        for _ in range(self.units):
            y = y + b
        return y


def call(compiled, count):
    """One call of a function of so many arguments."""
    return Call(compiled, lambda first, *rest: sum(rest, first + 1), *(hashed(i, (2, 2)) for i in range(count)))


class TapeAdd(Call):
    units = 100

    def __init__(self, compiled):
        super().__init__(compiled, self.gradients, hashed(1, (2, 2)), hashed(2, (2, 2), .05))

    def gradients(self, x, b):
        with tf.GradientTape() as tape:
            tape.watch((x, b))
            y = x
            for _ in range(self.units):
                y = y + b
        return tape.gradient(y, (x, b))

    def check(self):
        x, b = self.run()
        return [float(x[1, 1]), float(b[0, 0])]


class Tape100(Call):
    units = 100

    def __init__(self, compiled, scalar=False):
        data = hashed(1, (2, 2)), hashed(2, (2, 2), .05), 1 + hashed(3, (2, 2), .05)
        self.scalar = scalar
        super().__init__(compiled, self.gradients, *(t[0, 0] if scalar else t for t in data))

    @staticmethod
    def gradients(x, b, c):
        with tf.GradientTape() as tape:
            tape.watch((x, b, c))
            y = x
            for _ in range(50):
                y = (y + b) * c
            y = tf.reduce_sum(y)
        return tape.gradient(y, (x, b, c))

    def check(self):
        return [float(g) for g in self.run()] if self.scalar else super().check()


class Scan(Call):
    units = 10000

    def __init__(self, compiled):
        super().__init__(compiled, self.loop, tf.constant(.5))

    def loop(self, x):
        step = lambda i, x: (i + 1, x + 1e-3 * (2 - x * x))  # noqa: E731
        return tf.while_loop(lambda i, _: i < self.units, step, (0, x), parallel_iterations=1)[1]

    def check(self):
        return [float(self.run())]


def matmul_many(compiled, n):
    def program(x, w):
        for _ in range(100):
            x = x @ w
        return x
    return Call(compiled, program, hashed(5, (n, n)), rotation(n))


EAGER = {"add_2x2": Add, "add_chain_2x2": lambda: Add(1000, 1e-3)}
WORKLOADS = {"tape_add_2x2": TapeAdd, "tape100_2x2": Tape100, "scan": Scan,
             "tape100_scalar": lambda compiled: Tape100(compiled, scalar=True)}
WORKLOADS |= {f"matmul_many_{n}x{n}": (lambda compiled, n=n: matmul_many(compiled, n)) for n in (2, 16)}
WORKLOADS |= {f"call_{n}": (lambda compiled, n=n: call(compiled, n)) for n in (1, 8)}
