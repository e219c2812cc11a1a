#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A block of code under `<!-- path -->` in a page is that file, below its licence and purpose."""
import pathlib
import re
import sys

PAGES = ["README.md"]
BLOCK = re.compile(r"<!-- (examples/\S+) -->\n```cpp\n(.*?)```", re.S)


def body(text):
    """What a reader is shown: the file without the comment lines at its top."""
    lines = text.splitlines(keepends=True)
    while lines and lines[0].startswith("//"):
        lines.pop(0)
    return "".join(lines)


def faults(root, page, text):
    found = BLOCK.findall(text)
    if not found:
        yield f"{page}: shows no example"
    for path, shown in found:
        source = root / path
        if not source.exists():
            yield f"{page}: there is no {path}"
        elif body(source.read_text()) != shown:
            yield f"{page}: the block under {path} differs from the file"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    bad = [fault for page in PAGES for fault in faults(root, page, (root / page).read_text())]
    print("\n".join(bad), end="\n" if bad else "")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
