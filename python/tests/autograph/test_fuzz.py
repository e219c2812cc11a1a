# SPDX-License-Identifier: Apache-2.0
"""Random programs: unconverted, converted on host numbers, and traced on tensors give equal
results.

`python test_fuzz.py FIRST COUNT` runs more of them.
"""

import linecache
import os
import sys
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import conftest  # noqa: E402, F401

import fake  # noqa: E402
from programs import Program  # noqa: E402

import autograph  # noqa: E402

ARGUMENTS = ((3, -2, [1, 2, 3]), (0, 5, [4]), (6, 1, []), (2, 2, [5, 0, -1, 7]))


class Box:
    def __init__(self, x):
        self.x = x
        self.depth = 0

    def __enter__(self):
        self.depth += 1
        return self

    def __exit__(self, *_):
        self.depth -= 1


def function_of(text, name):
    """The function `f` of the text, with a source that conversion finds."""
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names = {"__name__": "fuzz"}
    exec(compile(text, name, "exec"), names)
    return names["f"]


def outcome(f, *arguments):
    box = Box(1)
    try:
        return f(*arguments, box), box.x, box.depth
    except Exception as error:
        kind = NameError if isinstance(error, NameError) else type(error)
        return kind.__name__, box.depth


def check_host(seed):
    text = Program(seed, staged=False).text()
    f = function_of(text, f"<host {seed}>")
    converted = autograph.convert(f)
    assert converted.__wrapped__ is not f
    for arguments in ARGUMENTS:
        assert outcome(converted, *arguments) == outcome(f, *arguments), (seed, arguments)


def check_staged(seed):
    text = Program(seed, staged=True).text()
    f = function_of(text, f"<staged {seed}>")
    for length in (0, 1, 3, 4):
        box = Box(1)
        try:
            run = fake.staged(f, 3, -2, [1] * length, fake.Host(box))
        except fake.InvalidArgument as error:
            # A host loop with a jump that became staged in an outer loop, or a host index.
            if "it is unrolled" in str(error):
                return False
            raise
        assert box.depth == 0
        for a, b, xs in ARGUMENTS:
            if len(xs) == length:
                want = Box(1)
                expected = f(a, b, xs, want)
                assert run(a, b, xs, None) == expected, (seed, a, b, xs)
    return True


def test_host_programs():
    for seed in range(150):
        check_host(seed)


def test_staged_programs():
    for seed in range(100):
        check_staged(seed)


def main(first, count):
    failed = staged = 0
    for seed in range(first, first + count):
        for check in (check_host, check_staged):
            try:
                staged += check(seed) is True
            except Exception:
                failed += 1
                print(f"{check.__name__}({seed})")
                if failed < 4:
                    traceback.print_exc()
    print(f"{count} seeds, {staged} staged programs, {failed} failures")
    return failed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])) > 0)
