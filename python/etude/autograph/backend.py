# SPDX-License-Identifier: Apache-2.0
"""Everything that conversion needs from Etude. No other file of this package touches a tensor.

A branch or body is a function from a list of tensors to a list of tensors; the structure of the
user's values stays with the caller. `pieces` are texts, and tensors in place of their values.
"""

from __future__ import annotations

import copy
from typing import Any, Callable, Optional

import etude as et
from etude import _core, _data

from .trees import Spec

# Functions of the package that call their arguments while a function is traced.
_OPERATORS = (
    "cond", "switch_case", "while_loop", "fold", "scan", "gradient", "value_and_gradient",
    "pullback", "jvp", "hvp", "hessian", "jacobian", "vmap", "value_with_gradient",
    "value_with_pullback", "vjp", "derivative", "recompute_grad",
)  # fmt: skip
_takes_functions: set[int] = set()


def error(kind: str, text: str, file: str, line: int) -> BaseException:
    """The exception of a kind of error, with the user's line."""
    made = {
        "invalid": _core.InvalidArgumentError,
        "failed": _core.FailedPreconditionError,
        "unimplemented": _core.UnimplementedError,
    }[kind]
    return made(f"{text}\n  at {file}:{line}" if file else text)


def extended(found: BaseException, text: str) -> BaseException:
    """The same error with more text."""
    found.args = (f"{found.args[0] if found.args else ''}\n{text}", *found.args[1:])
    return found


def is_host_use_error(found: BaseException) -> bool:
    """Whether a tensor without elements was used as a host value."""
    return isinstance(found, _core.FailedPreconditionError) and "is being traced" in str(found)


def is_tensor(x: Any) -> bool:
    return isinstance(x, _core.Tensor)


def is_array(x: Any) -> bool:
    """Whether `x` is an array or scalar of NumPy, which becomes a tensor."""
    return type(x).__module__ == "numpy" and hasattr(x, "dtype") and hasattr(x, "shape")


def is_tracing() -> bool:
    return _core._is_tracing()


def is_staged(x: Any) -> bool:
    """Whether `x` is a tensor or Variable whose value is not known now."""
    if not isinstance(x, (_core.Tensor, _core.Variable)):
        return False
    return _core._is_tracing() or _core.is_staged(x)


def is_dataset(x: Any) -> bool:
    """Whether a loop over `x` can become a loop of the graph, with elements that the host reads."""
    return isinstance(x, _data.Dataset)


def dataset_rows(x: Any) -> Any:
    """The rows of a data set; its functions are converted."""
    from .calls import callee
    from .rows import Joined, Map, Rows, Zip

    rows: Any = Joined([Rows(tensor) for tensor in x._leaves], x._row)
    for function in x._functions:
        rows = Map(callee(function), Zip([rows]))
    return rows


def value_of(x: Any) -> Any:
    """A handle of its own to the value of a tensor or Variable."""
    return x.read() if isinstance(x, _core.Variable) else copy.copy(x)


def set_value(owner: Any, value: Any) -> None:
    """Makes the object `owner` hold another value, under all its names."""
    _core._set_value(owner, value)


def _kind(dtype: Any) -> str:
    text = str(dtype)
    for kind in ("bool", "float", "complex"):
        if kind in text:
            return kind
    return "int"


def spec_of(x: Any) -> Spec:
    return Spec(x.dtype, _core._sizes_of(x), _kind(x.dtype))


def number(x: Any) -> Any:
    """Converts a number or array to a tensor. The library selects the dtype."""
    return _core.asarray(x)


def as_tensor(x: Any, spec: Optional[Spec] = None) -> Any:
    """A tensor or number as a tensor; `spec` is the type of the tensor, or the type that the number
    takes.
    """
    if is_tensor(x):
        return x
    return _core.asarray(x) if spec is None else _core.asarray(x, dtype=spec.dtype)


def is_in_range(x: int, dtype: Any) -> bool:
    limits = _core.iinfo(dtype)
    return limits.min <= x <= limits.max


def zeros(spec: Spec) -> Any:
    return _core.zeros(spec.shape, dtype=spec.dtype)


def reshape_scalar(x: Any) -> Any:
    return x if _core._sizes_of(x) == () else _core.reshape(x, ())


def cond(test: Any, then: Callable[[], list], otherwise: Callable[[], list]) -> list:
    """Traces both functions; returns the tensors of the one that `test` chooses."""
    return list(et.cond(test, lambda: tuple(then()), lambda: tuple(otherwise())))


def while_loop(test: Callable[[list], Any], body: Callable[[list], list], state: list) -> list:
    return et.while_loop(test, body, state)


def fold(body: Callable[[list, list], list], state: list, rows: list) -> list:
    return et.fold(body, state, rows)


class _Drop(BaseException):
    """Ends a trace that is not kept."""


def scratch(f: Callable[[], None]) -> None:
    """Runs `f` in a trace that is dropped."""

    def run() -> None:
        f()
        raise _Drop

    try:
        et.while_loop(lambda x: run(), lambda x: x, _core.asarray(True))
    except _Drop:
        pass


