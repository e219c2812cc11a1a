#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds words that do not belong into the tree, and sources without their licence line."""
import re
import sys

import check_common as common

SPDX = "SPDX-License-Identifier: Apache-2.0"
SCRIPTS = (".py", ".sh", ".cmake", "CMakeLists.txt")

# (what must not be there, advice), each for every text file.
WORDS = (
    (re.compile(r"\bTODO\b(?!\(\w+\))"), "a TODO names its owner: TODO(name)"),
    (re.compile(r"\b(FIXME|XXX|HACK)\b"), "finish it, or write TODO(name)"),
    (re.compile(r"^(<<<<<<<|>>>>>>>) ", re.M), "a merge was left unfinished"),
    (re.compile(r"[ \t]+$", re.M), "blanks at the end of the line"),
)
# The same for C++ only.
CPP_WORDS = (
    (re.compile(r"\bNOLINT\w*\b(?!\([\w.,*-]+\))(?<!END)"), "a NOLINT names its check and reason"),
    (re.compile(r"#include <(iostream|bits/\S+)>"), "<iostream> makes a static initialiser; use <ostream>"),
    (re.compile(r"^\t| \t", re.M), "a tab"),
)


def faults(path, text):
    is_cpp = path.endswith(common.SUFFIXES) or path.endswith((".h.in", ".cc.in"))
    is_library = is_cpp and path.startswith("etude/")
    if (is_cpp or path.endswith(SCRIPTS)) and SPDX not in text[:200]:
        yield f"{path}:1: no line '{SPDX}' on top"
    for pattern, advice in WORDS + (CPP_WORDS if is_library else ()):
        for match in pattern.finditer(text):
            yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {advice}"


def self_test():
    def count(path, text):
        return len(list(faults(path, f"// {SPDX}\n{text}\n")))

    assert list(faults("a.cc", "int x;\n")) == [f"a.cc:1: no line '{SPDX}' on top"]
    assert count("a.cc", "// TO" + "DO: later") == 1
    assert count("a.cc", "// TO" + "DO(ada): later") == 0
    assert count("a.md", "a FIX" + "ME") == count("a.md", "blank ") == 1
    assert count("etude/a.cc", "f();  // NOLINT") == 1
    assert count("etude/a.cc", "f();  // NOLINT(bugprone-x): reason") == 0


def main():
    found = []
    for path in common.files():
        if path == "tools/check_words.py" or path.endswith((".png", ".md", ".patch", "LICENSE")):
            continue
        try:
            found += faults(path, common.read(path))
        except UnicodeDecodeError:
            pass  # data of a test
    return found


if __name__ == "__main__":
    sys.exit(common.run(main, self_test))
