# SPDX-License-Identifier: Apache-2.0
"""Gives the branches and bodies of control flow the form of functions, so that the runtime can
trace them.

    if c: y = a                  ag__c1 = c
    else: y = b                  def ag__then1():
                                     nonlocal y
                                     y = a
                                 def ag__else1(): ...
                                 if ag__.staged(ag__c1):
                                     ag__.if_stmt(ag__c1, ag__then1, ag__else1, ("y",), ("y",), (),
                                     12)
                                 elif ag__c1: ag__then1()
                                 else: ag__else1()

For a host value this is Python's own `if`. Variables are shared as cells, which the runtime reads
and sets by name (state.py). Statements have been lowered (jumps.py) and marked (liveness.py)
before.
"""

from __future__ import annotations

import ast
from typing import Optional, Union

from .expressions import Expressions, is_generator, is_host_test, is_pure
from .jumps import PREFIX, CannotConvert, lower_jumps
from .liveness import exit_flags, mark_liveness
from .mutations import mutations
from .names import Scope, names_of
from .templates import clone, constant, fill, fill_expression

IF = """
TEST_VALUE = TEST
def THEN():
    BODY
def ELSE():
    ORELSE
if ag__.staged(TEST_VALUE):
    ag__.if_stmt(TEST_VALUE, THEN, ELSE, STATE, LIVE, OBJECTS, LINE)
elif TEST_VALUE:
    THEN()
else:
    ELSE()
"""
IF_WITHOUT_ELSE = """
TEST_VALUE = TEST
def THEN():
    BODY
if ag__.staged(TEST_VALUE):
    ag__.if_stmt(TEST_VALUE, THEN, None, STATE, LIVE, OBJECTS, LINE)
elif TEST_VALUE:
    THEN()
"""
WHILE = """
def CONDITION():
    TEST
def STEP():
    BODY
UNROLLED = ag__.unrolled(LINE)
TEST_VALUE = CONDITION()
while UNROLLED(TEST_VALUE):
    STEP()
    TEST_VALUE = CONDITION()
if ag__.staged(TEST_VALUE):
    ag__.while_stmt(TEST_VALUE, CONDITION, STEP, STATE, LIVE, EXPOSED, OBJECTS, LINE)
"""
FOR = """
def STEP(ag__item):
    BODY
ROWS = ag__.iterable(ITER)
if ag__.staged_rows(ROWS):
    ag__.for_stmt(ROWS, STEP, LEAVES, STATE, LIVE, EXPOSED, OBJECTS, LINE)
else:
    for ag__row in ag__.unrolled_rows(ROWS, LINE):
        STEP(ag__row)
        UNTIL
"""
ASSERT = """
if __debug__:
    TEST_VALUE = TEST
    if ag__.staged(TEST_VALUE):
        ag__.assert_stmt(TEST_VALUE, lambda: MESSAGE, LINE)
    else:
        ASSERTION
"""


class Context:
    """Facts about a function and the functions inside it.

    has_class: `super()` finds its class. owner: the class of private names. count: of generated
    names.
    """

    def __init__(self, has_class: bool, owner: Optional[str]) -> None:
        self.has_class, self.owner, self.count = has_class, owner, 0


