# SPDX-License-Identifier: Apache-2.0
"""Staged functions: ``@et.function``, signatures, host functions."""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable, Sequence

from etude import _core
from etude._arguments import callee, shape_of, title

__all__ = [
    "TensorSpec",
    "VariableSpec",
    "do_not_convert",
    "function",
    "host_function",
    "py_function",
]


class TensorSpec:
    """The type of a tensor: shape, dtype and a name. A size that is None may be any."""

    __slots__ = ("shape", "dtype", "name")
    _is_variable = False

    def __init__(
        self, shape: Sequence[int | None] = (), dtype: Any = None, name: str | None = None
    ) -> None:
        self.shape = shape_of(
            type(self).__name__, "the shape", (shape,) if isinstance(shape, int) else shape
        )
        self.dtype = _core.float32 if dtype is None else dtype
        self.name = name

    def _key(self) -> tuple:
        return (type(self), self.shape, str(self.dtype), self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        name = f", name={self.name!r}" if self.name else ""
        return f"{type(self).__name__}({self.shape}, {self.dtype}{name})"


class VariableSpec(TensorSpec):
    """The type of any Variable of this dtype and shape."""

    __slots__ = ()
    _is_variable = True


_EMPTY = object()


def _parameters(f: Callable) -> list[tuple[str, int, Any]]:
    import inspect  # takes a while to load

    if isinstance(f, _core.Layer):  # its signature is that of its class, which makes layers
        return [("args", 2, _EMPTY)]
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):  # built-in functions have none
        return [("args", 2, _EMPTY), ("kwargs", 4, _EMPTY)]
    # The kinds are numbered as in C++: positional only, any, *args, keyword only, **kwargs.
    return [
        (p.name, int(p.kind), _EMPTY if p.default is p.empty else p.default)
        for p in signature.parameters.values()
    ]


def _specs(name: str, signature: Any, parameters: list) -> tuple[list, int, list]:
    """The specs of all leaves, the number of parameters that they cover, and a dtype or None for
    each parameter."""
    if isinstance(signature, TensorSpec) or not isinstance(signature, (list, tuple)):
        raise _core.InvalidArgumentError(
            f"function '{name}': its signature is {signature!r}, but must be a list of specs, one per parameter: "
            "signature=[et.TensorSpec((None, 3))]"
        )
    takes_any = any(kind == 2 for _, kind, _ in parameters)
    own = [p for p in parameters if p[0] != "self"]
    if len(signature) > len(own) and not takes_any:
        raise _core.InvalidArgumentError(
            f"function '{name}': its signature has {len(signature)} specs, but it has {len(own)} parameters"
        )
    out: list = []
    for spec in signature:
        leaves, _ = _core._flatten(spec)
        for leaf in leaves:
            if not isinstance(leaf, TensorSpec):
                raise _core.InvalidArgumentError(
                    f"function '{name}': its signature holds {leaf!r}, but its leaves are et.TensorSpec and "
                    "et.VariableSpec"
                )
            out.append((leaf.name or "", leaf.shape, leaf.dtype, leaf._is_variable))
    first = len(parameters) - len(own)
    dtypes = [None] * first + [
        spec.dtype if isinstance(spec, TensorSpec) and not spec._is_variable else None
        for spec in signature
    ]
    if takes_any:
        dtypes = []
    return out, len(signature), dtypes[: len(parameters)]


def function(
    f: Callable | None = None,
    /,
    *,
    name: str | None = None,
    signature: Any = None,
    relax_shapes: bool = True,
    run_eagerly: bool = False,
    convert: bool = True,
    donate: Iterable[str] | str = (),
    max_traces: int | None = None,
) -> Any:
    """Returns a staged function: a call with a new kind of arguments traces ``f`` into a graph;
    later calls run it.

    Host code of ``f`` runs only while it is traced, so its decisions are fixed in the graph.
    Tensors, NumPy arrays and structures of them are inputs; numbers, texts and other objects are
    part of the key: numbers and texts by type and value, objects with an equality of their own by
    that, all others by identity, held weakly. A method has graphs for each instance, unless the
    instance is a structure itself.

    Args:
      name: for messages; default: the name of ``f``.
      signature: a list with an ``et.TensorSpec``, or a structure of them, for each parameter.
      relax_shapes: graphs that differ only in sizes become one graph for all sizes.
      run_eagerly: calls run ``f``, as if it were not staged.
      convert: control flow on tensors (``if``, ``while``, ``for``) becomes part of the graph.
      donate: names of parameters whose tensors a call may change. Their memory may be reused.
      max_traces: the least recently used graph is dropped.
    """
    if f is None:
        return functools.partial(
            function,
            name=name,
            signature=signature,
            relax_shapes=relax_shapes,
            run_eagerly=run_eagerly,
            convert=convert,
            donate=donate,
            max_traces=max_traces,
        )
    if isinstance(f, _core.Function):
        return f
    if isinstance(f, (staticmethod, classmethod)):
        raise _core.InvalidArgumentError(
            f"function: put @et.function below @{type(f).__name__}, next to the function"
        )
    callee("function", "the argument", f, "et.function(lambda x: x + 1)")
    shown = name or getattr(f, "__name__", None) or type(f).__name__
    if shown == "<lambda>":
        shown = ""  # the line that made it
    parameters = _parameters(f)
    options = {
        "name": shown,
        "relax_shapes": relax_shapes,
        "run_eagerly": run_eagerly,
        "convert": convert and not getattr(f, "_etude_do_not_convert", False),
        "donate": [donate] if isinstance(donate, str) else list(donate),
        "max_traces": max_traces or 0,
        "signature": None,
    }
    if signature is not None:
        options["signature"], options["specs"], options["dtypes"] = _specs(
            name or title(f), signature, parameters
        )
    made = _core._make_function(f, parameters, _EMPTY, options)
    functools.update_wrapper(made, f, updated=())
    if signature is not None:
        made._signature = tuple(signature)  # for et.saved.save
    return made


