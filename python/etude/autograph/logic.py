# SPDX-License-Identifier: Apache-2.0
"""`and`, `or`, `not`, chained comparisons: for host values as in Python, lazily for tensors."""

from __future__ import annotations

import operator
import sys
import types
from typing import Any, Callable

from . import backend
from .branches import Shared, condition, select
from .errors import Site

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "is": operator.is_,
    "is not": operator.is_not,
    "in": lambda a, b: a in b,
    "not in": lambda a, b: a not in b,
}


def _site(op: str, thunk: Callable[[], Any]) -> Site:
    return Site(op, thunk, thunk.__code__.co_firstlineno)


def and_(value: Any, *thunks: Callable[[], Any], shared: Shared = None) -> Any:
    """`value and thunk() and ...`; a thunk of a tensor that is false at run time has no effects."""
    for place, thunk in enumerate(thunks):
        if backend.is_staged(value):
            site, rest = _site("and", thunk), thunks[place + 1 :]
            others = lambda: _bool(site, and_(thunk(), *rest, shared=shared))  # noqa: E731
            return select(site, value, others, lambda: False, shared)
        if not value:
            return value
        value = thunk()
    return value


def or_(value: Any, *thunks: Callable[[], Any], shared: Shared = None) -> Any:
    """`value or thunk() or ...`"""
    for place, thunk in enumerate(thunks):
        if backend.is_staged(value):
            site, rest = _site("or", thunk), thunks[place + 1 :]
            others = lambda: _bool(site, or_(thunk(), *rest, shared=shared))  # noqa: E731
            return select(site, value, lambda: True, others, shared)
        if value:
            return value
        value = thunk()
    return value


def and_pure(value: Any, *thunks: Callable[[], Any]) -> Any:
    """and_() of operands without effects: a graph evaluates all of them."""
    for place, thunk in enumerate(thunks):
        if backend.is_staged(value):
            site = _site("and", thunk)
            other = and_pure(thunk(), *thunks[place + 1 :])
            if not backend.is_staged(other):
                _bool(site, other)
                return condition(value, site) if other else False
            return backend.logical_and(condition(value, site), condition(other, site))
        if not value:
            return value
        value = thunk()
    return value


def or_pure(value: Any, *thunks: Callable[[], Any]) -> Any:
    """or_() of operands without effects."""
    for place, thunk in enumerate(thunks):
        if backend.is_staged(value):
            site = _site("or", thunk)
            other = or_pure(thunk(), *thunks[place + 1 :])
            if not backend.is_staged(other):
                _bool(site, other)
                return True if other else condition(value, site)
            return backend.logical_or(condition(value, site), condition(other, site))
        if value:
            return value
        value = thunk()
    return value


def _bool(site: Site, value: Any) -> Any:
    """An operand beside a tensor: a bool, since the result has one type."""
    if isinstance(value, bool):
        return value
    if backend.is_tensor(value):
        return condition(value, site)
    kind = type(value).__name__
    fact = (
        f"an operand beside a tensor is an object of type {kind}, but must be a bool. Write an "
        "`if` expression"
    )
    raise site.error("invalid", fact)


def not_(value: Any) -> Any:
    """`not value`"""
    if not backend.is_staged(value):
        return not value
    frame = sys._getframe(1)
    site = Site("not", types.SimpleNamespace(__code__=frame.f_code), frame.f_lineno)
    return backend.logical_not(condition(value, site))


def chain(left: Any, *rest: Any, shared: Shared = None) -> Any:
    """`left < middle < right`: `rest` alternates operators and functions that evaluate the
    operands.
    """
    op, thunk = rest[:2]
    right = thunk()
    value = _OPERATORS[op](left, right)
    if len(rest) == 2:
        return value
    if not backend.is_staged(value):
        return chain(right, *rest[2:], shared=shared) if value else value
    site = _site("comparison", thunk)
    others = lambda: _bool(site, chain(right, *rest[2:], shared=shared))  # noqa: E731
    return select(site, value, others, lambda: False, shared)
