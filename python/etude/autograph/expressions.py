# SPDX-License-Identifier: Apache-2.0
"""Replaces expressions whose meaning depends on a host bool, and calls, by calls of runtime
functions.

    a and b       ->  ag__.and_(a, lambda: b)
    x if c else y ->  ag__.if_exp(c, lambda: x, lambda: y, 12)
    a < b < c     ->  ag__.chain(a, "<", lambda: b, "<", lambda: c)
    f(x)          ->  ag__.callee(f)(x)
    f"loss {x}"   ->  ag__.text("loss ", (x, -1, ""))

An operand with `:=` stays as it is, since a lambda cannot bind a name of its function.
"""

from __future__ import annotations

import ast
from typing import Iterable, Optional

from .names import Scope
from .templates import constant, fill_expression

# Calls that look at the frame of their caller.
FRAME_CALLS = {"super", "locals", "globals", "vars", "dir", "eval", "exec"}
COMPARISONS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_BINDING = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
_PURE = (
    ast.Name, ast.Constant, ast.Compare, ast.cmpop, ast.UnaryOp, ast.unaryop, ast.BoolOp,
    ast.boolop,
    ast.expr_context, ast.BinOp, ast.Add, ast.Sub, ast.Mult,
)  # fmt: skip


def is_pure(node: ast.AST) -> bool:
    """Whether evaluating the expression on tensors cannot fail or have an effect."""
    return all(isinstance(part, _PURE) for part in ast.walk(node))


def is_host_test(node: ast.AST) -> bool:
    """Whether the test is a host bool whatever its operands are: `x is None` and its like."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Compare):
        return all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return is_host_test(node.operand)
    return isinstance(node, ast.BoolOp) and all(is_host_test(value) for value in node.values)


def binds(nodes: Iterable[ast.AST]) -> bool:
    """Whether an expression assigns, awaits or yields, which a lambda cannot do for its
    function.
    """
    return any(isinstance(part, _BINDING) for node in nodes for part in ast.walk(node))


def is_generator(function: ast.AST) -> bool:
    """Whether `yield` stands in the function itself."""
    todo = list(function.body) if isinstance(function.body, list) else [function.body]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo += ast.iter_child_nodes(node)
    return False


class Expressions(ast.NodeTransformer):
    """Transforms the expressions of one function.

    has_class: `super()` finds its class there. rebindable: variables that calls of nested functions
    may set.
    """

    def __init__(self, scope: Scope, has_class: bool, rebindable: set[str]) -> None:
        self.scope, self.has_class = scope, has_class
        self.rebindable = (rebindable - scope.locals) | (scope.names.inner_bound & scope.locals)

    def rebound(self, nodes: Iterable[ast.AST]) -> set[str]:
        """Variables that a call in `nodes` may set, since a nested function declares them
        `nonlocal`.
        """
        has_call = self.rebindable and any(
            isinstance(part, ast.Call) for node in nodes for part in ast.walk(node)
        )
        return self.rebindable if has_call else set()

    def share(self, call: ast.Call, nodes: list[ast.expr]) -> ast.Call:
        """Hands the variables to the runtime that calls in the operands `nodes` may set."""
        names = sorted(self.rebound(nodes))
        if names:
            shared = fill_expression(f"lambda: ({', '.join(names)},)", call)
            call.keywords.append(ast.keyword(arg="shared", value=shared))
        return call

    def thunk(self, node: ast.expr) -> ast.expr:
        return fill_expression("lambda: BODY", node, BODY=self.visit(node))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = node.func
        if isinstance(called, ast.Name) and called.id in FRAME_CALLS:
            self.generic_visit(node)
            is_bare = called.id == "super" and not node.args and not node.keywords
            if is_bare and self.has_class and self.scope.parameters:
                # The frame of a generated function has no first argument for super() to find.
                return fill_expression(
                    "super(__class__, SELF)", node, SELF=self.scope.parameters[0]
                )
            return node
        self.generic_visit(node)
        node.func = fill_expression("ag__.callee(FUNCTION)", called, FUNCTION=node.func)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        rest = node.values[1:]
        if binds(rest) or is_host_test(node):
            return self.generic_visit(node)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        text = (
            f"ag__.{name}pure(FIRST)"
            if all(is_pure(value) for value in rest)
            else f"ag__.{name}(FIRST)"
        )
        call = fill_expression(text, node, FIRST=self.visit(node.values[0]))
        self.share(call, rest)
        call.args += [self.thunk(value) for value in rest]
        return call

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not) or is_host_test(node.operand):
            return node
        return fill_expression("ag__.not_(OPERAND)", node, OPERAND=node.operand)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if binds([node.body, node.orelse]) or is_host_test(node.test):
            return self.generic_visit(node)
        call = fill_expression("ag__.if_exp()", node)
        self.share(call, [node.body, node.orelse])
        call.args = [self.visit(node.test), self.thunk(node.body), self.thunk(node.orelse)]
        call.args.append(constant(node.lineno, node))
        return call

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if len(node.ops) == 1 or binds(node.comparators) or is_host_test(node):
            return self.generic_visit(node)
        call = fill_expression("ag__.chain(FIRST)", node, FIRST=self.visit(node.left))
        self.share(call, node.comparators)
        for op, operand in zip(node.ops, node.comparators):
            call.args += [constant(COMPARISONS[type(op)], operand), self.thunk(operand)]
        return call

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.generic_visit(node)
        if not any(isinstance(part, ast.FormattedValue) for part in node.values):
            return node
        call = fill_expression("ag__.text()", node)
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                form = part.format_spec or constant("", part)
                items = [part.value, constant(part.conversion, part), form]
                part = ast.copy_location(ast.Tuple(elts=items, ctx=ast.Load()), part)
            call.args.append(part)
        return call

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        node.value = self.visit(node.value)
        if node.format_spec is not None:
            node.format_spec = super().generic_visit(node.format_spec)  # stays an f-string
        return node

    visit_Interpolation = visit_FormattedValue  # of a template string

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.arguments(node.args)
        if not is_generator(node):
            node.body = Expressions(Scope(node), self.has_class, self.rebindable).visit(node.body)
        return node

    def arguments(self, arguments: ast.arguments) -> None:
        """Transforms the default values."""
        arguments.defaults = [self.visit(each) for each in arguments.defaults]
        arguments.kw_defaults = [each and self.visit(each) for each in arguments.kw_defaults]

    def optional(self, node: Optional[ast.expr]) -> Optional[ast.expr]:
        return None if node is None else self.visit(node)
