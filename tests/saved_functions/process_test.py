#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""process_test.py WRITER READER ETUDE [LOADER]: one process saves functions, others load, run and train them."""
# spec: SV-01.d
import array
import json
import pathlib
import struct
import subprocess
import sys
import tempfile


def run(*command, status=0):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == status, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


def tensors(file):
    """The float32 and int32 tensors of a safetensors file: {name: (shape, elements)}."""
    content = pathlib.Path(file).read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    out = {}
    for name, entry in json.loads(content[8:8 + length]).items():
        begin, end = (8 + length + offset for offset in entry.get("data_offsets", (0, 0)))
        code = {"F32": "f", "I32": "i"}.get(entry.get("dtype"))
        if code:
            out[name] = (entry["shape"], array.array(code, content[begin:end]).tolist())
    return out


def write_npy(file, shape, elements):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    file.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                     array.array("f", elements).tobytes())


def read_npy(file):
    content = file.read_bytes()
    length = struct.unpack("<H", content[8:10])[0]
    header = content[10:10 + length].decode()
    assert "'<f4'" in header, header
    return array.array("f", content[10 + length:]).tolist()


def main():
    writer, reader, etude = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        net, values = str(folder / "net"), str(folder / "values.safetensors")
        run(writer, net, values)
        if len(sys.argv) > 4:  # a program that links the loader alone
            assert run(sys.argv[4], net, values) == "loaded\n"
        known = tensors(values)
        x, y = folder / "x.npy", folder / "y.npy"
        write_npy(x, *known["x"])
        run(etude, "run", net, "--function", "predict", "--input", str(x), "--output", str(y))
        assert read_npy(y) == known["scores"][1]

        model = folder / "net.onnx"
        told = run(etude, "convert", net, "--function", "predict", "--to", str(model))
        assert told == f"{model}: {model.stat().st_size} bytes\n" and model.stat().st_size > 1000, told
        wrong = run(etude, "convert", net, "--to", str(model), status=1)
        assert wrong == f"etude: '{net}' has 2 functions: predict, train. Choose one by --function\n", wrong
        wrong = run(etude, "convert", net, "--function", "train", "--to", str(model), status=1)
        assert "but a model of ONNX changes no state" in wrong and "convert_command" not in wrong, wrong

        again = str(folder / "again")  # and back, with equal bits
        told = run(etude, "convert", str(model), "--to", again)
        assert "function predict\n  (x: float32[n,4]) -> " in told and "variable net/hidden/weight: float32[4,8]\n" in told, told
        run(etude, "run", again, "--input", str(x), "--output", str(y))
        assert read_npy(y) == known["scores"][1]
        told = run(etude, "convert", str(model), "--to", str(folder / "fixed"), "--size", "n=8", "--function", "classify")
        assert "function classify\n  (x: float32[8,4]) -> " in told, told
        wrong = run(etude, "convert", str(model), "--to", again, "--size", "n", status=1)
        assert wrong == "etude: --size is 'n', but a name and a size are needed, such as batch=8\n", wrong
        wrong = run(etude, "convert", str(model), "--to", again, "--opset", "18", status=1)
        assert wrong == (f"etude: --opset is no option for the conversion of '{model}', which is a model of ONNX, to a folder "
                         "of saved functions. Leave it out\n"), wrong
        for option in (["--graph", "1"], ["--doc", "a text"], ["--training"], ["--fixed-sizes"]):
            assert f"etude: {option[0]} is no option for" in run(etude, "convert", str(model), "--to", again, *option, status=1)
        for option in (["--size", "n=8"], ["--max-loop-steps", "5"]):
            wrong = run(etude, "convert", net, "--function", "predict", "--to", str(model), *option, status=1)
            assert f"etude: {option[0]} is no option for the conversion of '{net}', which is a folder of saved functions, " \
                "to a model of ONNX" in wrong, wrong

        assert run(reader, net, values) == "same\n"
        run(etude, "run", net, "--function", "predict", "--input", f"x={x}", "--output", str(y))
        assert read_npy(y) == known["trained"][1]  # the reader saved what it trained
        printed = run(etude, "run", net, "--function", "predict", "--input", str(x))
        assert printed.startswith("output: float32[8,3]\n[["), printed
        all_results = folder / "all.safetensors"
        write_npy(x, [1, 4], known["x"][1][:4])
        run(etude, "run", net, "--function", "predict", "--input", str(x), "--output", str(all_results))
        assert tensors(all_results)["output"] == known["one"]

        shown = run(etude, "inspect", net)
        for part in ("function predict\n  (x: float32[n,4]) -> (output: float32[n,3])\n", "  exported: x -> output\n",
                     "function train\n  (x: float32[8,4], labels: int32[8]) -> (output: float32[])\n    changes net/hidden/",
                     "variable net/hidden/weight: float32[4,8]\n"):
            assert part in shown, (part, shown)
        assert "matmul(" in run(etude, "inspect", net, "--function", "predict")

        compiled = run(etude, "compile", net, "--function", "predict", "--size", "8", "-o", str(folder / "model"))
        assert "1 inputs, 1 outputs" in compiled, compiled
        assert "float32[8,4]" in (folder / "model.h").read_text(), (folder / "model.h").read_text()

        write_npy(x, [2, 5], [0.0] * 10)
        refused = run(etude, "run", net, "--function", "predict", "--input", str(x), status=1)
        assert "function 'predict' has no graph for (x: float32[2,5])" in refused, refused
        refused = run(etude, "run", net, "--input", str(x), status=1)
        assert "this folder has 2 functions: predict, train. Choose one by --function" in refused, refused
        refused = run(etude, "run", net, "--function", "train", "--input", str(x), status=1)
        assert "has 2 inputs: x, labels. Name the input: --input x=" in refused, refused
        refused = run(etude, "inspect", str(folder / "none"), status=1)
        assert refused == f"etude: '{folder}/none' does not exist. Is the path right?\n", refused


if __name__ == "__main__":
    main()
