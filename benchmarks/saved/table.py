#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saved functions beside onnxruntime: `./dev bench --saved [ROW...]`.

A program writes the models, as folders of saved functions and as models of ONNX. Loaded functions, functions that
`etude compile` made, and onnxruntime answer the same inputs. As in ../run.py, each system is one process, systems take
turns, and a row is timed only after all answers were compared. Writes build/bench/saved.json, and the table as
build/bench/saved.md. --store keeps the JSON elsewhere as well.
"""
import argparse
import array
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
OUT = ROOT / "build" / "bench"
PACKAGES = ["onnxruntime==1.31.0", "onnx==1.22.0", "numpy==2.4.6", "ml_dtypes==0.6.0", "protobuf==7.36.2",
            "flatbuffers==25.12.19", "packaging==26.4", "typing_extensions"]
MODELS = ("lenet", "resnet56", "transformer", "lstm")
FIRST = {f"first_{model}": model for model in ("lenet", "resnet56")}
DISK = {"save_1g": ("save", "copy_durable"), "load_1g": ("load", "copy")}
ANSWERS = [f"{model}_{batch}" for model in MODELS for batch in (1, 32)]
ROWS = [*FIRST, *ANSWERS, *DISK]
OURS, PEERS = ("loaded", "ahead"), ("onnxruntime", "rewritten")
# How many times as fast as the peer a row must be; half of all answers must reach GOOD.
AIMS = {**dict.fromkeys(FIRST, 3), **dict.fromkeys(ANSWERS, 1), **dict.fromkeys(DISK, .8)}
GOOD = 1.3
RELATIVE, ABSOLUTE = 1e-3, 1e-5


class Failed(Exception):
    """A program of ours that did not do its work."""


def output_of(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise Failed(f"{pathlib.Path(command[0]).name}: " + (done.stderr.strip() or f"status {done.returncode}"))
    return done.stdout


def compile_ahead(programs, folder, models):
    """The program of the compiled models, and why some models are not in it."""
    objects, missing = [], {}
    for model in MODELS:
        (folder / f"{model}.h").unlink(missing_ok=True)  # the program has the models whose headers are there
        if model not in models:
            continue
        try:
            output_of([programs / "etude", "compile", folder / model, "--size", "1,32", "-o", folder / model])
            objects.append(folder / f"{model}.o")
        except Failed as reason:
            missing[model] = str(reason)
    program = folder / "ahead"
    sources = [HERE / "ahead.cc", HERE.parent / "worker.cc", HERE.parent / "probes.cc"]
    output_of(["c++", "-std=c++20", "-O2", f"-I{ROOT}", f"-I{folder}", *sources, *objects, "-lpthread", "-o", program])
    return program, missing


def disagreement(answer, expected):
    """Why two answers differ by more than rounding; None if they do not."""
    if len(answer) != len(expected):
        return f"{len(answer)} numbers beside {len(expected)}"
    for i, (a, b) in enumerate(zip(answer, expected)):
        if not abs(a - b) <= RELATIVE * abs(b) + ABSOLUTE:
            return f"{a:.7g} beside {b:.7g} at {i}"
    return None


def numbers(file):
    out = array.array("f")
    out.frombytes(file.read_bytes())
    return out


def differences(folder, row, systems):
    """How the answers differ from that of onnxruntime; without it, from that of the loaded function."""
    reference = next((s for s in ("onnxruntime", "loaded") if s in systems), None)
    for system in [s for s in systems if s != reference]:
        why = disagreement(*(numbers(folder / f"{row}.{s}.f32") for s in (system, reference)))
        if why:
            yield f"{row}: {system} differs from {reference}: {why}"


def answers_of(systems, folder, row, rounds, budget):
    """(figures by system, faults). Nothing is timed unless all answers agree."""
    checked = {s.name: s.run(row, "setup=1") for s in systems if row in s.modes}
    faults = [f"{row}: {name}: {reply['error']}" for name, reply in checked.items() if "error" in reply]
    faults += differences(folder, row, [name for name, reply in checked.items() if "checksum" in reply])
    return ({}, faults) if faults else (workloads.measure(systems, row, rounds, budget), [])


def first_answers(commands, model, rounds, environment):
    """Seconds from the call of load to the first answer, each time in a new process with the files in the cache."""
    cpu = {min(os.sched_getaffinity(0))}
    samples = {system: [] for system in commands}
    for i in range(rounds + 1):
        for system, command in commands.items():
            text = output_of([*command, "--first", model], env=environment,
                             preexec_fn=lambda: os.sched_setaffinity(0, cpu))
            if i > 0:
                samples[system].append(float(text))
    return {system: {"median": statistics.median(times), "rounds": times} for system, times in samples.items()}


def best_peer(found):
    """(name, seconds) of the peer that takes the shortest time; None if none has a figure."""
    timed = [(found[name]["median"], name) for name in (*PEERS, "copy") if "median" in found.get(name, {})]
    return min(timed)[::-1] if timed else None


def ratios(found):
    """How many times as long the best peer takes, by system of ours."""
    best = best_peer(found)
    return {s: best[1] / found[s]["median"] for s in OURS if best and "median" in found.get(s, {})}


def summary(results):
    """(text, whether it is met) of the aim that half of the answers must reach."""
    all_ratios = [r for row in results if row in ANSWERS for r in ratios(results[row]).values()]
    good = sum(r >= GOOD for r in all_ratios)
    return f"{good} of {len(all_ratios)} answers are {GOOD} times as fast or more", 2 * good >= len(all_ratios)


def markdown(results):
    """The rows in Markdown; a row in bold misses its aim."""
    yield "| row | onnxruntime | loaded | ahead of time | times as fast: loaded, ahead of time | reach |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row, found in results.items():
        best, reached = best_peer(found), ratios(found)
        bold = "" if all(r >= AIMS[row] for r in reached.values()) else "**"
        cells = [report.human(best[1]) if best else ""]
        cells += [report.human(found[s]["median"]) if "median" in found.get(s, {}) else "" for s in OURS]
        yield (f"| {bold}`{row}`{bold} | " + " | ".join(cells) + " | " + ", ".join(f"{r:.2f}" for r in reached.values())
               + f" | {AIMS[row]} |")


def print_row(row, found):
    best, reached = best_peer(found), ratios(found)
    words = [f"{s} {report.human(found[s]['median'])}" for s in OURS if "median" in found.get(s, {})]
    if best:
        words.append(f"{best[0]} {report.human(best[1])}")
    words += [f"{s} {r:.2f} (aim {AIMS[row]}){'' if r >= AIMS[row] else ' MISSED'}" for s, r in reached.items()]
    print(f"{row:16} " + ", ".join(words), flush=True)


class Bench:
    def __init__(self, args):
        self.args, self.bin = args, args.build / "bin"
        self.folder = args.out / "saved"
        self.folder.mkdir(parents=True, exist_ok=True)
        os.environ.update(BENCH_CLOCK=args.clock, BENCH_SAVED=str(self.folder), BENCH_THREADS="1")
        self.ours = {"ETUDE_KERNEL_CACHE": "off"}
        self.missing, self.faults, self.empty, self.versions = {}, [], None, {}
        self.peer = None
        if args.peers:
            try:
                self.peer = peers.installed("onnxruntime", "onnxruntime", PACKAGES) / "bin" / "python"
            except peers.Missing as reason:
                self.missing["onnxruntime"] = str(reason)

    def start(self, models):
        ahead, missing = compile_ahead(self.bin, self.folder, models)
        self.missing |= {f"{model}, compiled ahead of time": why for model, why in missing.items()}
        systems = [Worker("loaded", [self.bin / "saved-answers", "--serve"], 1, self.ours, "eager"),
                   Worker("ahead", [ahead, "--serve"], 1, mode="eager")]
        if self.peer:
            worker = [self.peer, HERE / "onnxruntime_worker.py"]
            systems += [Worker("onnxruntime", worker, 1, mode="exported"), Worker("rewritten", worker, 1, mode="rewritten")]
        self.versions = {s.name: s.hello.get("version") for s in systems}
        self.faults += [s.fault for s in systems if s.fault]
        return systems

    def answers(self, rows):
        if not rows:
            return {}
        systems, out = self.start({row.rsplit("_", 1)[0] for row in rows}), {}
        for row in rows:
            out[row], faults = answers_of(systems, self.folder, row, self.args.rounds, self.args.ms)
            self.faults += faults
            print_row(row, out[row])
        if self.peer:
            self.empty = workloads.measure(systems[2:3], "empty", self.args.rounds, self.args.ms)["onnxruntime"]
            print(f"an empty call of onnxruntime takes {report.human(self.empty['median'])}, which is a part of its figures")
        for system in systems:
            system.close()
        return out

    def firsts(self, rows):
        commands = {"loaded": [self.bin / "saved-answers"]}
        if self.peer:
            commands["onnxruntime"] = [self.peer, HERE / "onnxruntime_worker.py"]
        out = {}
        for row in rows:
            out[row] = first_answers(commands, FIRST[row], self.args.rounds, dict(os.environ, **self.ours))
            print_row(row, out[row])
        return out

    def disk(self, rows):
        if not rows:
            return {}
        found = json.loads(output_of([self.bin / "saved-answers", "--disk", self.folder / "disk", self.args.disk_rounds]))
        median = lambda name: {"median": statistics.median(found[name]), "rounds": found[name]}  # noqa: E731
        out = {row: {"loaded": median(DISK[row][0]), "copy": median(DISK[row][1])} for row in rows}
        for row in rows:
            print_row(row, out[row])
        return out

    def run(self, chosen):
        rows = lambda kind: [row for row in chosen if row in kind]  # noqa: E731
        models = [m for m in MODELS if any(row in (f"first_{m}", f"{m}_1", f"{m}_32") for row in chosen)]
        if models:
            output_of([self.bin / "saved-models", self.folder, *models])
        return self.firsts(rows(FIRST)) | self.answers(rows(ANSWERS)) | self.disk(rows(DISK))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="rows, or beginnings of their names")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ms", type=int, default=60)
    parser.add_argument("--disk-rounds", type=int, default=5)
    parser.add_argument("--no-peers", action="store_false", dest="peers", help="Etude alone")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release", help="the build that is measured")
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall",
                        help="processor: time that the processes compute, for a machine that others use as well; "
                             "the rows of the disk are always of wall time")
    parser.add_argument("--out", type=pathlib.Path, default=OUT, help="the folder for models and results")
    parser.add_argument("--store", metavar="FILE", help="writes the results there as well")
    args = parser.parse_args()
    chosen = [row for row in ROWS if not args.rows or any(row.startswith(name) for name in args.rows)]
    machine = workloads.machine()
    print(f"{machine['cpu']}, 1 thread, {args.clock} time; medians of {args.rounds} interleaved rounds")
    bench = Bench(args)
    try:
        results = bench.run(chosen)
    except Failed as reason:
        sys.exit(str(reason))
    for name, reason in bench.missing.items():
        print(f"{name}: skipped: {reason}")
    text, met = summary(results)
    print(text + ("" if met else "  MISSED"))
    for fault in bench.faults:
        print(fault)
    record = {"machine": machine, "clock": args.clock, "versions": bench.versions, "skipped": bench.missing,
              "empty": bench.empty, "results": results}
    (args.out / "saved.md").write_text("\n".join([*markdown(results), "", f"{text}."]) + "\n")
    for path in (args.out / "saved.json", *([pathlib.Path(args.store)] if args.store else [])):
        path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"written: {args.out}/saved.md")
    sys.exit(1 if bench.faults else 0)


if __name__ == "__main__":
    main()
