# SPDX-License-Identifier: Apache-2.0
"""Makes syntax trees from templates: Python text with placeholders in capitals."""

from __future__ import annotations

import ast
from typing import Union

Part = Union[str, ast.AST, list]


def clone(node: ast.AST) -> ast.AST:
    """A deep copy, several times faster than copy.deepcopy."""
    made = type(node).__new__(type(node))
    for name, value in node.__dict__.items():
        if isinstance(value, list):
            value = [clone(part) if isinstance(part, ast.AST) else part for part in value]
        elif isinstance(value, ast.AST):
            value = clone(value)
        made.__dict__[name] = value
    return made


_parsed: dict[str, ast.Module] = {}


class _Filler(ast.NodeTransformer):
    """Puts parts in place of names: a string renames, an expression replaces, a list replaces a
    statement.
    """

    def __init__(self, near: ast.AST, parts: dict[str, Part]) -> None:
        self.near, self.parts = near, parts

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if "lineno" in node._attributes:
            ast.copy_location(node, self.near)
        return super().generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        part = self.parts.get(node.id)
        if part is None or isinstance(part, str):
            return ast.copy_location(ast.Name(id=part or node.id, ctx=node.ctx), self.near)
        return part

    def visit_Expr(self, node: ast.Expr) -> Union[ast.AST, list]:
        if isinstance(node.value, ast.Name) and isinstance(self.parts.get(node.value.id), list):
            return self.parts[node.value.id]
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self.parts.get(node.name, node.name)
        return self.generic_visit(node)


def fill(text: str, near: ast.AST, **parts: Part) -> list[ast.stmt]:
    """The statements of `text`. Nodes of the template get the place of `near`; parts keep
    theirs.
    """
    if text not in _parsed:
        _parsed[text] = ast.parse(text)
    return _Filler(near, parts).visit(clone(_parsed[text])).body


def fill_expression(text: str, near: ast.AST, **parts: Part) -> ast.expr:
    """The expression of `text`."""
    return fill(text, near, **parts)[0].value


def constant(value: object, near: ast.AST) -> ast.expr:
    """A literal of numbers, text and tuples."""
    if isinstance(value, tuple):
        node = ast.Tuple(elts=[constant(each, near) for each in value], ctx=ast.Load())
    else:
        node = ast.Constant(value=value)
    return ast.copy_location(node, near)
