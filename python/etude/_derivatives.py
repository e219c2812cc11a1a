# SPDX-License-Identifier: Apache-2.0
"""Differential operators on functions of structures.

A call differentiates by every argument that has a floating-point tensor, a float or a structure of
them. The result is one gradient for one such argument, and a tuple for several; ``argnums`` chooses
arguments, ``no_derivative(x)`` excludes one. Keyword arguments have no derivative. A gradient has
the structure of its argument; it is zeros for a part that the result does not depend on, and None
for integers.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable, Sequence

from etude import _core
from etude._arguments import callee, title

__all__ = [
    "custom_gradient",
    "derivative",
    "gradient",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "pullback",
    "recompute_grad",
    "stop_gradient",
    "value_and_gradient",
    "value_with_gradient",
    "value_with_pullback",
    "vjp",
    "vmap",
]


def _checked_argnums(operator: str, f: Callable, argnums: Any) -> Any:
    """Positions of arguments: None, an integer, or a tuple of integers."""
    if argnums is None:
        return None
    is_one = isinstance(argnums, (str, bytes)) or not isinstance(argnums, Iterable)
    given = (argnums,) if is_one else tuple(argnums)
    for number in given:
        if not hasattr(number, "__index__") or isinstance(number, bool):
            raise _core.InvalidArgumentError(
                f"{operator}: argnums is {argnums!r}, but must be the position of an argument, from 0, or a tuple of "
                f"positions{_position_of(f, number)}"
            )
    return given[0].__index__() if is_one else tuple(number.__index__() for number in given)


def _position_of(f: Callable, name: Any) -> str:
    """The next step for the name of a parameter in place of its position."""
    import inspect  # takes a while to load

    try:
        names = list(inspect.signature(f).parameters)
    except (TypeError, ValueError):  # built-in functions have no signature
        return ""
    return f". '{name}' of {title(f)} is argnums={names.index(name)}" if name in names else ""


def _rebuildable(of_f: Callable, operator: Callable, f: Callable) -> Callable:
    """The result of an operator on f, which conversion makes again for the converted f.

    functools.wraps copies the attribute to wrappers of the user, so it names its owner by the code.
    """
    of_f.__dict__["_etude_rebuild"] = (of_f.__code__, lambda convert: operator(convert(f)))
    return of_f


def _operator(run: Callable) -> Callable:
    """An operator that takes a function alone, ``op(f)(x)``, or with arguments, ``op(f, x)``."""

    # Not __wrapped__ and annotations: signatures, help() and stubs show those of `operator`.
    @functools.wraps(run, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def operator(
        f: Callable,
        /,
        *args: Any,
        argnums: int | Sequence[int] | None = None,
        has_aux: bool = False,
    ) -> Any:
        name = run.__name__
        callee(name, "the first argument", f, f"et.{name}(f)(x), or et.{name}(f, x)")
        argnums = _checked_argnums(name, f, argnums)
        if args:
            return run(f, args, {}, argnums, has_aux)

        @functools.wraps(f)
        def of_f(*args: Any, **keywords: Any) -> Any:
            return run(f, args, keywords, argnums, has_aux)

        return _rebuildable(of_f, lambda g: operator(g, argnums=argnums, has_aux=has_aux), f)

    del operator.__wrapped__
    return operator


@_operator
def gradient(f, args, keywords, argnums, has_aux):
    """Returns a function that computes the gradient of ``f``, whose result is a scalar.

    ``gradient(f)(x)`` or ``gradient(f, x)``. With ``has_aux`` the function returns a pair of the
    scalar and anything else, and the result is a pair of the gradient and that.
    """
    _, aux, found = _core._value_with_gradient("gradient", f, args, keywords, argnums, has_aux)
    return (found, aux) if has_aux else found


@_operator
def value_with_gradient(f, args, keywords, argnums, has_aux):
    """Returns a function that computes the value of ``f`` and its gradient in one run: ``(value,
    gradient)``.

    With ``has_aux``: ``((value, aux), gradient)``.
    """
    value, aux, found = _core._value_with_gradient(
        "value_with_gradient", f, args, keywords, argnums, has_aux
    )
    return ((value, aux), found) if has_aux else (value, found)


value_and_gradient = value_with_gradient


def value_with_pullback(
    f: Callable, *args: Any, argnums: int | Sequence[int] | None = None
) -> tuple[Any, Callable]:
    """Returns ``f(*args)``, of any structure, and its pullback.

    The pullback maps a cotangent, in the structure of the value, to the cotangents of the
    arguments, as often as it is called.
    """
    callee("value_with_pullback", "the first argument", f, "et.value_with_pullback(f, x)")
    argnums = _checked_argnums("value_with_pullback", f, argnums)
    return _core._value_with_pullback(f, args, {}, argnums)


def pullback(f: Callable, *args: Any, argnums: int | Sequence[int] | None = None) -> Callable:
    """Returns the pullback of ``f`` at the arguments; see :func:`value_with_pullback`."""
    return value_with_pullback(f, *args, argnums=argnums)[1]


def vjp(f: Callable, primals: Any, cotangent: Any) -> tuple[Any, Any]:
    """Returns the value at the arguments and the cotangents of the arguments. A tuple holds several
    arguments."""
    args = primals if type(primals) is tuple else (primals,)
    value, pull = value_with_pullback(f, *args)
    return value, pull(cotangent)


def jvp(f: Callable, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Returns the value of ``f`` and its tangent along ``tangents``, in one forward-mode run.

    A tuple holds several arguments; ``tangents`` has the structure of ``primals``.
    """
    callee("jvp", "the first argument", f, "et.jvp(f, x, tangent)")
    if type(primals) is not tuple:
        primals, tangents = (primals,), (tangents,)
    return _core._jvp(f, primals, tangents, {})


