#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds words that do not belong into the tree, and sources without their licence line. Counts odd English
in comments and docs: tools/odd_words.txt holds the counts, which may only shrink (--write lowers them)."""
import collections
import os
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

# Odd English: the name of a count, and its pattern. CONTRIBUTING.md, "Plain English", says what to write.
ODD = {
    "what": r"what\b(?!\()",
    "of which": r"(?:of|by|from|behind) which",
    "that of": r"(?:that|those) of",
    "one that": r"(?:one|ones|those) that",
    "one as a noun": r"(?:as|is|be|are|such|for|with) one(?= (?:that|of|which|is|where)\b|\s*[.,;:)])",
    "behind": r"behind",
    "beside": r"beside",
    "gives": r"gives|gave|given back",
    "tells": r"tells?|told",
    "says": r"says?|said",
    "stands": r"stands?|stood",
    "hangs": r"hangs?|hung",
    "who": r"who|whoever|somebody|nobody",
    "asked for": r"asks? for|asked for",
    "as far as": r"as far as|so far as",
    "for ever": r"for ever",
    "at hand": r"at hand",
    "anew": r"anew",
    "alike": r"alike|likewise",
    "spare": r"spares?|mends?|mended|judges?|judged",
}
ODD = {name: re.compile(rf"\b(?:{pattern})(?!\w)", re.I) for name, pattern in ODD.items()}
COUNTS = "tools/odd_words.txt"
COUNTS_HEAD = """\
# How often odd English stands in comments and docs, by folder: check_words.py fails when a count grows.
# `tools/check_words.py --write` lowers the counts, and never raises one.
# FOLDER: COUNT WORD, ...
"""
# The code of a page.
FENCE = re.compile(r"^( *)```.*?^\1```", re.M | re.S)
# A C++ comment, after literals that hold no comment.
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|//([^\n]*)')


def prose(path, text):
    """The text of a page without its code, or the comments of a C++ source. Line numbers stay."""
    if path.endswith(".md"):
        return FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    return "\n".join(" ".join(match[1] or "" for match in COMMENT.finditer(line)) for line in text.split("\n"))


def folder(path):
    """The unit of a count: `etude/core`, `docs`, or the page itself at the root."""
    parts = path.split("/")
    return "/".join(parts[:2] if parts[0] == "etude" and len(parts) > 2 else parts[:1])


def odd_words(path, text):
    """(name, line) of each odd word."""
    comments = re.sub(r"`[^`\n]*`", "``", prose(path, text))
    for name, pattern in ODD.items():
        for match in pattern.finditer(comments):
            yield name, comments.count("\n", 0, match.start()) + 1


def read_counts(text):
    counts = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            where, _, rest = line.partition(": ")
            for item in rest.split(", "):
                number, _, name = item.partition(" ")
                counts[where, name] = int(number)
    return counts


def write_counts(counts):
    lines = collections.defaultdict(list)
    for (where, name), number in sorted(counts.items()):
        if number:
            lines[where].append(f"{number} {name}")
    return COUNTS_HEAD + "".join(f"{where}: {', '.join(items)}\n" for where, items in lines.items())


def odd_faults(found, allowed):
    """`found`: places by (folder, name). A fault for each count that grew."""
    for (where, name), places in sorted(found.items()):
        most = allowed.get((where, name), 0)
        if len(places) > most:
            yield (f"{where}: '{name}' in {len(places)} comments, {most} are allowed; write plain English "
                   f"(CONTRIBUTING.md); see {', '.join(sorted(set(places)))}")


def find_odd(paths):
    found = collections.defaultdict(list)
    for path in paths:
        is_page = path.endswith(".md") and path.split("/")[0] in ("docs", path)
        if not is_page and not path.endswith(common.SUFFIXES):
            continue
        text = common.read(path)
        if not common.is_generated(text):
            for name, line in odd_words(path, text):
                found[folder(path), name].append(f"{path}:{line}")
    return found


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
    assert list(odd_words("a.h", 'f("what");  // what f gives\n')) == [("what", 1), ("gives", 1)]
    assert list(odd_words("a.h", "std::string what = e.what();  // what() names the op\n")) == []
    assert list(odd_words("a.h", "// `what`: the noun\n")) == []
    assert list(odd_words("a.md", "plain\nbehind it\n")) == [("behind", 2)]
    assert list(odd_words("a.md", "```text\nwhat\n```\nbehind\n")) == [("behind", 4)]
    assert folder("etude/core/a.h") == "etude/core" and folder("docs/a.md") == "docs"
    counts = {("docs", "what"): 2, ("etude/core", "one that"): 1}
    assert read_counts(write_counts(counts)) == counts
    grown = {("docs", "what"): ["docs/a.md:1"] * 3, ("etude/core", "one that"): ["etude/core/a.h:1"]}
    assert len(list(odd_faults(grown, counts))) == 1


def main():
    found = []
    for path in common.files():
        if path == "tools/check_words.py" or path.endswith((".png", ".md", ".patch", "LICENSE")):
            continue
        try:
            found += faults(path, common.read(path))
        except UnicodeDecodeError:
            pass  # data of a test
    return found + list(odd_faults(find_odd(common.files()), read_counts(common.read(COUNTS))))


def write():
    """Lowers the counts; one that grew stays, so that the check still fails."""
    path = os.path.join(common.ROOT, COUNTS)
    found = {key: len(places) for key, places in find_odd(common.files()).items()}
    if os.path.exists(path):
        allowed = read_counts(common.read(COUNTS))
        found = {key: min(number, found.get(key, 0)) for key, number in allowed.items()}
    with open(path, "w", encoding="utf-8") as file:
        file.write(write_counts(found))
    print(f"{sum(found.values())} odd words")


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
        sys.exit(0)
    sys.exit(common.run(main, self_test))
