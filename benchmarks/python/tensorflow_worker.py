# SPDX-License-Identifier: Apache-2.0
"""matmul_many in TensorFlow: eagerly, and as a tf.function run as a graph and compiled by XLA. Its loop is unrolled,
which is faster than tf.while_loop; a graph is called without the search that tf.function makes at each call."""
import os

import statements
from statements import Call

FLAGS = ["--xla_cpu_prefer_vector_width=512"] + ["--xla_cpu_multi_thread_eigen=false"] * (statements.THREADS == 1)
os.environ["XLA_FLAGS"] = " ".join([*FLAGS, os.environ.get("XLA_FLAGS", "")])
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf  # noqa: E402

from serve import serve  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(statements.THREADS)
tf.config.threading.set_inter_op_parallelism_threads(1)


def matmul_many(n, compiled=None):
    arguments = [tf.constant(a) for a in statements.matmul_data(n)]
    f = statements.chain
    if compiled is not None:
        f = tf.function(f, autograph=False, jit_compile=compiled).get_concrete_function(*arguments)
    return Call(f, *arguments)


ROWS = {f"matmul_many_{n}x{n}": (lambda n=n: matmul_many(n)) for n in (2, 16)}
STAGED = {c: {f"matmul_many_{n}x{n}_function": (lambda n=n, c=c: matmul_many(n, c)) for n in (2, 16)} for c in (False, True)}
serve("tensorflow", tf.__version__, {"python": ROWS | STAGED[False], "xla": STAGED[True]})
