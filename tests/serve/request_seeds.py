# SPDX-License-Identifier: Apache-2.0
"""Seeds of the fuzz target of requests: request_seeds.py seeds FOLDER."""
import json
import os
import struct
import sys


def seeds():
    yield b"\0" + json.dumps({"id": "a", "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [[1, 2.5]]}]}).encode()
    for datatype, value in (("BOOL", True), ("INT8", -3), ("UINT64", 2 ** 64 - 1), ("INT64", -2 ** 63), ("FP16", 0.5), ("BF16", 3), ("FP64", 1e300)):
        yield b"\0" + json.dumps({"inputs": [{"name": "x", "datatype": datatype, "shape": [1], "data": [value]}]}).encode()
    head = json.dumps({"inputs": [{"name": "x", "datatype": "INT32", "shape": [2], "parameters": {"binary_data_size": 8}}],
                       "outputs": [{"name": "y", "parameters": {"binary_data": True}}], "parameters": {"timeout": 5}}).encode()
    yield b"\xff" + head + b"\n" + struct.pack("<2i", 1, 2)
    yield b"\0" + b"[" * 1000


if __name__ == "__main__" and sys.argv[1] == "seeds":
    os.makedirs(sys.argv[2], exist_ok=True)
    for number, seed in enumerate(seeds()):
        with open(os.path.join(sys.argv[2], f"seed{number}"), "wb") as file:
            file.write(seed)
