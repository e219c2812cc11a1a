# SPDX-License-Identifier: Apache-2.0
"""Built-in functions that follow tensors: where an argument is a tensor of a trace, else they are
Python's own.
"""

from __future__ import annotations

import builtins
from typing import Any, Callable, Iterable

from . import backend
from .logic import and_pure, or_pure
from .rows import Enumerate, Map, Range, Rows, StagedRows, Zip, staged_rows_of
from .text import holds_staged, joined, pieces_of


def _is_rows(value: Any) -> bool:
    return isinstance(value, StagedRows) or backend.is_staged(value)


def len_(value: Any, /) -> Any:
    """`len`: a host int where the size is known, else a tensor. raises: invalid argument for a
    scalar tensor.
    """
    if isinstance(value, StagedRows):
        return value.fixed_length()
    return Rows(value).fixed_length() if backend.is_staged(value) else builtins.len(value)


def range_(*bounds: Any) -> Any:
    if not any(backend.is_staged(bound) for bound in bounds):
        return builtins.range(*bounds)
    return Range(
        *[backend.value_of(bound) if backend.is_tensor(bound) else bound for bound in bounds]
    )


def enumerate_(iterable: Any, start: Any = 0) -> Any:
    if not _is_rows(iterable):
        return builtins.enumerate(iterable, start)
    return Enumerate(staged_rows_of(iterable), start)


def _staged_parts(iterables: Iterable) -> Any:
    """The iterables as rows of a graph; None if none of them is, or one cannot be."""
    if not any(_is_rows(each) for each in iterables):
        return None
    parts = [staged_rows_of(each) for each in iterables]
    return None if any(part is None for part in parts) else parts


def zip_(*iterables: Any, **options: Any) -> Any:
    parts = _staged_parts(iterables)
    if parts is None:
        return builtins.zip(*iterables, **options)
    lengths = [part.fixed_length() for part in parts] if options.get("strict") else []
    if builtins.len(set(builtins.map(str, lengths))) > 1:
        raise backend.error("invalid", f"zip: strict, but the lengths are {lengths}", "", 0)
    return Zip(parts)


def map_(function: Callable, *iterables: Any) -> Any:
    from .calls import callee

    parts = _staged_parts(iterables)
    converted = callee(function)
    return builtins.map(converted, *iterables) if parts is None else Map(converted, Zip(parts))


def int_(*arguments: Any, **options: Any) -> Any:
    is_staged = builtins.len(arguments) == 1 and backend.is_staged(arguments[0])
    return backend.cast(arguments[0], "int") if is_staged else builtins.int(*arguments, **options)


def float_(*arguments: Any) -> Any:
    is_staged = builtins.len(arguments) == 1 and backend.is_staged(arguments[0])
    return backend.cast(arguments[0], "float") if is_staged else builtins.float(*arguments)


def abs_(value: Any, /) -> Any:
    return backend.absolute(value) if backend.is_staged(value) else builtins.abs(value)


def any_(iterable: Any, /) -> Any:
    if backend.is_staged(iterable):
        return backend.any(iterable)
    found: Any = False
    for value in iterable:
        if backend.is_staged(value) or backend.is_staged(found):
            found = or_pure(found, lambda value=value: value)
        elif value:
            return True
    return found


def all_(iterable: Any, /) -> Any:
    if backend.is_staged(iterable):
        return backend.all(iterable)
    found: Any = True
    for value in iterable:
        if backend.is_staged(value) or backend.is_staged(found):
            found = and_pure(found, lambda value=value: value)
        elif not value:
            return False
    return found


def sorted_(iterable: Any, /, *, key: Any = None, reverse: Any = False) -> Any:
    from .calls import callee

    if not backend.is_staged(iterable):
        return builtins.sorted(iterable, key=key and callee(key), reverse=reverse)
    if key is not None:
        raise backend.error(
            "unimplemented", "sorted: a tensor is sorted by its elements, not by `key`", "", 0
        )
    return backend.sort(iterable, bool(reverse))


def next_(iterator: Any, /, *default: Any) -> Any:
    if backend.is_staged(iterator):
        raise backend.error(
            "invalid", "next: a tensor is no iterator. Index it, as in x[0], or use a `for`", "", 0
        )
    return builtins.next(iterator, *default)


def print_(
    *values: Any, sep: Any = " ", end: Any = "\n", file: Any = None, flush: bool = False
) -> None:
    """`print`: of tensors when the graph runs, a line for each call, so `end` is part of the
    line.
    """
    if file is not None or not builtins.any(holds_staged(value) for value in values):
        builtins.print(*values, sep=sep, end=end, file=file, flush=flush)
        return
    pieces = joined([_printed(value) for value in values], " " if sep is None else sep)
    backend.print(pieces + ([] if end is None or end == "\n" else [end.rstrip("\n")]))


def _printed(value: Any) -> list:
    return pieces_of(value) if holds_staged(value) else [str(value)]


_PAIRS = (
    (builtins.len, len_),
    (builtins.range, range_),
    (builtins.enumerate, enumerate_),
    (builtins.zip, zip_),
    (builtins.map, map_),
    (builtins.int, int_),
    (builtins.float, float_),
    (builtins.abs, abs_),
    (builtins.any, any_),
    (builtins.all, all_),
    (builtins.sorted, sorted_),
    (builtins.next, next_),
    (builtins.print, print_),
)
# By id: a class may have no hash.
REPLACED = {id(original): replacement for original, replacement in _PAIRS}
