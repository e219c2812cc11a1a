# SPDX-License-Identifier: Apache-2.0
"""Conversion of Python's control flow: an `if` or a loop on a tensor becomes part of the graph of a
staged function.

`et.function` converts the function that it traces; the functions here are for tools and special
cases. The way of a function: source.py finds its syntax tree, jumps.py lowers `break`, `continue`
and `return`, liveness.py finds the state of statements, forms.py and expressions.py write the
converted code, compiling.py makes a function of it. The converted code calls runtime.py, which
decides by the values at hand: a host value runs as Python, a tensor of a trace is staged.
backend.py is the only file that knows tensors.
"""

from __future__ import annotations

import functools
import types
from typing import Any, Callable

from . import backend, errors
from .calls import TWIN, callee, converted, do_not_convert, why_not
from .compiling import text_of
from .errors import completed, without_our_frames

__all__ = ["convert", "converted_call", "do_not_convert", "to_code"]

def convert(f: Callable) -> Callable:
    """The function that runs in place of `f` in a trace: it has the cells, globals and defaults of
    `f`.

    Functions, methods, partials and objects with `__call__` are converted; other callables are
    returned as they are. A function without source is returned as it is too, with one warning.

    raises: unimplemented for a generator or an async function, with its name and line.
    """
    if isinstance(f, types.MethodType):
        entry = convert(f.__func__)
        return f if entry is f.__func__ else types.MethodType(entry, f.__self__)
    if isinstance(f, functools.partial):
        entry = convert(f.func)
        return f if entry is f.func else functools.partial(entry, *f.args, **f.keywords)
    if not isinstance(f, types.FunctionType):
        call = getattr(type(f), "__call__", None)
        is_class = isinstance(f, (type, types.BuiltinFunctionType)) or not isinstance(
            call, types.FunctionType
        )
        return f if is_class or callee(call) is call else types.MethodType(convert(call), f)
    rebuilt = backend.rebuilt(f, convert)
    if rebuilt is not None:
        return rebuilt
    _refuse_generator(f)
    return _entry(f)


def _refuse_generator(f: types.FunctionType) -> None:
    reason = why_not(f)
    if reason is not None and reason.startswith("it is a"):
        code = f.__code__
        kind = reason.split(",")[0].replace("it is ", "")
        text = (
            f"'{f.__qualname__}' is {kind}, which cannot be staged. Return its values, or use "
            "et.scan"
        )
        raise backend.error("unimplemented", text, code.co_filename, code.co_firstlineno)


def _entry(f: types.FunctionType) -> Callable:
    """A wrapper of the twin that completes errors."""
    twin = converted(f)
    kept = f.__dict__[TWIN] if twin is not f else None
    if kept is not None and kept.entry is not None:
        return kept.entry

    def entry(*arguments: Any, **options: Any) -> Any:
        outer, errors._thread.notes = errors._thread.notes, {}
        try:
            return twin(*arguments, **options)
        except Exception as error:
            made = completed(error)
            raise made.with_traceback(without_our_frames(made)) from made.__cause__
        finally:
            errors._thread.notes = outer

    functools.update_wrapper(entry, twin)
    if kept is not None:
        kept.entry = entry
    return entry


def converted_call(f: Any) -> Any:
    """The function to call in place of `f` where library code calls a method that a user overrides,
    in a trace.
    """
    return callee(f) if backend.is_tracing() else f


def to_code(f: Callable) -> str:
    """The converted code of a function or method, as text.

    raises: invalid argument for a callable that is not converted, with the reason.
    """
    function = f.__func__ if isinstance(f, types.MethodType) else f
    if not isinstance(function, types.FunctionType):
        function = getattr(function, "__wrapped__", function)  # of a staged function
    if not isinstance(function, types.FunctionType):
        kind = type(function).__name__
        raise backend.error(
            "invalid", f"to_code: needs a Python function, but got an object of type {kind}", "", 0
        )
    from .calls import _conversion
    from .jumps import CannotConvert
    from .source import NoSource

    try:
        return text_of(_conversion(function).tree)
    except (NoSource, CannotConvert) as error:
        code = function.__code__
        text = f"to_code: '{function.__qualname__}' cannot be converted: {error}"
        raise backend.error("invalid", text, code.co_filename, code.co_firstlineno) from None
