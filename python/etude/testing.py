# SPDX-License-Identifier: Apache-2.0
"""Assertions for tests of programs: ``et.testing.assert_close(actual, expected)``."""

from __future__ import annotations

from typing import Any

from etude import _core

__all__ = ["assert_close"]

# Relative and absolute tolerance by dtype: about the square root of the precision, and more than
# the error of a sum of a thousand terms.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_dtype: bool = True,
) -> None:
    """Raises AssertionError unless both structures have the same form, and tensors that are equal
    up to tolerances: ``|actual - expected| <= atol + rtol * |expected|``.

    Tensors, Variables, arrays, numbers and nested lists are compared as tensors; other leaves by
    ``==``. Default tolerances belong to the dtype (float32: rtol 1.3e-6, atol 1e-5); integers and
    bools have to be equal. A number or list takes the dtype of the other side. The message has the
    path, the number of elements that differ, and the greatest difference with its place.
    """
    if (rtol is None) != (atol is None):
        raise _core.InvalidArgumentError("assert_close: pass both of rtol and atol, or neither")
    found, form = _core._flatten(_tensors(actual))
    wanted, other = _core._flatten(_tensors(expected))
    texts = _core._tree_text(form), _core._tree_text(other)
    if len(found) != len(wanted) or texts[0] != texts[1]:
        raise AssertionError(f"the structures differ: {texts[0]}, expected {texts[1]}")
    for path, a, e in zip(_core._paths(form, True), found, wanted):
        _compare(path, a, e, rtol, atol, equal_nan, check_dtype)


def _is_numbers(x: Any) -> bool:
    """A number, or lists of nothing else."""
    if isinstance(x, list):
        return len(x) > 0 and all(map(_is_numbers, x))
    return isinstance(x, (bool, int, float, complex))


class _Weak:
    """A tensor made from numbers, which takes the dtype of the other side."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _tensors(x: Any) -> Any:
    """Numbers, and lists of them, become leaves of their own."""
    if _is_numbers(x):
        return _Weak(x)
    if type(x) in (list, tuple):
        return type(x)(map(_tensors, x))
    if type(x) is dict:
        return {key: _tensors(value) for key, value in x.items()}
    if isinstance(x, _core.Variable) or hasattr(x, "__dlpack__") or hasattr(x, "__array__"):
        return _Weak(_core.asarray(x)) if not isinstance(x, _core.Tensor) else _Weak(x)
    return x


def _compare(
    path: str, a: Any, e: Any, rtol: Any, atol: Any, equal_nan: bool, check_dtype: bool
) -> None:
    place = f"at {path}: " if path else ""
    a, e = _value(a), _value(e)
    if not isinstance(a, _core.Tensor) and not isinstance(e, _core.Tensor):
        if _is_numbers(a) and _is_numbers(e):
            a, e = _core.asarray(a, dtype=_wide(a)), _core.asarray(e, dtype=_wide(e))
            check_dtype = False
        elif a != e:
            raise AssertionError(f"{place}{a!r} is not equal to {e!r}")
        else:
            return
    if _is_numbers(a):
        a = _core.asarray(a, dtype=e.dtype)
    if _is_numbers(e):
        e = _core.asarray(e, dtype=a.dtype)
    if not isinstance(a, _core.Tensor) or not isinstance(e, _core.Tensor):
        raise AssertionError(f"{place}{type(a).__name__} is compared with {type(e).__name__}")
    if tuple(a.shape) != tuple(e.shape):
        raise AssertionError(f"{place}the shape is {list(a.shape)}, expected {list(e.shape)}")
    if check_dtype and a.dtype != e.dtype:
        raise AssertionError(f"{place}the dtype is {a.dtype}, expected {e.dtype}")
    if rtol is None:
        own = [_TOLERANCES.get(str(x.dtype), (0.0, 0.0)) for x in (a, e)]
        rtol, atol = max(t[0] for t in own), max(t[1] for t in own)
    _compare_elements(place, a, e, rtol, atol, equal_nan)


def _wide(x: Any) -> Any:
    """The dtype of numbers that are compared with numbers."""
    if isinstance(x, list):
        kinds = {str(_wide(each)) for each in x}
        for name in ("complex128", "float64", "int64"):
            if name in kinds:
                return getattr(_core, name)
        return _core.bool
    if isinstance(x, bool):
        return _core.bool
    if isinstance(x, int):
        return _core.int64
    return _core.float64 if isinstance(x, float) else _core.complex128


def _value(x: Any) -> Any:
    x = x.value if isinstance(x, _Weak) else x
    if type(x).__name__ in ("_State", "_NewState"):
        x = x.value
    return x


def _compare_elements(
    place: str, a: Any, e: Any, rtol: float, atol: float, equal_nan: bool
) -> None:
    ops = _core._ops
    is_complex = any(_core.isdtype(x.dtype, "complex floating") for x in (a, e))
    wide = _core.complex128 if is_complex else _core.float64
    exact = ops["equal"](a, e) if a.dtype == e.dtype else None
    a, e = _core.astype(a, wide), _core.astype(e, wide)
    difference = ops["abs"](a - e)
    limit = ops["where"](ops["isfinite"](e), atol + rtol * ops["abs"](e), _core.zeros_like(difference))
    close = difference <= limit
    same = a == e if exact is None else exact  # infinities, and integers beyond 2^53
    if exact is not None and rtol == 0 and atol == 0:
        close = exact
    both_nan = ops["logical_and"](a != a, e != e)
    close = ops["logical_or"](close, same)
    close = ops["logical_or"](close, both_nan) if equal_nan else close
    if bool(ops["all"](close)):
        return
    wrong = ops["logical_not"](close)
    count = int(ops["sum"](_core.astype(wrong, _core.int64)))
    # A NaN is the greatest difference.
    size = ops["where"](difference == difference, difference, _core.full_like(difference, float("inf")))
    size = ops["where"](wrong, size, _core.full_like(size, -1.0))
    at = int(ops["argmax"](ops["reshape"](size, (-1,))))
    index = []
    for n in reversed(a.shape):
        index.insert(0, at % n)
        at //= n
    where = f" at {index}" if index else ""
    one_a, one_e = (x[tuple(index)].item() for x in (a, e))
    raise AssertionError(
        f"{place}{count} of {_count(a.shape)} elements differ by more than atol={atol:g} + rtol={rtol:g} * |expected|. "
        f"The greatest difference is {abs(one_a - one_e):.6g}{where}: {one_a:.9g}, expected {one_e:.9g}"
    )


def _count(shape: Any) -> int:
    total = 1
    for n in shape:
        total *= n
    return total
