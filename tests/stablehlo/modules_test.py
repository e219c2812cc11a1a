#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""modules_test.py PROGRAM KIND [LIST MISSING]: JAX parses the modules that PROGRAM writes, compiles them and computes
our results. MISSING is the list of the ops and dtypes that XLA does not compile for CPUs; ETUDE_UPDATE=1 writes it."""
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
try:
    import ml_dtypes
    import numpy as np
    import jax
    jax.config.update("jax_enable_x64", True)
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jaxlib.mlir import ir
except ImportError as missing:
    jax = None
    REASON = missing

HEAD = ("# Ops and dtypes that XLA does not compile for CPUs. Written by ETUDE_UPDATE=1 ctest -R stablehlo.ops; do not\n"
        "# edit.\n")
MOST_SHOWN = 40


def tensors(file):
    """The tensors of a safetensors file, by name."""
    dtypes = {"F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1", "U64": "u8",
              "U32": "u4", "U16": "u2", "U8": "u1", "BOOL": "?", "C64": "c8"}
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8:8 + length])
    doubled = header.pop("__metadata__", {})
    out = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        dtype = ml_dtypes.bfloat16 if entry["dtype"] == "BF16" else np.dtype(dtypes[entry["dtype"]])
        value = np.frombuffer(content[begin:end], dtype).reshape(entry["shape"])
        if any(name in key for key in doubled) and value.dtype == np.float64:
            value = value.copy().view(np.complex128).reshape(value.shape[:-1])
        out[name] = value
    return out


def tolerance(dtype):
    """The relative tolerance of a result; absolute for numbers below 1."""
    return 2e-2 if dtype.itemsize == 2 else 1e-5


def fault(got, want):
    """What is wrong with a result; "" if nothing is."""
    if list(got.shape) != list(want.shape):
        return f"shape {list(got.shape)}, not {list(want.shape)}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, not {want.dtype}"
    if want.dtype.kind in "biu":
        return "" if (got == want).all() else f"{got.ravel()[:8]}, not {want.ravel()[:8]}"
    limit = tolerance(want.dtype)
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    got, want = got.astype(wide), want.astype(wide)
    with np.errstate(invalid="ignore"):
        close = np.isclose(got, want, limit, limit, equal_nan=True)
    if close.all():
        return ""
    return f"{got[~close].ravel()[:4]}, not {want[~close].ravel()[:4]} ({(~close).sum()} of {close.size})"


class Jax:
    """Runs modules on one CPU."""

    def __init__(self):
        self.client = jax.devices("cpu")[0].client
        self.device = jax.devices("cpu")[0]
        self.options = compiler.get_compile_options(num_replicas=1, num_partitions=1)

    def run(self, text, inputs):
        """The results of a module, by name. Inputs are by name."""
        with mlir.make_ir_context() as context, ir.Location.unknown(context):
            module = ir.Module.parse(text)
            assert module.operation.verify()
            main = next(op for op in module.body.operations if ir.StringAttr(op.attributes["sym_name"]).value == "main")
            names = [self.names(main, kind) for kind in ("arg_attrs", "res_attrs")]
            devices = xla_client.DeviceList((self.device,))
            loaded = self.client.compile_and_load(mlir.module_to_bytecode(module), devices, self.options)
        buffers = [jax.device_put(inputs[name], self.device) for name in names[0]]
        results = loaded.execute_sharded(buffers).disassemble_into_single_device_arrays()
        return {name: np.asarray(part[0]) for name, part in zip(names[1], results)}

    @staticmethod
    def names(main, kind):
        if kind not in main.attributes:
            return []
        return [ir.StringAttr(ir.DictAttr(each)["etude.name"]).value for each in ir.ArrayAttr(main.attributes[kind])]


def check(runner, case, folder, all_tensors):
    """Runs a module. Returns "" or a fault; raises JAX's errors."""
    text = (folder / case["model"]).read_text()
    for run in case["runs"]:
        results = runner.run(text, {name: all_tensors[key] for name, key in run["inputs"].items()})
        for name, key in run["results"].items():
            wrong = fault(results[name], all_tensors[key])
            if wrong:
                return f"{name} is {wrong}"
    return ""


def is_missing(error):
    return any(word in str(error) for word in ("UNIMPLEMENTED", "not implemented", "Unsupported", "unsupported"))


def check_missing(missing, file):
    """Compares the ops that XLA lacks with the list. Returns the number of differences."""
    lines = [f"{op}: {' '.join(sorted(dtypes))}" for op, dtypes in sorted(missing.items())]
    text = HEAD + "".join(line + "\n" for line in lines)
    if os.environ.get("ETUDE_UPDATE"):
        file.write_text(text)
    known = file.read_text() if file.exists() else ""
    if known == text:
        return 0
    for line in sorted(set(lines) ^ set(known.splitlines()[2:])):
        print(f"{'new' if line in lines else 'gone'} in {file.name}: {line}")
    return 1


def main():
    program, kind, *lists = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        made = subprocess.run([program, kind, name, *lists[:1]], check=False)
        if made.returncode:
            return made.returncode
        if jax is None:
            print(f"left out: {REASON}; ./dev installs python/requirements.txt into build/python/venv")
            return 77
        runner = Jax()
        cases = json.loads((folder / "cases.json").read_text())
        all_tensors = tensors(folder / "tensors.safetensors")
        faults, missing = [], collections.defaultdict(set)
        for case in cases:
            try:
                wrong = check(runner, case, folder, all_tensors)
            except Exception as error:  # pylint: disable=broad-except
                if kind == "ops" and is_missing(error):
                    words = case["label"].split(" ")  # "add model cpu float32 sample 3"
                    missing[words[0]].add(words[3])
                    continue
                wrong = f"{type(error).__name__}: {error}"
            if wrong:
                faults.append(f"{case['label']}: {wrong}".replace("\n", " "))
        for line in faults[:MOST_SHOWN]:
            print(line[:600])
        print(f"{len(cases)} modules, {len(faults)} faults, {len(missing)} ops that XLA lacks for some dtype")
        known = len(lists) < 2 or check_missing(missing, pathlib.Path(lists[1])) == 0
        return 0 if known and not faults else 1


if __name__ == "__main__":
    sys.exit(main())
