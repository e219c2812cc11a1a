# SPDX-License-Identifier: Apache-2.0
"""Saved functions: staged functions with their graphs and their state, in a folder that programs of Python and of C++
load and call without the source."""

from __future__ import annotations

import os
import types
from typing import Any, Iterable, Mapping

from etude import _core
from etude._arguments import flag, integer, path_text, text

Function = _core._saved.Function
Program = _core._saved.Program
Port = _core._saved.Port
GraphSignature = _core._saved.GraphSignature
ExportedSignature = _core._saved.ExportedSignature

__all__ = [
    "Bound",
    "ExportedSignature",
    "Function",
    "GraphSignature",
    "Port",
    "Program",
    "bind",
    "is_saved",
    "load",
    "save",
    "update",
]


class Bound:
    """A function whose first arguments are bound to objects. Made by :func:`bind`."""

    __slots__ = ("function", "objects")

    def __init__(self, function: Any, objects: tuple) -> None:
        self.function = function
        self.objects = objects

    def __repr__(self) -> str:
        names = ", ".join(type(x).__name__ for x in self.objects)
        return f"<etude.saved.Bound {self.function!r} of ({names})>"


_core._saved._set_bound_class(Bound)


def bind(function: Any, /, *objects: Any) -> Bound:
    """Binds the first parameters of a staged function to objects, whose tensors become state of the saved function:
    Variables with the paths of the tensors, ``"net/hidden/weight"``.

    Functions that are bound to the same object share its state. Objects are read when :func:`save` is called. A method
    of a model is bound to its model already.
    """
    if not _core._saved._is_staged(function):
        raise _core.InvalidArgumentError(
            f"et.saved.bind: the first argument is a {type(function).__name__}, but must be a function of @et.function"
        )
    return Bound(function, objects)


def save(
    folder: str | os.PathLike,
    entries: Mapping[str, Any] | Program,
    *,
    custom_gradients: bool = False,
    signatures: Iterable[str] = (),
    assets: Iterable[str | os.PathLike] = (),
    shard_bytes: int = 2 << 30,
) -> None:
    """Writes functions and their state to a folder, which programs of Python and of C++ load.

    The graphs that a function has are saved: call it with each kind of arguments before, or give it a signature. The
    folder appears whole, and a save that is killed leaves the functions that were there before. A loaded program is
    saved again without options.

    Args:
      entries: by name, functions of ``@et.function``, methods, ``et.saved.bind(function, net)``, objects whose Variables
        the functions use, structures of tensors, loaded functions and programs.
      custom_gradients: saves the derivatives of ``et.custom_gradient``. Without them a loaded function refuses gradients
        that pass through such a call.
      signatures: the functions that get names for servers and for ``etude run``.
      assets: files that the functions need, such as a vocabulary. They are copied.
      shard_bytes: the maximum size of a file of tensors.

    Raises:
      FailedPreconditionError: for a Variable that no entry reaches, and for a function without a graph for its bound
        objects.
      UnimplementedError: for content that exists only in this process, such as an ``et.py_function``, with its line.
    """
    path = path_text("et.saved.save", folder, "et.saved.save(folder, entries)")
    if isinstance(entries, Program):
        if custom_gradients or list(signatures) or list(assets) or shard_bytes != 2 << 30:
            raise _core.InvalidArgumentError(
                "et.saved.save: a loaded program is saved as it is. To save it with options, name it: {'base': program}"
            )
        return _core._saved._save_program(path, entries)
    _core._saved._save(
        path,
        _pairs("et.saved.save", entries),
        flag("et.saved.save", "custom_gradients", custom_gradients),
        _texts("signatures", signatures),
        [path_text("et.saved.save", asset) for asset in _listed("assets", assets)],
        integer("et.saved.save", "shard_bytes", shard_bytes),
    )


def _pairs(function: str, entries: Any) -> list:
    if not isinstance(entries, Mapping):
        raise _core.InvalidArgumentError(
            f"{function}: the entries are a {type(entries).__name__}, but must be a dict from names to functions and "
            "objects: {'predict': et.saved.bind(predict, net)}"
        )
    out = []
    for name, value in entries.items():
        if not isinstance(name, str):
            raise _core.InvalidArgumentError(
                f"{function}: the name of an entry is {name!r}, but must be a text"
            )
        staged = value.function if isinstance(value, Bound) else value
        if isinstance(staged, _core.Function):
            _trace_signature(staged, value.objects if isinstance(value, Bound) else ())
        out.append((name, value))
    return out


def _exported(where: str, function: Any) -> list:
    """The entries of an export: of a dict, or of a lone function under its own name."""
    if isinstance(function, Mapping):
        return _pairs(where, function)
    name = _core._saved._lone_name(function)
    if name is None:
        raise _core.InvalidArgumentError(
            f"{where}: the function is a {type(function).__name__}, but must be a function of @et.function, "
            "et.saved.bind(function, objects...), a loaded function or program, or a dict of these by name"
        )
    return _pairs(where, {name: function})