def derivative(f: Callable, x: Any) -> Any:
    """Returns the derivative of ``f`` along its one argument, a tensor or a number, in forward
    mode."""
    x = _core.asarray(x)
    return jvp(f, x, _core.ones_like(x))[1]


def hvp(f: Callable, x: Any, v: Any) -> Any:
    """Returns the second derivative of a scalar function at ``x``, times ``v``. A tuple holds
    several arguments."""
    callee("hvp", "the first argument", f, "et.hvp(f, x, v)")
    if type(x) is not tuple:
        x, v = (x,), (v,)
    return _core._hvp(f, x, v, {})


def _float_leaves(leaves: list) -> list[int]:
    def is_float(leaf: Any) -> bool:
        if isinstance(leaf, (float, complex)):
            return True
        if not isinstance(leaf, (_core.Tensor, _core.Variable)):
            return False
        return _core.isdtype(leaf.dtype, ("real floating", "complex floating"))

    return [i for i, leaf in enumerate(leaves) if is_float(leaf)]


def _is_complex(x: Any) -> bool:
    return isinstance(x, complex) or hasattr(x, "dtype") and _core.isdtype(x.dtype, "complex floating")


def _jacobian_of_complex(name: str, f: Callable, x: Any, holomorphic: bool) -> Any:
    """The derivatives df/dz of a holomorphic function, by columns."""
    x = _core.asarray(x)
    if not holomorphic:
        next_step = (
            "For a holomorphic function pass holomorphic=True, for any other differentiate by both parts"
            if name == "jacobian"
            else "Differentiate by both parts"
        )
        raise _core.InvalidArgumentError(
            f"{name}: the argument is {x.dtype}, but must be real, since a function of complex numbers has two "
            f"derivatives, by the real and by the imaginary part. {next_step}: "
            f"et.{name}(lambda re, im: f(re + 1j * im))(et.real(z), et.imag(z))"
        )
    columns, shape = [], ()
    for i in range(x.size):
        along = _core.reshape(_core.one_hot(_core.asarray(i), x.size, dtype=x.dtype), x.shape)
        value, column = _core._jvp(f, (x,), (along,), {})
        if not _is_complex(value):
            raise _core.InvalidArgumentError(
                f"jacobian: holomorphic=True needs a complex result, but the function returned {value.dtype}. A real "
                "result is not holomorphic: differentiate it by both parts of its argument"
            )
        columns.append(column)
        shape = value.shape
    if not columns:
        return _core.zeros((*f(x).shape, *x.shape), dtype=x.dtype)
    return _core.reshape(_core.stack(columns, axis=-1), (*shape, *x.shape))


