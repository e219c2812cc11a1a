# SPDX-License-Identifier: Apache-2.0
"""State that a statement may change: variables, attributes, and contents of objects.

The runtime reads and sets each with `get` and `set`. `UNDEFINED` stands for a variable without a
value. Variables are cells of the generated functions, so a closure of the user sees each change.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Iterable, Optional

from . import backend


class Undefined:
    """The type of UNDEFINED."""

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = Undefined()


class Variable:
    """A local variable: a cell."""

    is_variable = True

    def __init__(self, label: str, cell: Any) -> None:
        self.label, self.cell = label, cell

    def get(self) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:
            return UNDEFINED

    def set(self, value: Any) -> None:
        if value is not UNDEFINED:
            self.cell.cell_contents = value
        elif self.get() is not UNDEFINED:
            del self.cell.cell_contents


class Global:
    """A global variable."""

    is_variable = True

    def __init__(self, label: str, names: dict) -> None:
        self.label, self.names = label, names

    def get(self) -> Any:
        return self.names.get(self.label, UNDEFINED)

    def set(self, value: Any) -> None:
        if value is not UNDEFINED:
            self.names[self.label] = value
        else:
            self.names.pop(self.label, None)


class Attribute:
    """An attribute of an object that exists before the statement."""

    is_variable = False

    def __init__(self, label: str, owner: Any, name: str) -> None:
        self.label, self.owner, self.name = label, owner, name

    def get(self) -> Any:
        return getattr(self.owner, self.name, UNDEFINED)

    def set(self, value: Any) -> None:
        if value is not UNDEFINED:
            if self.get() is not value:
                setattr(self.owner, self.name, value)
        elif self.get() is not UNDEFINED:
            delattr(self.owner, self.name)


class Contents:
    """The elements of a list, dict, set, deque or tensor that exists before the statement.

    by_methods: the statement calls methods such as `append`. Of host values that is an effect on
    the host, which happens while tracing, as a print does; only tensors make it state.
    """

    is_variable = False

    def __init__(self, label: str, owner: Any, by_methods: bool = False) -> None:
        self.label, self.owner, self.by_methods = label, owner, by_methods

    def get(self) -> Any:
        if backend.is_tensor(self.owner):
            return backend.value_of(self.owner)
        return dict(self.owner) if isinstance(self.owner, dict) else list(self.owner)

    def set(self, value: Any) -> None:
        owner = self.owner
        if backend.is_tensor(owner):
            backend.set_value(owner, value)
        elif isinstance(owner, list):
            owner[:] = value
        else:
            owner.clear()
            (owner.extend if isinstance(owner, deque) else owner.update)(value)

    def joined(self, before: Any, first: Any, second: Any) -> Any:
        """The elements after the effects of two branches, one after the other."""
        if isinstance(self.owner, dict):
            return {**first, **second}
        if isinstance(self.owner, set):
            return set(first) | set(second)
        extends = first[: len(before)] == before == second[: len(before)]
        return first + second[len(before) :] if extends else second


class Result:
    """The value of an expression with branches, kept like a variable."""

    is_variable = True

    def __init__(self, label: str) -> None:
        self.label, self.value = label, UNDEFINED

    def get(self) -> Any:
        return self.value

    def set(self, value: Any) -> None:
        self.value = value


Maker = Callable[[], Optional[Any]]


def _owner(find: Callable[[], Any]) -> Any:
    """The object that a path names now; UNDEFINED if there is none."""
    try:
        return find()
    except (NameError, AttributeError, LookupError, TypeError):
        return UNDEFINED


def attribute(label: str, find: Callable[[], Any], name: str) -> Maker:
    """A maker of the state of `find().name`."""

    def make() -> Optional[Attribute]:
        owner = _owner(find)
        return (
            None
            if owner is UNDEFINED or backend.is_tensor(owner)
            else Attribute(label, owner, name)
        )

    return make


def container(label: str, find: Callable[[], Any]) -> Maker:
    """A maker of the state of the elements of `find()`, if it is a container of Python."""

    def make() -> Optional[Contents]:
        owner = _owner(find)
        return Contents(label, owner, True) if isinstance(owner, (list, dict, set, deque)) else None

    return make


def contents(label: str, find: Callable[[], Any]) -> Maker:
    """The same, also for a tensor."""

    def make() -> Optional[Contents]:
        owner = _owner(find)
        is_known = isinstance(owner, (list, dict, set, deque)) or backend.is_tensor(owner)
        return Contents(label, owner) if is_known else None

    return make


def find_state(
    functions: Iterable[Optional[Callable]], names: Iterable[str], makers: Iterable[Maker]
) -> list:
    """The state of a statement: variables `names` of the generated functions, and objects, each
    once.
    """
    functions = [function for function in functions if function is not None]
    cells: dict[str, Any] = {}
    for function in functions:
        cells.update(zip(function.__code__.co_freevars, function.__closure__ or ()))
    found: list = []
    for name in names:
        cell = cells.get(name)
        found.append(
            Global(name, functions[0].__globals__) if cell is None else Variable(name, cell)
        )
    seen: set = set()
    objects = sorted(
        (make() for make in makers), key=lambda made: getattr(made, "by_methods", False)
    )
    for made in objects:
        key = made and (type(made), id(made.owner), getattr(made, "name", None))
        if made is not None and key not in seen:
            seen.add(key)
            found.append(made)
    return found


def read(state: Iterable[Any]) -> list:
    return [each.get() for each in state]


def write(state: Iterable[Any], values: Iterable[Any]) -> None:
    for each, value in zip(state, values):
        each.set(value)
