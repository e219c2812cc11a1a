#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts lines: files, headers (a warning), functions, examples; and files of a folder. size_exemptions.txt only shrinks."""
import collections
import os
import sys

import check_common as common
import cpp_functions

FILE, HEADER, FUNCTION, EXAMPLE, FOLDER = 600, 250, 60, 80, 40
EXEMPTIONS = "tools/size_exemptions.txt"


def sizes(path, text):
    """Yields (what, lines, limit) for the file and each of its functions."""
    lines = text.count("\n")
    yield path, lines, EXAMPLE if path.startswith("examples/") else FILE
    for name, length in cpp_functions.lengths(text):
        yield f"{path}:{name}", length, FUNCTION


def exemptions(text):
    """{what: (lines, reason)}; a line reads `WHAT LINES REASON`."""
    rows = [line.split(None, 2) for line in text.splitlines() if line.strip() and line[0] != "#"]
    for row in rows:
        if len(row) < 3:
            raise SystemExit(f"{EXEMPTIONS}: '{' '.join(row)}' needs WHAT LINES REASON")
    return {what: (int(lines), reason) for what, lines, reason in rows}


def faults(measured, exempt):
    unused = dict(exempt)
    for what, lines, limit in measured:
        allowed, _ = unused.pop(what, (limit, "")) if lines > limit else (limit, "")
        if lines > allowed:
            yield f"{what}: {lines} lines, {allowed} are allowed; split it"
        elif lines < allowed and allowed > limit:
            yield f"{EXEMPTIONS}: {what} has shrunk to {lines} lines; write {lines} there"
    for what in unused:
        yield f"{EXEMPTIONS}: {what} needs no exemption; remove its line"


def crowded(paths):
    """Folders with more files than FOLDER; tests and benchmarks beside their sources are not counted."""
    counts = collections.Counter(os.path.dirname(path) for path in paths if not path.endswith(("_test.cc", "_bench.cc")))
    for folder, files in sorted(counts.items()):
        if files > FOLDER:
            yield f"{folder}: {files} files lie side by side, {FOLDER} are allowed; give it rooms"


def self_test():
    cpp_functions.self_test()
    many = [f"a/{k}.cc" for k in range(FOLDER)]
    assert list(crowded(many + ["a/b_test.cc", "a/b_bench.cc", "a/b/c.cc"])) == []
    assert "rooms" in list(crowded(many + ["a/b.cc"]))[0]
    assert exemptions("# comment\na.cc 700 a reason\n") == {"a.cc": (700, "a reason")}
    assert list(faults([("a", 600, 600)], {})) == []
    assert "split" in list(faults([("a", 601, 600)], {}))[0]
    assert list(faults([("a", 700, 600)], {"a": (700, "r")})) == []
    assert "shrunk" in list(faults([("a", 650, 600)], {"a": (700, "r")}))[0]
    assert "split" in list(faults([("a", 701, 600)], {"a": (700, "r")}))[0]
    assert "remove" in list(faults([("a", 10, 600)], {"a": (700, "r")}))[0]


def main():
    texts = {path: common.read(path) for path in common.cpp_files()}
    texts = {path: text for path, text in texts.items() if not common.is_generated(text)}
    for path, text in texts.items():
        if path.endswith(".h") and text.count("\n") > HEADER:
            print(f"warning: {path}: {text.count(chr(10))} lines; a header should have at most {HEADER}")
    measured = [size for path, text in texts.items() for size in sizes(path, text)]
    return [*faults(measured, exemptions(common.read(EXEMPTIONS))), *crowded(common.files())]


if __name__ == "__main__":
    sys.exit(common.run(main, self_test))
