#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""modules_test.py PROGRAM KIND [LIST]: JAX parses the modules that PROGRAM writes, compiles them and computes our
results. LIST is the list of the ops that are refused, which PROGRAM checks.
Compiling takes most of the time. So several modules are compiled as one, and of the ops a sample runs: each op once, and
a fifth of the other calls. ETUDE_ALL=1 runs all."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "onnx"))
try:
    import ml_dtypes
    import numpy as np
    import jax
    jax.config.update("jax_enable_x64", True)
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jaxlib.mlir import ir
    from tensor_arrays import read_arrays
except ImportError as missing:
    jax = None
    REASON = missing

MOST_SHOWN = 40
TOGETHER = {"ops": 25, "layers": 8, "models": 1}  # modules that are compiled as one


def tolerance(dtypes):
    """The relative tolerance of a result of these dtypes and those of the inputs; absolute for numbers below 1."""
    limits = {"bfloat16": 2e-2, "float16": 4e-3, "float32": 1e-5, "complex64": 1e-5, "float64": 1e-9, "complex128": 1e-9}
    return max(limits.get(dtype.name, 0) for dtype in dtypes)


def fault(got, want, inputs):
    """What is wrong with a result; "" if nothing is."""
    if list(got.shape) != list(want.shape):
        return f"shape {list(got.shape)}, not {list(want.shape)}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, not {want.dtype}"
    if want.dtype.kind in "biu":
        return "" if (got == want).all() else f"{got.ravel()[:8]}, not {want.ravel()[:8]}"
    limit = tolerance([want.dtype, *inputs])
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
        debug = self.options.executable_build_options.debug_options
        debug.xla_backend_optimization_level = 0
        debug.xla_llvm_disable_expensive_passes = True

    def run(self, calls):
        """The results of (text of a module, inputs by name), by name, for each call."""
        with mlir.make_ir_context() as context, ir.Location.unknown(context):
            modules = [ir.Module.parse(text) for text, _ in calls]
            mains = [self.main(module) for module in modules]
            names = [[self.names(main, kind) for kind in ("arg_attrs", "res_attrs")] for main in mains]
            module = ir.Module.parse(self.together(mains, [text for text, _ in calls])) if len(calls) > 1 else modules[0]
            assert module.operation.verify()
            devices = xla_client.DeviceList((self.device,))
            loaded = self.client.compile_and_load(mlir.module_to_bytecode(module), devices, self.options)
        inputs = [given[name] for (_, given), (arguments, _) in zip(calls, names) for name in arguments]
        buffers = [jax.device_put(x, self.device) for x in inputs]
        results = iter(loaded.execute_sharded(buffers).disassemble_into_single_device_arrays())
        return [{name: np.asarray(next(results)[0]) for name in made} for _, made in names]

    @staticmethod
    def together(mains, texts):
        """One module that calls the functions of all."""
        functions, parameters, results, types, lines = [], [], [], [], []
        for i, (main, text) in enumerate(zip(mains, texts)):
            body = text.split("\n", 1)[1].rsplit("}", 1)[0]  # without the module around it
            functions.append(body.replace("func.func public @main(", f"func.func private @f{i}(", 1))
            kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
            inputs = [f"%x{i}_{n}" for n in range(len(kind.inputs))]
            outputs = [f"%y{i}#{n}" if len(kind.results) > 1 else f"%y{i}" for n in range(len(kind.results))]
            parameters += [f"{name}: {of}" for name, of in zip(inputs, kind.inputs)]
            results += outputs
            types += [str(of) for of in kind.results]
            lines.append(f"%y{i}:{len(kind.results)} = call @f{i}({', '.join(inputs)}) : {kind}\n")
        return (f"module {{\n{''.join(functions)}func.func public @main({', '.join(parameters)}) -> ({', '.join(types)}) "
                f"{{\n{''.join(lines)}return {', '.join(results)} : {', '.join(types)}\n}}\n}}\n")

    @staticmethod
    def main(module):
        assert module.operation.verify()
        return next(op for op in module.body.operations if ir.StringAttr(op.attributes["sym_name"]).value == "main")

    @staticmethod
    def names(main, kind):
        if kind not in main.attributes:
            return []
        return [ir.StringAttr(ir.DictAttr(each)["etude.name"]).value for each in ir.ArrayAttr(main.attributes[kind])]


class Checker:
    """Runs cases, and keeps what is wrong."""

    def __init__(self, folder):
        self.folder, self.runner = folder, Jax()
        self.tensors = read_arrays(folder / "tensors.safetensors")
        self.faults = []

    def calls(self, case):
        text = (self.folder / case["model"]).read_text()
        return [(text, {name: self.tensors[key] for name, key in run["inputs"].items()}) for run in case["runs"]]

    def run(self, cases):
        """Runs cases as one module, and by halves if this fails."""
        try:
            results = iter(self.runner.run([call for case in cases for call in self.calls(case)]))
        except Exception as error:  # pylint: disable=broad-except
            if len(cases) > 1:
                self.run(cases[:len(cases) // 2])
                self.run(cases[len(cases) // 2:])
            else:
                self.blame(cases[0], f"{type(error).__name__}: {error}")
            return
        for case in cases:
            for run in case["runs"]:
                made = next(results)
                inputs = [self.tensors[key].dtype for key in run["inputs"].values()]
                for name, key in run["results"].items():
                    wrong = fault(made[name], self.tensors[key], inputs)
                    if wrong:
                        self.blame(case, f"{name} is {wrong}")

    def blame(self, case, wrong):
        self.faults.append(f"{case['label']}: {wrong}".replace("\n", " "))


def sampled(cases):
    """The first case of each op, and each fifth of the others."""
    seen, out = set(), []
    for i, case in enumerate(cases):
        op = case["label"].split(" ")[0]
        if op not in seen or i % 5 == 0:
            out.append(case)
        seen.add(op)
    return out


def main():
    program, kind, *lists = sys.argv[1:]
    is_whole = kind != "ops" or bool(os.environ.get("ETUDE_ALL"))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        made = subprocess.run([program, kind, name, *lists], check=False)
        if made.returncode:
            return made.returncode
        if jax is None:
            print(f"left out: {REASON}; ./dev installs python/requirements.txt into build/python/venv")
            return 77
        every = json.loads((folder / "cases.json").read_text())
        cases = every if is_whole else sampled(every)
        checker = Checker(folder)
        for i in range(0, len(cases), TOGETHER[kind]):
            checker.run(cases[i:i + TOGETHER[kind]])
    for line in checker.faults[:MOST_SHOWN]:
        print(line[:600])
    print(f"{len(cases)} of {len(every)} modules ran, {len(checker.faults)} faults")
    return 0 if cases and not checker.faults else 1


if __name__ == "__main__":
    sys.exit(main())
