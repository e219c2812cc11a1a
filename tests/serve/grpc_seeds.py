# SPDX-License-Identifier: Apache-2.0
"""Seeds of the fuzz target of messages of gRPC: grpc_seeds.py seeds FOLDER. Writes the bytes of Protocol Buffers by hand."""
import os
import struct
import sys


def varint(n):
    n &= 2 ** 64 - 1
    out = b""
    while n >= 128:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def part(field, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def given(name, datatype, shape, contents=b"", parameters=b""):
    sizes = part(3, b"".join(varint(size) for size in shape))
    return part(5, part(1, name) + part(2, datatype) + sizes + parameters + (part(5, contents) if contents else b""))


def request(*inputs, raw=(), outputs=(), more=b""):
    return (part(1, "net") + part(2, "1") + part(3, "id") + more + b"".join(inputs) +
            b"".join(part(6, part(1, each)) for each in outputs) + b"".join(part(7, each) for each in raw))


def seeds():
    yield request(given("x", "FP32", [1, 2]), raw=[struct.pack("<2f", 1, -2.5)])
    yield request(given("x", "INT8", [2]), given("y", "BOOL", [1, 1]), raw=[b"\x01\xff", b"\x01"], outputs=["y", "x"])
    yield request(given("x", "FP16", [2]), raw=[b"\0\x3c\0\xc0"])
    packed = {"BOOL": part(1, b"\1\0"), "INT8": part(2, varint(-3) + varint(5)), "INT64": part(3, varint(-2 ** 63) + varint(7)),
              "UINT16": part(4, varint(65535) + varint(0)), "UINT64": part(5, varint(2 ** 64 - 1) + varint(1)),
              "FP32": part(6, struct.pack("<2f", 1, 2)), "FP64": part(7, struct.pack("<2d", 1e300, -0.0))}
    for datatype, contents in packed.items():
        yield request(given("x", datatype, [2], contents))
    yield request(given("x", "BYTES", [1], part(8, "text")))
    timeout = part(4, part(1, "timeout") + part(2, number(2, 250000)))
    yield request(given("x", "UINT8", [0]), raw=[b""], more=timeout)
    classes = part(6, part(1, "x") + part(2, part(1, "classification") + part(2, number(2, 3))))
    yield request(given("x", "UINT8", [1]), raw=[b"\7"], more=classes)
    yield request(given("x", "FP32", [-1, 2 ** 62]), raw=[b""])


if __name__ == "__main__" and sys.argv[1] == "seeds":
    os.makedirs(sys.argv[2], exist_ok=True)
    for index, seed in enumerate(seeds()):
        with open(os.path.join(sys.argv[2], f"seed{index}"), "wb") as file:
            file.write(seed)
