# SPDX-License-Identifier: Apache-2.0
"""Safetensors files as arrays of NumPy."""
import json

import ml_dtypes
import numpy as np

DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "int16": "I16",
          "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
          "bfloat16": "BF16", "complex64": "C64", "complex128": "C128"}


def read_arrays(file):
    """The tensors of a file, by name."""
    names = {code: name for name, code in DTYPES.items()}
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8:8 + length])
    doubled = header.pop("__metadata__", {})  # complex128 as pairs of doubles
    out = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        text = names[entry["dtype"]]
        dtype = ml_dtypes.bfloat16 if text == "bfloat16" else np.dtype(text)
        value = np.frombuffer(content[begin:end], dtype).reshape(entry["shape"])
        if f"etude.complex128/{name}" in doubled:
            value = value.copy().view(np.complex128).reshape(value.shape[:-1])
        out[name] = value
    return out
