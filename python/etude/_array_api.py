# SPDX-License-Identifier: Apache-2.0
"""Forms of the Array API standard that op records do not have: creation functions with their
`dtype` and `device`, and keywords that are another call before or after the op.

Each function here takes the place of the op of the same name. All other functions of the standard
are ops, whose signatures come from their records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from etude import _core
from etude._arguments import integer
from etude._core import Tensor

_ops = _core._ops
_sum = _ops["sum"]
_INT32 = range(-(2**31), 2**31)
# Beyond it a float64 does not hold every integer.
_EXACT = 2**53


def _placed(x: Tensor, device: object) -> Tensor:
    return x if device is None else x.to_device(device)


def full(shape, fill_value, *, dtype=None, device=None) -> Tensor:
    """A tensor of the given shape whose elements are all `fill_value`.

    Without `dtype` it has the dtype of the value: int32, or int64 if needed, for ints, and the
    default dtype for floats.
    """
    value = _core.asarray(fill_value, dtype=dtype)
    return _placed(_ops["full"](shape, value), device)


def full_like(x, /, fill_value, *, dtype=None, device=None) -> Tensor:
    """A tensor of the shape of x whose elements are all `fill_value`; of the dtype of x by default."""
    x = _core.asarray(x)
    value = _core.asarray(fill_value, dtype=x.dtype if dtype is None else dtype)
    return _placed(_ops["full"](x.shape, value), x.device if device is None else device)


def zeros_like(x, /, *, dtype=None, device=None) -> Tensor:
    """Zeros of the shape of x, and of its dtype unless another is given."""
    return _placed(_ops["zeros_like"](x, dtype=dtype), device)


def ones_like(x, /, *, dtype=None, device=None) -> Tensor:
    """Ones of the shape of x, and of its dtype unless another is given."""
    return _placed(_ops["ones_like"](x, dtype=dtype), device)


def empty_like(x, /, *, dtype=None, device=None) -> Tensor:
    """A tensor of the shape of x with unspecified elements."""
    return _placed(_ops["empty_like"](x, dtype=dtype), device)


def _is_int(value: object) -> bool:
    if isinstance(value, Tensor):
        return value.ndim == 0 and _core.isdtype(value.dtype, "integral")
    return value is None or (hasattr(value, "__index__") and not isinstance(value, float))


def _exact_arange(start: int, stop: int, step: int, dtype, device) -> Tensor:
    """Integers beyond the range in which a real number holds each of them."""
    count = max(0, -((start - stop) // step))
    dtype = dtype or (_core.int64 if stop < 2**63 else _core.uint64)
    index = _ops["arange"](0, count, 1, dtype=dtype, device=device)
    return index * step + start


def arange(start, /, stop=None, step=1, *, dtype=None, device=None) -> Tensor:
    """Numbers from start (0 if there is one argument) up to stop, without it, in steps of step.

    Without `dtype` ints are int32, or int64 if needed; with a float among the arguments the result
    has the default dtype.
    """
    first, last = (0, start) if stop is None else (start, stop)
    is_known = not any(map(_core.is_staged, (first, last, step)))  # else the op refuses it
    if is_known and _is_int(first) and _is_int(last) and _is_int(step):
        first, last, step = int(first), int(last), int(step)
        if step != 0 and max(abs(first), abs(last)) >= _EXACT:
            return _exact_arange(first, last, step, dtype, device)
        if dtype is None:
            fits = first in _INT32 and last - 1 in _INT32 and last + 1 in _INT32
            dtype = _core.int32 if fits else _core.int64
    elif dtype is None:
        dtype = _core.default_dtype()
    return _ops["arange"](first, last, step, dtype=dtype, device=device)


def eye(n_rows, n_cols=None, /, *, k=0, batch_shape=(), dtype=None, device=None) -> Tensor:
    """Ones on the diagonal number k, zeros elsewhere."""
    if not _core.is_staged(k) and _is_int(k):  # a diagonal beyond 64 bits is outside, too
        k = max(-(2**62), min(2**62, int(k)))
    return _ops["eye"](n_rows, n_cols, k=k, batch_shape=batch_shape, dtype=dtype, device=device)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True) -> Tensor:
    """`num` numbers at equal distances from start to stop."""
    if dtype is None:
        if isinstance(start, complex) or isinstance(stop, complex):
            dtype = _core.complex64
        else:
            return _placed(_ops["linspace"](start, stop, num, endpoint=endpoint), device)
    is_floating = _core.isdtype(dtype, ("real floating", "complex floating"))
    wide = dtype if is_floating else _core.float64
    ends = _core.asarray(start, dtype=wide), _core.asarray(stop, dtype=wide)
    return _placed(_ops["linspace"](*ends, num, endpoint=endpoint).astype(dtype), device)


def astype(x, dtype, /, *, copy=True, device=None) -> Tensor:
    """x with its elements converted to `dtype`: floats to integers truncate and saturate."""
    return _core.asarray(x).astype(dtype, copy=copy, device=device)


def reshape(x, /, shape, *, copy=None) -> Tensor:
    """The elements of x in another shape. One size may be -1.

    Tensors are values: the result shares storage until one of both is written, so copy=False is
    always possible.
    """
    return _ops["reshape"](x, shape)


def concat(arrays, /, *, axis=0) -> Tensor:
    """Joins tensors along an axis that exists; flattens them first if axis is None."""
    if axis is None:
        return _ops["concat"]([_ops["reshape"](x, -1) for x in arrays], axis=0)
    return _ops["concat"](arrays, axis=axis)


def _in_dtype(op, x, dtype, **options) -> Tensor:
    """The op on x in `dtype`. Sums of small integers are wider, so that the result is cast as well."""
    if dtype is None:
        return op(x, **options)
    return op(_core.asarray(x).astype(dtype, copy=False), **options).astype(dtype, copy=False)


def _without_out(function: str, out: object) -> None:
    """`out` is None where NumPy calls a method, as np.sum(x) does."""
    if out is not None:
        raise _core.InvalidArgumentError(
            f"{function}: there is no out, since tensors are values: write y = et.{function}(x)"
        )


def sum(x, /, *, axis=None, dtype=None, keepdims=False, out: None = None) -> Tensor:
    """Sum over axes; over all of them if axis is None. With `dtype`, x is cast to it first."""
    _without_out("sum", out)
    if dtype is None:
        return _sum(x, axis=axis, keepdims=keepdims)
    return _in_dtype(_sum, x, dtype, axis=axis, keepdims=keepdims)


def prod(x, /, *, axis=None, dtype=None, keepdims=False, out: None = None) -> Tensor:
    """Product over axes; over all of them if axis is None. With `dtype`, x is cast to it first."""
    _without_out("prod", out)
    return _in_dtype(_ops["prod"], x, dtype, axis=axis, keepdims=keepdims)


def _running(name, x, axis, dtype, include_initial, options) -> Tensor:
    return _in_dtype(_ops[name], x, dtype, axis=axis, include_initial=include_initial, **options)


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False, **options) -> Tensor:
    """Running sums along an axis. With `dtype`, x is cast to it first. Options: exclusive, reverse."""
    return _running("cumulative_sum", x, axis, dtype, include_initial, options)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False, **options) -> Tensor:
    """Running products along an axis. With `dtype`, x is cast to it first. Options: exclusive,
    reverse."""
    return _running("cumulative_prod", x, axis, dtype, include_initial, options)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None) -> Tensor:
    """Differences of neighbours along an axis, n times. `prepend` and `append` are joined to x first."""
    if prepend is not None or append is not None:
        x = _core.asarray(x)
        parts = [_core.asarray(part) for part in (prepend, x, append) if part is not None]
        x = _ops["concat"](parts, axis=axis)
    return _ops["diff"](x, axis=axis, n=n)


def searchsorted(x1, x2, /, *, side="left", sorter=None) -> Tensor:
    """The places at which the elements of x2 keep x1 sorted. `sorter` are indices that sort x1."""
    if sorter is not None:
        x1 = _ops["take"](x1, sorter, axis=0)
    return _ops["searchsorted"](x1, x2, side=side)


def tensordot(x1, x2, /, *, axes=2) -> Tensor:
    """Sums products over pairs of axes: the last `axes` of x1 with the first of x2, or two lists."""
    if not hasattr(axes, "__index__"):
        first, second = ([a] if hasattr(a, "__index__") else list(a) for a in axes)
        axes = [*first, *second]
        if not axes:
            axes = 0
    return _ops["tensordot"](x1, x2, axes)


def repeat(x, repeats, /, *, axis=None) -> Tensor:
    """Each element `repeats` times along an axis; of the flattened x if axis is None.

    `repeats` may be a tensor with a number for each element.
    """
    if hasattr(repeats, "__index__") and not (isinstance(repeats, Tensor) and repeats.ndim):
        return _ops["repeat"](x, repeats.__index__(), axis=axis)
    x, repeats = _core.asarray(x), _core.asarray(repeats)
    if axis is None:
        x, axis = _ops["reshape"](x, -1), 0
    if repeats.size == 1:
        return _ops["repeat"](x, int(repeats), axis=axis)
    if repeats.size == 0:  # of no elements
        return x
    ends = _ops["cumulative_sum"](repeats.astype(_core.int64))
    index = _ops["searchsorted"](ends, _ops["arange"](0, int(ends[-1]), 1, dtype=_core.int64), side="right")
    return _ops["take"](x, index, axis=axis)


def take(x, indices, /, *, axis=None) -> Tensor:
    """Slices of x at indices along an axis, which x with one axis may leave out."""
    if axis is None:
        x = _core.asarray(x)
        axis = 0
    return _ops["take"](x, indices, axis=axis)


def round(x, /, decimals: int = 0, *, out: None = None) -> Tensor:
    """The nearest integers, or numbers with so many decimals; halves go to even. Negative `decimals` round to tens,
    hundreds and so on. Of complex numbers the two parts are rounded."""
    _without_out("round", out)
    decimals = integer("round", "decimals", decimals)
    x = _core.asarray(x)
    if _core.isdtype(x.dtype, "complex floating"):
        imag = round(_ops["imag"](x), decimals)
        return round(_ops["real"](x), decimals) + imag * _core.asarray(1j, dtype=x.dtype)
    if decimals == 0:
        return _ops["round"](x)
    if _core.isdtype(x.dtype, "real floating"):
        return _rounded_to(x, decimals)
    return _ops["round"](x) if decimals > 0 else _rounded_to_tens(x, 10**-decimals)


def round_of(self, ndigits=None, /) -> Tensor:
    """The built-in round(x) and round(x, ndigits)."""
    return round(self, 0 if ndigits is None else ndigits)


def _exact_product(x: Tensor, y: float) -> tuple[Tensor, Tensor]:
    """x * y in float64, and what the exact product has beyond it (T. J. Dekker, 1971)."""

    def halves(value):
        wide = value * 134217729.0
        high = wide - (wide - value)
        return high, value - high

    product, (x_high, x_low), (y_high, y_low) = x * y, halves(x), halves(y)
    return product, ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low


def _rounded_to(x: Tensor, decimals: int) -> Tensor:
    """Floats with so many decimals: of the exact number, as the built-in round(). 2.675 is a little less, and 2.67."""
    if decimals > 308:
        return x
    if decimals < -308:
        return _ops["where"](_ops["isfinite"](x), _ops["zeros_like"](x), x)
    wide, scale = x.astype(_core.float64, copy=False), 10.0 ** abs(decimals)
    if decimals > 0:
        scaled, rest = _exact_product(wide, scale)
    else:
        scaled = wide / scale
        product, beyond = _exact_product(scaled, scale)
        rest = (wide - product) - beyond
    # Where the scaled number looks like a half, the rest decides.
    below = _ops["floor"](scaled)
    is_half = (scaled - below == 0.5) & (rest != 0)
    nearest = _ops["where"](is_half, below + (rest > 0).astype(_core.float64), _ops["round"](scaled))
    rounded = nearest / scale if decimals > 0 else nearest * scale
    has_digits = _ops["abs"](scaled) < 2.0**52  # also false for NaN
    return _ops["where"](has_digits, rounded, wide).astype(x.dtype, copy=False)


def _rounded_to_tens(x: Tensor, unit: int) -> Tensor:
    """Integers as multiples of `unit`, a power of ten."""
    if unit > _core.iinfo(x.dtype).max:  # 0 is the only multiple
        return _ops["zeros_like"](x)
    count = _ops["floor_divide"](x, unit)
    rest = x - count * unit
    is_odd = _ops["remainder"](count, 2) == 1
    is_up = (rest > unit - rest) | ((rest == unit - rest) & is_odd)
    return (count + is_up.astype(x.dtype)) * unit


def pad(
    x, /, widths: int | Sequence[int] | Sequence[Sequence[int]], *, mode: str = "constant", value: float = 0.0
) -> Tensor:
    """x with a border. widths: the widths before and after each axis in turn, one pair for all axes, or one number; or
    a list of pairs, as for NumPy: ((0, 0), (1, 1)). mode: constant (`value`), reflect (mirrored without the edge),
    symmetric (mirrored with the edge), edge or wrap."""
    if isinstance(widths, (list, tuple)) and any(isinstance(each, (list, tuple)) for each in widths):
        if not all(isinstance(each, (list, tuple)) and len(each) == 2 for each in widths):
            raise _core.InvalidArgumentError(
                f"pad: widths is {widths!r}, but must be pairs (before, after), such as ((0, 0), (1, 1)), or one list "
                "of all numbers, such as (0, 0, 1, 1)"
            )
        widths = [width for pair in widths for width in pair]
    return _ops["pad"](x, widths, mode=mode, value=value)


def sign(x, /) -> Tensor:
    """-1, 0 or 1 by the sign of x; x / abs(x) of complex x. A zero has the sign +, whatever the sign of x."""
    out = _ops["sign"](x)
    if _core.isdtype(out.dtype, "real floating"):
        return out + 0
    if _core.isdtype(out.dtype, "complex floating"):
        return _ops["where"](_ops["equal"](out, 0), _ops["zeros_like"](out), out)
    return out


def isdtype(dtype, kind) -> bool:
    """Whether a dtype is of a kind, such as "real floating", or another dtype, or one of a tuple."""
    return _core.isdtype(dtype, kind)


def broadcast_shapes(*shapes) -> tuple[int, ...]:
    """The shape to which these shapes broadcast."""
    out: list[int] = []
    for shape in shapes:
        shape = [shape] if hasattr(shape, "__index__") else list(shape)
        out = [1] * (len(shape) - len(out)) + out
        offset = len(out) - len(shape)
        for axis, size in enumerate(shape, offset):
            if out[axis] == 1:
                out[axis] = size
            elif size not in (1, out[axis]):
                raise _core.InvalidArgumentError(
                    f"broadcast_shapes: axis {axis - len(out)} has the sizes {out[axis]} and {size}, "
                    "which must be equal, or one of them 1"
                )
    return tuple(out)


def nonzero(x, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero, as a tensor for each axis."""
    x = _core.asarray(x)
    if x.ndim == 0:
        raise _core.InvalidArgumentError("nonzero: a tensor without axes has no indices")
    return _ops["nonzero"](x)


