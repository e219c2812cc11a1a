# SPDX-License-Identifier: Apache-2.0
"""f-strings that hold tensors of a trace: their values are known when the graph runs."""

from __future__ import annotations

from typing import Any, Iterable

from . import backend


class StagedText(str):
    """The text of an f-string. `pieces`: texts, and tensors in place of their values.

    `print` and `assert` write the values that the graph has when it runs. As a plain text it has
    placeholders.
    """

    pieces: tuple

    def __new__(cls, pieces: Iterable[Any]) -> "StagedText":
        found = tuple(pieces)
        made = super().__new__(cls, "".join(p if isinstance(p, str) else repr(p) for p in found))
        made.pieces = found
        return made


_CONVERSIONS = {-1: lambda x: x, 115: str, 114: repr, 97: ascii}


def text(*parts: Any) -> str:
    """An f-string: `parts` are texts, and tuples (value, conversion, format)."""
    pieces: list = []
    is_staged = False
    for part in parts:
        if isinstance(part, str):
            pieces.append(part)
            continue
        value, conversion, form = part
        if holds_staged(value):
            is_staged = True
            pieces += pieces_of(value)
        else:
            pieces.append(format(_CONVERSIONS[conversion](value), form))
    return StagedText(pieces) if is_staged else "".join(pieces)


def pieces_of(value: Any) -> list:
    """The pieces that `print` writes for a value."""
    if isinstance(value, StagedText):
        return list(value.pieces)
    if isinstance(value, str):
        return [value]
    return _shown(value)


def _shown(value: Any) -> list:
    """A value inside a container is written by its repr, as Python does."""
    if backend.is_staged(value):
        return [backend.value_of(value)]
    if type(value) in (list, tuple) and holds_staged(value):
        opening, closing = "[]" if isinstance(value, list) else "()"
        pieces = joined([_shown(each) for each in value], ", ")
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return [opening, *pieces, comma + closing]
    if type(value) is dict and holds_staged(value):
        pieces = joined([[f"{key!r}: ", *_shown(each)] for key, each in value.items()], ", ")
        return ["{", *pieces, "}"]
    return [repr(value)]


def joined(parts: list[list], separator: str) -> list:
    """The pieces of all parts with a text between them."""
    pieces: list = []
    for place, part in enumerate(parts):
        pieces += [separator] if place else []
        pieces += part
    return pieces


def holds_staged(value: Any) -> bool:
    """Whether printing `value` shows a tensor of a trace."""
    if isinstance(value, (list, tuple)):
        return any(holds_staged(each) for each in value)
    if isinstance(value, dict):
        return any(holds_staged(each) for each in value.values())
    return isinstance(value, StagedText) or backend.is_staged(value)
