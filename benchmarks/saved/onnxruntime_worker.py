# SPDX-License-Identifier: Apache-2.0
"""The rows of the table of saved functions in onnxruntime, from the models that onnx::save wrote.

Arguments: none, for the protocol of workloads/serve.py; or --first MODEL, for the seconds from the creation of a
session to its first answer. One thread, operators in sequence, all optimisations of graphs, an arena, and denormals
flushed as in Etude. Inputs and results are bound to memory once, so a run copies nothing.
"""
import os
import pathlib
import sys
import time

# After the installed packages: folders of the workloads have the names of the peers.
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "workloads"))

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from serve import CLOCK, serve  # noqa: E402
from values import digest, hashed  # noqa: E402

FOLDER = pathlib.Path(os.environ["BENCH_SAVED"])
MODELS = ("lenet", "resnet56", "transformer", "lstm")
BATCHES = (1, 32)


def open_session(model, sizes):
    """A session for the bytes or the path of a model, whose open sizes have these values."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = int(os.environ.get("BENCH_THREADS", "1"))
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.enable_cpu_mem_arena = options.enable_mem_pattern = True
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    for name, size in sizes.items():
        options.add_free_dimension_override_by_name(name, size)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def shape_of(graph, batch):
    """The shape of the only input, and the open sizes by name."""
    dims = graph.input[0].type.tensor_type.shape.dim
    return [dim.dim_value or batch for dim in dims], {dim.dim_param: batch for dim in dims if dim.dim_param}


class Answer:
    units = 1

    def __init__(self, model, name, batch, system):
        shape, sizes = shape_of(model.graph, batch)
        self.file = FOLDER / f"{name}_{batch}.{system}.f32"
        self.session = open_session(model.SerializeToString(), sizes)
        self.x = hashed(1, shape)
        feed = {model.graph.input[0].name: self.x}
        self.y = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros_like(self.session.run(None, feed)[0]))
        self.binding = self.session.io_binding()
        self.binding.bind_cpu_input(model.graph.input[0].name, self.x)
        self.binding.bind_ortvalue_output(model.graph.output[0].name, self.y)

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def check(self):
        self.run()
        y = self.y.numpy()
        y.tofile(self.file)
        return digest(y)


def arrays_of(model):
    """The constants of a model by name."""
    out = {x.name: numpy_helper.to_array(x) for x in model.graph.initializer}
    out |= {n.output[0]: numpy_helper.to_array(n.attribute[0].t) for n in model.graph.node if n.op_type == "Constant"}
    return out


def with_lstm(model):
    """The model lstm with the operator LSTM in the place of its loop. ONNX orders the gates i, o, f, g: Etude i, g, f, o.
    The kernel for CPUs takes sequences with the time first."""
    given = {name.rsplit("/", 1)[-1]: x for name, x in arrays_of(model).items()}
    weight, bias = given["weight"], given["bias"]
    hidden = len(bias) // 4
    order = np.concatenate([np.arange(gate * hidden, (gate + 1) * hidden) for gate in (0, 3, 2, 1)])
    arrays = {"W": weight[:-hidden, order].T[None], "R": weight[-hidden:, order].T[None],
              "B": np.concatenate([bias[order], 0 * bias])[None], "axes": np.array([1])}
    x, y = model.graph.input[0], model.graph.output[0]
    nodes = [helper.make_node("Transpose", [x.name], ["steps"], perm=[1, 0, 2]),
             helper.make_node("LSTM", ["steps", "W", "R", "B"], ["states"], hidden_size=hidden),
             helper.make_node("Squeeze", ["states", "axes"], ["outputs"]),
             helper.make_node("Transpose", ["outputs"], [y.name], perm=[1, 0, 2])]
    graph = helper.make_graph(nodes, "lstm", [x], [y], [
        numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in arrays.items()])
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


# What somebody who tunes a model for onnxruntime would do.
REWRITTEN = {"lstm": with_lstm}


def identity():
    """One operator that copies one number: the cost of a call."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "identity", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def first(name):
    """Seconds from the creation of a session to its first answer, at batch 1."""
    file = str(FOLDER / f"{name}.onnx")
    shape, sizes = shape_of(onnx.load(file).graph, 1)
    x = hashed(1, shape)
    begin = CLOCK()
    session = open_session(file, sizes)
    session.run(None, {session.get_inputs()[0].name: x})
    print(CLOCK() - begin)


def main():
    if sys.argv[1:2] == ["--first"]:
        return first(sys.argv[2])
    exported = {f"{name}_{batch}": lambda name=name, batch=batch: Answer(
        onnx.load(FOLDER / f"{name}.onnx"), name, batch, "onnxruntime") for name in MODELS for batch in BATCHES}
    exported["empty"] = lambda: Answer(identity(), "empty", 1, "onnxruntime")
    rewritten = {f"{name}_{batch}": lambda name=name, batch=batch: Answer(
        REWRITTEN[name](onnx.load(FOLDER / f"{name}.onnx")), name, batch, "rewritten")
        for name in REWRITTEN for batch in BATCHES}
    return serve("onnxruntime", onnxruntime.__version__, {"exported": exported, "rewritten": rewritten})


main()
