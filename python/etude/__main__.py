# SPDX-License-Identifier: Apache-2.0
"""python -m etude: facts about the installed package."""

from __future__ import annotations

import argparse
import os
import sys

import etude

FOLDER = os.path.dirname(os.path.abspath(etude.__file__))


def cmake_dir() -> str:
    """The folder of EtudeConfig.cmake, for find_package(Etude) of C++ projects."""
    folder = os.path.join(FOLDER, "lib", "cmake", "Etude")
    if not os.path.isdir(folder):
        sys.exit(f"this package has no CMake files ({folder}): it is not an installed wheel")
    return folder


def info() -> str:
    """Version, place and devices."""
    lines = [f"etude {etude.__version__}", f"  package  {FOLDER}", f"  python   {sys.version.split()[0]}"]
    lines += [f"  ops      {len(etude._core._ops)}"]
    lines += [f"  devices  {', '.join(map(str, etude.list_devices()))}"]
    return "\n".join(lines)


def ops(pattern: str) -> str:
    """The signatures of the ops whose names contain the pattern."""
    found = [op for name, op in sorted(etude._core._ops.items()) if pattern in name]
    return "\n".join(f"{op.full_name}: {op.__doc__.splitlines()[0]}" for op in found)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m etude", description=__doc__)
    parser.add_argument("--cmake-dir", action="store_true", help="print the folder for find_package(Etude)")
    parser.add_argument("--include-dir", action="store_true", help="print the folder of the C++ headers")
    parser.add_argument("command", nargs="?", choices=("info", "ops"), default="info")
    parser.add_argument("pattern", nargs="?", default="", help="of `ops`: a part of their names")
    args = parser.parse_args()
    if args.cmake_dir:
        print(cmake_dir())
    elif args.include_dir:
        print(os.path.join(FOLDER, "include"))
    else:
        print(info() if args.command == "info" else ops(args.pattern))


if __name__ == "__main__":
    main()
