# SPDX-License-Identifier: Apache-2.0
"""Which code a converted function calls, and the cache of converted functions.

Functions of the user are converted when they are called. Constructors, library code (the standard
library, installed packages, this package) and functions marked by `do_not_convert` run as they are.
"""

from __future__ import annotations

import functools
import inspect
import os
import site
import sys
import sysconfig
import threading
import types
import warnings
import weakref
from typing import Any, Callable, Optional

from . import backend
from .builtin_calls import REPLACED
from .compiling import Converted, codes_in, convert_code, make_twin, refresh_twin
from .errors import LIBRARY, record_unconverted, unconverted_reason
from .jumps import CannotConvert
from .source import NoSource

TWIN, MARK = "__etude_converted__", "_etude_do_not_convert"
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

_lock = threading.RLock()
_converted: dict[int, tuple[weakref.ref, Converted]] = {}  # by the id of the original code
_made: dict[int, weakref.ref] = {}  # code that conversion made, by id


def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib") if key in paths]
    found += site.getsitepackages() if hasattr(site, "getsitepackages") else []
    found.append(site.getusersitepackages())
    return tuple({os.path.join(path, "") for path in found})


FOLDERS = _library_folders()


def is_library(code: types.CodeType, module: Optional[str] = None) -> bool:
    """Whether the code belongs to an installed package or to Python."""
    root = (module or "").split(".")[0]
    file = code.co_filename
    return (
        root in sys.stdlib_module_names - {"__main__"}
        or file.startswith((*FOLDERS, *LIBRARY))
        or file.startswith("<frozen")
    )


def is_converted(code: types.CodeType) -> bool:
    """Whether conversion made this code."""
    found = _made.get(id(code))
    return found is not None and found() is code


def _conversion(function: types.FunctionType) -> Converted:
    """The converted code, made once for all functions of one code. raises: NoSource,
    CannotConvert.
    """
    code = function.__code__
    with _lock:
        found = _converted.get(id(code))
        if found is not None and found[0]() is code:
            return found[1]
        made = convert_code(function)
        key = id(code)
        _converted[key] = (weakref.ref(code, lambda _: _converted.pop(key, None)), made)
        for each in codes_in(made.code):
            _made[id(each)] = weakref.ref(each, lambda _, key=id(each): _made.pop(key, None))
        return made


class Kept:
    """The attribute of a function that holds its twin, and the wrapper that convert() returns.

    It lives as long as the function, without a cycle. A copy by pickle is empty.
    """

    def __init__(self, function: Any = None, twin: Any = None) -> None:
        self.owner = weakref.ref(function) if function is not None else lambda: None
        self.code, self.twin, self.entry = getattr(function, "__code__", None), twin, None

    def is_of(self, function: types.FunctionType) -> bool:
        return self.owner() is function and self.code is function.__code__

    def __reduce__(self) -> tuple:
        return Kept, ()


def twin_of(function: types.FunctionType) -> types.FunctionType:
    """The converted twin of a function, which lives as long as the function. raises: NoSource,
    CannotConvert.
    """
    from .runtime import RUNTIME

    kept = function.__dict__.get(TWIN)
    # functools.wraps copies this attribute of a function to its wrapper, so it names its owner.
    if kept is None or not kept.is_of(function):
        twin = make_twin(function, _conversion(function).code, RUNTIME)
        own = {k: v for k, v in function.__dict__.items() if k not in (TWIN, MARK)}
        twin.__dict__.update(own)
        kept = function.__dict__[TWIN] = Kept(function, twin)
    refresh_twin(kept.twin, function)
    return kept.twin


def why_not(function: types.FunctionType) -> Optional[str]:
    """Why a function is never converted; None if it can be tried."""
    code = function.__code__
    if is_converted(code):
        return ""
    if function.__dict__.get(MARK) in (True, code):
        return "et.do_not_convert marks it"
    if code.co_flags & _GENERATORS:
        kind = "a generator" if code.co_flags & inspect.CO_GENERATOR else "an async function"
        return f"it is {kind}, which runs as host code. Return a list, or use et.scan"
    return unconverted_reason(code)


def converted(function: types.FunctionType) -> types.FunctionType:
    """The twin of a function of the user, or the function itself, with one warning if its source is
    missing.
    """
    reason = why_not(function)
    if reason is not None:
        if reason and unconverted_reason(function.__code__) is None:
            record_unconverted(function.__code__, reason)
        return function
    try:
        return twin_of(function)
    except NoSource as error:
        reason = str(error)
    except CannotConvert as error:
        reason = f"{error.reason} at line {error.line}"
    record_unconverted(function.__code__, reason)
    code = function.__code__
    warnings.warn(
        f"'{function.__qualname__}' ({code.co_filename}:{code.co_firstlineno}) runs without "
        "conversion of its "
        f"control flow: {reason}. An `if` or a loop on a tensor in it will fail when it is staged; "
        "use et.cond or "
        "et.while_loop there, or mark it with et.do_not_convert",
        RuntimeWarning,
        stacklevel=4,
    )
    return function


def callee(function: Any) -> Any:
    """The function that a converted function calls in place of `function`."""
    kind = type(function)
    if kind is types.FunctionType:
        if is_library(function.__code__, function.__module__):
            if backend.takes_functions(function):
                return _with_converted_arguments(function)
            return backend.rebuilt(function, callee) or function
        return converted(function)
    replacement = REPLACED.get(id(function))
    if replacement is not None:
        return replacement
    if kind is types.BuiltinFunctionType or isinstance(function, type):
        return function
    if kind is types.MethodType:
        inner = (
            callee(function.__func__)
            if isinstance(function.__func__, types.FunctionType)
            else function.__func__
        )
        return (
            function if inner is function.__func__ else types.MethodType(inner, function.__self__)
        )
    if kind is functools.partial:
        inner = callee(function.func)
        return function if inner is function.func else _partial(function, inner)
    if backend.takes_functions(function):
        return _with_converted_arguments(function)
    return _callable_object(function)


def _partial(function: functools.partial, inner: Callable) -> functools.partial:
    made = functools.partial(inner, *function.args, **function.keywords)
    made.__dict__.update(function.__dict__)
    return made


def _callable_object(instance: Any) -> Any:
    """An object of a class of the user with `__call__`, as the converted method."""
    call = getattr(type(instance), "__call__", None)
    if type(call) is not types.FunctionType:
        return instance
    inner = callee(call)
    return instance if inner is call else types.MethodType(inner, instance)


def _with_converted_arguments(function: Callable) -> Callable:
    """An operator of the library, such as et.gradient, that gets converted functions in place of
    the user's.
    """

    def call(*arguments: Any, **options: Any) -> Any:
        arguments = tuple(_converted_argument(each) for each in arguments)
        return function(
            *arguments, **{name: _converted_argument(each) for name, each in options.items()}
        )

    return call


def _converted_argument(value: Any) -> Any:
    is_function = type(value) in (types.FunctionType, types.MethodType, functools.partial)
    return callee(value) if is_function else value


def do_not_convert(function: Callable) -> Callable:
    """Marks a function: it runs as it is when a converted function calls it. A decorator."""
    if isinstance(function, types.FunctionType):
        setattr(function, MARK, function.__code__)
        return function

    @functools.wraps(function)
    def unconverted(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **options)

    setattr(unconverted, MARK, unconverted.__code__)
    return unconverted
