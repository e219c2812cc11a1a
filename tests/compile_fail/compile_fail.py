#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compile_fail.py SOURCE COMPILER ARGS...: fails unless SOURCE is refused with each `// expect:` text."""
import os
import re
import subprocess
import sys


def main():
    source, *compiler = sys.argv[1:]
    with open(source) as text:
        expected = re.findall(r"^// expect: (.*)$", text.read(), re.MULTILINE)
    run = subprocess.run([*compiler, source], capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"})
    if not expected:
        return run.stderr if run.returncode else None
    if not run.returncode:
        return f"{source} compiles, but must not"
    said = re.sub(r"\s+", " ", run.stderr)
    missing = [text for text in expected if text not in said]
    return "".join(f"not said: {text}\n" for text in missing) + run.stderr if missing else None


if __name__ == "__main__":
    sys.exit(main())
