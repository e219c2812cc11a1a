# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments that functions of several modules share. An error names the function, the argument and what it
must be."""

from __future__ import annotations

import operator
import os
from typing import Any, Iterable

from etude import _core


def path_text(function: str, path: Any, call: str = "") -> str:
    """A path as a text. ``call`` is the form of the call, for functions whose other arguments may be mistaken for it."""
    try:
        text = os.fspath(path)
    except TypeError:
        text = None
    order = f". The order is {call}" if call else ""
    if not isinstance(text, str):
        raise _core.InvalidArgumentError(
            f"{function}: the path is {_short(path)}, but must be a text or an os.PathLike of one{order}"
        )
    if "\0" in text:
        raise _core.InvalidArgumentError(f"{function}: the path {text!r} holds a NUL")
    return text


def not_a_path(function: str, name: str, value: Any, call: str) -> Any:
    """An argument beside a path, which is no path itself."""
    if isinstance(value, (str, bytes, os.PathLike)):
        raise _core.InvalidArgumentError(
            f"{function}: the {name} is {value!r}, which is a path. The order is {call}"
        )
    return value


def flag(function: str, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _core.InvalidArgumentError(
            f"{function}: {name} is {value!r}, but must be True or False"
        )
    return value


def integer(function: str, name: str, value: Any) -> int:
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not -(2**63) <= number < 2**63:
        raise _core.InvalidArgumentError(
            f"{function}: {name} is {value!r}, but must be an integer of 64 bits"
        )
    return number


def shape_of(function: str, name: str, shape: Any) -> tuple[int | None, ...]:
    """A shape whose open sizes are None."""
    if isinstance(shape, (str, bytes)) or not isinstance(shape, Iterable):
        raise _core.InvalidArgumentError(
            f"{function}: {name} is {_short(shape)}, but must be a tuple of sizes, with None for an open size"
        )
    sizes = tuple(
        None if size is None else integer(function, f"a size in {name}", size) for size in shape
    )
    for size in sizes:
        if size is not None and size < 0:
            raise _core.InvalidArgumentError(
                f"{function}: {name} has the size {size}, but a size is at least 0, and None is an open size"
            )
    return sizes


def text(function: str, name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _core.InvalidArgumentError(f"{function}: {name} is {value!r}, but must be a text")
    return value


def callee(function: str, name: str, value: Any, form: str) -> Any:
    """A function of the program that ``function`` calls. ``form`` shows such a call, with the next step."""
    if not callable(value):
        raise _core.InvalidArgumentError(
            f"{function}: {name} is {_short(value)}, but must be a function: {form}"
        )
    return value


def title(f: Any) -> str:
    """The name of a function for messages; of a lambda also its line."""
    name = getattr(f, "__name__", None) or type(f).__name__
    code = getattr(f, "__code__", None)
    if name != "<lambda>" or code is None:
        return name
    return f"<lambda> at {os.path.basename(code.co_filename)}:{code.co_firstlineno}"


def _short(value: Any) -> str:
    """A value for a message: a number or a text itself, else its class."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        shown = repr(value)
        if len(shown) <= 60:
            return shown
    name = type(value).__qualname__
    return f"an {name}" if name[0] in "AEIOUaeiou" else f"a {name}"
