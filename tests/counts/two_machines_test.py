#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""two_machines_test.py SOURCE COMPILER ARGS...: files that are compiled for two machines make one program.

SOURCE is compiled without vectors of 32 bytes, with them, and as the main program, at two levels of optimisation, without
a warning; the program compares what both parts see.
"""
import pathlib
import subprocess
import sys
import tempfile


def main():
    source, *compiler = sys.argv[1:]
    for level in ("-O0", "-O2"):
        with tempfile.TemporaryDirectory() as folder:
            parts = {"narrow.o": ["-DPART=narrow"], "wide.o": ["-DPART=wide", "-mavx2"], "main.o": []}
            for name, flags in parts.items():
                subprocess.run([*compiler, level, "-Wall", "-Wextra", "-Werror", *flags, "-ffp-contract=off", "-c", source,
                                "-o", pathlib.Path(folder) / name], check=True)
            program = pathlib.Path(folder) / "program"
            subprocess.run([*compiler, *(pathlib.Path(folder) / name for name in parts), "-o", program], check=True)
            print(level, flush=True)
            subprocess.run([program], check=True)


if __name__ == "__main__":
    main()
