# SPDX-License-Identifier: Apache-2.0
"""For generators whose numbers come from a library: writes a file, or with --check compares with it.

Texts agree when they are equal but for white space and for the last digits of numbers, which differ
between versions of NumPy, SciPy and the C library.
"""
import math
import re
import sys

TOLERANCE = 1e-12
_TOKEN = re.compile(r"(?<![\w.])-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|\w+|[^\w\s]", re.IGNORECASE)


def _number(token):
    try:
        return float(token)
    except ValueError:
        return None


def _same(a, b):
    if a == b:
        return True
    x, y = _number(a), _number(b)
    if x is None or y is None or math.copysign(1, x) != math.copysign(1, y):
        return False
    return x != 0 and y != 0 and abs(x - y) <= TOLERANCE * max(abs(x), abs(y))


def agree(a, b):
    left, right = _TOKEN.findall(a), _TOKEN.findall(b)
    return len(left) == len(right) and all(map(_same, left, right))


def finish(path, text, script):
    """Writes `text` to `path`; with --check among the arguments, exits with a message if it is stale."""
    if "--check" not in sys.argv[1:]:
        with open(path, "w") as out:
            out.write(text)
        return
    with open(path) as stored:
        if not agree(stored.read(), text):
            sys.exit(f"{path} is not current: run {script}, then ./dev format")


def self_test():
    assert agree("{1, 2.5,\n 3}", "{1,  2.5, 3}")
    assert agree("{0.10000000000000001}", "{0.1}") and agree("1e-3", "0.001")
    assert not agree("{1, 2}", "{1, 2, 3}") and not agree("{1}", "{1.00001}")
    assert not agree("{0.}", "{-0.}") and not agree("{kInf}", "{-kInf}") and not agree("{0.}", "{1e-300}")


self_test()