_VALUES = (_core.Tensor, _core.Variable, _core._State)


def _leaves_of_owner(function: Any) -> list:
    """The tensors, Variables and states of the instance of a method, if it is a structure: the method passes it as an
    argument."""
    owner = function.__self__
    leaves = [] if owner is None else _core._flatten((owner,))[0]
    return [leaf for leaf in leaves if leaf is not owner and (leaf is None or isinstance(leaf, _VALUES))]


def _spec_of(leaf: Any) -> tuple | None:
    """The spec of a tensor, a Variable or a state of a layer; None for an absent one."""
    value = leaf.value if isinstance(leaf, _core._State) else leaf
    if value is None:
        return None
    return "", tuple(value.shape), value.dtype, isinstance(leaf, _core.Variable)


def _trace_specs(function: Any, args: tuple, keywords: dict) -> Any:
    """The graph of a function for arguments with specs: the method trace()."""
    leaves, form = _core._flatten((args, keywords))
    own = _leaves_of_owner(function)
    specs = [_spec_of(leaf) for leaf in own]
    # Beside Variables, placeholders have the sizes of their specs; otherwise only ranks matter.
    is_sized = any(
        isinstance(x, _core.Variable) or getattr(x, "_is_variable", False) for x in [*own, *leaves]
    )
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, TensorSpec):
            specs.append((leaf.name or "", leaf.shape, leaf.dtype, leaf._is_variable))
            sizes = [size if is_sized and size is not None else 1 for size in leaf.shape]
            leaves[i] = _core.zeros(sizes, dtype=leaf.dtype)
            if leaf._is_variable:
                leaves[i] = _core.Variable(leaves[i])
        elif leaf is None or isinstance(leaf, _VALUES):  # None: an absent part of a layer
            specs.append(_spec_of(leaf))
    args, keywords = _core._unflatten(form, leaves)
    return _core._trace_specified(function, args, keywords, specs)


_core._set_spec_class(TensorSpec, _trace_specs)


def do_not_convert(f: Callable) -> Callable:
    """Marks a function whose control flow stays as it is in staged functions."""
    f._etude_do_not_convert = True
    return f


def host_function(
    f: Callable, results: Any = (), *, variables: Iterable = (), name: str | None = None
) -> Callable:
    """Returns a callable like ``f``, whose calls in a graph run ``f`` itself each time the graph
    runs.

    ``results`` declares the types of its results: a dtype (of a scalar), an ``et.TensorSpec``, or a
    structure of them. ``f`` gets tensors with elements. Derivatives in a graph run ``f`` once more,
    under a tape of its own. Variables that it reads and that get gradients are listed in
    ``variables``.
    """
    leaves, form = _core._flatten(results)
    specs = [
        (leaf.shape, leaf.dtype) if isinstance(leaf, TensorSpec) else ((), leaf) for leaf in leaves
    ]
    structure = _core._unflatten(form, [0.0] * len(leaves))
    callee("host_function", "the argument", f, "et.host_function(lambda x: x + 1, et.float32)")
    shown = name or title(f)
    host = _core._HostFunction(
        f, structure, specs, tuple(variables), "" if shown.startswith("<lambda>") else shown
    )

    @functools.wraps(f)
    def call(*args: Any, **keywords: Any) -> Any:
        if keywords:
            import inspect  # takes a while to load

            bound = inspect.signature(f).bind(*args, **keywords)
            bound.apply_defaults()
            args, keywords = bound.args, bound.kwargs
        if keywords:
            raise _core.InvalidArgumentError(
                f"host_function '{shown}': the arguments {sorted(keywords)} are keyword-only; a graph passes "
                "arguments by position"
            )
        return host(*args)

    call._etude_do_not_convert = True
    return call


def py_function(f: Callable | None = None, /, *, out: Any = None, variables: Iterable = ()) -> Any:
    """Decorates Python code that a graph calls each time it runs:
    ``@et.py_function(out=et.float32)``.

    ``out`` declares the results: a dtype, an ``et.TensorSpec``, or a structure of them; ``()`` for
    none. The default is a float32 scalar. See :func:`host_function`.
    """
    if out is None:
        out = _core.float32
    if f is None:
        return functools.partial(py_function, out=out, variables=variables)
    return host_function(f, out, variables=variables)
