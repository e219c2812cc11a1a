#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""precompile.py FOLDER HEADER COMPILER ARGS...: precompiles HEADER for `-include FOLDER/HEADER`, with the same ARGS."""
import os
import pathlib
import subprocess
import sys
import tempfile


def main():
    folder, header, *compiler = sys.argv[1:]
    wanted = pathlib.Path(folder) / f"{header}.gch"
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as unfinished:
        written = pathlib.Path(unfinished) / wanted.name
        # The source is empty. Were it the header itself, what g++ says of an error in it would be a line shorter than
        # where a source includes it.
        options = ["-x", "c++-header", "-include", header, os.devnull, "-o", written]
        status = subprocess.run([*compiler, *options]).returncode
        if status == 0:
            written.replace(wanted)
    return status


if __name__ == "__main__":
    sys.exit(main())
