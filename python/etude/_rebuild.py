# SPDX-License-Identifier: Apache-2.0
"""Functions by which pickled objects name how they are made again, and the parts of pickled models.

A model is pickled as its structure, with a place for each tensor, and the bytes of the safetensors
file that ``et.io.save`` writes.
"""

from __future__ import annotations

import collections
from typing import Any

from etude import _core


def tensor(dtype: str, shape: tuple[int, ...], data: bytes) -> _core.Tensor:
    """The tensor of these elements in row-major order."""
    return _core._unpickle(dtype, shape, data)


def dtype(name: str) -> _core.DType:
    """The dtype of this name."""
    return getattr(_core, name)


def op(name: str) -> _core.Op:
    """The op of this name, with its namespace."""
    return _core._ops[name]


def variable(value: _core.Tensor, name: str, trainable: bool) -> _core.Variable:
    """A new Variable."""
    return _core.Variable(value, name=name or None, trainable=trainable)


_result_classes: dict[str, type] = {}


def result_class(op: str, fields: tuple[str, ...]) -> type:
    """The named tuple that the op of this full name returns."""
    made = _result_classes.get(op)
    if made is None:
        *space, name = op.split(".")
        module = ".".join(["etude", *space])
        made = collections.namedtuple(f"{name}_result", fields, module=module)  # type: ignore[misc]
        made.__doc__ = f"The results of {op}."
        made.__reduce__ = lambda self: (result, (op, tuple(self)))  # type: ignore[method-assign]
        made = _result_classes.setdefault(op, made)
    return made


def result(op: str, values: tuple) -> Any:
    """The results of the op of this full name."""
    return result_class(op, _core._ops[op].results)(*values)


class Place:
    """The place of a tensor, or of the state of a layer, in a pickled structure."""

    __slots__ = ("path", "is_state")

    def __init__(self, path: str, is_state: bool) -> None:
        self.path, self.is_state = path, is_state

    def __reduce__(self) -> tuple:
        return Place, (self.path, self.is_state)


def _folder() -> Any:
    """A folder for one file, in memory where the machine has such a file system."""
    import os
    import tempfile  # takes a while to load

    memory = "/dev/shm"
    is_there = os.path.isdir(memory) and os.access(memory, os.W_OK)
    return tempfile.TemporaryDirectory(dir=memory if is_there else None)


def parts_of(value: Any) -> tuple[Any, bytes] | None:
    """The structure with places, and its tensors as the bytes of a file. None if there are no
    tensors."""
    leaves, form = _core._flatten(value)
    kinds, paths = _core._leaf_kinds(form), _core._paths(form, False)
    places, found = list(leaves), False
    for i, (leaf, kind, path) in enumerate(zip(leaves, kinds, paths)):
        if kind in ("tensor", "state") and isinstance(leaf, (_core.Tensor, _core._State)):
            places[i], found = Place(path, kind == "state"), True
    if not found:
        return None
    with _folder() as folder:
        file = folder + "/model"
        _core._save_model(value, file, {})
        with open(file, "rb") as written:
            content = written.read()
    return _core._unflatten(form, places), content


def structure(places: Any, content: bytes) -> Any:
    """The structure with its tensors."""
    with _folder() as folder:
        file = folder + "/model"
        with open(file, "wb") as written:
            written.write(content)
        tensors = _core._load_tensors(file)
    leaves, form = _core._flatten(places)
    for i, leaf in enumerate(leaves):
        if type(leaf) is not Place:
            continue
        found = tensors.get(leaf.path)
        if found is None:
            raise _core.DataLossError(f"the pickled model has no tensor '{leaf.path}'")
        leaves[i] = _core._make_state(found) if leaf.is_state else found
    return _core._unflatten(form, leaves)


def _class_of(kind: str) -> Any:
    import etude

    found: Any = etude
    for name in kind.split("."):
        found = getattr(found, name)
    return found


def layer(kind: str, description: str, leaves: list) -> Any:
    """The layer of a description, with these leaves."""
    return _core._layer_from(_class_of(kind), description, leaves)


def optimizer(kind: str, description: str, extras: tuple, state: dict) -> Any:
    """The optimiser of a description, with its transforms and groups, and this state."""
    made = _core._optimizer_from(_class_of(kind), description)
    for name, *values in extras:
        if name == "add":
            made.add(*values)
        else:
            made.group(values[0], lr=values[1], weight_decay=values[2])
    made.restore(state)
    return made


def kind(cls: type, description: str) -> Any:
    """The object of a description."""
    return _core._kind_from(cls, description)


def named(name: str, options: dict) -> Any:
    """A loss, an activation or another function of the library, by its name."""
    found = _class_of(name)
    return found.with_options(**options) if options else found


def description_of(made: Any, name: str) -> str:
    """The description of a layer or an optimiser.

    Raises:
      FailedPreconditionError: if it holds a function of the program.
    """
    try:
        text = made._description()
    except _core.Error as error:
        raise _core.FailedPreconditionError(f"{name} cannot be pickled: {error}") from error
    if text is None:
        raise _core.FailedPreconditionError(
            f"{name} cannot be pickled: it holds a function of the program"
        )
    return text
