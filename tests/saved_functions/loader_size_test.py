#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""loader_size_test.py LOADER LIBRARY MOST: the loader of saved functions is small: at most MOST bytes of text, as the
program size counts it. It needs no other library of ours, and shows nothing of layers, optimisers, data, kinds, ONNX
and ahead-of-time compiling."""
import re
import subprocess
import sys

# Namespaces, and layers; ops are in the namespace nn, too.
ABSENT = ("2nn5Dense", "2nn6Conv2D", "5optim", "4data", "5kinds", "4onnx", "3aot")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def text_bytes(library):
    return int(output("size", library).splitlines()[1].split()[0])


def main():
    loader, library, most = sys.argv[1], sys.argv[2], int(sys.argv[3])
    size, whole = text_bytes(loader), text_bytes(library)
    print(f"text: {size} bytes in {loader}, {whole} in {library}")
    assert size <= most, f"{loader} has {size} bytes of text, for at most {most}"
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", loader))
    ours = [name for name in needed if re.search("etude|LLVM|dnnl|openblas|lapack", name)]
    assert needed and not ours, ours
    shown = output("nm", "-D", "--defined-only", loader)
    names = {name for name in ABSENT if re.search(rf" _ZNK?5etude{name}", shown)}
    assert not names, f"{loader} shows functions of {sorted(names)}"
    assert re.search(r" _ZN5etude5saved4load", shown), "the loader does not show saved::load()"


if __name__ == "__main__":
    main()
