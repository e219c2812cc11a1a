#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Imports etude together with libraries of tensors in every order of pairs, each in a process of its own, and runs an
op of each: shared libraries of one (oneDNN, TBB, protobuf, OpenBLAS) must not become those of another.

    python python/import_order.py            pairs with etude, of the libraries that this Python has
    python python/import_order.py --install  installs all of them first, gigabytes, into build/python/imports
    python python/import_order.py --triples  also two others, with etude before, between and after them

tests/test_import_order.py runs the pairs of what is installed. Needs etude on PYTHONPATH or installed."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import subprocess
import sys

# By package of PyPI: its module, and a statement that computes by it.
LIBRARIES = {
    "torch": ("torch", "assert float((torch.ones(64, 64) @ torch.ones(64, 64)).sum()) == 64.0**3"),
    "tensorflow-cpu": ("tensorflow", "assert float(tensorflow.reduce_sum(tensorflow.ones((64, 64)) @ tensorflow.ones((64, 64)))) == 64.0**3"),
    "jax": ("jax", "import jax.numpy; assert float((jax.numpy.ones((64, 64)) @ jax.numpy.ones((64, 64))).sum()) == 64.0**3"),
    "onnxruntime": ("onnxruntime", """
import base64
# A model of one node Add(x, x): float [2].
model = base64.b64decode("CAgSADo1Cg4KAXgKAXgSAXkiA0FkZBIBZ1oPCgF4EgoKCAgBEgQKAggCYg8KAXkSCgoICAESBAoCCAJCBAoAEA0=")
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
import numpy
assert session.run(None, {"x": numpy.ones(2, numpy.float32)})[0].tolist() == [2.0, 2.0]"""),
    "grpcio": ("grpc", """
from concurrent import futures
server = grpc.server(futures.ThreadPoolExecutor(1))
server.add_insecure_port("127.0.0.1:0")
server.start()
server.stop(None).wait()"""),
}  # fmt: skip
ETUDE = ("etude", "assert float(etude.sum(etude.ones((64, 64)) @ etude.ones((64, 64)))) == 64.0**3; "
         "assert abs(float(etude.linalg.inv(2 * etude.eye(3))[0, 0]) - 0.5) < 1e-6")  # fmt: skip


def program(order: list[tuple[str, str]]) -> str:
    """Imports all in this order, then computes by all, in the same order and once more in the other."""
    lines = [f"import {module}" for module, _ in order]
    lines += [code for _, code in [*order, *reversed(order)]]
    return "\n".join(lines)


def failure(order: list[tuple[str, str]], limit: float = 300) -> str | None:
    """None, or how the process ended: a line, then all that it wrote to its standard error. A process that crashes, and
    one that hangs for `limit` seconds, write the lines of Python at which its threads are."""
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", JAX_PLATFORMS="cpu", GRPC_VERBOSITY="NONE", PYTHONFAULTHANDLER="1")
    stacks = f"import faulthandler\nfaulthandler.dump_traceback_later({limit * 0.9})\n"
    try:
        done = subprocess.run([sys.executable, "-c", stacks + program(order)], capture_output=True, timeout=limit, env=environment)
    except subprocess.TimeoutExpired as late:
        return f"hangs for {limit} s\n{text_of(late.stderr)}".rstrip()
    if done.returncode == 0:
        return None
    errors = text_of(done.stderr).strip()
    lines = errors.splitlines() or ["no message"]
    shown = next((line for line in lines if line.startswith("Fatal Python error")), lines[-1])
    return f"status {done.returncode}: {shown}\n{errors}".rstrip()


def text_of(output: bytes | None) -> str:
    return (output or b"").decode(errors="replace")


def present() -> dict[str, tuple[str, str]]:
    return {name: row for name, row in LIBRARIES.items() if importlib.util.find_spec(row[0]) is not None}


def orders(names: list[str], triples: bool):
    """(title, order) of the processes."""
    for name in names:
        row = LIBRARIES[name]
        yield f"etude, {name}", [ETUDE, row]
        yield f"{name}, etude", [row, ETUDE]
    for first, second in itertools.permutations(names, 2) if triples else ():
        for at in range(3):
            order = [(first, LIBRARIES[first]), (second, LIBRARIES[second])]
            order.insert(at, ("etude", ETUDE))
            yield ", ".join(name for name, _ in order), [row for _, row in order]


def install() -> str:
    """The interpreter of an environment with all of them."""
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "python", "imports")
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *LIBRARIES], check=True)
    return python


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--triples", action="store_true")
    args = parser.parse_args()
    if args.install:
        os.execv(install(), [sys.executable, os.path.abspath(__file__), *(["--triples"] if args.triples else [])])
    names, failed = list(present()), 0
    for name in LIBRARIES.keys() - set(names):
        print(f"{name}: left out, not installed here (--install installs it)")
    for title, order in orders(names, args.triples):
        why = failure(order)
        if why is not None:
            without = failure([row for row in order if row is not ETUDE])
            if without is not None:
                why = f"fails without etude as well: {without}"
            else:
                failed += 1
        first, _, rest = (why or "ok").partition("\n")
        print(f"{title:40} {first}", flush=True)
        print(rest, file=sys.stderr, end="\n" if rest else "", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
