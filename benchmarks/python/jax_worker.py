# SPDX-License-Identifier: Apache-2.0
"""The rows of the table of Python in JAX, with the settings of workloads/jax/worker.py."""
import os

import statements
from statements import Call

FLAGS = ["--xla_cpu_prefer_vector_width=512"] + ["--xla_cpu_multi_thread_eigen=false"] * (statements.THREADS == 1)
os.environ["PJRT_NPROC"] = str(statements.THREADS)
os.environ["XLA_FLAGS"] = " ".join([*FLAGS, os.environ.get("XLA_FLAGS", "")])

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from serve import serve  # noqa: E402

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_cpu_enable_async_dispatch", False)
WAIT = jax.block_until_ready
# Products of a few numbers take a third of the time without YNNPACK.
SMALL_PRODUCTS = {"xla_cpu_experimental_ynn_fusion_type": ""}


def call(count):
    return Call(jax.jit(statements.total), *map(jnp.array, statements.call_data(count)), wait=WAIT)


def call_dict():
    parts = {f"part{i}": jnp.array(a) for i, a in enumerate(statements.call_data(100))}
    return Call(jax.jit(statements.total_of_dict), parts, wait=WAIT)


def matmul_many(n, compiled):
    f = statements.chain
    if compiled:
        f = jax.jit(lambda x, w: lax.fori_loop(0, 100, lambda _, x: x @ w, x), compiler_options=SMALL_PRODUCTS)
    return Call(f, *map(jnp.array, statements.matmul_data(n)), wait=WAIT)


ROWS = {f"call_{n}": (lambda n=n: call(n)) for n in (1, 8, 64)} | {"call_dict_100": call_dict}
ROWS |= {f"matmul_many_{n}x{n}": (lambda n=n: matmul_many(n, False)) for n in (2, 16)}
ROWS |= {f"matmul_many_{n}x{n}_function": (lambda n=n: matmul_many(n, True)) for n in (2, 16)}
serve("jax", jax.__version__, {"python": ROWS})
