#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compile_fail.py SOURCE FOLDER COMPILER ARGS...: fails unless SOURCE is refused with each `// expect:` text, or
compiles with a warning that has each `// warn:` text; if what a `// never:` pattern matches is said; and if the
compiler has more than 30 lines to say of a wrong use, of which SOURCE holds one, whose words stand in the first error.
With `// error:` texts SOURCE holds a wrong use for each, and the compiler says nothing else.
With `// link:` texts SOURCE compiles, and the linker refuses the program with each of them.
With `// bodies: N` it holds N functions whose bodies do not compile: for each the compiler says so in its own words, and
then what to do in ours, in 30 lines together.
Of the headers that SOURCE includes, the first that is precompiled in FOLDER is read from there."""
import os
import re
import subprocess
import sys


MOST_LINES = 30


def wrong_errors(wanted, said):
    """What differs from one error for each of the texts. Lines that say where a header is included do not count."""
    includes = ("In file included from", " " * 17 + "from")
    lines = [line for line in said.splitlines() if not line.startswith(includes)]
    at = [i for i, line in enumerate(lines) if "error:" in line]
    left = [re.sub(r"\s+", "", lines[i]) for i in at]
    for text in wanted:
        found = [error for error in left if re.sub(r"\s+", "", text) in error]
        if not found:
            return f"no error says: {text}\n"
        left.remove(found[0])
    if left:
        return f"{len(at)} errors for {len(wanted)} wrong uses\n"
    if len(lines) > MOST_LINES * len(wanted):
        return f"{len(lines)} lines for {len(wanted)} wrong uses, more than {MOST_LINES} each\n"
    longest = max(end - start for start, end in zip(at, at[1:] + [len(lines)]))
    return f"{longest} lines behind one error\n" if longest > MOST_LINES else ""


def wrong_first(expected, said):
    """What differs from at most 30 lines, of which the first error has one of the texts."""
    lines = said.splitlines()
    if len(lines) > MOST_LINES:
        return f"{len(lines)} lines for one wrong use\n"
    first = next((re.sub(r"\s+", "", line) for line in lines if "error:" in line), "")
    return "" if any(re.sub(r"\s+", "", text) in first for text in expected) else "the first error is another one\n"


def wrong_bodies(count, said):
    """What differs from `count` errors in the compiler's words, and as many in ours."""
    lines = said.splitlines()
    at = [i for i, line in enumerate(lines) if "error:" in line]
    lengths = {True: [], False: []}
    for start, end in zip([0, *at[1:]], [*at[1:], len(lines)]):
        text = "".join(lines[start:end])
        lengths["etude: this function does not compile" in text].append(end - start)
    if len(lengths[True]) != count or len(lengths[False]) != count:
        return f"{len(lengths[False])} errors of the compiler and {len(lengths[True])} of ours for {count} bodies\n"
    longest = max(lengths[True]) + max(lengths[False])
    return f"{longest} lines for one body\n" if longest > MOST_LINES else ""


def precompiled(folder, source_text):
    """The options by which the compiler reads a precompiled header, if the folder has one for the source."""
    # Behind other includes g++ would not look for one, and for an #include clang never does.
    for header in re.findall(r'^#include "(.*)"$', source_text, re.MULTILINE):
        if os.path.exists(f"{folder}/{header}.gch"):
            return ["-include", f"{folder}/{header}"]
    return []


def main():
    source, folder, *compiler = sys.argv[1:]
    with open(source) as text:
        source_text = text.read()
    expected = re.findall(r"^// expect: (.*)$", source_text, re.MULTILINE)
    warned = re.findall(r"^// warn: (.*)$", source_text, re.MULTILINE)
    never = re.findall(r"^// never: (.*)$", source_text, re.MULTILINE)
    errors = re.findall(r"^// error: (.*)$", source_text, re.MULTILINE)
    linked = re.findall(r"^// link: (.*)$", source_text, re.MULTILINE)
    if linked:
        compiler = [*(word for word in compiler if word != "-fsyntax-only"), "-o", os.devnull]
    bodies = re.search(r"^// bodies: (\d+)$", source_text, re.MULTILINE)
    run = subprocess.run([*compiler, *precompiled(folder, source_text), source], capture_output=True, text=True,
                         env=os.environ | {"LC_ALL": "C"})
    for text in never:
        if re.search(text, run.stderr):
            return f"said, but must not be: {text}\n{run.stderr}"
    if bodies:
        wrong = wrong_bodies(int(bodies[1]), run.stderr)
        if wrong:
            return wrong + run.stderr
    if errors:
        wrong = wrong_errors(errors, run.stderr)
        if wrong:
            return wrong + run.stderr
    elif expected and not bodies:
        wrong = wrong_first(expected, run.stderr)
        if wrong:
            return wrong + run.stderr
    if linked and not run.returncode:
        return f"{source} is linked, but must not"
    if not expected and not warned and not errors and not linked:
        return run.stderr if run.returncode else None
    if warned and run.returncode:
        return run.stderr
    if expected and not run.returncode:
        return f"{source} compiles, but must not"
    said = re.sub(r"\s+", "", run.stderr)  # compilers differ in where they put spaces
    missing = [text for text in expected + warned + linked if re.sub(r"\s+", "", text) not in said]
    return "".join(f"not said: {text}\n" for text in missing) + run.stderr if missing else None


if __name__ == "__main__":
    sys.exit(main())
