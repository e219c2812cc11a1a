# SPDX-License-Identifier: Apache-2.0
"""Safetensors files of small lists of numbers, for the tests of programs."""
import json
import struct

SIZES = {"F32": ("f", 4), "F64": ("d", 8), "I32": ("i", 4), "I64": ("q", 8)}


def write_file(path, tensors):
    """tensors: {name: (dtype, shape, values)}."""
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        raw = struct.pack("<" + SIZES[dtype][0] * len(values), *values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read_file(path):
    with open(path, "rb") as file:
        raw = file.read()
    length = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + length]), raw[8 + length:]
    header.pop("__metadata__", None)
    return {name: list(struct.unpack("<" + SIZES[e["dtype"]][0] * ((e["data_offsets"][1] - e["data_offsets"][0])
                                                                    // SIZES[e["dtype"]][1]),
                                     data[slice(*e["data_offsets"])]))
            for name, e in header.items()}
