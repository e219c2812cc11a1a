# SPDX-License-Identifier: Apache-2.0
"""`assert`, and the parts of host loops that a converted function adds: the warning for unrolled
steps, and `break`.
"""

from __future__ import annotations

import sys
import types
import warnings
from typing import Any, Callable, Iterable, Iterator

from . import backend
from .branches import condition
from .errors import Site
from .rows import StagedRows
from .text import holds_staged, pieces_of

MANY_STEPS = 2000


def assert_stmt(test: Any, message: Callable[[], Any], line: int) -> None:
    """`assert test, message()`: the graph checks `test` when it runs, and makes the message on
    failure only.
    """
    site = Site("assert", message, line)
    test = condition(test, site)
    where = f"\n  at {site.file}:{site.line}"
    code = message.__code__
    if not code.co_names and not code.co_freevars:
        text = message()  # a constant
        backend.assert_true(
            test, f"assert: {'the assertion is false' if text is None else text}{where}"
        )
        return

    def fail() -> list:
        text = message()
        pieces = pieces_of(text) if holds_staged(text) else [str(text)]
        backend.fail(["assert: ", *pieces, where])
        return []

    backend.cond(test, list, fail)


def _caller(op: str, line: int) -> Site:
    """The statement of the function that called the caller of this."""
    return Site(op, types.SimpleNamespace(__code__=sys._getframe(2).f_code), line)


def leaves(value: Any, line: int) -> bool:
    """Whether a flag ends a host loop. raises: invalid argument if a tensor decides."""
    if backend.is_staged(value):
        raise _caller("for", line).error(
            "invalid",
            "a `break` or `return` depends on a tensor, but the loop runs over host values, so it "
            "is unrolled while "
            "tracing. Iterate over a tensor, such as et.arange(n), to make it a loop of the graph",
        )
    return bool(value)


class _Unrolled:
    """Counts the steps of a host loop in a trace, and warns once when there are many."""

    def __init__(self, site: Site) -> None:
        self.site, self.steps = site, 0

    def count(self) -> None:
        self.steps += 1
        if self.steps == MANY_STEPS and backend.is_tracing():
            warnings.warn(
                f"the `{self.site.op}` loop at {self.site.file}:{self.site.line} runs over host "
                "values, so tracing "
                f"unrolls it: {MANY_STEPS} copies of its body so far. Iterate over a tensor, such "
                "as et.arange(n), "
                "to make it one loop of the graph",
                RuntimeWarning,
                stacklevel=3,
            )

    def __call__(self, test: Any) -> bool:
        """Whether a host `while` goes on; False if its test is staged from now on."""
        if backend.is_staged(test) or not test:
            return False
        self.count()
        return True

    def rows(self, iterator: Iterator) -> Iterator:
        for row in iterator:
            self.count()
            yield row


def unrolled(line: int) -> _Unrolled:
    """The counter of a host `while`."""
    return _Unrolled(_caller("while", line))


def unrolled_rows(rows: Iterable, line: int) -> Iterable:
    """The rows of a host `for`, counted where that matters."""
    if not backend.is_tracing():
        return rows
    if hasattr(rows, "__len__") and len(rows) < MANY_STEPS:
        return rows
    return _Unrolled(_caller("for", line)).rows(iter(rows))


def staged_rows(rows: Any) -> bool:
    return isinstance(rows, StagedRows)
