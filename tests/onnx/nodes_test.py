#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nodes_test.py PROGRAM LIST: the importer passes the one-node tests of the ONNX project.

PROGRAM is onnx_import. The tests ship in the package onnx; which of them are relevant follows from onnx.defs: those
whose operators are in the domain ai.onnx and are not among REFUSED, and whose dtypes exist here. LIST has the relevant
tests that onnxruntime passes and the importer does not, with reasons. It may only shrink; ETUDE_UPDATE=1 writes it."""
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import ml_dtypes
    import numpy as np
    import onnx
    import onnx.defs
    import onnx.numpy_helper
    import onnxruntime
    from tensor_arrays import DTYPES, read_arrays
except ImportError as missing:
    onnx = None
    REASON = missing

HEAD = ("# Relevant one-node tests of the ONNX project that onnxruntime passes and onnx::load() does not.\n"
        "# Written by ETUDE_UPDATE=1 ctest -R onnx.nodes; do not edit. It may only shrink.\n")
LEAST = 0.97
# Operators of ai.onnx that models of tensors do without, with the reason.
REFUSED = {
    "texts": "RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer",
    "sequences": "ConcatFromSequence SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert "
                 "SequenceLength SequenceMap SplitToSequence",
    "optional values": "Optional OptionalGetElement OptionalHasElement",
    "files of images": "ImageDecoder",
    "random numbers, which differ between runtimes": "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform "
                                                     "RandomUniformLike",
}


def write_tensors(file, arrays):
    head, body = {}, b""
    for name, x in arrays.items():
        data = np.ascontiguousarray(x).tobytes()
        head[name] = {"dtype": DTYPES[x.dtype.name], "shape": list(x.shape),
                      "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(len(text).to_bytes(8, "little") + text + body)


def all_nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g)


def irrelevant(model):
    """Why a test is not relevant; "" if it is."""
    refused = {op: reason for reason, ops in REFUSED.items() for op in ops.split()}
    for node in all_nodes(model.graph):
        if node.domain not in ("", "ai.onnx"):
            return f"the domain {node.domain}"
        if node.op_type in refused:
            return refused[node.op_type]
    types = [port.type for port in [*model.graph.input, *model.graph.output]]
    if any(not type_.HasField("tensor_type") for type_ in types):
        return "sequences"
    for type_ in types:
        name = onnx.TensorProto.DataType.Name(type_.tensor_type.elem_type)
        if name == "STRING":
            return "texts"
        if name.startswith(("FLOAT8", "FLOAT4", "INT4", "UINT4", "INT2", "UINT2")):
            return "dtypes of 8, 4 and 2 bits that this library lacks"
    return ""


def load_values(folder, kind, count):
    """The values of input_0.pb, ..., or None if one is no tensor."""
    out = []
    for i in range(count):
        file = folder / f"{kind}_{i}.pb"
        if not file.exists():
            return None
        tensor = onnx.TensorProto()
        try:
            tensor.ParseFromString(file.read_bytes())
            out.append(onnx.numpy_helper.to_array(tensor))
        except Exception:  # pylint: disable=broad-except
            return None
    return out


def fault(got, want):
    """What is wrong with a result, by the tolerances of the ONNX project; "" if nothing is."""
    if list(got.shape) != list(want.shape):
        return f"shape {list(got.shape)}, not {list(want.shape)}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, not {want.dtype}"
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    got, want = got.astype(wide), want.astype(wide)
    with np.errstate(invalid="ignore"):
        close = np.isclose(got, want, 1e-3, 1e-7, equal_nan=True)
    if close.all():
        return ""
    return f"{(~close).sum()} of {close.size} elements: {got[~close].ravel()[:3]}, not {want[~close].ravel()[:3]}"


def ort_value(x):
    if x.dtype == ml_dtypes.bfloat16:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(np.uint16), onnx.TensorProto.BFLOAT16)
    return onnxruntime.OrtValue.ortvalue_from_numpy(x)


def array_of(value):
    if value.element_type() == onnx.TensorProto.BFLOAT16:
        import ctypes
        count = int(np.prod(value.shape())) if value.shape() else 1
        raw = (ctypes.c_uint16 * count).from_address(value.data_ptr()) if count else []
        return np.array(raw, np.uint16).view(ml_dtypes.bfloat16).reshape(value.shape())
    return value.numpy()


def passes_onnxruntime(file, names, inputs, outputs, options):
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        given = {name: ort_value(x) for name, x in zip(names, inputs)}
        results = session.run_with_ort_values([out.name for out in session.get_outputs()], given)
        return all(not fault(array_of(got), want) for got, want in zip(results, outputs))
    except Exception:  # pylint: disable=broad-except
        return False


class Case:
    def __init__(self, name, ops, outputs, onnxruntime_passes):
        self.name, self.ops, self.outputs, self.onnxruntime_passes = name, ops, outputs, onnxruntime_passes
        self.fault, self.fixed = "", ""


def collect(folder, base):
    """The relevant tests, by number, and the counts of the others, by reason."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    cases, others, lines = {}, collections.Counter(), []
    for number, test in enumerate(sorted(base.iterdir())):
        file = test / "model.onnx"
        model = onnx.load(str(file))
        names = [port.name for port in model.graph.input]
        reason = irrelevant(model)
        inputs = load_values(test / "test_data_set_0", "input", len(names))
        outputs = load_values(test / "test_data_set_0", "output", len(model.graph.output))
        if not reason and (inputs is None or outputs is None):
            reason = "values that are no tensors"
        if reason:
            others[reason] += 1
            continue
        ops = {node.op_type for node in model.graph.node}
        cases[number] = Case(test.name, ops, outputs, passes_onnxruntime(file, names, inputs, outputs, options))
        write_tensors(folder / f"{number}.safetensors", dict(zip(names, inputs)))
        lines.append(f"{number}\t{file}\n")
    (folder / "cases.txt").write_text("".join(lines))
    return cases, others