def _jacobian_by(name: str, f: Callable, args: tuple, keywords: dict, argument: int, holomorphic: bool) -> Any:
    """The derivatives of all leaves of the result by all leaves of one argument, in both
    structures."""
    leaves, form = _core._flatten(args[argument])
    chosen = _float_leaves(leaves)
    if not chosen:
        raise _core.InvalidArgumentError(
            f"{name}: argument {argument} has no derivative: it holds no floating-point tensor"
        )
    result: dict = {}

    def of_leaf(i: int, k: int | None) -> Callable:
        def call(x: Any) -> Any:
            given = list(leaves)
            given[i] = x
            whole = list(args)
            whole[argument] = _core._unflatten(form, given)
            value = f(*whole, **keywords)
            if isinstance(value, _core.Tensor):
                result["form"] = None
                return value
            parts, result["form"] = _core._flatten(value)
            result["count"] = len(parts)
            return parts[k or 0]

        return call

    def row(k: int | None) -> Any:
        out = [None] * len(leaves)
        for i in chosen:
            if holomorphic or _is_complex(leaves[i]):
                out[i] = _jacobian_of_complex(name, of_leaf(i, k), leaves[i], holomorphic)
            else:
                out[i] = _core._jacobian(of_leaf(i, k), leaves[i])
        return _core._unflatten(form, out)

    first = row(None)
    if result["form"] is None:
        return first
    rows = [first] + [row(k) for k in range(1, result["count"])]
    return _core._unflatten(result["form"], rows)


def _jacobian(name: str, f: Callable, args: tuple, keywords: dict, argnums: Any, holomorphic: bool = False) -> Any:
    if argnums is None:
        chosen = [i for i, x in enumerate(args) if _float_leaves(_core._flatten(x)[0])] or [0]
        argnums = chosen[0] if len(chosen) == 1 else chosen
    if isinstance(argnums, int):
        return _jacobian_by(name, f, args, keywords, argnums, holomorphic)
    return tuple(_jacobian_by(name, f, args, keywords, i, holomorphic) for i in argnums)


