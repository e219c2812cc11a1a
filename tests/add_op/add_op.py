#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds the op of CONTRIBUTING.md to a copy of its family's file, generates the functions, builds a user's
program against both and runs it. The patched files stand before the archive on the link line, so that
they take the place of those that they were made from."""
import pathlib
import shlex
import subprocess
import sys
import tempfile

SOURCE, BUILD, COMPILER, FLAGS, LIBRARIES = sys.argv[1:6]
HERE = pathlib.Path(__file__).resolve().parent


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def require_shown_in_contributing(diff):
    """The added lines are those of CONTRIBUTING.md, so that what a reader copies is what is tested."""
    added = [line[1:].strip() for line in diff.splitlines() if line.startswith("+") and not line.startswith("+++")]
    shown = [line.strip() for line in (pathlib.Path(SOURCE) / "CONTRIBUTING.md").read_text().splitlines()]
    missing = [line for line in added if line and line not in shown]
    if missing:
        sys.exit(f"CONTRIBUTING.md does not show: {missing[0]}")
    files = [line for line in diff.splitlines() if line.startswith("+++ ")]
    if len(files) != 1:
        sys.exit(f"adding an op is one block in one file, but the diff touches {len(files)}")
    return files[0].removeprefix("+++ b/")


def main():
    diff = (HERE / "softclip.patch").read_text()
    family = require_shown_in_contributing(diff)
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        patched = tree / family
        patched.parent.mkdir(parents=True)
        patched.write_bytes((pathlib.Path(SOURCE) / family).read_bytes())
        run("git", "apply", HERE / "softclip.patch", cwd=tree)
        flags = [*shlex.split(FLAGS), "-std=c++20", f"-I{tree}", f"-I{SOURCE}", f"-I{BUILD}/generated"]
        libraries = [f"{BUILD}/lib/libetude_internal.a", *shlex.split(LIBRARIES)]
        run(COMPILER, *flags, "-c", patched, "-o", tree / "family.o")
        generator = [f"{SOURCE}/tools/{name}.cc" for name in ("opgen", "opset")]
        run(COMPILER, *flags, *generator, tree / "family.o", *libraries, "-o", tree / "opgen")
        (tree / "docs").mkdir()
        run(tree / "opgen", "--write", tree)
        line = next(each for each in (tree / "docs" / "opset.txt").read_text().splitlines() if "softclip" in each)
        if not line.startswith("softclip v1 (x) {limit: real = 1} -> y; "):
            sys.exit(f"docs/opset.txt has an odd line: {line}")
        functions = tree / "etude" / "ops" / "functions.cc"
        run(COMPILER, *flags, HERE / "use_softclip.cc", functions, tree / "family.o", *libraries, "-o", tree / "program")
        print(run(tree / "program"))


if __name__ == "__main__":
    main()
