#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The workloads in TensorFlow, by tf.function and compiled by XLA, behind the protocol of benchmarks/README.md."""
import os
import pathlib
import sys

# XLA reads the flags when it is loaded: whether one operation may use several threads, and the width of vectors in
# bits, 256 unless it is named.
THREADS = int(os.environ.get("BENCH_THREADS", "1"))
FLAGS = ["--xla_cpu_prefer_vector_width=512"] + ["--xla_cpu_multi_thread_eigen=false"] * (THREADS == 1)
os.environ["XLA_FLAGS"] = " ".join([*FLAGS, os.environ.get("XLA_FLAGS", "")])
# Convolutions by oneDNN take a fifth to a half of the time; unasked it serves processors with AVX-512 alone.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
# Behind the installed packages, since this folder of a folder is called as one of them is.
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import tensorflow as tf  # noqa: E402

import arrays  # noqa: E402
import small  # noqa: E402
import training  # noqa: E402
from serve import serve  # noqa: E402


TABLES = small.WORKLOADS | arrays.WORKLOADS | training.WORKLOADS
# XLA compiles these for minutes: ten steps one behind the other, since it refuses the gradient of a loop of them.
ENDLESS = "l2hmc_"


def once(make, compiled):
    """Makes a workload at the first of two calls, for its check and to be timed: compiling takes up to a minute."""
    held = []

    def build():
        if not held:
            held.append(make(compiled))
            return held[0]
        it = held.pop()
        it.restart()
        return it
    return build


def tables():
    graph = {name: once(make, False) for name, make in TABLES.items()}
    xla = {name: once(make, True) for name, make in TABLES.items() if not name.startswith(ENDLESS)}
    return {"graph": small.EAGER | graph, "xla": xla}


if __name__ == "__main__":
    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    serve("tensorflow", tf.__version__, tables())
