#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts lines: files, headers (a warning), functions, examples. size_exemptions.txt only shrinks."""
import sys

import check_common as common
import cpp_functions

FILE, HEADER, FUNCTION, EXAMPLE = 600, 250, 60, 80
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


def self_test():
    cpp_functions.self_test()
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
    return list(faults(measured, exemptions(common.read(EXEMPTIONS))))


if __name__ == "__main__":
    sys.exit(common.run(main, self_test))
