# SPDX-License-Identifier: Apache-2.0
"""Finds the syntax tree of a function: the node in its file from which Python compiled it.

A file is parsed once, as a whole, so a node keeps its line numbers, its class (for private names)
and its place among several lambdas of one line. The text comes from `linecache`, so cells of
notebooks and examples of doctest work.
"""

from __future__ import annotations

import ast
import linecache
import sys
import types
from typing import Iterator, Optional

from .names import FUNCTIONS, all_arguments


class NoSource(Exception):
    """The source of a function is not available; the text states why."""


class Found:
    """A function node, and the name of the class that Python uses for its private names."""

    def __init__(self, node: ast.AST, owner: Optional[str]) -> None:
        self.node, self.owner = node, owner


class _File:
    def __init__(self, lines: list[str], filename: str) -> None:
        self.lines = lines
        self.text = "".join(lines)
        try:
            self.tree = ast.parse(self.text, filename)
        except SyntaxError as error:
            raise NoSource(f"'{filename}' does not parse: {error.msg}") from None
        self.functions = list(_functions(self.tree, None))


def _functions(node: ast.AST, owner: Optional[str]) -> Iterator[Found]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FUNCTIONS):
            yield Found(child, owner)
        yield from _functions(child, child.name if isinstance(child, ast.ClassDef) else owner)


_KEPT_FILES = 16
_files: dict[str, _File] = {}  # the files of the last functions, oldest first


def _file_of(function: types.FunctionType) -> _File:
    filename = function.__code__.co_filename
    if not filename.startswith("<"):
        linecache.checkcache(filename)
    lines = linecache.getlines(filename, function.__globals__)
    if not lines:
        raise NoSource(f"there is no source for '{filename}'")
    known = _files.pop(filename, None)
    if known is None or known.lines != lines:
        known = _File(list(lines), filename)
    _files[filename] = known
    while len(_files) > _KEPT_FILES:
        del _files[next(iter(_files))]
    return known


def first_line(node: ast.AST) -> int:
    """The line that Python calls the first of a function: that of its first decorator, if any."""
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno] + [part.lineno for part in decorators])


def find(function: types.FunctionType) -> Found:
    """The node of `function`. raises: NoSource."""
    code = function.__code__
    found = [each for each in _file_of(function).functions if _fits(each.node, code)]
    if not found:
        raise NoSource(
            f"no function '{code.co_name}' begins at line {code.co_firstlineno} of "
            f"'{code.co_filename}'; "
            "has the file changed since it was imported?"
        )
    if len(found) > 1:
        found = _by_column(found, code) if sys.version_info >= (3, 11) else _by_code(found, code)
    if len(found) != 1:
        raise NoSource(
            f"line {code.co_firstlineno} of '{code.co_filename}' has several lambdas, and Python "
            "does not "
            "record which is which; write them on lines of their own"
        )
    return found[0]


def _fits(node: ast.AST, code: types.CodeType) -> bool:
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    if name != code.co_name or code.co_firstlineno not in (node.lineno, first_line(node)):
        return False
    count = (
        code.co_argcount
        + code.co_kwonlyargcount
        + bool(code.co_flags & 4)
        + bool(code.co_flags & 8)
    )
    names = [arg.arg for arg in all_arguments(node.args)]
    return len(names) == count and all(_same(a, b) for a, b in zip(names, code.co_varnames))


def _same(written: str, stored: str) -> bool:
    """Whether Python stores the name `written` as `stored`: private names get their class in
    front.
    """
    return written == stored or (written.startswith("__") and stored.endswith(written))


def _by_column(found: list[Found], code: types.CodeType) -> list[Found]:
    places = [
        place
        for place in code.co_positions()
        if None not in place
        and (place[0], place[2]) != (place[1], place[3])  # RESUME has an empty place
    ]
    if not places:
        return found  # python -X no_debug_ranges
    begin = min((line, column) for line, _, column, _ in places)
    end = max((line, column) for _, line, _, column in places)

    def holds(node: ast.AST) -> bool:
        body = node.body if isinstance(node, ast.Lambda) else node
        first, last = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
        return first <= begin and end <= last

    inside = [each for each in found if holds(each.node)]
    if len(inside) > 1:  # one lambda inside another
        inside = [min(inside, key=lambda each: len(ast.dump(each.node)))]
    return inside or _by_code(found, code)


def _by_code(found: list[Found], code: types.CodeType) -> list[Found]:
    """The lambdas that compile to the same instructions. If these are equal, any of them has the
    same meaning.
    """
    equal = []
    for each in found:
        args = each.node.args
        bare = ast.arguments(
            args.posonlyargs, args.args, args.vararg, args.kwonlyargs, [], args.kwarg, []
        )
        bare.kw_defaults = [None] * len(args.kwonlyargs)
        names = ", ".join(code.co_freevars)
        outer = ast.parse(f"def outer({names}): return lambda: 0")
        outer.body[0].body[0].value = ast.copy_location(
            ast.Lambda(args=bare, body=each.node.body), each.node
        )
        made = compile(ast.fix_missing_locations(outer), code.co_filename, "exec").co_consts[0]
        inner = next(part for part in made.co_consts if isinstance(part, types.CodeType))
        if (inner.co_code, inner.co_names, inner.co_freevars) != (
            code.co_code,
            code.co_names,
            code.co_freevars,
        ):
            continue
        if _constants(inner) == _constants(code):
            equal.append(each)
    bodies = {ast.dump(each.node) for each in equal}
    return equal[:1] if len(bodies) == 1 else equal


def _constants(code: types.CodeType) -> list:
    """The constants, without the names that inner functions get from the functions around them."""
    return [
        (
            _constants(part) + [part.co_code]
            if isinstance(part, types.CodeType)
            else (type(part), part)
        )
        for part in code.co_consts
        if not (isinstance(part, str) and "<l" in part)
    ]
