# SPDX-License-Identifier: Apache-2.0
"""Rows of the table of Python: statements that are repeated, and the rows that peers share."""
import itertools
import os
import pathlib
import sys

# After the installed packages: folders of the workloads have the names of the peers.
WORKLOADS = pathlib.Path(__file__).resolve().parent.parent / "workloads"
sys.path.append(str(WORKLOADS))
THREADS = int(os.environ.get("BENCH_THREADS", "1"))

import numpy as np  # noqa: E402

from values import digest, hashed, rotation  # noqa: E402

LIST = [i / 8 for i in range(1000)]  # exact in float32


class Statement:
    """A statement on the named values, repeated in one loop, whose own cost of about 10 ns is part of the figure of
    every system. `result` is an expression that is checked before."""

    def __init__(self, code, result=None, repeats=1000, **names):
        self.units, self.names, self.result = repeats, names, result or code
        space = {}
        exec(f"def loop(times, {', '.join(names)}):\n    for _ in times:\n        {code}\n", space)
        self.loop = space["loop"]

    def run(self):
        self.loop(itertools.repeat(None, self.units), **self.names)

    def check(self):
        return digest(np.asarray(eval(self.result, dict(self.names))))


class Call:
    """A function of these arguments. `wait` returns when its result is computed."""

    def __init__(self, function, *arguments, wait=None, units=1):
        self.function, self.arguments, self.wait, self.units = function, arguments, wait, units

    def run(self):
        result = self.function(*self.arguments)
        if self.wait is not None:
            self.wait(result)

    def check(self):
        result = self.function(*self.arguments)
        return digest(*(np.asarray(x) for x in (result if isinstance(result, (tuple, list)) else (result,))))


def statements(array, asarray):
    """The rows of small statements; `array` makes an array of a system from one of NumPy, `asarray` from a list."""
    a, b = (array(hashed(seed, (2, 2))) for seed in (1, 2))
    x, rows, scalar = array(hashed(1, (8, 4))), array(hashed(1, (1000, 4))), array(hashed(1, ()))
    return {
        "add_2x2": lambda: Statement("a + b", a=a, b=b),
        "slice": lambda: Statement("x[1:3]", x=x),
        "shape": lambda: Statement("x.shape", x=x),
        "float": lambda: Statement("float(x)", x=scalar),
        "asarray_1000": lambda: Statement("asarray(values)", repeats=20, asarray=asarray, values=LIST),
        "iterate_1000": lambda: Statement("for row in rows: pass", "[float(row[0]) for row in rows]", 10, rows=rows),
    }


def tape_data():
    return hashed(1, (2, 2)), hashed(2, (2, 2), .05), 1 + hashed(3, (2, 2), .05)


def call_data(count):
    return [hashed(i, (2, 2)) for i in range(count)]


def matmul_data(n):
    return hashed(5, (n, n)), rotation(n)


def total(first, *rest):
    """What the rows call_N compute: one sum."""
    y = first + 1
    for x in rest:
        y = y + x
    return y


def total_of_dict(parts):
    return total(*parts.values())


def chain(x, w):
    for _ in range(100):
        x = x @ w
    return x