def jacobian(
    f: Callable,
    /,
    *args: Any,
    argnums: int | Sequence[int] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any:
    """Returns a function that computes all derivatives of ``f``: ``[shape of f(x)..., shape of
    x...]``.

    For structures: the structure of the result, with the structure of the argument at each leaf.
    Rows are computed in reverse mode or columns in forward mode, whichever are fewer. Columns if
    the result is complex. A complex argument is refused, unless ``holomorphic=True`` states that
    the function has one derivative, df/dz, and the result is complex.
    """
    callee("jacobian", "the first argument", f, "et.jacobian(f)(x), or et.jacobian(f, x)")
    argnums = _checked_argnums("jacobian", f, argnums)
    if has_aux:
        raise _core.InvalidArgumentError(
            "jacobian: has_aux is not supported; return the value alone"
        )
    if args:
        return _jacobian("jacobian", f, args, {}, argnums, holomorphic)

    @functools.wraps(f)
    def of_f(*args: Any, **keywords: Any) -> Any:
        return _jacobian("jacobian", f, args, keywords, argnums, holomorphic)

    return _rebuildable(of_f, lambda g: jacobian(g, argnums=argnums, holomorphic=holomorphic), f)


@_operator
def hessian(f, args, keywords, argnums, has_aux):
    """Returns a function that computes the jacobian of the gradient of a scalar function."""
    if has_aux:
        raise _core.InvalidArgumentError(
            "hessian: has_aux is not supported; return the value alone"
        )

    def slope(*inner: Any) -> Any:
        return _core._value_with_gradient("hessian", f, inner, keywords, argnums, False)[2]

    return _jacobian("hessian", slope, args, {}, argnums)


def vmap(
    f: Callable | None = None, /, *, in_axes: Any = 0, out_axes: int = 0, randomness: str = "error"
) -> Callable:
    """Returns a function that maps ``f`` over examples, in one run on all of them.

    Args:
      in_axes: the axis of the examples in every argument, or one entry per argument; None: the
        same for all examples.
      out_axes: the axis of the examples in the result.
      randomness: "error" refuses random draws, "same" draws once for all examples, "different"
        for each.

    Keyword arguments are the same for all examples. ``f`` cannot read elements: write ``if x > 0``
    as ``where``.
    """
    if f is None:
        return functools.partial(vmap, in_axes=in_axes, out_axes=out_axes, randomness=randomness)
    callee("vmap", "the first argument", f, "et.vmap(f)(x)")
    for name, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        for axis in axes if isinstance(axes, (tuple, list)) and name == "in_axes" else (axes,):
            if hasattr(axis, "__index__") or (axis is None and name == "in_axes"):
                continue
            some = ", or None, or one of these for each argument" if name == "in_axes" else ""
            raise _core.InvalidArgumentError(
                f"vmap: {name} is {axes!r}, but must be an integer, the axis of the examples{some}"
            )

    @functools.wraps(f)
    def batched(*args: Any, **keywords: Any) -> Any:
        axes = tuple(in_axes) if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(args)
        if len(axes) != len(args):
            raise _core.InvalidArgumentError(
                f"vmap: in_axes has {len(axes)} entries, but the call has {len(args)} arguments"
            )
        return _core._vmap(f, args, keywords, axes, out_axes, randomness)

    return _rebuildable(
        batched, lambda g: vmap(g, in_axes=in_axes, out_axes=out_axes, randomness=randomness), f
    )


def stop_gradient(x: Any) -> Any:
    """Returns the same values without derivatives."""
    return _core._stop_gradient(x)


def _takes_variables(pullback: Callable) -> bool:
    import inspect  # takes a while to load

    try:
        parameters = inspect.signature(pullback).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.name == "variables" or p.kind is p.VAR_KEYWORD for p in parameters)


def custom_gradient(f: Callable) -> Callable:
    """Decorates a function that returns its value and its pullback: ``return value, pullback``.

    ``pullback(*dy)`` gets a cotangent for each member of the value and returns a gradient for each
    argument; for one argument it may return it alone. If the function reads Variables,
    ``pullback(*dy, variables=None)`` returns a pair: the gradients of the arguments, and a list
    with those of the Variables, in their order. Keyword arguments count as arguments, in the order
    of the parameters.
    """
    callee("custom_gradient", "the argument", f, "a function that returns its value and its pullback")

    @functools.wraps(f)
    def call(*args: Any, **keywords: Any) -> Any:
        if keywords:
            import inspect  # takes a while to load

            bound = inspect.signature(f).bind(*args, **keywords)
            args, keywords = bound.args, bound.kwargs
        rule = functools.partial(f, **keywords) if keywords else f
        return _core._custom_gradient(rule, args, _takes_variables)

    return call


def recompute_grad(f: Callable) -> Callable:
    """Returns ``f`` with a derivative that keeps only its arguments, and runs ``f`` again when it
    is needed."""
    callee("recompute_grad", "the argument", f, "et.recompute_grad(f)(x)")

    @functools.wraps(f)
    def call(*args: Any, **keywords: Any) -> Any:
        return _core._recompute(f, args, keywords)

    return call
