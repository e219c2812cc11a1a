# SPDX-License-Identifier: Apache-2.0
"""Random programs on the library: a staged function and the plain function on host numbers give
equal results.

autograph/programs.py makes the programs. `python test_control_flow_fuzz.py FIRST COUNT` runs more
of them.
"""

import importlib.util
import linecache
import os
import sys
import traceback

import etude as et

HERE = os.path.dirname(os.path.abspath(__file__))
_spec = importlib.util.spec_from_file_location(
    "_programs", os.path.join(HERE, "autograph", "programs.py")
)
programs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(programs)

ARGUMENTS = ((3, -2, [1, 2, 3]), (0, 5, [4, 0, 2]), (6, 1, [-1, 8, 3]), (2, 2, [5, 0, -1]))


class Box:
    def __init__(self, x):
        self.x = x

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def function_of(text, name):
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names = {"__name__": "fuzz"}
    exec(compile(text, name, "exec"), names)
    return names["f"]


def check(seed):
    """False for a program whose host loop becomes staged inside a loop of the graph."""
    f = function_of(programs.Program(seed, staged=True).text(), f"<real {seed}>")
    staged = et.function(lambda a, b, xs: f(a, b, xs, Box(1)))
    for a, b, xs in ARGUMENTS:
        expected = f(a, b, xs, Box(1))
        try:
            found = staged(et.asarray(a), et.asarray(b), et.asarray(xs))
        except et.InvalidArgumentError as error:
            if "it is unrolled" in str(error):
                return False
            raise
        if int(found) != expected:  # an int32 may wrap around, as it does eagerly
            expected = int(f(et.asarray(a), et.asarray(b), et.asarray(xs), Box(1)))
        assert int(found) == expected, (seed, a, b, xs, int(found), expected)
    return True


def test_programs():
    assert sum(check(seed) for seed in range(20)) > 15


def main(first, count):
    failed = 0
    for seed in range(first, first + count):
        try:
            check(seed)
        except Exception:
            failed += 1
            print(f"check({seed})")
            if failed < 4:
                traceback.print_exc()
    print(f"{count} seeds, {failed} failures")
    return failed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])) > 0)
