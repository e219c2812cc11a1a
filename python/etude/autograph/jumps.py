# SPDX-License-Identifier: Apache-2.0
"""Replaces `break`, `continue` and `return` inside statements by flags.

    while c:                          ag__break1 = False
        if a: break                   while c:             # also ends when ag__break1 is true
        s += 1                            if a: ag__break1 = True
                                          else: s += 1

The statements after an `if` whose branch always jumps become its other branch. Elsewhere a test of
the flags guards them. So a function has at most one `return`, as its last statement, and its
branches and bodies can become functions. A loop carries the names of the flags that end it in
`exit_flags`. The other order of things is Python's: `else` of loops and of `try`, `finally` and
`with` run as before.
"""

from __future__ import annotations

import ast
from typing import Optional

from .names import FUNCTIONS

PREFIX = "ag__"
RETURNED, RESULT = PREFIX + "returned", PREFIX + "result"


class CannotConvert(Exception):
    """Code whose order of evaluation the lowering cannot keep: the reason, and the line."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.reason, self.line = reason, line


def blocks_of(node: ast.stmt) -> list[tuple[str, list]]:
    """The lists of statements of a compound statement, by field; handlers and cases have a `body`
    of their own.
    """
    return [
        (name, value)
        for name, value in ast.iter_fields(node)
        if name in ("body", "orelse", "finalbody")
    ]


def jumps_in(body: list) -> set[str]:
    """The kinds of jumps that leave `body`: "break", "continue", "return"."""
    found: set[str] = set()
    for node in body:
        found |= _jumps_of(node)
    return found


def _jumps_of(node: ast.AST) -> set[str]:
    kind = {ast.Return: "return", ast.Break: "break", ast.Continue: "continue"}.get(type(node))
    if kind:
        return {kind}
    if isinstance(node, FUNCTIONS + (ast.ClassDef, ast.expr)):
        return set()
    if isinstance(node, (ast.While, ast.For, ast.AsyncFor)):
        return (jumps_in(node.body) & {"return"}) | jumps_in(node.orelse)
    return jumps_in(list(ast.iter_child_nodes(node)))


def always_jumps(body: list) -> bool:
    """Whether the end of `body` is never reached without an exception; False if that is not plain
    to see.
    """
    for node in body:
        if isinstance(node, (ast.Return, ast.Break, ast.Continue, ast.Raise)):
            return True
        if isinstance(node, ast.If) and always_jumps(node.body) and always_jumps(node.orelse):
            return True
        if isinstance(node, ast.While) and _is_endless(node):
            return True
    return False


def _is_endless(node: ast.While) -> bool:
    is_true = isinstance(node.test, ast.Constant) and bool(node.test.value)
    return is_true and "break" not in jumps_in(node.body)


def lower_jumps(function: ast.AST) -> None:
    """Lowers the jumps of `function` in place, but not of functions inside it.

    raises: CannotConvert for a jump out of a `finally` block, which also discards exceptions.
    """
    body = function.body
    if "return" in jumps_in([node for node in body if not isinstance(node, ast.Return)]):
        if not always_jumps(body):
            body = body + [_at(ast.Return(value=None), body[-1])]
        lowering = _Lowering(returns_by_flag=True)
        last = _last_return(body)
        lowered = [lowering.assign(RETURNED, False, body[0])] + lowering.block(body)
        lowered.append(_at(ast.Return(value=_name(RESULT, last)), last))
    else:
        lowering = _Lowering(returns_by_flag=False)
        lowered = lowering.block(body)
    function.body = _without_unread(lowered, lowering.read)


def _last_return(body: list) -> ast.AST:
    found = [node for top in body for node in ast.walk(top) if isinstance(node, ast.Return)]
    return max(found, key=lambda node: node.lineno)


class _Lowering:
    def __init__(self, returns_by_flag: bool) -> None:
        self.returns_by_flag = returns_by_flag
        self.loops: list[tuple[str, str]] = []  # flags of `break` and `continue`, innermost last
        self.count = 0
        self.read: set[str] = set()

    def block(self, body: list) -> list:
        """The lowered statements of `body`."""
        out: list = []
        for place, node in enumerate(body):
            rest = body[place + 1 :]
            if isinstance(node, (ast.Return, ast.Break, ast.Continue)):
                return out + self.jump(node)
            jumps = _jumps_of(node)
            if isinstance(node, ast.If) and jumps and rest:
                if always_jumps(node.body):
                    node.orelse = node.orelse + ([] if always_jumps(node.orelse) else rest)
                    return out + self.statement(node)
                if always_jumps(node.orelse):
                    node.body = node.body + rest
                    return out + self.statement(node)
            out += self.statement(node)
            if jumps and rest:
                flags = self.flags(jumps)
                self.read.update(flags)
                guard = ast.If(test=_none_of(flags, node), body=self.block(rest), orelse=[])
                return out + [_at(guard, node)]
        return out

    def jump(self, node: ast.stmt) -> list:
        if isinstance(node, ast.Return):
            if not self.returns_by_flag:
                return [node]
            value = node.value or _at(ast.Constant(value=None), node)
            result = _at(ast.Assign(targets=[_name(RESULT, node, ast.Store())], value=value), node)
            return [result, self.assign(RETURNED, True, node)]
        flag = self.loops[-1][isinstance(node, ast.Continue)]
        return [self.assign(flag, True, node)]

    def statement(self, node: ast.stmt) -> list:
        if isinstance(node, FUNCTIONS + (ast.ClassDef,)):
            return [node]
        if isinstance(node, (ast.While, ast.For)):
            return self.loop(node)
        if isinstance(node, (ast.Try, getattr(ast, "TryStar", ast.Try))):
            return self.attempt(node)
        for name, body in blocks_of(node):
            setattr(node, name, self.block(body))
        for case in getattr(node, "cases", ()):
            case.body = self.block(case.body) or [_at(ast.Pass(), node)]
        return [node]

    def attempt(self, node: ast.Try) -> list:
        if jumps_in(node.finalbody):
            raise CannotConvert("a jump leaves a `finally` block", node.finalbody[0].lineno)
        jumps = jumps_in(node.body)
        node.body = self.block(node.body)
        for handler in node.handlers:
            handler.body = self.block(handler.body) or [_at(ast.Pass(), handler)]
        node.orelse, node.finalbody = self.block(node.orelse), self.block(node.finalbody)
        if jumps and node.orelse:
            flags = self.flags(jumps)
            self.read.update(flags)
            guard = ast.If(test=_none_of(flags, node.orelse[0]), body=node.orelse, orelse=[])
            node.orelse = [_at(guard, node.orelse[0])]
        return [node]

    def loop(self, node: ast.stmt) -> list:
        self.count += 1
        breaks, continues = f"{PREFIX}break{self.count}", f"{PREFIX}continue{self.count}"
        jumps = jumps_in(node.body)
        self.loops.append((breaks, continues))
        body = self.block(node.body)
        self.loops.pop()
        node.exit_flags = [breaks] if "break" in jumps else []
        if "return" in jumps:
            node.exit_flags.append(RETURNED)
        self.read.update(node.exit_flags)
        if "continue" in jumps:
            body.insert(0, self.assign(continues, False, node))
        node.body = body
        before = [self.assign(breaks, False, node)] if "break" in jumps else []
        node.has_else = bool(node.orelse)
        after: list = []
        if node.orelse:
            after = self.block(node.orelse)
            if node.exit_flags:
                test = _none_of(node.exit_flags, node.orelse[0])
                after = [_at(ast.If(test=test, body=after, orelse=[]), after[0])]
            node.orelse = []
        return before + [node] + after

    def flags(self, jumps: set[str]) -> list[str]:
        """The flags that these jumps set."""
        found = []
        if self.loops:
            breaks, continues = self.loops[-1]
            found += [breaks] if "break" in jumps else []
            found += [continues] if "continue" in jumps else []
        return found + ([RETURNED] if "return" in jumps else [])

    def assign(self, flag: str, value: bool, near: ast.AST) -> ast.stmt:
        node = ast.Assign(targets=[_name(flag, near, ast.Store())], value=ast.Constant(value=value))
        node.flag = flag
        return _at(node, near)


def _without_unread(body: list, read: set[str]) -> list:
    """Removes assignments to flags that nothing reads. A block that becomes empty gets `pass`."""

    class Remover(ast.NodeTransformer):
        def visit_Assign(self, node: ast.Assign) -> Optional[ast.stmt]:
            return None if getattr(node, "flag", None) not in read | {None} else node

        def visit_FunctionDef(self, node: ast.AST) -> ast.AST:
            return node

        visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_FunctionDef

        def generic_visit(self, node: ast.AST) -> ast.AST:
            super().generic_visit(node)
            if isinstance(getattr(node, "body", None), list) and not node.body:
                node.body = [_at(ast.Pass(), node if hasattr(node, "lineno") else body[0])]
            return node

    module = ast.Module(body=body, type_ignores=[])
    return Remover().visit(module).body


def _none_of(flags: list[str], near: ast.AST) -> ast.expr:
    names: list[ast.expr] = [_name(flag, near) for flag in flags]
    either = names[0] if len(names) == 1 else ast.BoolOp(op=ast.Or(), values=names)
    return _at(ast.UnaryOp(op=ast.Not(), operand=either), near)


def _name(name: str, near: ast.AST, context: Optional[ast.expr_context] = None) -> ast.Name:
    return _at(ast.Name(id=name, ctx=context or ast.Load()), near)


def _at(node: ast.AST, near: ast.AST) -> ast.AST:
    """Sets the place of `node`, and of the nodes inside without a place, to the place of `near`."""
    if not hasattr(near, "lineno"):
        near = near.pattern
    for part in ast.walk(node):
        if "lineno" in part._attributes and not hasattr(part, "lineno"):
            ast.copy_location(part, near)
    return node
