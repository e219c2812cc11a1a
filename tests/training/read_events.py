#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads an event file by the descriptions of its formats, not by the code that wrote it:
records of TensorFlow (length, masked CRC-32C, bytes, masked CRC-32C) around protocol buffers.
Prints a line per event: STEP TAG KIND VALUES. A graph is a line per node: NODE: OP(INPUTS) -> SHAPES, TEXTS."""
import struct
import sys
import zlib


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(raw):
    at = 0
    while at < len(raw):
        head = raw[at:at + 8]
        length, check = struct.unpack("<QI", raw[at:at + 12])
        assert check == masked(head), f"checksum of the length at {at}"
        data = raw[at + 12:at + 12 + length]
        assert struct.unpack("<I", raw[at + 12 + length:at + 16 + length])[0] == masked(data), f"checksum at {at}"
        yield data
        at += 16 + length


def fields(data):
    """{number: [values]} of one message; numbers as they are, the rest as bytes."""
    out, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        elif kind == 1:
            value, at = struct.unpack("<d", data[at:at + 8])[0], at + 8
        elif kind == 5:
            value, at = struct.unpack("<f", data[at:at + 4])[0], at + 4
        else:
            assert kind == 2, f"wire type {kind}"
            size = varint()
            value, at = data[at:at + size], at + size
        out.setdefault(key >> 3, []).append(value)
    return out


def doubles(raw):
    return struct.unpack(f"<{len(raw) // 8}d", raw)


def unfiltered(lines, line, step):
    """The bytes of lines of which each is filtered as its first byte says (PNG, 9.2); `step` a pixel."""
    out, above = [], [0] * (line - 1)
    for begin in range(0, len(lines), line):
        kind, row = lines[begin], []
        for i, byte in enumerate(lines[begin + 1:begin + line]):
            left, corner = (row[i - step], above[i - step]) if i >= step else (0, 0)
            nearest = min((left, above[i], corner), key=lambda x: abs(left + above[i] - corner - x))
            row.append((byte + (0, left, above[i], (left + above[i]) // 2, nearest)[kind]) % 256)
        above = row
        out += row
    return out


def pixels(png):
    """Size, colour type and bytes of the lines of a PNG file, whose checksums are looked at."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, parts = 8, {}
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        data = png[at + 8:at + 8 + size]
        assert struct.unpack(">I", png[at + 8 + size:at + 12 + size])[0] == zlib.crc32(kind + data)
        parts[kind], at = parts.get(kind, b"") + data, at + 12 + size
    width, height, bits, color = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    lines, step = zlib.decompress(parts[b"IDAT"]), {0: 1, 2: 3, 4: 2, 6: 4}[color]
    line = 1 + width * step
    assert bits == 8 and len(lines) == height * line and list(parts)[-1] == b"IEND"
    return width, height, color, unfiltered(lines, line, step)


def describe(value):
    if 4 in value:
        image = fields(value[4][0])
        width, height, color, shades = pixels(image[4][0])
        assert (image[1], image[2]) == ([height], [width])
        return f"image {height}x{width} channels {image[3][0]} color {color} sum {sum(shades)} {shades[:6]}"
    if 2 in value:
        return f"scalar {value[2][0]:.6g}"
    if 5 in value:
        h = fields(value[5][0])
        numbers = [h[i][0] for i in range(1, 6)]
        counts, limits = doubles(h[7][0]), doubles(h[6][0])
        assert len(counts) == len(limits) and sum(counts) == numbers[2] and list(limits) == sorted(limits)
        return "histogram " + " ".join(f"{x:.6g}" for x in numbers) + f" buckets {len(counts)}"
    metadata, tensor = fields(value[9][0]), fields(value[8][0])
    plugin = fields(metadata[1][0])[1][0].decode()
    assert tensor[1] == [7], "a tensor of strings"
    return f"{plugin} {tensor[8][0].decode()}"


def text_of(value):
    """The value of an attribute of a node: a text, or the shapes of its results."""
    value = fields(value)
    if 2 in value:
        return value[2][0].decode()
    if 6 in value:
        return f"type {value[6][0]}"
    shapes = [fields(shape) for shape in fields(value[1][0]).get(7, [])]
    return " ".join(str([fields(dim).get(1, [0])[0] for dim in shape.get(2, [])]) for shape in shapes)


def nodes(graph):
    """A line for each node of a GraphDef. Inputs are earlier nodes, or their results."""
    known = set()
    for raw in graph[1]:
        node = fields(raw)
        name, op = node[1][0].decode(), node[2][0].decode()
        inputs = [i.decode() for i in node.get(3, [])]
        assert name not in known, f"{name} is there twice"
        assert {i.split(":")[0] for i in inputs} <= known, f"{name} reads {inputs}"
        known.add(name)
        attributes = {}
        for entry in node.get(5, []):
            key, value = (fields(entry)[i][0] for i in (1, 2))
            attributes[key.decode()] = text_of(value)
        shapes = attributes.pop("_output_shapes", "")
        attributes.pop("dtype", None)
        texts = "".join(f", {key} {value}" for key, value in attributes.items())
        yield f"{name}: {op}({', '.join(inputs)}) -> {shapes}{texts}"


def main():
    with open(sys.argv[1], "rb") as file:
        raw = file.read()
    for i, data in enumerate(records(raw)):
        event = fields(data)
        assert event[1][0] > 1.5e9, "the wall time in seconds"
        if i == 0:
            print(event[3][0].decode())
            continue
        if 4 in event:
            print("\n".join(nodes(fields(event[4][0]))))
            continue
        value = fields(fields(event[5][0])[1][0])
        print(event.get(2, [0])[0], value[1][0].decode(), describe(value))


main()