def matrix_norm(x, /, *, keepdims=False, ord="fro") -> Tensor:
    """A norm of matrices: "fro", "nuc", or 1, 2, inf and their negatives."""
    if not isinstance(ord, str):
        ord = f"{ord:g}" if math.isinf(ord) else str(int(ord))
    return _ops["linalg.matrix_norm"](x, ord=ord, keepdims=keepdims)


def matrix_rank(x, /, *, rtol=None) -> Tensor:
    """The number of singular values above rtol times the largest one. `rtol` may be a tensor with a number for each matrix."""
    if not isinstance(rtol, Tensor):
        return _core._ops["linalg.matrix_rank"](x, rtol=rtol)
    values = _core._ops["linalg.svdvals"](x)
    most = _ops["max"](values, axis=-1, keepdims=True) * _ops["expand_dims"](rtol, -1)
    return _ops["count_nonzero"](values > most, axis=-1)


def pinv(x, /, *, rtol=None) -> Tensor:
    """The pseudo-inverse [.., n, m] of each matrix of x [.., m, n]. Singular values up to rtol times the largest count as 0.
    The default of rtol is max(m, n) times the epsilon of the dtype. It may be a tensor with a number for each matrix. The
    derivative assumes constant rank."""
    op = _core._ops["linalg.pinv"]
    if not isinstance(rtol, Tensor):
        return op(x, rtol=rtol)
    x = _core.asarray(x)
    if rtol.size == 1 and rtol.ndim <= max(0, x.ndim - 2):
        return op(x, rtol=float(rtol))
    batch = broadcast_shapes(x.shape[:-2], rtol.shape)
    x = _ops["broadcast_to"](x, batch + x.shape[-2:])
    if x.size == 0:
        return op(x)
    limits = _ops["reshape"](_ops["broadcast_to"](rtol, batch), -1).tolist()
    matrices = _ops["reshape"](x, (-1, *x.shape[-2:]))
    parts = [op(matrix, rtol=limit) for matrix, limit in zip(matrices, limits)]
    return _ops["reshape"](_ops["stack"](parts), batch + parts[0].shape)


