# SPDX-License-Identifier: Apache-2.0
"""Finds the objects that statements change in place: attributes, and contents of lists, dicts and
tensors.
"""

from __future__ import annotations

import ast
from typing import Iterator, Optional

from .names import path_of
from .templates import constant, fill_expression

# Methods that change a list, dict, set or deque.
METHODS = {
    "append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update",
    "setdefault", "popitem", "add", "discard", "appendleft", "extendleft", "popleft",
}  # fmt: skip


def mutations(source: list, near: ast.AST, owner: Optional[str]) -> list[ast.expr]:
    """Expressions that make a state object for each object that `source` changes: state.py defines
    them.

    Only objects that a path without effects names, such as `self.x` or `d["k"]`.
    """
    made: dict[str, ast.expr] = {}
    for kind, base, attribute in _changes(source):
        path = path_of(base)
        if path is None:
            continue
        label = f"{path}.{attribute}" if attribute else path
        if (kind, label) in made:
            continue
        text = f"ag__.{kind}(LABEL, lambda: BASE)"
        call = fill_expression(text, near, LABEL=constant(label, near), BASE=_load(base, near))
        if attribute:
            call.args.append(constant(mangled(attribute, owner), near))
        made[kind, label] = call
    return list(made.values())


def mangled(name: str, owner: Optional[str]) -> str:
    """The name under which Python stores the private name `name` of a class."""
    if owner is None or not name.startswith("__") or name.endswith("__"):
        return name
    return f"_{owner.lstrip('_')}{name}" if owner.strip("_") else name


def _changes(source: list) -> Iterator[tuple[str, ast.expr, Optional[str]]]:
    """(kind of state, the expression of the object, its attribute)"""
    for node in _walk(source):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield "attribute", node.value, node.attr
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield "contents", node.value, None
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, (ast.Name, ast.Attribute)):
            yield "container", node.target, None  # a list changes in place, a tensor does not
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in METHODS
        ):
            yield "container", node.func.value, None


def _walk(source: list) -> Iterator[ast.AST]:
    todo = list(source)
    while todo:
        node = todo.pop(0)
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo += ast.iter_child_nodes(node)


def _load(node: ast.expr, near: ast.AST) -> ast.expr:
    """A copy of a path that reads it."""
    parsed = ast.parse(ast.unparse(node), mode="eval").body
    for part in ast.walk(parsed):
        if "lineno" in part._attributes:
            ast.copy_location(part, near)
    return parsed