class Forms:
    """The forms of one function."""

    def __init__(self, function: ast.AST, context: Context, rebindable: set[str]) -> None:
        self.scope = Scope(function)
        lower_jumps(function)
        flags = names_of(function.body).bound - self.scope.names.bound
        self.scope.locals |= {name for name in flags if name.startswith(PREFIX)}
        mark_liveness(function, self.scope)
        self.context = context
        self.expressions = Expressions(self.scope, context.has_class, rebindable)
        self.in_functions: set[str] = set()
        self.caught: Optional[int] = None  # the line of the enclosing `try` with handlers

    def convert(self, function: ast.AST) -> None:
        """Replaces the body of `function`."""
        body = function.body
        is_docstring = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        first, rest = (body[:1], body[1:]) if is_docstring else ([], body)
        converted = self.block(rest)
        near = body[0]
        declared: list[ast.stmt] = [
            ast.copy_location(kind(names=sorted(names)), near)
            for kind, names in (
                (ast.Global, self.scope.globals),
                (ast.Nonlocal, self.scope.nonlocals),
            )
            if names
        ]
        only_inside = sorted((self.in_functions & self.scope.locals) - set(self.scope.parameters))
        if only_inside:
            # An assignment that never runs: Python then sees that the names are variables of this
            # function.
            declared += fill("if False: NAMES = None", near)
            declared[-1].body[0].targets = [
                ast.copy_location(ast.Name(id=name, ctx=ast.Store()), near) for name in only_inside
            ]
        function.body = first + declared + converted or [ast.copy_location(ast.Pass(), near)]

    def block(self, body: list) -> list:
        out: list = []
        for node in body:
            out += self.statement(node)
        return out

    def statement(self, node: ast.stmt) -> list:
        method = getattr(self, "do_" + type(node).__name__, None)
        if method is not None:
            return method(node)
        return [self.expressions.generic_visit(node)]

    def name(self, kind: str) -> str:
        self.context.count += 1
        return f"{PREFIX}{kind}{self.context.count}"

    def inner(self, bound: set[str], converted: list, near: ast.AST) -> list:
        """The body of a generated function that binds the names `bound`."""
        self.in_functions |= bound
        shared = sorted(bound - self.scope.globals)
        declared: list = []
        if bound & self.scope.globals:
            declared.append(ast.Global(names=sorted(bound & self.scope.globals)))
        if shared:
            declared.append(ast.Nonlocal(names=shared))
        declared = [ast.copy_location(node, near) for node in declared]
        return declared + converted or [ast.copy_location(ast.Pass(), near)]

    def bound(self, source: list) -> set[str]:
        """The variables that `source` may set."""
        return names_of(source).bound | self.expressions.rebound(source)

    def objects(self, source: list, near: ast.AST) -> ast.expr:
        """The objects that `source` changes in place, as a tuple of state objects of the
        runtime.
        """
        made = mutations(source, near, self.context.owner)
        return ast.copy_location(ast.Tuple(elts=made, ctx=ast.Load()), near)

    def options(self, call: ast.Call, near: ast.AST, **values: Union[int, str, bool, None]) -> None:
        """Adds keywords for what is unusual about a statement."""
        values["caught"] = self.caught
        for name, value in values.items():
            if value:
                call.keywords.append(ast.keyword(arg=name, value=constant(value, near)))

    def do_If(self, node: ast.If) -> list:
        if is_host_test(node.test):
            node.test = self.expressions.visit(node.test)
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return [node]
        near = _header(node, node.test)
        source, then, orelse = (
            node.body + node.orelse,
            self.bound(node.body),
            self.bound(node.orelse),
        )
        state = sorted(then | orelse)
        raises = next((part.lineno for part in source if isinstance(part, ast.Raise)), None)
        parts = {
            "OBJECTS": self.objects(source, near),
            "TEST_VALUE": self.name("test"),
            "TEST": self.expressions.visit(node.test),
            "THEN": self.name("then"),
            "BODY": self.inner(then, self.block(node.body), node.body[0]),
            "STATE": constant(tuple(state), near),
            "LIVE": constant(tuple(name for name in state if name in node.live_out), near),
            "LINE": constant(node.lineno, near),
        }
        if node.orelse:
            parts["ELSE"] = self.name("else")
            parts["ORELSE"] = self.inner(orelse, self.block(node.orelse), node.orelse[0])
        made = fill(IF if node.orelse else IF_WITHOUT_ELSE, near, **parts)
        self.options(made[-1].body[0].value, near, raises=raises)
        return made

    def do_While(self, node: ast.While) -> list:
        near = _header(node, node.test)
        test = _ended_by(exit_flags(node), node.test)
        tested, set_in_body = self.bound([node.test]), self.bound(node.body)
        pure = is_pure(test)
        shared = self.loop_parts(node, tested | set_in_body, [node.test] + node.body, near)
        returned = fill_expression("TEST", near, TEST=self.expressions.visit(test))
        parts = {
            "CONDITION": self.name("test"),
            "TEST": self.inner(tested, [ast.copy_location(ast.Return(value=returned), near)], near),
            "STEP": self.name("body"),
            "BODY": self.inner(set_in_body, self.block(node.body), node.body[0]),
            "TEST_VALUE": self.name("test"),
            "UNROLLED": self.name("unrolled"),
            **shared,
        }
        made = fill(WHILE, near, **parts)
        call = made[-1].body[0].value
        self.options(call, near, pure=pure, has_else=node.has_else)
        return made

    def do_For(self, node: ast.For) -> list:
        near = _header(node, node.iter)
        source = [node.target] + node.body
        bound, targets = self.bound(source), tuple(sorted(names_of(node.target).bound))
        shared = self.loop_parts(node, bound, source, near)
        target = fill("TARGET = ag__item", node.target, TARGET=node.target)
        flags = exit_flags(node)
        leaves = self.expressions.visit(_any_of(flags, near)) if flags else None
        until = fill(
            "if ag__.leaves(LEAVES, LINE): break",
            near,
            LINE=constant(node.lineno, near),
            LEAVES=leaves,
        )
        parts = {
            "STEP": self.name("body"),
            "BODY": self.inner(bound, target + self.block(node.body), node.body[0]),
            "ROWS": self.name("rows"),
            "ITER": self.expressions.visit(node.iter),
            "LEAVES": (
                constant(None, near)
                if leaves is None
                else fill_expression("lambda: V", near, V=leaves)
            ),
            "UNTIL": until if flags else [],
            **shared,
        }
        made = fill(FOR, near, **parts)
        call = made[-1].body[0].value
        self.options(call, near, has_else=node.has_else)
        call.keywords.append(ast.keyword(arg="targets", value=constant(targets, near)))
        return made

    def loop_parts(self, node: ast.stmt, names: set[str], source: list, near: ast.AST) -> dict:
        state = sorted(names)
        return {
            "STATE": constant(tuple(state), near),
            "LIVE": constant(tuple(name for name in state if name in node.live_out), near),
            "EXPOSED": constant(tuple(name for name in state if name in node.exposed), near),
            "OBJECTS": self.objects(source, near),
            "LINE": constant(node.lineno, near),
        }

    def do_Assert(self, node: ast.Assert) -> list:
        message = node.msg or ast.copy_location(ast.Constant(value=None), node)
        value = self.name("test")
        plain = ast.copy_location(ast.Assert(test=None, msg=None), node)
        plain.test = ast.copy_location(ast.Name(id=value, ctx=ast.Load()), node.test)
        plain.msg = self.expressions.optional(node.msg and clone(node.msg))
        return fill(
            ASSERT,
            node,
            TEST_VALUE=value,
            TEST=self.expressions.visit(node.test),
            MESSAGE=self.expressions.visit(message),
            LINE=constant(node.lineno, node),
            ASSERTION=[plain],
        )

    def do_FunctionDef(self, node: ast.FunctionDef) -> list:
        if node.decorator_list or is_generator(node):
            # A decorator may forbid conversion. If not, the function is converted when it is
            # called.
            node.decorator_list = [self.expressions.visit(each) for each in node.decorator_list]
            self.expressions.arguments(node.args)
            return [node]
        self.expressions.arguments(node.args)
        try:
            converted = clone(node)
            convert_function(converted, self.context, self.expressions.rebindable)
        except CannotConvert:
            return [node]  # calls.py states the reason when the function is called
        return [converted]

    def _unchanged(self, node: ast.stmt) -> list:
        return [node]

    do_AsyncFunctionDef = do_ClassDef = do_TypeAlias = _unchanged

    def _declaration(self, node: ast.stmt) -> list:
        return []  # convert() and inner() declare names where they are used

    do_Global = do_Nonlocal = _declaration

    def do_AnnAssign(self, node: ast.AnnAssign) -> list:
        # A name with an annotation cannot be nonlocal, and a function never evaluates the
        # annotation.
        if node.value is None:
            return (
                [] if isinstance(node.target, ast.Name) else [self.expressions.generic_visit(node)]
            )
        plain = ast.Assign(targets=[node.target], value=node.value)
        return self.statement(ast.copy_location(plain, node))

    def do_With(self, node: ast.With) -> list:
        node.items = [self.expressions.visit(item) for item in node.items]
        node.body = self.block(node.body)
        return [node]

    def do_Try(self, node: ast.Try) -> list:
        outer = self.caught
        if node.handlers:
            self.caught = node.lineno
        node.body = self.block(node.body)
        self.caught = outer
        for handler in node.handlers:
            handler.type = self.expressions.optional(handler.type)
            handler.body = self.block(handler.body)
        node.orelse, node.finalbody = self.block(node.orelse), self.block(node.finalbody)
        return [node]

    do_TryStar = do_Try

    def do_Match(self, node: ast.Match) -> list:
        node.subject = self.expressions.visit(node.subject)
        for case in node.cases:
            case.guard = self.expressions.optional(case.guard)
            case.body = self.block(case.body)
        return [node]


