# SPDX-License-Identifier: Apache-2.0
"""Control flow that depends on elements of tensors: now in eager code, as nodes of a graph while a
function is traced."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from etude import _core

__all__ = ["cond", "switch_case", "while_loop", "fold", "scan"]


def cond(predicate: Any, then: Callable, otherwise: Callable, *operands: Any) -> Any:
    """Returns ``then(*operands)`` if the predicate is true, else ``otherwise(*operands)``.

    The predicate is a single bool. Both branches return the same structure, with tensors of the
    same types; numbers become tensors. In a graph both are traced and one runs.
    """
    return _core._switch_case("cond", _bool(predicate), [then, otherwise], operands)


def _bool(predicate: Any) -> Any:
    return _core.asarray(predicate) if isinstance(predicate, bool) else predicate


def switch_case(index: Any, branches: Sequence[Callable], *operands: Any) -> Any:
    """Returns the result of branch number ``index``; all return the same structure.

    Raises:
      OutOfRangeError: for an index without a branch.
    """
    return _core._switch_case("switch_case", index, branches, operands)


def _spreads(f: Callable, state: Any, more: int = 0) -> bool:
    """Whether f takes the elements of a tuple state as separate arguments."""
    if type(state) is not tuple:
        return False
    import inspect  # takes a while to load

    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return True
    required = sum(p.default is p.empty for p in positional)
    return required <= len(state) + more <= len(positional)


def while_loop(
    condition: Callable,
    body: Callable,
    init: Any,
    *,
    max_iterations: int | None = None,
    shapes: dict[str, Sequence[int | None]] | None = None,
) -> Any:
    """Applies ``body`` as long as ``condition`` is true; returns the last state.

    A tuple is passed as separate arguments. The state keeps its structure and the types of its
    tensors, except for the sizes that ``shapes`` allows to change: ``{"state/rows": (None, 3)}``,
    in eager code.
    """
    return _core._while_loop(
        condition,
        _spreads(condition, init),
        body,
        _spreads(body, init),
        init,
        max_iterations,
        shapes or {},
    )


def fold(body: Callable, init: Any, xs: Any) -> Any:
    """Calls ``body(state, x)`` for each row of ``xs`` along axis 0; returns the last state."""
    return _core._fold(body, _spreads(body, init, 1), init, xs)


def scan(body: Callable, init: Any, xs: Any) -> tuple[Any, Any]:
    """Calls ``body(state, x)``, which returns ``(state, row)``, for each row of ``xs``.

    Returns the last state and all output rows, stacked along a new axis 0.
    """
    return _core._scan(body, _spreads(body, init, 1), init, xs)
