# SPDX-License-Identifier: Apache-2.0
"""Which variables are live around each statement of a function.

Runs on code that jumps.py has lowered: the only jumps left are `return`s at the end of a function.
It marks each `if`, `while` and `for` with

* `live_out`: names that may be read after the statement;
* `exposed` (loops): names that an iteration may read before it assigns them.

Names that nested functions capture are live everywhere, since those functions may be called at any
time.
"""

from __future__ import annotations

import ast
from typing import Iterable

from .names import Scope, first_reads, names_of

LOOPS = (ast.While, ast.For)


def mark_liveness(function: ast.AST, scope: Scope) -> None:
    """Marks the statements of `function`, but not of the functions inside it."""
    always = scope.names.captured | scope.globals | scope.nonlocals
    if scope.names.read & {"locals", "vars", "dir", "eval", "exec"}:
        always |= scope.locals
    _Liveness(always).block(function.body, set(always), set())


class _Liveness:
    def __init__(self, always: set[str]) -> None:
        self.always = always

    def block(self, body: Iterable[ast.stmt], out: set[str], floor: set[str]) -> set[str]:
        """Live names before `body`. `floor`: live in the handlers that an exception may reach from
        any point.
        """
        live = out
        for statement in reversed(list(body)):
            live = self.statement(statement, live, floor) | floor
        return live

    def statement(self, node: ast.stmt, out: set[str], floor: set[str]) -> set[str]:
        method = getattr(self, "do_" + type(node).__name__, None)
        if method is not None:
            return method(node, out, floor)
        names = names_of(node)
        if isinstance(node, (ast.Expr, ast.Assign)):
            return (
                (out - names.bound)
                | first_reads([node.value, *getattr(node, "targets", ())])
                | self.always
            )
        return (out - (names.bound - names.deleted)) | names.read | self.always

    def do_Return(self, node: ast.Return, out: set[str], floor: set[str]) -> set[str]:
        return names_of(node).read | self.always

    def do_If(self, node: ast.If, out: set[str], floor: set[str]) -> set[str]:
        node.live_out = out | floor
        then = self.block(node.body, out, floor)
        otherwise = self.block(node.orelse, out, floor)
        test = names_of(node.test)
        return ((then | otherwise) - test.bound) | first_reads(node.test) | self.always

    def do_While(self, node: ast.While, out: set[str], floor: set[str]) -> set[str]:
        after = self.block(node.orelse, out, floor)
        test, read = names_of(node.test), first_reads(node.test)
        flags = set(exit_flags(node))
        node.live_out = after | floor
        head: set[str] = set()
        while True:
            body = self.block(node.body, head, floor)
            again = ((after | body) - test.bound) | read | flags | self.always
            if again <= head:
                break
            head |= again
        node.exposed = (
            (self.block(node.body, set(), floor) - test.bound) | read | flags | self.always
        )
        self.block(
            node.body, head, floor
        )  # leaves the marks of inner statements as they are in a loop
        return head

    def do_For(self, node: ast.For, out: set[str], floor: set[str]) -> set[str]:
        after = self.block(node.orelse, out, floor)
        target = names_of(node.target)
        flags = set(exit_flags(node))
        node.live_out = after | floor
        head: set[str] = set()
        while True:
            body = (self.block(node.body, head, floor) - target.bound) | target.read
            again = after | body | flags | self.always
            if again <= head:
                break
            head |= again
        first = self.block(node.body, set(), floor) - target.bound
        node.exposed = first | target.read | flags | self.always
        self.block(node.body, head, floor)
        return head | names_of(node.iter).read

    def do_With(self, node: ast.With, out: set[str], floor: set[str]) -> set[str]:
        live = self.block(node.body, out, floor)
        for item in reversed(node.items):
            names = names_of(item)
            live = (live - names.bound) | names.read
        return live

    def do_Try(self, node: ast.Try, out: set[str], floor: set[str]) -> set[str]:
        after = self.block(node.finalbody, out, floor)
        caught: set[str] = set()
        for handler in node.handlers:
            names = names_of(handler.type)
            bound = {handler.name} if handler.name else set()
            caught |= (self.block(handler.body, after, floor) - bound) | names.read
        at_any_point = floor | caught | (after if node.finalbody else set())
        succeeded = self.block(node.orelse, after, floor)
        return self.block(node.body, succeeded, at_any_point)

    do_TryStar = do_Try

    def do_Match(self, node: ast.Match, out: set[str], floor: set[str]) -> set[str]:
        live = set(out)
        for case in reversed(node.cases):
            pattern = names_of([case.pattern] + ([case.guard] if case.guard else []))
            live |= (self.block(case.body, out, floor) - pattern.bound) | pattern.read
        return live | names_of(node.subject).read | self.always


def exit_flags(loop: ast.AST) -> list[str]:
    """The flags that end a loop: set by jumps.py."""
    return getattr(loop, "exit_flags", [])
