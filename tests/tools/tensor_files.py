# SPDX-License-Identifier: Apache-2.0
"""Safetensors files of small lists of numbers, for the tests of programs."""
import json
import pathlib
import struct

SIZES = {"F32": ("f", 4), "F64": ("d", 8), "I32": ("i", 4), "I64": ("q", 8)}


def write_entries(path, tensors):
    """tensors: {name: (dtype, shape, bytes)}. Returns the path as text."""
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)
    return str(path)


def read_entries(path):
    """{name: (dtype, shape, bytes)}."""
    raw = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + length]), raw[8 + length:]
    header.pop("__metadata__", None)
    return {name: (e["dtype"], e["shape"], data[slice(*e["data_offsets"])]) for name, e in header.items()}


def write_file(path, tensors):
    """tensors: {name: (dtype, shape, values)}."""
    write_entries(path, {name: (dtype, shape, struct.pack("<" + SIZES[dtype][0] * len(values), *values))
                         for name, (dtype, shape, values) in tensors.items()})


def read_file(path):
    """{name: values}."""
    return {name: list(struct.unpack("<" + SIZES[dtype][0] * (len(raw) // SIZES[dtype][1]), raw))
            for name, (dtype, _, raw) in read_entries(path).items()}
