#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a turn of each guard body (benchmarks/micro/guards.cc) costs, against benchmarks/guards.json.

usage: check_guards.py PROGRAM [--update]

Counts repeat to the digit where times are noise: instructions, calls of ops, blocks of tensors, other requests
of memory. More than 5 % of instructions above the record fail, and so does any other count that differs; more
than 1 % of instructions either way is printed. --update writes the record; a higher one needs its reason in the
commit.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

RECORD = pathlib.Path(__file__).resolve().parent.parent / "benchmarks" / "guards.json"
TURNS = 50
TOLERATED, NOTED = 1.05, 1.01
EXACT = {"calls": "calls of ops", "tensors": "blocks of tensors", "heap": "requests by new"}
# One instruction set for all machines: valgrind 3.19 knows AVX2, not AVX-512. No compiler behind the
# program, whose instructions would come at other times in each run.
ENVIRONMENT = dict(os.environ, ETUDE_ISA="avx2", ETUDE_THREADS="1", ETUDE_TIER="0")


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return done.stdout


def instructions(program, guard):
    """Those of one turn; turns before have made caches, pools and the state of optimisers."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        run(["valgrind", "--tool=callgrind", "--toggle-collect=*guard_body*", f"--callgrind-out-file={out}", program,
             guard, str(TURNS)])
        text = pathlib.Path(out).read_text()
    return round(int(re.search(r"^(?:summary|totals): (\d+)", text, re.M).group(1)) / TURNS, 1)


def count(program, guard):
    return {"instructions": instructions(program, guard), **json.loads(run([program, guard]))}


def judge(known, counts):
    """(what to print of a guard, whether it fails)."""
    if known is None:
        return "new", True
    ratio = counts["instructions"] / known["instructions"]
    notes, failed = [f"{ratio - 1:+.1%} against {known['instructions']}"], ratio > TOLERATED
    if failed:
        notes.append(f"FAILED: more than {TOLERATED - 1:.0%} above")
    elif not 1 / NOTED <= ratio <= NOTED:
        notes.append("look at it")
    for key, words in EXACT.items():
        if counts[key] != known[key]:
            failed = True
            notes.append(f"FAILED: {counts[key]} {words}, recorded are {known[key]}")
    return "; ".join(notes), failed


def check(record, counts):
    """The lines to print, and the names of guards that fail."""
    lines, failed = [], []
    for guard, found in counts.items():
        note, fails = judge(record.get(guard), found)
        failed += [guard] * fails
        exact = ", ".join(f"{found[key]} {key}" for key in EXACT)
        lines.append(f"{guard:24} {found['instructions']:10.1f} instructions, {exact} a turn: {note}")
    for guard in sorted(set(record) - set(counts)):
        lines.append(f"{guard}: is recorded, but the program does not know it")
        failed.append(guard)
    return lines, failed


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program, update = sys.argv[1], "--update" in sys.argv
    if not shutil.which("valgrind"):
        sys.exit("valgrind is missing; install it with: apt-get install valgrind")
    record = {} if update else json.loads(RECORD.read_text())
    guards = run([program]).split()
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("ETUDE_JOBS", os.cpu_count()))) as pool:
        counts = dict(zip(guards, pool.map(lambda guard: count(program, guard), guards)))
    lines, failed = check(record, counts)
    print("\n".join(lines))
    if update:
        RECORD.write_text("{\n" + ",\n".join(f'  "{name}": {json.dumps(c)}' for name, c in counts.items()) + "\n}\n")
    elif failed:
        sys.exit(f"not as in {RECORD.name}: {', '.join(failed)}; mend it, or record it with --update and say why")


if __name__ == "__main__":
    main()
