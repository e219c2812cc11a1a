# SPDX-License-Identifier: Apache-2.0
"""The names that a piece of code reads and binds in the scope of one function.

Used by liveness.py and forms.py. Nothing here looks at values: for the state of a statement at run
time see state.py.
"""

from __future__ import annotations

import ast
from typing import Iterable, Union

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Names(ast.NodeVisitor):
    """Collects names of one scope. A nested function counts by its free names only.

    bound: assigned, deleted, imported, or defined here.
    read: loaded here, or free in a nested scope.
    captured: free in a function, class or generator expression, which may read them at any later
    time. deleted: the operands of `del`.
    inner_bound: names that nested functions bind by `nonlocal`.
    """

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.read: set[str] = set()
        self.captured: set[str] = set()
        self.deleted: set[str] = set()
        self.inner_bound: set[str] = set()
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.read.add(node.id)
            if node.id == "super":
                self.read.add("__class__")
            return
        self.bound.add(node.id)
        if isinstance(node.ctx, ast.Del):
            self.read.add(node.id)
            self.deleted.add(node.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.read.add(node.target.id)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        # A function never evaluates the annotation of a variable.
        if node.value is not None:
            self.visit(node.value)
        if node.value is not None or not isinstance(node.target, ast.Name):
            self.visit(node.target)

    def _alias(self, node: Union[ast.Import, ast.ImportFrom]) -> None:
        for alias in node.names:
            self.bound.add(alias.asname or alias.name.split(".")[0])

    visit_Import = _alias
    visit_ImportFrom = _alias

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.bound.add(node.name)
        self.generic_visit(node)

    def _capture(self, node: ast.AST) -> None:
        name = getattr(node, "name", None) or getattr(node, "rest", None)
        if name:
            self.bound.add(name)
        self.generic_visit(node)

    visit_MatchAs = _capture
    visit_MatchStar = _capture
    visit_MatchMapping = _capture

    def visit_TypeAlias(self, node: ast.AST) -> None:
        self.bound.add(node.name.id)

    def visit_Global(self, node: ast.Global) -> None:
        self.globals.update(node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.nonlocals.update(node.names)

    def _function(self, node: Union[ast.FunctionDef, ast.AsyncFunctionDef]) -> None:
        self.bound.add(node.name)
        for part in node.decorator_list:
            self.visit(part)
        self._header(node.args)
        for part in [node.returns] + [arg.annotation for arg in all_arguments(node.args)]:
            if part is not None:
                self.visit(part)
        self._nested(node)

    visit_FunctionDef = _function
    visit_AsyncFunctionDef = _function

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._header(node.args)
        self._nested(node)

    def _header(self, arguments: ast.arguments) -> None:
        for part in arguments.defaults + [d for d in arguments.kw_defaults if d is not None]:
            self.visit(part)

    def _nested(self, node: ast.AST) -> None:
        scope = Scope(node)
        free = scope.free()
        self.read |= free
        self.captured |= free
        self.inner_bound |= (scope.names.bound | scope.names.inner_bound) & free

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.bound.add(node.name)
        for part in node.bases + node.keywords + node.decorator_list:
            self.visit(part)
        inside = names_of(node.body)
        # A class body finds a name that it does not bind, or has not bound yet, outside.
        self.read |= inside.read
        self.captured |= inside.read
        self.inner_bound |= inside.inner_bound | (inside.bound & inside.nonlocals)

    def _comprehension(self, node: ast.AST) -> None:
        targets, inside = Names(), Names()
        for generator in node.generators:
            targets.visit(generator.target)
            inside.visit(generator.iter)
            for test in generator.ifs:
                inside.visit(test)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            inside.visit(part)
        outer = (inside.read | targets.read) - targets.bound
        self.read |= outer
        self.bound |= inside.bound  # by :=
        self.captured |= inside.captured - targets.bound
        self.inner_bound |= inside.inner_bound - targets.bound
        if isinstance(node, ast.GeneratorExp):
            self.captured |= outer

    visit_ListComp = _comprehension
    visit_SetComp = _comprehension
    visit_DictComp = _comprehension
    visit_GeneratorExp = _comprehension


def names_of(code: Union[ast.AST, Iterable[ast.AST], None]) -> Names:
    """The names of a node, or of a list of nodes."""
    names = Names()
    for node in [code] if isinstance(code, ast.AST) else code or ():
        names.visit(node)
    return names


def first_reads(code: Union[ast.AST, Iterable[ast.AST]]) -> set[str]:
    """Names that expressions read before they set them by `:=`."""
    nodes = [code] if isinstance(code, ast.AST) else list(code)
    if not any(isinstance(part, ast.NamedExpr) for node in nodes for part in ast.walk(node)):
        return names_of(nodes).read
    found: set[str] = set()
    _read_in_order(nodes, set(), found)
    return found


def _read_in_order(nodes: Iterable[ast.AST], bound: set[str], found: set[str]) -> None:
    """Adds to `found` what the nodes read and is not in `bound`, and to `bound` what they certainly
    set.
    """
    for node in nodes:
        if isinstance(node, ast.Name):
            found |= names_of(node).read - bound
        elif isinstance(node, ast.NamedExpr):
            _read_in_order([node.value], bound, found)
            bound.add(node.target.id)
        elif isinstance(node, ast.BoolOp):
            _read_in_order(node.values[:1], bound, found)
            _read_in_order(node.values[1:], set(bound), found)
        elif isinstance(node, ast.IfExp):
            _read_in_order([node.test], bound, found)
            for branch in (node.body, node.orelse):
                _read_in_order([branch], set(bound), found)
        elif isinstance(node, ast.Compare):
            _read_in_order([node.left, node.comparators[0]], bound, found)
            _read_in_order(node.comparators[1:], set(bound), found)
        elif isinstance(node, (*FUNCTIONS, *COMPREHENSIONS)):
            found |= names_of(node).read - bound
        else:
            _read_in_order(ast.iter_child_nodes(node), bound, found)


def all_arguments(arguments: ast.arguments) -> list[ast.arg]:
    """The parameters in the order of `co_varnames`."""
    found = arguments.posonlyargs + arguments.args + arguments.kwonlyargs
    return found + [arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None]


class Scope:
    """A function and the places of its names: locals, or `global`, or free in it."""

    def __init__(self, function: ast.AST) -> None:
        body = function.body if isinstance(function.body, list) else [function.body]
        self.parameters = [arg.arg for arg in all_arguments(function.args)]
        self.names = names_of(body)
        self.globals = self.names.globals
        self.nonlocals = self.names.nonlocals
        self.locals = (set(self.parameters) | self.names.bound) - self.globals - self.nonlocals

    def free(self) -> set[str]:
        """Names that come from outside of the function; some of them may be globals or built-in."""
        return (self.names.read | self.nonlocals) - self.locals - self.globals


def path_of(node: ast.AST) -> Union[str, None]:
    """The text of `a`, `a.b.c`, `a.b["k"]`, which has no effect to evaluate; None for other
    expressions.
    """
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = path_of(node.value)
        return base and f"{base}.{node.attr}"
    if isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Constant, ast.Name)):
        base = path_of(node.value)
        index = repr(node.slice.value) if isinstance(node.slice, ast.Constant) else node.slice.id
        return base and f"{base}[{index}]"
    return None
