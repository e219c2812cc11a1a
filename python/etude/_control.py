# SPDX-License-Identifier: Apache-2.0
"""Control flow that depends on elements of tensors: now in eager code, as nodes of a graph while a
function is traced."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from etude import _core
from etude._arguments import callee, shape_of

__all__ = ["cond", "switch_case", "while_loop", "fold", "scan"]


def cond(predicate: Any, then: Callable, otherwise: Callable, *operands: Any) -> Any:
    """Returns ``then(*operands)`` if the predicate is true, else ``otherwise(*operands)``.

    The predicate is a single bool. Both branches return the same structure, with tensors of the
    same types; numbers become tensors. In a graph both are traced and one runs.
    """
    form = "et.cond(p, lambda: x, lambda: y). et.where(p, x, y) chooses between values"
    branches = [callee("cond", "then", then, form), callee("cond", "otherwise", otherwise, form)]
    return _core._switch_case("cond", _bool(predicate), branches, operands)


def _bool(predicate: Any) -> Any:
    return _core.asarray(predicate) if isinstance(predicate, bool) else predicate


def switch_case(index: Any, branches: Sequence[Callable], *operands: Any) -> Any:
    """Returns the result of branch number ``index``; all return the same structure.

    Raises:
      OutOfRangeError: for an index without a branch.
    """
    form = "et.switch_case(i, [lambda: x, lambda: y])"
    if not isinstance(branches, Sequence) or isinstance(branches, str):
        raise _core.InvalidArgumentError(
            f"switch_case: the branches are a {type(branches).__name__}, but must be a list of functions: {form}"
        )
    all_branches = [callee("switch_case", f"branch {i}", f, form) for i, f in enumerate(branches)]
    return _core._switch_case("switch_case", index, all_branches, operands)


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
    form = "et.while_loop(lambda i: i < 3, lambda i: i + 1, 0)"
    callee("while_loop", "the condition", condition, form)
    callee("while_loop", "the body", body, form)
    return _core._while_loop(
        condition,
        _spreads(condition, init),
        body,
        _spreads(body, init),
        init,
        max_iterations,
        _sizes(shapes or {}),
    )


def _sizes(shapes: Any) -> dict[str, Sequence[int | None]]:
    if not isinstance(shapes, dict):
        raise _core.InvalidArgumentError(
            f"while_loop: shapes is a {type(shapes).__name__}, but must be a dict by path: {{'state/rows': (None, 3)}}"
        )
    return {path: shape_of("while_loop", f"shapes[{path!r}]", sizes) for path, sizes in shapes.items()}


def fold(body: Callable, init: Any, xs: Any) -> Any:
    """Calls ``body(state, x)`` for each row of ``xs`` along axis 0; returns the last state."""
    callee("fold", "the body", body, "et.fold(lambda state, x: state + x, 0.0, xs)")
    return _core._fold(body, _spreads(body, init, 1), init, xs)


def scan(body: Callable, init: Any, xs: Any) -> tuple[Any, Any]:
    """Calls ``body(state, x)``, which returns ``(state, row)``, for each row of ``xs``.

    Returns the last state and all output rows, stacked along a new axis 0.
    """
    callee("scan", "the body", body, "et.scan(lambda state, x: (state + x, state), 0.0, xs)")
    return _core._scan(body, _spreads(body, init, 1), init, xs)
