# SPDX-License-Identifier: Apache-2.0
"""What a program costs before it computes: start, compilation of user code, build of the library, the first result
of a staged or lazy step; and the memory of a step.

Each entry runs what a user would run, with the compiler cache off, and returns seconds, or bytes.
"""
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

import peers

ROOT = pathlib.Path(__file__).resolve().parent.parent
RELEASE = ROOT / "build" / "release"
STEP = "resnet56_b32"
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
            run(["cmake", "--build", RELEASE, "--target", "etude_package"])
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

    def read_header(self):
        """A source that includes etude/etude.h and nothing else, no code made."""
        source = self.folder / "header.cc"
        source.write_text('#include "etude/etude.h"\n')
        command = ["c++", "-std=c++20", "-fsyntax-only", f"-I{self.installed()}/include", source]
        return statistics.median(timed(command) for _ in range(5))

    def start(self):
        """From exec to exit of a program that adds two tensors and prints the sum."""
        source, program = self.folder / "add.cc", self.folder / "add"
        source.write_text(ADD_TWO)
        run(self.compile_command(source, program, "-O2"))
        printed = run([program])
        if "[4, 6]" not in printed:
            raise RuntimeError(f"the program printed {printed!r}")
        return statistics.median(timed([program]) for _ in range(25))

    def first_result(self, mode, runs=1):
        """The first call of a training step of resnet56_b32 in a new process: traced or recorded, planned, run. Kernels
        are kept in a folder that was empty before the first of the processes; the time is that of the last."""
        kept = self.folder / f"kernels_{mode}_{runs}"
        for _ in range(runs):
            worker = self.worker({"ETUDE_KERNEL_CACHE": str(kept)}, mode)
            seconds = worker.run(STEP, "first=1")["first_call"]
            for _ in range(2 if runs > 1 else 0):  # what is earned is compiled, and kept for the next one
                worker.run(STEP, "ms=500")
            worker.close()
        return seconds

    def memory(self, mode):
        """Resident at most in checked steps of resnet56_b32, over the process before them."""
        worker = self.worker({"ETUDE_KERNEL_CACHE": "off"}, mode)
        worker.run(STEP, "setup=1")
        reply = worker.ask(":rss")
        worker.close()
        return (reply["peak_kb"] - reply["start_kb"]) * 1024

    @staticmethod
    def worker(environment, mode):
        return peers.Worker("etude", [str(RELEASE / "bin" / "etude-bench"), "--serve"], 1, environment, mode)

    def build_library(self):
        """A clean build of the library, release preset, one job per processor."""
        build = self.folder / "build"
        run(["cmake", "--preset", "release", "-B", build], cwd=ROOT)
        return timed(["cmake", "--build", build, "--target", "etude", "--parallel", os.cpu_count()])


ENTRIES = {
    "start": ("start, add two tensors, end", Costs.start),
    "header": ("read etude/etude.h", Costs.read_header),
    "compile": ("compile the README's program, no -O", Costs.compile_program),
    "compile_O2": ("compile the README's program, -O2", lambda costs: costs.compile_program("-O2")),
    "build_library": ("clean build of the library", Costs.build_library),
}
for _mode in ("eager", "staged", "lazy"):
    ENTRIES[f"first_{_mode}"] = (f"first step of {STEP}, {_mode}", lambda costs, mode=_mode: costs.first_result(mode))
ENTRIES["second_staged"] = ("the same in a second process, kernels from the disk",
                            lambda costs: costs.first_result("staged", 2))
for _mode in ("eager", "staged", "lazy"):
    ENTRIES[f"memory_{_mode}"] = (f"memory of the step, {_mode}", lambda costs, mode=_mode: costs.memory(mode))


def shown(name, cost, human):
    return f"{cost / 1e6:.0f} MB" if name.startswith("memory_") else human(cost)


def print_costs(names, human):
    """Prints the chosen entries and returns {name: seconds or an error text}."""
    results, costs = {}, Costs()
    try:
        for name in names:
            label, entry = ENTRIES[name]
            try:
                results[name] = entry(costs)
                text = shown(name, results[name], human)
            except (RuntimeError, OSError, StopIteration, KeyError) as error:
                results[name] = text = f"error: {error}"
            print(f"{name:20}{text:>14}    {label}", flush=True)
    finally:
        costs.close()
    return results
