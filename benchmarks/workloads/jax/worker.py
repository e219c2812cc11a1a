#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The workloads in JAX, compiled by jax.jit, behind the protocol of benchmarks/README.md."""
import os
import pathlib
import sys

# XLA reads these when it is loaded: how many threads it makes, whether one operation may use several of them, and
# the width of vectors in bits, 256 unless it is named.
THREADS = int(os.environ.get("BENCH_THREADS", "1"))
FLAGS = ["--xla_cpu_prefer_vector_width=512"] + ["--xla_cpu_multi_thread_eigen=false"] * (THREADS == 1)
os.environ["PJRT_NPROC"] = str(THREADS)
os.environ["XLA_FLAGS"] = " ".join([*FLAGS, os.environ.get("XLA_FLAGS", "")])
# Behind the installed packages, since this folder of a folder is called as one of them is.
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import jax  # noqa: E402

import arrays  # noqa: E402
import small  # noqa: E402
import training  # noqa: E402
from serve import serve  # noqa: E402

if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    # Without it all but the cheapest programs are handed to a thread of their own, 11 us before anything is computed.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    serve("jax", jax.__version__, {"staged": small.STAGED | arrays.STAGED | training.STAGED, "eager": small.EAGER})
