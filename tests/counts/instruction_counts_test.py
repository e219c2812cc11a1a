#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""instruction_counts_test.py SOURCE COMPILER ARGS...: gradients take as many instructions as those written by hand.

Of each pair etude_NAME and hand_NAME the instructions are counted in the disassembly. One more in ten is the aim. What
takes more has a bound of its own: by hand one simplifies the algebra and forgets infinite slopes: ours ask of each call
whether a derivative is NaN, and hold what is then done, which hardly ever runs. Products by a derivative that is known to
be 0 are left out.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ALLOWED = 1.1
# By g++, which moves what hardly ever runs out of the function, and by clang, which counts it.
BOUNDS = {"cube": (4.0, 6.6), "wave": (2.2, 3.0), "decay": (1.8, 2.4), "logistic": (2.4, 2.7), "ratio": (1.7, 2.3),
          "logarithm": (2.3, 3.0), "root": (2.5, 3.7), "polynomial": (4.0, 4.4), "mixed": (5.4, 3.7),
          "two_product": (6.6, 1.2), "two_wave": (2.6, 2.3)}


def counts(listing):
    """{function: instructions}, without padding; with those of a lambda in it that was not inlined."""
    found, name = {}, None
    for line in listing.splitlines():
        head = re.match(r"[0-9a-f]+ <([\w.]+)>:", line)
        if head:
            inside = re.match(r"_ZZ\d+((?:etude|hand)_\w+?)ENK", head[1])
            name = inside[1] if inside and not head[1].endswith(".cold") else head[1]
            found.setdefault(name, 0)
        elif name and re.match(r" +[0-9a-f]+:\t", line) and not re.search(r"\t(nop|xchg +%ax,%ax|data16|cs nop)", line):
            found[name] += 1
    return found


def main():
    source, *compiler = sys.argv[1:]
    version = subprocess.run([compiler[0], "--version"], capture_output=True, text=True, check=True).stdout
    column = 1 if "clang" in version else 0
    with tempfile.TemporaryDirectory() as folder:
        binary = pathlib.Path(folder) / "straight_lines.o"
        subprocess.run([*compiler, "-O2", "-fno-math-errno", "-c", source, "-o", binary], check=True)
        listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", binary], capture_output=True, text=True,
                                 check=True).stdout
    found = counts(listing)
    names = [name.removeprefix("etude_") for name in found if re.fullmatch(r"etude_\w+", name)]
    wrong = 0 if names else "no function was found"
    for name in names:
        ours, hand = found["etude_" + name], found["hand_" + name]
        most = BOUNDS.get(name, (ALLOWED, ALLOWED))[column] * hand
        wrong += ours > most
        print(f"{name:12} {ours:4} instructions, by hand {hand:4}: {ours / hand:.2f}{'  TOO MANY' if ours > most else ''}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
