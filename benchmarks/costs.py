# SPDX-License-Identifier: Apache-2.0
"""What a program costs before it computes: start, compilation of user code, build of the library.

Each entry runs what a user would run, with the compiler cache off, and returns seconds.
"""
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RELEASE = ROOT / "build" / "release"
ADD_TWO = """#include <iostream>
#include "etude/etude.h"
int main() { std::cout << etude::Tensor({1, 2}) + etude::Tensor({3, 4}) << std::endl; }
"""
NO_CACHE = dict(os.environ, CCACHE_DISABLE="1")


def run(command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, env=NO_CACHE, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: " + (done.stderr or done.stdout).strip()[-400:])
    return done.stdout


def timed(command):
    begin = time.perf_counter()
    run(command)
    return time.perf_counter() - begin


class Costs:
    """One installed package for all entries, removed by close()."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="etude-costs-"))
        self.prefix = None

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def installed(self):
        """The install tree of the release build."""
        if self.prefix is None:
            run(["cmake", "--build", RELEASE])
            run(["cmake", "--install", RELEASE, "--prefix", self.folder / "prefix"])
            self.prefix = self.folder / "prefix"
        return self.prefix

    def compile_command(self, source, out, *flags):
        prefix = self.installed()
        library = next(prefix.glob("lib*/**/libetude.so")).parent
        return ["c++", "-std=c++20", *flags, f"-I{prefix}/include", source, "-o", out, f"-L{library}", "-letude",
                f"-Wl,-rpath,{library}"]

    def compile_program(self, *flags):
        """The program of the README, 25 lines, against the installed package."""
        command = self.compile_command(ROOT / "examples" / "quickstart.cc", self.folder / "quickstart", *flags)
        return statistics.median(timed(command) for _ in range(3))

    def start(self):
        """From exec to exit of a program that adds two tensors and prints the sum."""
        source, program = self.folder / "add.cc", self.folder / "add"
        source.write_text(ADD_TWO)
        run(self.compile_command(source, program, "-O2"))
        printed = run([program])
        if "[4, 6]" not in printed:
            raise RuntimeError(f"the program printed {printed!r}")
        return statistics.median(timed([program]) for _ in range(25))

    def build_library(self):
        """A clean build of the library, release preset, one job per processor."""
        build = self.folder / "build"
        run(["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF"])
        return timed(["cmake", "--build", build, "--target", "etude", "--parallel", os.cpu_count()])


ENTRIES = {
    "start": ("start, add two tensors, end", Costs.start),
    "compile": ("compile the README's program, no -O", Costs.compile_program),
    "compile_O2": ("compile the README's program, -O2", lambda costs: costs.compile_program("-O2")),
    "build_library": ("clean build of the library", Costs.build_library),
}


def print_costs(names, human):
    """Prints the chosen entries and returns {name: seconds or an error text}."""
    results, costs = {}, Costs()
    try:
        for name in names:
            label, entry = ENTRIES[name]
            try:
                results[name] = entry(costs)
                shown = human(results[name])
            except (RuntimeError, OSError, StopIteration) as error:
                results[name] = shown = f"error: {error}"
            print(f"{name:20}{shown:>14}    {label}", flush=True)
    finally:
        costs.close()
    return results
