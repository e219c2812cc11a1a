#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""models_test.py PROGRAM KIND OPSET [LIST KERNELS]: models that PROGRAM writes pass onnx.checker, and onnxruntime
computes our results. KERNELS is the list of the ops and dtypes for which onnxruntime has no kernel; ETUDE_UPDATE=1
writes it."""
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
    import onnxruntime
    from tensor_arrays import read_arrays
except ImportError as missing:
    onnx = None
    REASON = missing

HEAD = "# Ops and dtypes for which onnxruntime has no kernel. Written by ETUDE_UPDATE=1 ctest -R onnx.ops; do not edit.\n"
MOST_SHOWN = 40
# Images are transposed once at the beginning, and before they become rows unless a mean has taken their axes.
TRANSPOSES = {"lenet": 2, "resnet20": 1}


def value_of(x):
    if x.dtype == ml_dtypes.bfloat16:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(np.uint16), onnx.TensorProto.BFLOAT16)
    return onnxruntime.OrtValue.ortvalue_from_numpy(x)


def fault(got, want):
    """What is wrong with a result; "" if nothing is."""
    if list(got.shape) != list(want.shape):
        return f"shape {list(got.shape)}, not {list(want.shape)}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, not {want.dtype}"
    if want.dtype.kind in "biu":
        return "" if (got == want).all() else f"{got.ravel()[:8]}, not {want.ravel()[:8]}"
    relative, absolute = {2: (2e-2, 2e-2)}.get(want.dtype.itemsize, (1e-3, 1e-5))
    got, want = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        close = np.isclose(got, want, relative, absolute, equal_nan=True)
    if close.all():
        return ""
    return f"{got[~close].ravel()[:4]}, not {want[~close].ravel()[:4]} ({(~close).sum()} of {close.size})"


def array_of(value):
    if value.element_type() == onnx.TensorProto.BFLOAT16:
        return onnx_bfloat16(value)
    return value.numpy()


def onnx_bfloat16(value):
    import ctypes
    count = int(np.prod(value.shape())) if value.shape() else 1
    raw = (ctypes.c_uint16 * count).from_address(value.data_ptr()) if count else []
    return np.array(raw, np.uint16).view(ml_dtypes.bfloat16).reshape(value.shape())


def check(case, folder, all_tensors, options):
    """Checks and runs a model. Returns "" or a fault; raises onnxruntime's errors."""
    file = str(folder / case["model"])
    onnx.checker.check_model(file, full_check=True)
    if case["label"] in TRANSPOSES:
        count = sum(node.op_type == "Transpose" for node in onnx.load(file).graph.node)
        if count != TRANSPOSES[case["label"]]:
            return f"there are {count} transposes, not {TRANSPOSES[case['label']]}"
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    for run in case["runs"]:
        binding = {name: value_of(all_tensors[key]) for name, key in run["inputs"].items()}
        names = list(run["results"])
        results = session.run_with_ort_values(names, binding)
        for name, result in zip(names, results):
            wrong = fault(array_of(result), all_tensors[run["results"][name]])
            if wrong:
                sizes = {name: list(x.shape()) for name, x in binding.items()}
                return f"{name} of {sizes} is {wrong}"
    return ""


def no_kernel(error):
    return any(word in str(error) for word in ("NOT_IMPLEMENTED", "Could not find an implementation", "NotImplemented"))


def check_kernels(missing, file):
    """Compares the ops without a kernel with the list. Returns the number of differences."""
    lines = [f"{op}: {' '.join(sorted(dtypes))}" for op, dtypes in sorted(missing.items())]
    text = HEAD + "".join(line + "\n" for line in lines)
    if os.environ.get("ETUDE_UPDATE"):
        file.write_text(text)
    known = file.read_text() if file.exists() else ""
    if known == text:
        return 0
    for line in sorted(set(lines) ^ set(known.splitlines()[1:])):
        print(f"{'new' if line in lines else 'gone'} in {file.name}: {line}")
    return 1


def main():
    program, kind, opset, *lists = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        made = subprocess.run([program, kind, name, opset, *lists[:1]], check=False)
        if made.returncode:
            return made.returncode
        if onnx is None:
            print(f"left out: {REASON}; ./dev installs python/requirements.txt into build/python/venv")
            return 77
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        cases = json.loads((folder / "cases.json").read_text())
        all_tensors = read_arrays(folder / "tensors.safetensors")
        faults, missing = [], collections.defaultdict(set)
        for case in cases:
            try:
                wrong = check(case, folder, all_tensors, options)
            except Exception as error:  # pylint: disable=broad-except
                if no_kernel(error):
                    words = case["label"].split(" ")  # "add onnx cpu float32 sample 3"
                    missing[words[0]].add(words[3] if kind == "ops" else "")
                    continue
                wrong = f"{type(error).__name__}: {error}"
            if wrong:
                faults.append(f"{case['label']}: {wrong}".replace("\n", " "))
        for line in faults[:MOST_SHOWN]:
            print(line)
        print(f"{len(cases)} models, {len(faults)} faults, {len(missing)} ops without a kernel for some dtype")
        if kind != "ops":
            for op in missing:
                print(f"{op}: onnxruntime has no kernel")
            return 1 if faults or missing else 0
        known = not lists or check_kernels(missing, pathlib.Path(lists[1])) == 0
        return 0 if known and not faults else 1


if __name__ == "__main__":
    sys.exit(main())
