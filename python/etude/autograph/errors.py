# SPDX-License-Identifier: Apache-2.0
"""Errors of control flow: made with the user's line, and completed when they leave a converted
function.

A variable that a staged statement cannot set stays unbound, and a note states the reason. If the
program then reads the variable, Python raises a NameError, and `completed()` turns it into the
error of the note. So a variable that is not used afterwards is never an error.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import types
import weakref
from typing import Callable, Iterator, Optional

from . import backend

# Where the files of this package are: their frames are no code of the user.
LIBRARY = list(
    {
        os.path.dirname(os.path.dirname(path)) + os.sep
        for path in (__file__, os.path.abspath(__file__))
    }
)
_NAME = re.compile(r"'([^']+)'")


class Site:
    """A statement of the user: what it is, and where."""

    def __init__(self, op: str, function: Callable, line: int) -> None:
        code = function.__code__
        self.op, self.file, self.line, self.function = op, code.co_filename, line, code.co_name

    def error(self, kind: str, fact: str) -> BaseException:
        """An error of `kind` "invalid", "failed" or "unimplemented" that states `fact`."""
        return backend.error(kind, f"{self.op}: {fact}", self.file, self.line)

    def note(self, variable: str, kind: str, fact: str) -> None:
        """Records why `variable` is unbound after this statement."""
        _notes()[self.file, self.function, variable] = (kind, self, fact)

    def forget(self, variable: str) -> None:
        """The variable is set again."""
        _notes().pop((self.file, self.function, variable), None)


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.notes: dict[tuple[str, str, str], tuple[str, Site, str]] = {}
        self.depth = 0


DEPTH = 40  # of nested control flow, which only recursion reaches


@contextlib.contextmanager
def staging(site: Site) -> Iterator[None]:
    """While branches or a body are traced. raises: unimplemented for a recursion that only a tensor
    ends.
    """
    if _thread.depth >= DEPTH:
        name = f"'{site.function.replace(' (converted)', '')}'".replace(
            "'<lambda>'", "the function"
        )
        raise site.error(
            "unimplemented",
            f"recursion while tracing: {name} calls itself where a tensor decides whether the "
            "recursion ends, and "
            "both branches are traced. Write a loop, by `while` or et.while_loop",
        )
    _thread.depth += 1
    try:
        yield
    finally:
        _thread.depth -= 1


_thread = _PerThread()


def _notes() -> dict:
    return _thread.notes


# Reasons why functions run without conversion, by the id of their code.
_unconverted: dict[int, tuple[weakref.ref, str]] = {}


def record_unconverted(code: types.CodeType, reason: str) -> None:
    """`reason` completes a sentence: "'f' was not converted: <reason>"."""
    key = id(code)
    _unconverted[key] = (weakref.ref(code, lambda _: _unconverted.pop(key, None)), reason)


def unconverted_reason(code: types.CodeType) -> Optional[str]:
    found = _unconverted.get(id(code))
    return found[1] if found is not None and found[0]() is code else None


def frames_of(error: BaseException) -> Iterator[types.TracebackType]:
    """The entries of its traceback, outermost first."""
    entry = error.__traceback__
    while entry is not None:
        yield entry
        entry = entry.tb_next


def is_ours(entry: types.TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(tuple(LIBRARY))


def without_our_frames(error: BaseException) -> Optional[types.TracebackType]:
    """Its traceback without the frames of this package."""
    kept: Optional[types.TracebackType] = None
    for entry in reversed(list(frames_of(error))):
        if not is_ours(entry):
            kept = types.TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def completed(error: BaseException) -> BaseException:
    """The error to raise in place of `error`, which leaves a converted function."""
    entries = [entry for entry in frames_of(error) if not is_ours(entry)]
    if not entries:
        return error
    code = entries[-1].tb_frame.f_code
    if isinstance(error, NameError):
        return _of_note(error, code, entries[-1].tb_lineno)
    reason = unconverted_reason(code)
    if reason is not None and backend.is_host_use_error(error):
        name = code.co_name
        fact = f"'{name}' was not converted, so its control flow cannot depend on tensors: {reason}"
        return backend.extended(error, f"{fact}\n  at {code.co_filename}:{code.co_firstlineno}")
    return error


def _of_note(error: NameError, code: types.CodeType, line: int) -> BaseException:
    found = _NAME.search(str(error))
    name = getattr(error, "name", None) or (found and found[1])
    note = _notes().get((code.co_filename, code.co_name, name))
    if note is None:
        return error
    kind, site, fact = note
    made = backend.error(
        kind, f"{site.op}: {fact}. It is used at line {line}", site.file, site.line
    )
    made.__cause__ = None
    made.__suppress_context__ = True
    return made.with_traceback(error.__traceback__)
