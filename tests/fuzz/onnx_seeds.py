#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""onnx_seeds.py seeds FOLDER: small models of ONNX to begin with, written by the field numbers of onnx.proto3."""
import pathlib
import struct
import sys


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def tensor(name, dtype, dims, raw):
    return b"".join(number(1, dim) for dim in dims) + number(2, dtype) + data(8, name) + data(9, raw)


def floats(name, dims, values):
    return tensor(name, 1, dims, struct.pack(f"<{len(values)}f", *values))


def ints(name, dims, values):
    return tensor(name, 7, dims, struct.pack(f"<{len(values)}q", *values))


def attribute(name, value):
    if isinstance(value, int):
        return data(1, name) + number(3, value) + number(20, 2)
    if isinstance(value, float):
        return data(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, str):
        return data(1, name) + data(4, value) + number(20, 3)
    if isinstance(value, list):
        return data(1, name) + b"".join(number(8, each) for each in value) + number(20, 7)
    return data(1, name) + data(6, value) + number(20, 5)


def node(op, inputs, outputs, **attributes):
    out = b"".join(data(1, name) for name in inputs) + b"".join(data(2, name) for name in outputs)
    return out + data(3, op) + data(4, op) + b"".join(data(5, attribute(*each)) for each in attributes.items())


def port(name, sizes, dtype=1):
    dims = b"".join(data(1, data(2, size) if isinstance(size, str) else number(1, size)) for size in sizes)
    return data(1, name) + data(2, data(1, number(1, dtype) + data(2, dims)))


def graph(nodes, inputs=(), outputs=(), constants=()):
    out = b"".join(data(1, each) for each in nodes) + data(2, "graph")
    out += b"".join(data(5, each) for each in constants) + b"".join(data(11, each) for each in inputs)
    return out + b"".join(data(12, each) for each in outputs)


def model(content, opset=17):
    return number(1, 8) + data(7, content) + data(8, number(2, opset))


def models():
    x, z = port("x", ["n", 4]), port("z", [])
    weight = floats("w", [4, 2], [0.5] * 8)
    yield graph([node("MatMul", "xw", "y"), node("Relu", "y", "z")], [x], [z], [weight])
    yield graph([node("Shape", "x", "s"), node("Reshape", "xs", "z")], [x], [z])
    image = port("x", [1, 1, 5, 5])
    filter_ = floats("f", [1, 1, 3, 3], [1.0] * 9)
    pads = {"pads": [1, 1, 1, 1], "strides": [2, 2]}
    yield graph([node("Conv", "xf", "y", **pads), node("MaxPool", "y", "z", kernel_shape=[2, 2])], [image], [z], [filter_])
    then, other = graph([node("Exp", "x", "a")], [], [port("a", [])]), graph([node("Neg", "x", "b")], [], [port("b", [])])
    yield graph([node("If", "c", "z", then_branch=then, else_branch=other)], [x, port("c", [], 9)], [z])
    body = graph([node("Identity", "g", "h"), node("Add", "sx", "t")],
                 [port("i", [], 7), port("g", [], 9), port("s", ["n", 4])], [port("h", [], 9), port("t", [])])
    yield graph([node("Loop", ["m", "", "x"], "z", body=body)], [x], [z], [ints("m", [], [3])])
    yield graph([node("Slice", "xaba", "y"), node("Pad", "yp", "z", mode="constant")], [x], [z],
                [ints("a", [1], [1]), ints("b", [1], [3]), ints("p", [4], [0, 1, 0, 1])])
    yield graph([node("Softmax", "x", "y", axis=1), node("ReduceSum", "y", "z", keepdims=0)], [x], [z])


def main():
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for number_, content in enumerate(models()):
        (folder / f"{number_}.onnx").write_bytes(model(content))


if __name__ == "__main__":
    main()