def convert_function(
    function: ast.AST, context: Context, rebindable: Optional[set[str]] = None
) -> None:
    """Converts a function definition in place, with the functions inside it. raises: CannotConvert.

    rebindable: variables of the functions around it that calls of nested functions may set.
    """
    Forms(function, context, rebindable or set()).convert(function)


def _header(node: ast.stmt, last: ast.AST) -> ast.AST:
    """The place of the first line of a compound statement, for errors that point to it."""
    near = ast.copy_location(ast.Pass(), node)
    near.end_lineno, near.end_col_offset = last.end_lineno, last.end_col_offset
    return near


def _any_of(flags: list[str], near: ast.AST) -> ast.expr:
    names: list[ast.expr] = [
        ast.copy_location(ast.Name(id=flag, ctx=ast.Load()), near) for flag in flags
    ]
    if len(names) == 1:
        return names[0]
    return ast.copy_location(ast.BoolOp(op=ast.Or(), values=names), near)


def _ended_by(flags: list[str], test: ast.expr) -> ast.expr:
    """`test`, but false when a flag is true; then it is not evaluated."""
    if not flags:
        return test
    goes_on = [ast.UnaryOp(op=ast.Not(), operand=_any_of([flag], test)) for flag in flags]
    both = ast.BoolOp(op=ast.And(), values=[*goes_on, test])
    for part in [both, *goes_on]:
        ast.copy_location(part, test)
    return both