def add(a: Any, b: Any) -> Any:
    return a + b


def multiply(a: Any, b: Any) -> Any:
    return a * b


def less(a: Any, b: Any) -> Any:
    return a < b


def logical_and(a: Any, b: Any) -> Any:
    return _core.logical_and(reshape_scalar(a), reshape_scalar(b))


def logical_or(a: Any, b: Any) -> Any:
    return _core.logical_or(reshape_scalar(a), reshape_scalar(b))


def logical_not(a: Any) -> Any:
    return _core.logical_not(reshape_scalar(a))


def row(x: Any, k: Any) -> Any:
    """Row `k` of a tensor; `k` is a tensor."""
    return _core.reshape(_core.take(x, _core.reshape(k, (1,)), axis=0), _core._sizes_of(x)[1:])


def first_rows(x: Any, n: int) -> Any:
    return x if row_count(x) == n else x[:n]


def row_count(x: Any) -> int:
    """The number of rows of a tensor that has rows. A trace does not note it, so a loop is one
    graph for all sizes.
    """
    return _core._sizes_of(x)[0]


def length(x: Any) -> Any:
    """The number of rows for host code, which fixes it in the graph; a tensor if the signature
    leaves it open.
    """
    if not _core._has_open_rows(x):
        return int(x.shape[0])
    return _core.sum(_core.ones_like(_core.arange_like(x, axis=0, dtype=_core.int32)))


def smallest(lengths: list) -> Any:
    found = lengths[0]
    for each in lengths[1:]:
        found = _core.minimum(_core.asarray(found), _core.asarray(each))
    return found


def range_length(start: Any, stop: Any, step: Any) -> Any:
    """The number of steps of `range`, as a tensor."""
    distance, step = _core.asarray(stop) - start, _core.asarray(step)
    steps = _core.floor_divide(distance + step - _core.sign(step), step)
    return _core.maximum(steps, _core.zeros_like(steps))


def cast(x: Any, kind: str) -> Any:
    """`int(x)` and `float(x)`: a scalar of the default dtype of the kind, or of a wider dtype of x."""
    x = reshape_scalar(value_of(x))
    if kind == "int":
        is_wide = _kind(x.dtype) == "int" and _core.iinfo(x.dtype).max > _core.iinfo(_core.int32).max
        return x if is_wide else _core.astype(x, _core.int32)
    return _core.astype(x, _core.float64 if x.dtype == _core.float64 else _core.default_dtype())


def absolute(x: Any) -> Any:
    return _core.abs(x)


def _truth(x: Any) -> Any:
    return x if _kind(x.dtype) == "bool" else x != 0


def any(x: Any) -> Any:
    return _core.any(_truth(value_of(x)))


def all(x: Any) -> Any:
    return _core.all(_truth(value_of(x)))


def sort(x: Any, reverse: bool) -> Any:
    return _core.sort(value_of(x), descending=reverse)


def print(pieces: list) -> None:
    """A line that is written when the graph runs."""
    _core._print_pieces(pieces)


def assert_true(test: Any, text: str) -> None:
    """Fails with `text` when the graph runs and `test` is false."""
    et.assert_true(test, text)


def fail(pieces: list) -> None:
    """Fails when the graph gets here, with the values of tensors in the text."""
    tensors = [piece for piece in pieces if is_tensor(piece)]
    if not tensors:
        et.assert_true(_core.asarray(False), "".join(pieces))
        return

    def raise_error(*values: Any) -> None:
        shown = iter(values)
        raise AssertionError(
            "".join(piece if isinstance(piece, str) else str(next(shown)) for piece in pieces)
        )

    et.host_function(raise_error, ())(*tensors)


def children(x: Any) -> Optional[tuple[tuple, list]]:
    """(keys, leaves) of a structure of the package or of a registered class; None for other
    objects.
    """
    if (
        x is None
        or is_array(x)
        or isinstance(x, (str, bytes, type, _core.Variable))
        or callable(x)
        and not isinstance(x, et.Module)
    ):
        return None
    leaves, _ = _core._flatten(x)
    if len(leaves) == 1 and leaves[0] is x:
        return None
    return tuple(_core._paths(x)), leaves


def with_children(example: Any, leaves: list) -> Any:
    """A structure like `example` with other leaves."""
    return _core._unflatten(_core._flatten(example)[1], leaves)


def takes_functions(f: Any) -> bool:
    """Whether `f` is an operator of the package whose functions get converted."""
    if not _takes_functions:
        _takes_functions.update(id(getattr(et, name)) for name in _OPERATORS if hasattr(et, name))
    return id(f) in _takes_functions


def rebuilt(function: Any, convert: Callable[[Any], Any]) -> Any:
    """`et.gradient(f)` and its like, made again for the converted `f`; None for other functions."""
    code, rebuild = function.__dict__.get("_etude_rebuild", (None, None))
    return rebuild(convert) if code is function.__code__ else None