def _named(function: str, option: str, values: Any, expected: str) -> Iterable[tuple[str, Any]]:
    """The items of an option that is a dict by name."""
    if values is None:
        return ()
    if not isinstance(values, Mapping):
        raise _core.InvalidArgumentError(
            f"{function}: {option} is a {type(values).__name__}, but must be a dict from {expected}"
        )
    return [(text(function, f"a name in {option}", name), value) for name, value in values.items()]


def _trace_signature(function: _core.Function, objects: tuple) -> None:
    """Makes the graph of a function that has a signature and was never called."""
    signature = getattr(function, "_signature", None)
    if signature is None or function.trace_count() > 0:
        return
    leaves, form = _core._flatten(tuple(signature))
    for i, spec in enumerate(leaves):
        sizes = [1 if size is None else size for size in spec.shape]
        leaves[i] = _core.zeros(sizes, dtype=spec.dtype)
        if spec._is_variable:
            leaves[i] = _core.Variable(leaves[i])
    args = _core._unflatten(form, leaves)
    function.trace(*objects, *args[len(objects) :])


def _listed(name: str, values: Any) -> list:
    if isinstance(values, (str, bytes, os.PathLike)) or not isinstance(values, Iterable):
        raise _core.InvalidArgumentError(
            f"et.saved.save: {name} is {values!r}, but must be a list"
        )
    return list(values)


def _texts(name: str, values: Any) -> list:
    out = _listed(name, values)
    for value in out:
        if not isinstance(value, str):
            raise _core.InvalidArgumentError(
                f"et.saved.save: {name} holds {value!r}, but must be a list of texts"
            )
    return out


def load(folder: str | os.PathLike, *, max_loop_steps: int = 0) -> Program:
    """Reads a folder that :func:`save`, or saved::save in C++, has written. The folder is not trusted: it can compute,
    but reads no other file and runs no code.

    Args:
      max_loop_steps: refuses functions whose loops may run more steps; 0: no limit.

    Raises:
      NotFoundError: if there is no saved function.
      DataLossError: for a damaged folder, with file and offset.
      UnimplementedError: for a newer format, or an op that this version does not know.
      ResourceExhaustedError: beyond ``et.read_limits()`` or ``max_loop_steps``.
    """
    return _core._saved._load(path_text("et.saved.load", folder), integer("et.saved.load", "max_loop_steps", max_loop_steps))


def is_saved(folder: str | os.PathLike) -> bool:
    """Whether a folder holds saved functions."""
    return _core._saved._is_saved(path_text("et.saved.is_saved", folder))


def update(
    optimizer: _core.Optimizer, variables: Iterable[_core.Variable], gradients: Iterable[Any]
) -> None:
    """Updates Variables by an optimiser: fine-tuning of a loaded function.

    Pass the same Variables in each step, since the optimiser knows its parameters by their positions::

        weights = program.function("predict").trainable_variables()
        adam = et.optim.Adam(lr=1e-3)
        et.saved.update(adam, weights, et.gradient(loss)(weights))

    Raises the errors of ``optimizer.update``; then no Variable is changed.
    """
    if not isinstance(optimizer, _core.Optimizer):
        raise _core.InvalidArgumentError(
            f"et.saved.update: the optimizer is a {type(optimizer).__name__}, but must be an object of et.optim"
        )
    all_variables = list(variables)
    for variable in all_variables:
        if not isinstance(variable, _core.Variable):
            raise _core.InvalidArgumentError(
                f"et.saved.update: variables holds a {type(variable).__name__}, but must be a list of Variables"
            )
    values = [variable.read() for variable in all_variables]
    optimizer.update(values, list(gradients))
    for variable, value in zip(all_variables, values):
        variable.assign(value)


_classes: dict[tuple, type | None] = {}


def _fields(names: tuple) -> type | None:
    """The named tuple of a struct of a saved function; None where a name is no attribute of Python."""
    if names not in _classes:
        import collections
        import keyword

        legal = all(n.isidentifier() and n[0] != "_" and not keyword.iskeyword(n) for n in names)
        _classes[names] = collections.namedtuple("Fields", names, module="etude.saved") if legal else None
    return _classes[names]


def _signature(self: Function) -> Any:
    """The parameters, for help() and @et.function. A value that all graphs have is the default."""
    import inspect

    omitted = self._omitted()
    first = len(omitted)  # of the last parameters, which may all be left out
    while first > 0 and omitted[first - 1][2]:
        first -= 1
    kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    out = [
        inspect.Parameter(name, kind, default=default if i >= first else empty)
        for i, (name, default, _) in enumerate(omitted)
    ]
    return inspect.Signature(out)


Function.__signature__ = property(_signature)


def install(package: types.ModuleType) -> None:
    """Adds the namespace saved."""
    import sys

    module = types.ModuleType("etude.saved", __doc__)
    for name in __all__:
        setattr(module, name, globals()[name])
    package.saved = module
    sys.modules[module.__name__] = module
