#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compile_fail.py SOURCE COMPILER ARGS...: fails unless SOURCE is refused with each `// expect:` text, or compiles
with a warning that has each `// warn:` text; and if what a `// never:` pattern matches is said."""
import os
import re
import subprocess
import sys


def main():
    source, *compiler = sys.argv[1:]
    with open(source) as text:
        source_text = text.read()
    expected = re.findall(r"^// expect: (.*)$", source_text, re.MULTILINE)
    warned = re.findall(r"^// warn: (.*)$", source_text, re.MULTILINE)
    never = re.findall(r"^// never: (.*)$", source_text, re.MULTILINE)
    run = subprocess.run([*compiler, source], capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"})
    for text in never:
        if re.search(text, run.stderr):
            return f"said, but must not be: {text}\n{run.stderr}"
    if not expected and not warned:
        return run.stderr if run.returncode else None
    if warned and run.returncode:
        return run.stderr
    if expected and not run.returncode:
        return f"{source} compiles, but must not"
    said = re.sub(r"\s+", "", run.stderr)  # compilers differ in where they put spaces
    missing = [text for text in expected + warned if re.sub(r"\s+", "", text) not in said]
    return "".join(f"not said: {text}\n" for text in missing) + run.stderr if missing else None


if __name__ == "__main__":
    sys.exit(main())