def trace(x, /, *, offset=0, dtype=None) -> Tensor:
    """Sum of a diagonal of matrices. With `dtype`, x is cast to it first."""
    return _in_dtype(_ops["linalg.trace"], x, dtype, offset=offset)


def fftfreq(n, /, *, d=1.0, dtype=None, device=None) -> Tensor:
    """The frequencies of fft.fft of n samples at the distance d."""
    return _placed(_ops["fft.fftfreq"](n, d=d, dtype=dtype), device)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None) -> Tensor:
    """The frequencies of fft.rfft of n samples at the distance d."""
    return _placed(_ops["fft.rfftfreq"](n, d=d, dtype=dtype), device)


# The functions that replace an op, by the module that has them.
ROOT = (
    full, full_like, zeros_like, ones_like, empty_like, arange, eye, linspace, astype, reshape, concat,
    sum, prod, cumulative_sum, cumulative_prod, diff, searchsorted, tensordot, repeat, take, round,
    pad, sign, isdtype, broadcast_shapes, nonzero,
)  # fmt: skip
LINALG = (matrix_norm, matrix_rank, pinv, trace, tensordot)
FFT = (fftfreq, rfftfreq)
# The standard has these functions in linalg, too.
SHARED = ("matmul", "matrix_transpose", "outer", "vecdot")
