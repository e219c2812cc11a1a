# SPDX-License-Identifier: Apache-2.0
"""Pytrees: containers of tensors, and functions on their leaves.

A structure is a list, tuple, dict, named tuple, dataclass, :class:`Module`, layer or registered
class. Everything else is a leaf. Paths of leaves are those of C++ structs: ``"layers/0/weight"``.
"""

from __future__ import annotations

import types as _types
from typing import Any, Callable, Iterable

from etude import _core, _rebuild
from etude._other_names import MODEL, elsewhere

__all__ = ["Module", "NoDerivative", "no_derivative", "register_pytree", "tree", "move"]


class Module:
    """A base class of models. Its attributes are its parts, in the order in which they were set.

    Tensors, Variables, layers, lists and other modules among them are parameters; numbers, texts
    and functions are options. A copy is an independent value, but shares the Variables.
    ``copy.deepcopy`` copies these as well::

        class Net(et.Module):
            def __init__(self):
                self.hidden = et.nn.Dense(784, 128, activation=et.nn.relu)
                self.output = et.nn.Dense(128, 10)

            def __call__(self, x):
                return self.output(self.hidden(x))
    """

    def __copy__(self) -> Module:
        return tree.copy(self)

    def __deepcopy__(self, memo: dict) -> Module:
        return _map(lambda leaf: _deep_leaf(leaf, memo), self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        parts = _rebuild.parts_of(self)
        if parts is None:  # without tensors, or with places for them
            return super().__reduce_ex__(protocol)
        return _rebuild.structure, parts

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={_short(value)}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({parts})"


for _name, _member in elsewhere(MODEL, Module).items():
    setattr(Module, _name, _member)


def _short(value: Any) -> str:
    if isinstance(value, _core.Tensor):
        return f"{value.dtype}{list(value.shape)}"
    return repr(value)


class NoDerivative:
    """Marks an argument or a part that has no derivative. A function that is differentiated gets
    the value itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"NoDerivative({self.value!r})"


def no_derivative(value: Any) -> NoDerivative:
    """Returns ``value`` as a constant for gradients: ``et.gradient(loss)(weights,
    et.no_derivative(x))``."""
    return NoDerivative(value)


def register_pytree(
    cls: type,
    flatten: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten: Callable[[Any, tuple], Any],
) -> type:
    """Makes a class a structure.

    Args:
      flatten: returns ``(children, aux)``: the parts, and a hashable value with everything else.
      unflatten: ``unflatten(aux, children)`` makes an object of them.

    Raises:
      InvalidArgumentError: if the class is a structure already.
    """
    _core._register_pytree(cls, flatten, unflatten)
    return cls


def move(x: Any, tangent: Any) -> None:
    """Moves the tensors of ``x`` along a tangent of its structure, in place: ``x += tangent`` leaf
    by leaf.

    Layers take the updates of their state. A None in the tangent leaves its part unchanged.
    """
    _core._move(x, tangent)


def _map(f: Callable, x: Any, *others: Any) -> Any:
    """Returns the structure of ``x`` with ``f(leaf, ...)`` as leaves. Numbers are leaves; None is a
    structure."""
    leaves, form = _core._flatten(x)
    rest = [_core._leaves_like(form, other, "tree.map") for other in others]
    return _core._unflatten(form, [f(*each) for each in zip(leaves, *rest)])


def _deep_leaf(leaf: Any, memo: dict) -> Any:
    """The leaf of a deep copy; the same for each path of the leaf. Options are shared."""
    if not isinstance(leaf, (_core.Tensor, _core.Variable, _core._State)):
        return leaf
    found = memo.get(id(leaf))
    if found is None:
        found = memo[id(leaf)] = _deep_value(leaf)
        memo.setdefault(id(memo), []).append(leaf)  # an address is no other object's meanwhile
    return found


def _deep_value(leaf: Any) -> Any:
    if not isinstance(leaf, _core.Variable):
        return leaf.copy()
    value = leaf.read().copy()
    return _core.Variable(value, name=leaf.name or None, trainable=leaf.trainable)


def _copy(x: Any) -> Any:
    """Returns a copy of ``x`` that is independent of it; O(1) per tensor. Variables, numbers and
    other objects are shared."""
    return _map(
        lambda leaf: leaf.copy() if isinstance(leaf, (_core.Tensor, _core._State)) else leaf, x
    )


def _leaves(x: Any) -> list:
    """Returns all leaves of ``x``, in the order of their paths."""
    return _core._flatten(x)[0]


def _flatten(x: Any) -> tuple[list, Any]:
    """Returns the leaves of ``x`` and its form, which :func:`unflatten` takes."""
    return _core._flatten(x)


def _unflatten(form: Any, leaves: Iterable[Any]) -> Any:
    """Returns the structure of a form with these leaves."""
    return _core._unflatten(form, list(leaves))


def _paths(x: Any, *, python: bool = False) -> list[str]:
    """Returns the paths of the leaves: ``"layers/0/bias"``, or ``"layers[0].bias"`` with
    ``python=True``."""
    return _core._paths(_core._flatten(x)[1], python)


def _structure(x: Any) -> str:
    """Returns the structure of ``x`` as a text: ``"{'w': tensor, 'b': tensor}"``."""
    return _core._tree_text(_core._flatten(x)[1])


tree = _types.SimpleNamespace(
    map=_map,
    copy=_copy,
    leaves=_leaves,
    flatten=_flatten,
    unflatten=_unflatten,
    paths=_paths,
    structure=_structure,
)

_core._set_module_class(Module)
_core._set_constant_class(NoDerivative)
_core._set_constant_type(NoDerivative)
