# SPDX-License-Identifier: Apache-2.0
"""From a function to its converted twin: a function of the same cells, globals and defaults with
converted code.

The code is compiled under the user's file name and keeps his line numbers. Its one addition is a
free variable `ag__`, the runtime. A name such as "f (converted)" marks it in tracebacks.
"""

from __future__ import annotations

import __future__

import ast
import sys
import types
from typing import Any, Optional

from .forms import Context, convert_function
from .jumps import PREFIX
from .source import Found, find
from .templates import clone, fill

RUNTIME = "ag__"
_FUTURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


class Converted:
    """The converted code of a function, and the syntax tree that it was compiled from."""

    def __init__(self, code: types.CodeType, tree: ast.AST) -> None:
        self.code, self.tree = code, tree


def convert_code(function: types.FunctionType) -> Converted:
    """Converts the code of `function`. raises: NoSource, CannotConvert."""
    found = find(function)
    code = function.__code__
    tree = _bare_function(found)
    context = Context("__class__" in code.co_freevars, found.owner)
    convert_function(tree, context)
    for node in ast.walk(tree):
        if (
            sys.version_info >= (3, 12)
            and hasattr(node, "decorator_list")
            and not hasattr(node, "type_params")
        ):
            node.type_params = []
    module = _in_scopes(tree, found, code)
    compiled = compile(
        module, code.co_filename, "exec", flags=code.co_flags & _FUTURES, dont_inherit=True
    )
    inner = _function_code(compiled, depth=2 if found.owner is None else 3)
    return Converted(_marked(inner, f"{code.co_name} (converted)"), tree)


def _bare_function(found: Found) -> ast.FunctionDef:
    """A copy without decorators, defaults and annotations, which the twin takes from the function
    itself.
    """
    node = found.node
    body = (
        node.body
        if isinstance(node.body, list)
        else [ast.copy_location(ast.Return(node.body), node.body)]
    )
    name = "lambda_" if isinstance(node, ast.Lambda) else node.name
    bare = ast.FunctionDef(name, clone(node.args), [clone(each) for each in body], [], None)
    bare.args.defaults = [ast.Constant(value=None) for _ in bare.args.defaults]
    bare.args.kw_defaults = [each and ast.Constant(value=None) for each in bare.args.kw_defaults]
    for part in ast.walk(bare.args):
        if isinstance(part, ast.arg):
            part.annotation = None
    return ast.fix_missing_locations(ast.copy_location(bare, node))


def _in_scopes(tree: ast.FunctionDef, found: Found, code: types.CodeType) -> ast.Module:
    """A module in which the free names of the function are free, and its private names have their
    class.
    """
    outer = fill("def factory(): BODY", tree, factory=PREFIX + "factory", BODY=[tree])[0]
    if found.owner is not None:
        outer.body = fill("class OWNER: BODY", tree, BODY=[tree])
        outer.body[0].name = found.owner
    own = outer.body[0].name
    if own not in code.co_freevars:
        # The name means the global of the user, not the copy in this factory.
        outer.body.insert(0, ast.copy_location(ast.Global(names=[own]), tree))
    outer.args.args = [ast.arg(arg=name) for name in (*code.co_freevars, RUNTIME)]
    return ast.fix_missing_locations(ast.Module(body=[outer], type_ignores=[]))


def _function_code(compiled: types.CodeType, depth: int) -> types.CodeType:
    """The only code in the scopes: the function."""
    for _ in range(depth):
        compiled = next(part for part in compiled.co_consts if isinstance(part, types.CodeType))
    return compiled


def _marked(code: types.CodeType, name: str) -> types.CodeType:
    """Sets a name for tracebacks on the function and on the functions generated inside it."""
    constants = []
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            part = _marked(part, name if part.co_name.startswith(PREFIX) else part.co_name)
        constants.append(part)
    changes: dict[str, Any] = {"co_consts": tuple(constants), "co_name": name}
    if sys.version_info >= (3, 11) and code.co_name != name:
        changes["co_qualname"] = name
    return code.replace(**changes)


def codes_in(code: types.CodeType) -> list[types.CodeType]:
    """`code` and the code of functions inside it."""
    inner = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return [code] + [each for part in inner for each in codes_in(part)]


def make_twin(
    function: types.FunctionType, code: types.CodeType, runtime: object
) -> types.FunctionType:
    """A function with `code` that shares cells, globals and defaults with `function`."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    cells[RUNTIME] = types.CellType(runtime)
    closure = tuple(cells[name] for name in code.co_freevars)
    twin = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, closure
    )
    twin.__qualname__, twin.__doc__ = function.__qualname__, function.__doc__
    twin.__module__ = function.__module__
    refresh_twin(twin, function)
    if hasattr(function, "__annotate__"):
        twin.__annotate__ = (
            function.__annotate__
        )  # Python 3.14 evaluates annotations when they are read
    else:
        twin.__annotations__ = function.__annotations__
    return twin


def refresh_twin(twin: types.FunctionType, function: types.FunctionType) -> None:
    """Copies the defaults, which a program may change."""
    twin.__defaults__, twin.__kwdefaults__ = function.__defaults__, function.__kwdefaults__


def text_of(tree: Optional[ast.AST]) -> str:
    """The converted code as Python text."""
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
