# SPDX-License-Identifier: Apache-2.0
"""What a staged `for` runs over: rows of tensors, ranges with tensor bounds, and combinations of
these.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Optional, Union

from . import backend
from .errors import Site

Length = Union[int, Any]  # a host int where it is known, else a tensor


class StagedRows:
    """Rows that a graph reads one by one."""

    def length(self, site: Optional[Site] = None) -> Length:
        """The number of rows."""
        raise NotImplementedError

    def fixed_length(self) -> Length:
        """The number of rows, where host code decides by it."""
        return self.length()

    def at(self, k: Any) -> Any:
        """Row number `k`, a tensor, as the loop variable gets it."""
        raise NotImplementedError

    def tensors(self) -> Optional[list]:
        """The tensors whose rows along axis 0 make the rows; None for rows that are computed from
        their number.
        """
        return None

    def row(self, parts: list) -> Any:
        """A row from one row of each of tensors()."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        raise backend.error(
            "unimplemented",
            "range, zip, enumerate and map of tensors can be iterated by a `for` statement of a "
            "converted function "
            "only",
            "",
            0,
        )


class Rows(StagedRows):
    """The rows of a tensor."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = backend.value_of(tensor)

    def length(self, site: Optional[Site] = None) -> Length:
        self.check(site)
        return backend.row_count(self.tensor)

    def check(self, site: Optional[Site] = None) -> None:
        """raises: invalid argument for a scalar."""
        spec = backend.spec_of(self.tensor)
        if not spec.shape:
            fact = f"it runs over a scalar, {spec}, which has no rows"
            raise (
                site.error("invalid", fact)
                if site
                else backend.error("invalid", f"len: {fact}", "", 0)
            )

    def fixed_length(self) -> Length:
        """The length as host code reads it: `len`."""
        self.check()
        return backend.length(self.tensor)

    def at(self, k: Any) -> Any:
        return backend.row(self.tensor, k)

    def tensors(self) -> Optional[list]:
        return [self.tensor] if isinstance(self.length(), int) else None

    def row(self, parts: list) -> Any:
        return parts[0]


class Range(StagedRows):
    """`range` with tensors among its bounds."""

    def __init__(self, *bounds: Any) -> None:
        start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        self.start, self.stop, self.step = start, stop, step

    def length(self, site: Optional[Site] = None) -> Length:
        return backend.range_length(self.start, self.stop, self.step)

    def at(self, k: Any) -> Any:
        return backend.add(backend.multiply(k, self.step), self.start)


class HostRange(StagedRows):
    """A `range` of host numbers beside tensors."""

    def __init__(self, numbers: range) -> None:
        self.numbers = numbers

    def length(self, site: Optional[Site] = None) -> Length:
        return len(self.numbers)

    def at(self, k: Any) -> Any:
        return backend.add(backend.multiply(k, self.numbers.step), self.numbers.start)


class Zip(StagedRows):
    """Tuples of rows, as many as the shortest has. `strict`: all must have the same number."""

    def __init__(self, parts: list[StagedRows]) -> None:
        self.parts = parts

    def length(self, site: Optional[Site] = None) -> Length:
        lengths = [part.length(site) for part in self.parts]
        if len(set(map(str, lengths))) > 1:
            lengths = [part.fixed_length() for part in self.parts]
        if all(isinstance(length, int) for length in lengths):
            return min(lengths)
        return backend.smallest(lengths)

    def at(self, k: Any) -> Any:
        return tuple(part.at(k) for part in self.parts)

    def tensors(self) -> Optional[list]:
        of_parts = [part.tensors() for part in self.parts]
        if any(tensors is None for tensors in of_parts):
            return None
        shortest = self.length()
        return [backend.first_rows(tensor, shortest) for tensors in of_parts for tensor in tensors]

    def row(self, parts: list) -> Any:
        made, place = [], 0
        for part in self.parts:
            count = len(part.tensors())
            made.append(part.row(parts[place : place + count]))
            place += count
        return tuple(made)


class Enumerate(StagedRows):
    """(number, row)"""

    def __init__(self, rows: StagedRows, start: Any) -> None:
        self.rows, self.start = rows, start

    def length(self, site: Optional[Site] = None) -> Length:
        return self.rows.length(site)

    def at(self, k: Any) -> Any:
        return backend.add(k, self.start), self.rows.at(k)


class Joined(StagedRows):
    """Rows that a function makes of one row of each tensor, all of one length."""

    def __init__(self, parts: list[Rows], join: Callable) -> None:
        self.parts, self.join = parts, join

    def length(self, site: Optional[Site] = None) -> Length:
        return self.parts[0].length(site)

    def at(self, k: Any) -> Any:
        return self.join([part.at(k) for part in self.parts])

    def tensors(self) -> Optional[list]:
        return [part.tensor for part in self.parts]

    def row(self, parts: list) -> Any:
        return self.join(parts)


class Map(StagedRows):
    """Rows of a function of rows."""

    def __init__(self, function: Callable, rows: StagedRows) -> None:
        self.function, self.rows = function, rows

    def length(self, site: Optional[Site] = None) -> Length:
        return self.rows.length(site)

    def at(self, k: Any) -> Any:
        return self.function(*self.rows.at(k))

    def tensors(self) -> Optional[list]:
        return self.rows.tensors()

    def row(self, parts: list) -> Any:
        return self.function(*self.rows.row(parts))


def staged_rows_of(value: Any) -> Optional[StagedRows]:
    """Rows that a graph can read; None for other iterables."""
    if isinstance(value, StagedRows):
        return value
    if isinstance(value, range):
        return HostRange(value)
    if backend.is_staged(value):
        return Rows(value)
    return backend.dataset_rows(value) if backend.is_dataset(value) else None


def iterable(value: Any) -> Any:
    """The iterable of a `for`: rows that a graph reads, or `value` for Python to iterate."""
    if isinstance(value, StagedRows):
        return value
    if backend.is_staged(value):
        return Rows(value)
    if backend.is_dataset(value) and backend.is_tracing():
        return backend.dataset_rows(value) or value
    return value
