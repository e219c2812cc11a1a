#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions per turn of the guard bodies (benchmarks/micro/guards.cc), against benchmarks/guards.json.

usage: check_guards.py PROGRAM [--update]

Counts repeat to the digit where times are noise. More than 10 % above the record fails, more than 2 %
either way is printed. --update writes the record; a higher one needs its reason in the commit.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

RECORD = pathlib.Path(__file__).resolve().parent.parent / "benchmarks" / "guards.json"
TURNS = 200
TOLERATED, NOTED = 1.10, 1.02


def instructions(program, guard, turns):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        # One instruction set for all machines: valgrind 3.19 knows AVX2, not AVX-512.
        environment = dict(os.environ, ETUDE_ISA="avx2", ETUDE_THREADS="1")
        command = ["valgrind", "--tool=callgrind", "--toggle-collect=*guard_body*",
                   f"--callgrind-out-file={out}", program, guard, str(turns)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode != 0:
            sys.exit(f"{guard}: {done.stderr[-2000:]}")
        text = pathlib.Path(out).read_text()
    return int(re.search(r"^(?:summary|totals): (\d+)", text, re.M).group(1))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program, update = sys.argv[1], "--update" in sys.argv
    if not shutil.which("valgrind"):
        sys.exit("valgrind is missing; install it with: apt-get install valgrind")
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    counts, failed = {}, []
    for guard in subprocess.run([program], capture_output=True, text=True, check=True).stdout.split():
        twice, once = (instructions(program, guard, n * TURNS) for n in (2, 1))
        counts[guard] = round((twice - once) / TURNS, 1)
        known = record.get(guard)
        note = "new"
        if known:
            ratio = counts[guard] / known
            note = f"{ratio - 1:+.1%} against {known}"
            if ratio > TOLERATED:
                failed.append(guard)
                note += "  FAILED"
            elif not 1 / NOTED <= ratio <= NOTED:
                note += "  look at it"
        print(f"{guard:28} {counts[guard]:10.1f} instructions a turn  {note}")
    if update:
        RECORD.write_text(json.dumps(counts, indent=2) + "\n")
    elif missing := sorted(set(counts) - set(record)):
        sys.exit(f"not in {RECORD.name}: {', '.join(missing)}; run with --update")
    if failed and not update:
        sys.exit(f"more instructions than recorded: {', '.join(failed)}")


if __name__ == "__main__":
    main()
