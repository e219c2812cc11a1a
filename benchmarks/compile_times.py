#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What etude/diff.h costs a compiler: compile_times.py [--runs N] [--json] [COMPILER...]

Compiles, with the flags of a usual program: the standard headers that diff.h includes, diff.h after
them, 200 structs whose tangents are used, and 20 gradients of functions of different shape. Says
how many seconds of user and system time each takes over the one before it, as medians of runs in
turns. Compilers are g++ and clang++-22 unless named.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
NO_CACHE = dict(os.environ, CCACHE_DISABLE="1")
STRUCTS, FIELDS, GRADIENTS = 200, 8, 20
# Program: what it is compared with, and the most seconds that it should take over that.
PROGRAMS = {
    "standard headers": (None, None),
    "diff.h": ("standard headers", 0.25),
    f"{STRUCTS} structs": ("diff.h", 2.5),
    f"{GRADIENTS} gradients": ("diff.h", 5.0),
}


def standard_headers(path, seen):
    """The headers in <> that `path` includes, also by others of this project."""
    found = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.match(r'#include (?:<(.+)>|"(.+)")', line)
        if not match:
            continue
        if match[1]:
            found.add(match[1])
        elif match[2] not in seen:
            seen.add(match[2])
            if (ROOT / match[2]).exists():
                found |= standard_headers(ROOT / match[2], seen)
    return found


def include_text(with_diff):
    headers = sorted(standard_headers(ROOT / "etude" / "diff.h", set()))
    text = "".join(f"#include <{name}>\n" for name in headers)
    return text + ('#include "etude/diff.h"\n' if with_diff else "")


def structs_text():
    out = [include_text(True)]
    for i in range(STRUCTS):
        fields = ", ".join(f"field{k}" for k in range(FIELDS))
        out.append(f"struct Part{i} {{ double {fields}; }};\n")
        out.append(f"void step{i}(Part{i}& x) {{\n"
                   f"  etude::tangent_t<Part{i}> t = etude::zero_tangent(x);\n"
                   f"  t.field{i % FIELDS} = 1;\n  etude::move(x, t);\n}}\n")
    return "".join(out)


# Ways to begin a function, by the arguments it takes, and statements on its numbers u and v. With
# these in other orders, no two functions have the same calls.
ARGUMENTS = [
    ("auto x", "  auto u = x, v = x * x;\n", "0.5"),
    ("auto x, auto y", "  auto u = x - y, v = x / (y + 4.0);\n", "0.5, 1.5"),
    ("const auto& x", "  auto u = x[0], v = x[1];\n"
     "  for (std::size_t i = 2; i < x.size(); ++i) v += u * x[i];\n", "std::vector{0.5, 1.5, 2.5, 1.0, 2.0}"),
    ("const auto& x", "  auto u = x[0] * x[5], v = x[1] - x[2] + x[3] * x[4];\n",
     "std::array<double, 6>{0.5, 1.5, 2.5, 1.0, 2.0, 3.0}"),
    ("const auto& s, auto x", "  auto u = s.a * x + s.b, v = s.c - x * s.d;\n",
     "Shape<double>{1, 2, 3, 4}, 0.5"),
]
STATEMENTS = [
    "  u = sin(u) + v;\n",
    "  v = v * exp(-0.1 * u);\n",
    "  if (u > v) u = u - 0.5 * v;\n",
    "  for (int i = 0; i < 4; ++i) v += u * v / (i + 2.0);\n",
    "  u = log(1.0 + u * u);\n",
    "  const auto w{n} = sqrt(1.0 + v * v);\n  v -= u / w{n};\n",
    "  u *= tanh(v);\n",
    "  while (v > 3.0) v = 0.5 * v;\n",
    "  v = fmax(u, v) + cos(u);\n",
    "  u = pow(1.0 + u * u, 1.5) - v;\n",
]


def gradients_text():
    out = [include_text(True), "template <class T>\nstruct Shape {\n  T a, b, c, d;\n};\n"]
    for g in range(GRADIENTS):
        parameters, begin, arguments = ARGUMENTS[g % len(ARGUMENTS)]
        body = [STATEMENTS[(g * (1 + g % 3) + 3 * k) % len(STATEMENTS)].replace("{n}", str(k)) for k in range(7)]
        out.append(f"auto slope{g}() {{\n  const auto f = []({parameters}) {{\n{begin}{''.join(body)}"
                   f"  return u * v + {g}.0 * u;\n  }};\n"
                   f"  return etude::gradient(f, {arguments});\n}}\n")
    return "".join(out)


def texts():
    made = (include_text(False), include_text(True), structs_text(), gradients_text())
    return dict(zip(PROGRAMS, made, strict=True))


def seconds_of(command):
    """User and system time, which other programs on the machine change least."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=NO_CACHE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(compilers, version, runs):
    """{(compiler, program, what): median seconds}"""
    samples = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for number, text in enumerate(texts().values()):
            (folder / f"program{number}.cc").write_text(text, encoding="utf-8")
        for _ in range(runs):
            for compiler in compilers:
                for number, program in enumerate(PROGRAMS):
                    source = folder / f"program{number}.cc"
                    base = [compiler, "-std=c++20", "-O2", f"-I{ROOT}", f"-I{version}", source]
                    for what, flags in (("all", ["-c", "-o", folder / "out.o"]), ("syntax", ["-fsyntax-only"])):
                        samples.setdefault((compiler, program, what), []).append(seconds_of(base + flags))
    return {key: statistics.median(times) for key, times in samples.items()}


def report(compilers, medians):
    rows = []
    for compiler in compilers:
        for program, (base, aim) in PROGRAMS.items():
            row = {"compiler": compiler, "program": program, "seconds": medians[compiler, program, "all"]}
            if base:
                row["over"] = row["seconds"] - medians[compiler, base, "all"]
                row["syntax_over"] = medians[compiler, program, "syntax"] - medians[compiler, base, "syntax"]
                row["aim"], row["over_what"] = aim, base
            rows.append(row)
    return rows


def show(rows):
    print(f"{'compiler':<12} {'program':<18} {'seconds':>8} {'over it':>8} {'aim':>6} {'to parse':>9}  over what")
    for row in rows:
        line = f"{row['compiler']:<12} {row['program']:<18} {row['seconds']:8.2f}"
        if "aim" in row:
            missed = "  missed" if row["over"] > row["aim"] else ""
            line += f" {row['over']:8.2f} {row['aim']:6.2f} {row['syntax_over']:9.2f}  {row['over_what']}{missed}"
        print(line)


def version_folder():
    """Where version.h was generated: that of any preset."""
    for path in sorted((ROOT / "build").glob("*/generated")):
        if (path / "etude" / "version.h").exists():
            return path
    return sys.exit("etude/version.h is generated by a build: run ./dev build first")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("compilers", nargs="*", metavar="COMPILER")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", metavar="FOLDER", help="write the programs there and stop")
    options = parser.parse_args()
    if options.write:
        for name, text in texts().items():
            pathlib.Path(options.write, name.replace(" ", "_") + ".cc").write_text(text, encoding="utf-8")
        return
    compilers = options.compilers or [name for name in ("g++", "clang++-22") if shutil.which(name)]
    rows = report(compilers, measure(compilers, version_folder(), options.runs))
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"user and system seconds, -O2, medians of {options.runs}")
    show(rows)


if __name__ == "__main__":
    main()
