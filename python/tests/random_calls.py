# SPDX-License-Identifier: Apache-2.0
"""Calls of all functions with values that do not fit: ``python random_calls.py SEED COUNT``.

Each call returns or raises an exception of Python. Prints the number of calls by outcome, and the
growth of memory in the second half.
"""

import collections
import gc
import io
import os
import random
import resource
import sys
import warnings

import numpy as np

import etude as et

# Functions that change the process, draw pictures, print, or wait for others.
LEFT_OUT = {
    "print", "set_seed", "set_placement", "set_copy_policy", "run_functions_eagerly", "add_cpu_device", "connect",
    "fashion_mnist", "parallel_map", "collective", "set_read_limits", "set_memory_limit", "set_thread_count", "set_denormals",
    "set_promotion", "set_lazy_options", "set_diagnostics", "wait_for_compile",
}  # fmt: skip


class Odd:
    def __index__(self):
        raise KeyError("index")

    def __float__(self):
        raise KeyError("float")

    def __len__(self):
        return -1

    def __repr__(self):
        return "Odd()"


class Evil:
    """Changes its mind, and lies about its length."""

    def __len__(self):
        return 3

    def __iter__(self):
        yield 1.0
        yield self

    def __array__(self, *args, **options):
        raise MemoryError("no array")

    def __dlpack__(self, **options):
        return object()

    def __eq__(self, other):
        raise RuntimeError("equal")

    __hash__ = None


def values():
    recursive: list = [1.0]
    recursive.append(recursive)
    loop: dict = {}
    loop["self"] = loop
    x = et.ones((2, 3))
    plain = [
        None, True, False, 0, 1, -1, 2, 3, 7, 2**44, 2**63 - 1, -(2**63), 2**64, 10**30, 0.5, -1.5, float("nan"),
        float("inf"), 1 + 2j, "", "a", "float32", "cpu:0", "a\0b", "\ud800", "é" * 50, b"bytes", bytearray(b"x"), (), [],
        {}, set(), (2, 3), [2, 2], [[1.0, 2.0], [3.0]], [None], ["a"], (1, (2, (3,))), range(3), slice(None), ...,
    ]  # fmt: skip
    arrays = [
        x, et.asarray(2.0), et.zeros((0, 3)), et.asarray([1, 2, 3]), et.asarray([True, False]), et.ones((2, 2), dtype=et.float64),
        et.asarray([1 + 1j]), et.Variable([1.0, 2.0]), x.T, np.ones((2, 3)), np.float32(1.5), np.array(["a", "b"]),
        np.array([object()], object), np.zeros((2, 0)), np.datetime64("2020-01-01"), np.ma.masked, np.ones((2, 3))[:, ::2],
    ]  # fmt: skip
    others = [
        recursive, loop, Odd(), Evil(), object(), int, et.float32, et.add, len, lambda: 1, lambda *a: a[0], lambda x: None,
        et.nn.relu, et.nn.Dense(3, 2), et.optim.SGD(lr=0.1), et.nn.softmax_cross_entropy, et.TensorSpec((None, 2)),
        et.function(lambda x: x), et.GradientTape(), et.data.Loader(x, x, batch=1), iter([1, 2]), (i for i in range(2)),
        et, sys, type("Empty", (et.Module,), {})(),
    ]  # fmt: skip
    return plain, arrays, others


def functions():
    found = {}
    spaces = [et, et.nn, et.optim, et.data, et.linalg, et.fft, et.image, et.random, et.tree, et.testing, et.saved, et.onnx, et.stablehlo]
    for space in spaces:
        for name in dir(space):
            f = getattr(space, name, None)
            if name.startswith("_") or name in LEFT_OUT or not callable(f) or isinstance(f, type(sys)):
                continue
            if isinstance(f, type) and issubclass(f, BaseException):
                continue
            found[f"{getattr(space, '__name__', 'tree')}.{name}"] = f
    x = et.ones((2, 3))
    for name in dir(x):
        if callable(getattr(x, name)) and name not in ("__init_subclass__", "__subclasshook__", "__class__", "__reduce_ex__"):
            found[f"Tensor.{name}"] = lambda *a, _n=name, **o: getattr(et.ones((2, 3)), _n)(*a, **o)
    return found


def main(seed: int, count: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    choose = random.Random(seed)
    all_functions = functions()
    names = sorted(all_functions)
    keywords = ["axis", "dtype", "shape", "x", "y", "lr", "keepdims", "key", "epochs", "device", "copy", "nothing"]
    outcomes: collections.Counter = collections.Counter()
    half = 0
    out, sys.stdout = sys.stdout, io.StringIO()
    warnings.simplefilter("ignore")
    for i in range(count):
        if i % 500 == 0:  # calls change values, such as models
            plain, arrays, others = values()
            sys.stdout = io.StringIO()
        if i == count // 2:
            gc.collect()
            half = resident()
        name = choose.choice(names)
        pick = lambda: choose.choice(choose.choice((plain, arrays, arrays, others)))  # noqa: E731
        args = [pick() for _ in range(choose.choice((0, 1, 1, 2, 2, 3)))]
        options = {choose.choice(keywords): pick() for _ in range(choose.choice((0, 0, 0, 1, 2)))}
        if "-v" in sys.argv:
            print(i, name, [type(a).__name__ for a in args], {k: type(v).__name__ for k, v in options.items()}, file=sys.stderr, flush=True)
        try:
            all_functions[name](*args, **options)
            outcomes["fine"] += 1
        except Exception as error:  # noqa: BLE001
            assert not isinstance(error, SystemError), (name, args, error)
            outcomes[type(error).__name__] += 1
            if isinstance(error, et.InternalError) or (type(error) is RuntimeError and "std::" in str(error)):
                print(f"internal: {name} {args!r:.200} {options!r:.100}: {error}", file=sys.stderr)
    sys.stdout = out
    del plain, arrays, others
    gc.collect()
    print(f"calls {count} fine {outcomes['fine']} internal {outcomes['InternalError']} grown {resident() - half}")
    print(dict(outcomes))


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
