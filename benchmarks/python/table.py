#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What calls from Python cost, beside PyTorch, NumPy, JAX and TensorFlow: `./dev bench --python [ROW...]`.

As in ../run.py, each system is one process, systems take turns, and a row is timed only after its result was checked.
Writes build/bench/python.json, and the table as build/bench/python.md. --store keeps the JSON elsewhere as well.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "benchmarks"))

import peers  # noqa: E402
import report  # noqa: E402
import run as workloads  # noqa: E402
from peers import Worker  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
OURS = ROOT / "build" / "python" / "venv" / "bin" / "python"
IMPORT = "import time; begin = time.{0}(); import {1}; print(time.{0}() - begin)"
CLOCKS = {"wall": "perf_counter", "processor": "process_time"}
MODULES = {"etude": "etude", "torch": "torch", "numpy": "numpy", "jax": "jax.numpy", "tensorflow": "tensorflow"}
# By row: what must be reached, as (system, how many times as long as Etude it takes at least).
AIMS = {
    "add_2x2": [("torch", 4), ("numpy", 1.5)], "tape_100": [("torch", 6)],
    **{row: [("torch", 1)] for row in ("slice", "shape", "float", "asarray_1000", "iterate_1000")},
    **{row: [("jax", 10)] for row in ("call_1", "call_8", "call_64", "call_dict_100")},
    "call_loaded": [("staged", 1 / 1.3)],
    "epoch": [("cpp", 1 / 1.03)],
    **{f"matmul_many_{n}{form}": [(peer, 1) for peer in peers] for n in ("2x2", "16x16")
       for form, peers in (("", ("torch", "jax", "tensorflow")),
                           ("_function", ("compile", "jax", "tensorflow", "xla")))},
    "import": [("torch", 1), ("jax", 1)],
}  # fmt: skip
IMPORT_LIMIT = 0.060  # seconds


def interpreters(wanted, build):
    """By system, (python, environment); and why some are missing."""
    ours = {"PYTHONPATH": str(build / "python"), "ETUDE_KERNEL_CACHE": "off"}
    found = {"etude": (OURS, ours), "numpy": (OURS, {})}
    missing = {}
    for name, make in (("torch", peers.Torch), ("jax", peers.Jax), ("tensorflow", peers.TensorFlow)):
        if name not in wanted:
            continue
        try:
            peer = make()
            found[name] = peer.python, getattr(peer, "environment", {})
        except peers.Missing as reason:
            missing[name] = str(reason)
    return found, missing


def start(found, threads, build):
    """The workers; those of functions are modes of the same programs."""
    systems = []
    for name, (python, environment) in found.items():
        modes = {"etude": {"etude": "python", "staged": "staged"},
                 "torch": {"torch": "python", "compile": "compile"},
                 "tensorflow": {"tensorflow": "python", "xla": "xla"}}.get(name, {name: "python"})
        for system, mode in modes.items():
            systems.append(Worker(system, [python, HERE / f"{name}_worker.py"], threads, environment, mode))
    cpp = Worker("cpp", [build / "bin" / "etude-bench", "--serve"], threads, mode="eager")
    cpp.modes = {"epoch": "eager"}
    return [*systems, cpp]


def import_times(found, rounds, clock):
    """Seconds that the import takes in a new process, the files in the page cache."""
    samples = {name: [] for name in found}
    for i in range(rounds + 1):
        for name, (python, environment) in found.items():
            done = subprocess.run([python, "-c", IMPORT.format(clock, MODULES[name])], capture_output=True, text=True, check=True,
                                  env=dict(os.environ, **environment), stdin=subprocess.DEVNULL)  # fmt: skip
            if i > 0:
                samples[name].append(float(done.stdout))
    return {name: {"median": statistics.median(times), "rounds": times} for name, times in samples.items()}


def run_rows(systems, chosen, found, args):
    """(results, what failed), by row; each row is printed when it is done."""
    results, faults = {}, [system.fault for system in systems if system.fault]
    for row in chosen:
        if row == "import":
            results[row] = import_times(found, args.rounds, CLOCKS[args.clock])
        else:
            results[row] = workloads.measure(systems, row, args.rounds, args.ms)
        texts, met = reached(row, results[row])
        ours = report.human(results[row].get("etude", {}).get("median", 0))
        print(f"{row:26} {ours:>9}  {', '.join(texts)}{'' if met else '  MISSED'}", flush=True)
        faults += [f"{row}: {s}: {r['error']}" for s, r in results[row].items() if "error" in r]
        wrong = workloads.disagreement(results[row])
        faults += [f"{row}: {wrong}"] if wrong else []
    return results, faults


def reached(row, found):
    """(text, whether all aims are met) of a row; None where there is nothing to compare."""
    ours = found.get("etude", {}).get("median")
    texts, met = [], True
    for peer, aim in AIMS[row]:
        theirs = found.get(peer, {}).get("median")
        if ours and theirs:
            ratio = theirs / ours
            texts.append(f"{peer} {ratio:.2f} (aim {aim:.2f})")
            met = met and ratio >= aim
    if row == "import" and ours:
        texts.append(f"{ours * 1e3:.0f} ms (aim {IMPORT_LIMIT * 1e3:.0f})")
        met = met and ours <= IMPORT_LIMIT
    return texts, met


def markdown(results, systems):
    """The rows in Markdown; a row in bold misses an aim."""
    yield "| row | " + " | ".join(systems) + " | times as fast |"
    yield "| --- |" + " --- |" * (len(systems) + 1)
    for row, found in results.items():
        texts, met = reached(row, found)
        cells = [report.human(found[s]["median"]) if "median" in found.get(s, {}) else "" for s in systems]
        yield f"| {'' if met else '**'}`{row}`{'' if met else '**'} | " + " | ".join(cells) + f" | {', '.join(texts)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="rows, or beginnings of their names")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ms", type=int, default=60)
    parser.add_argument("--peers", default="torch,jax,tensorflow", help="of torch,jax,tensorflow; NumPy is always there")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="the build that is measured")
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall",
                        help="processor: time that the processes compute, for a machine that others use as well")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "bench", help="the folder for results")
    parser.add_argument("--store", metavar="FILE", help="writes the results there as well")
    args = parser.parse_args()
    chosen = [row for row in AIMS if not args.rows or any(row.startswith(name) for name in args.rows)]
    os.environ["BENCH_CLOCK"] = args.clock
    found, missing = interpreters(args.peers.split(","), args.build)
    systems = start(found, 1, args.build)
    machine = workloads.machine()
    print(f"{machine['cpu']}, 1 thread, {args.clock} time; medians of {args.rounds} interleaved rounds")
    for name, reason in missing.items():
        print(f"{name}: skipped: {reason}")
    results, faults = run_rows(systems, chosen, found, args)
    for fault in faults:
        print(fault)
    versions = {s.name: s.hello.get("version") for s in systems}
    for system in systems:
        system.close()
    names = [s.name for s in systems]
    record = {"machine": machine, "clock": args.clock, "versions": versions, "skipped": missing, "results": results}
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "python.md").write_text("\n".join(markdown(results, names)) + "\n")
    for path in (args.out / "python.json", *([pathlib.Path(args.store)] if args.store else [])):
        path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"written: {args.out}/python.md")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
