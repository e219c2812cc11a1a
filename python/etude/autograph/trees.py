# SPDX-License-Identifier: Apache-2.0
"""Values as leaves and a tree: containers of Python, dataclasses, and what the backend knows as a
pytree.

The leaves of a value are tensors, numbers, and other host values. Only the first two can depend on
a tensor.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, NamedTuple, Optional

from . import backend

NUMBERS = (bool, int, float, complex)


class Spec(NamedTuple):
    """The type of a tensor. `kind`: "bool", "int", "float" or "complex"."""

    dtype: Any
    shape: tuple
    kind: str

    def __str__(self) -> str:
        sizes = ",".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.dtype}[{sizes}]"


class Tree:
    """A node of a structure: its type, its keys and its parts. A leaf has no type."""

    def __init__(
        self, kind: Optional[type], keys: tuple = (), parts: tuple = (), example: Any = None
    ) -> None:
        self.kind, self.keys, self.parts, self.example = kind, keys, parts, example

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        return (self.kind, self.keys, self.parts) == (other.kind, other.keys, other.parts)

    __hash__ = None  # type: ignore[assignment]

    def build(self, leaves: Any) -> Any:
        """The value with the leaves that the iterator `leaves` yields."""
        if self.kind is None:
            return next(leaves)
        parts = [part.build(leaves) for part in self.parts]
        if self.kind in (list, tuple):
            return self.kind(parts)
        if isinstance(self.example, dict):
            made = copy.copy(self.example)
            made.update(zip(self.keys, parts))
            return made
        if issubclass(self.kind, tuple):
            return self.kind(*parts)
        if dataclasses.is_dataclass(self.kind):
            made = copy.copy(self.example)
            for key, part in zip(self.keys, parts):
                object.__setattr__(made, key, part)
            return made
        return backend.with_children(self.example, parts)


def _children(value: Any) -> Optional[tuple[tuple, list]]:
    """(keys, parts) of a node; None for a leaf."""
    kind = type(value)
    if kind is list or kind is tuple:
        return tuple(range(len(value))), list(value)
    if isinstance(value, dict):
        return tuple(value), list(value.values())
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return tuple(kind._fields), list(value)
    if backend.is_tensor(value):
        return None
    known = backend.children(value)
    if known is not None:
        return known
    if dataclasses.is_dataclass(kind):
        fields = [f.name for f in dataclasses.fields(value) if hasattr(value, f.name)]
        return tuple(fields), [getattr(value, name) for name in fields]
    return None


class Flat:
    """A value with its leaves, their labels, and its tree."""

    def __init__(self, value: Any, label: str) -> None:
        self.value = value
        self.leaves: list = []
        self.labels: list[str] = []
        self.tree = self._flatten(value, label, ())

    def _flatten(self, value: Any, label: str, inside: tuple) -> Tree:
        found = None if id(value) in inside else _children(value)
        if found is None:
            self.leaves.append(value)
            self.labels.append(label)
            return Tree(None)
        keys, parts = found
        kind = type(value)
        names = [f"{label}.{k}" if hasattr(value, str(k)) else f"{label}[{k!r}]" for k in keys]
        inside = (*inside, id(value))
        trees = tuple(self._flatten(part, name, inside) for part, name in zip(parts, names))
        return Tree(kind, keys, trees, value)

    def with_leaves(self, leaves: list) -> Any:
        return self.tree.build(iter(leaves))


def is_number(leaf: Any) -> bool:
    return isinstance(leaf, NUMBERS)


def is_value(leaf: Any) -> bool:
    """Whether a graph can hold the leaf."""
    return is_number(leaf) or backend.is_tensor(leaf) or backend.is_array(leaf)


def spec_of(leaf: Any) -> Spec:
    """The type of a tensor, or of the tensor that a number becomes."""
    return (
        backend.spec_of(leaf) if backend.is_tensor(leaf) else backend.spec_of(backend.number(leaf))
    )


def is_same_host(a: Any, b: Any) -> bool:
    """Whether two host leaves are equal, so that a graph need not choose between them."""
    if a is b:
        return True
    if backend.is_tensor(a) or backend.is_tensor(b) or type(a) is not type(b):
        return False
    if is_number(a):
        return repr(a) == repr(b)  # -0.0 is not 0.0
    try:
        return bool(a == b)
    except Exception:  # an equality of the user that cannot be decided
        return False


def adapts(leaf: Any, spec: Spec) -> bool:
    """Whether a number becomes a tensor of this type: numbers take the width of their kind, not
    another kind, and integers do not wrap.
    """
    if not is_number(leaf) or spec.shape != () or spec_of(leaf).kind != spec.kind:
        return False
    return spec.kind != "int" or backend.is_in_range(leaf, spec.dtype)


def describe(value: Any) -> str:
    """A value for messages: the type of a tensor, a number with its type, else the kind of
    object.
    """
    if backend.is_tensor(value):
        return str(spec_of(value))
    if is_number(value):
        return f"the number {value!r} ({spec_of(value).dtype})"
    if value is None or isinstance(value, str):
        return repr(value)
    if isinstance(value, (list, tuple, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"an object of type {type(value).__name__}"


def has_new_tensor(before: Flat, after: Flat) -> bool:
    """Whether a tensor of `after` is none of `before`."""
    known = {id(leaf) for leaf in before.leaves}
    return any(backend.is_tensor(leaf) and id(leaf) not in known for leaf in after.leaves)


def difference(a: Flat, b: Flat) -> tuple[str, str]:
    """Texts for two values with different trees: at the first place where the trees differ, if both
    have it.
    """
    if a.labels == b.labels:
        for x, y in zip(a.leaves, b.leaves):
            if is_value(x) != is_value(y):
                return describe(x), describe(y)
    return describe(a.value), describe(b.value)
