# SPDX-License-Identifier: Apache-2.0
"""The names that converted code uses: `ag__.if_stmt` and its like."""

from __future__ import annotations

from types import SimpleNamespace

from . import backend
from .branches import if_exp, if_stmt
from .calls import callee
from .logic import and_, and_pure, chain, not_, or_, or_pure
from .loops import for_stmt, while_stmt
from .rows import iterable
from .state import attribute, container, contents
from .statements import assert_stmt, leaves, staged_rows, unrolled, unrolled_rows
from .text import text


def staged(value: object) -> bool:
    """Whether `value` is a tensor that has no value before the graph runs."""
    return value is not True and value is not False and backend.is_staged(value)


RUNTIME = SimpleNamespace(
    and_=and_,
    and_pure=and_pure,
    assert_stmt=assert_stmt,
    attribute=attribute,
    callee=callee,
    chain=chain,
    container=container,
    contents=contents,
    for_stmt=for_stmt,
    if_exp=if_exp,
    if_stmt=if_stmt,
    iterable=iterable,
    leaves=leaves,
    not_=not_,
    or_=or_,
    or_pure=or_pure,
    staged=staged,
    staged_rows=staged_rows,
    text=text,
    unrolled=unrolled,
    unrolled_rows=unrolled_rows,
    while_stmt=while_stmt,
)
