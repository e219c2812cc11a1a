# SPDX-License-Identifier: Apache-2.0
"""Small copies of Fashion-MNIST, so that examples run in seconds."""
import gzip
import os
import struct

PACKAGE = os.path.join(os.environ.get("ETUDE_DATA", "/usr/share/datasets"), "fashion-mnist")


def shorten(name, count, target):
    """The first `count` entries of an IDX file."""
    with gzip.open(os.path.join(PACKAGE, name + ".gz")) as file:
        head = file.read(4)
        sizes = struct.unpack(f">{head[3]}I", file.read(4 * head[3]))
        entry = 1
        for size in sizes[1:]:
            entry *= size
        with open(os.path.join(target, name), "wb") as out:
            out.write(head + struct.pack(f">{head[3]}I", count, *sizes[1:]) + file.read(count * entry))
