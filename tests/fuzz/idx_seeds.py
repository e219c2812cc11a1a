#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that the fuzz target of IDX begins with: plain, compressed, and a small one of many zeros. Usage: seeds FOLDER."""
import gzip
import struct
import sys
from pathlib import Path


def idx(code, shape, data):
    return bytes((0, 0, code, len(shape))) + struct.pack(f">{len(shape)}I", *shape) + data


def main():
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    images = idx(0x08, (2, 3, 3), bytes(range(18)))
    files = {"plain": images, "gzip": gzip.compress(images, mtime=0), "shorts": idx(0x0B, (2,), struct.pack(">2h", 1, -2)),
             "doubles": idx(0x0E, (1, 1), struct.pack(">d", 0.5)), "empty": idx(0x08, (0, 7), b""),
             "zeros": gzip.compress(idx(0x08, (1 << 24,), bytes(1 << 24)), 9, mtime=0),
             "lie": gzip.compress(idx(0x08, (1 << 31,), b"abc"), mtime=0), "cifar": bytes(3073)}
    for name, data in files.items():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
