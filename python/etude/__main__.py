# SPDX-License-Identifier: Apache-2.0
"""python -m etude: facts about the installed package, graphs and profiles of Python programs, and the program
`etude`."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys

import etude

FOLDER = os.path.dirname(os.path.abspath(etude.__file__))
# Of the program `etude`: in a wheel, and in a build.
PLACES = [os.path.join(FOLDER, "bin", "etude"), os.path.normpath(os.path.join(FOLDER, "..", "..", "bin", "etude"))]


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
    if not found:
        sys.exit(f"no op has a name with '{pattern}'; python -m etude ops lists all")
    return "\n".join(f"{op.full_name}: {op.__doc__.splitlines()[0]}" for op in found)


def argument(text: str) -> etude.Tensor:
    """Zeros of a type such as float32[2,3]."""
    match = re.fullmatch(r"(\w+)\[([\d,]*)\]", text)
    if match is None:
        sys.exit(f"'{text}' is no type of a tensor; write a dtype and a shape: float32[2,3]")
    shape = tuple(int(size) for size in match[2].split(",") if size)
    try:
        return etude.zeros(shape, dtype=match[1])
    except (etude.Error, TypeError) as error:
        sys.exit(f"'{text}': {error}")


def graph(name: str, types: list[str]) -> str:
    """The graph of the function MODULE:NAME for arguments of these types."""
    module, _, path = name.partition(":")
    if not path:
        sys.exit(f"'{name}' names no function; write MODULE:FUNCTION, such as train:step")
    sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        sys.exit(f"'{name}' was not found: {error}")
    function = found if isinstance(found, etude.Function) else etude.function(found)
    try:
        return str(function.trace(*map(argument, types)))
    except etude.Error as error:
        sys.exit(str(error))


def program(args: list[str] | None = None) -> None:
    """Becomes the program `etude`."""
    path = next(filter(os.path.isfile, PLACES), None)
    if path is None:
        sys.exit(f"the program etude is neither {PLACES[0]} nor {PLACES[1]}. In a clone, build it with: ./dev run etude")
    sys.stdout.flush()
    os.execv(path, ["etude", *(sys.argv[1:] if args is None else args)])


def profile(trace: str, command: list[str]) -> None:
    """Runs a Python program under the profiler of the library."""
    program(["profile", "--trace", trace, "--", sys.executable, *command])


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(prog="python -m etude", description=__doc__)
    out.add_argument("--version", action="version", version=f"etude {etude.__version__}")
    out.add_argument("--cmake-dir", action="store_true", help="print the folder for find_package(Etude)")
    out.add_argument("--include-dir", action="store_true", help="print the folder of the C++ headers")
    commands = out.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("info", help="version, place, devices (the default)")
    listing = commands.add_parser("ops", help="signatures of ops")
    listing.add_argument("pattern", nargs="?", default="", help="a part of their names")
    graphs = commands.add_parser("graph", help="the graph of a function for types of arguments")
    graphs.add_argument("function", help="MODULE:FUNCTION")
    graphs.add_argument("types", nargs="*", help="such as float32[2,3]")
    profiles = commands.add_parser("profile", help="run a Python program, and print its time by op and line")
    profiles.add_argument("--trace", default="profile.json", help="file for the trace, which Perfetto opens")
    profiles.add_argument("-m", action="store_true", dest="is_module", help="the program is a module")
    profiles.add_argument("script", nargs=argparse.REMAINDER, help="SCRIPT [ARGS]")
    programs = commands.add_parser("program", help="the program `etude`, which is also a command of the wheel")
    programs.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    return out


def main() -> None:
    args = parser().parse_args()
    if args.cmake_dir:
        print(cmake_dir())
    elif args.include_dir:
        print(os.path.join(FOLDER, "include"))
    elif args.command == "ops":
        print(ops(args.pattern))
    elif args.command == "graph":
        print(graph(args.function, args.types))
    elif args.command == "profile":
        if not args.script:
            sys.exit("which program? python -m etude profile [--trace FILE] SCRIPT [ARGS]")
        profile(args.trace, ["-m", *args.script] if args.is_module else args.script)
    elif args.command == "program":
        program(args.args)
    else:
        print(info())


if __name__ == "__main__":
    main()