def judge(folder, cases, output):
    for line in output.splitlines():
        number, kind, text = line.split("\t", 2)
        case = cases[int(number)]
        if kind == "error":
            case.fault = text
            continue
        case.fixed = text
        results = [x for _, x in sorted(read_arrays(folder / f"{number}.out.safetensors").items())]
        for got, want in zip(results, case.outputs):
            case.fault = case.fault or fault(got, want)
        if len(results) != len(case.outputs):
            case.fault = f"{len(results)} results, not {len(case.outputs)}"


def print_table(cases, others):
    for reason, count in sorted(others.items()):
        print(f"left out: {count} tests: {reason}")
    by_op = collections.defaultdict(lambda: [0, 0, 0, 0])
    for case in cases.values():
        op = next(iter(case.ops)) if len(case.ops) == 1 else "(several)"
        row = by_op[op]
        row[0] += 1
        row[1] += case.onnxruntime_passes
        row[2] += not case.fault
        row[3] += case.onnxruntime_passes and not case.fault
    print(f"{'operator':28} tests  onnxruntime  etude  both")
    for op, row in sorted(by_op.items()):
        print(f"{op:28} {row[0]:5} {row[1]:12} {row[2]:6} {row[3]:5}")


def check_list(file, lines):
    """Compares the tests that do not pass with the list. Returns whether it is as it was."""
    text = HEAD + "".join(lines)
    if os.environ.get("ETUDE_UPDATE"):
        file.write_text(text)
    known = file.read_text() if file.exists() else ""
    names = {line.split(":")[0] for line in known.splitlines() if not line.startswith("#")}
    now = {line.split(":")[0] for line in lines}
    for name in sorted(now - names):
        print(f"new in {file.name}: {name}")
    for name in sorted(names - now):
        print(f"passes now, run ETUDE_UPDATE=1 ctest -R onnx.nodes: {name}")
    return names == now


def main():
    program, known = sys.argv[1], pathlib.Path(sys.argv[2])
    if onnx is None:
        print(f"left out: {REASON}; ./dev installs python/requirements.txt into build/python/venv")
        return 77
    base = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cases, others = collect(folder, base)
        made = subprocess.run([program, name], check=False, stdout=subprocess.PIPE, text=True)
        judge(folder, cases, made.stdout)
    print_table(cases, others)
    relevant = [case for case in cases.values() if case.onnxruntime_passes]
    passed = [case for case in relevant if not case.fault]
    failed = [case for case in relevant if case.fault]
    for case in failed:
        print(f"{case.name}: {case.fault[:300]}")
    if os.environ.get("ETUDE_ALL"):
        for case in cases.values():
            if case.fault and not case.onnxruntime_passes:
                print(f"(neither) {case.name}: {case.fault[:300]}")
    share = len(passed) / len(relevant)
    print(f"{len(cases)} relevant tests, onnxruntime passes {len(relevant)}; of these etude passes {len(passed)}, "
          f"{100 * share:.2f} %, {sum(bool(case.fixed) for case in passed)} of them with inputs that are fixed when the "
          f"model is loaded")
    lines = [f"{case.name}: {' '.join(case.fault.split())[:120]}\n" for case in failed]
    is_known = check_list(known, lines)
    return 0 if made.returncode == 0 and is_known and share >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
