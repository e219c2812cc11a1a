# SPDX-License-Identifier: Apache-2.0
"""Layers, optimisers, losses, metrics, schedules and callbacks of the library as Python classes and
functions.

They come from the table of kinds of the library: names, parameters, defaults, ranges and docs. A
name is made when it is first used.
"""

from __future__ import annotations

import re
import sys
import types
from typing import Any, Callable, Iterable, NamedTuple

from etude import _core, _rebuild
from etude._arguments import callee
from etude._other_names import OPTIMIZER, elsewhere
from etude._structures import Module, tree

__all__ = ["Layer", "Loss", "Metric", "Schedule", "Sequential"]


def _parameters(kind: dict, named_only: bool = False) -> list:
    import inspect  # takes a while to load

    out = []
    for i, p in enumerate(kind["parameters"]):
        is_positional = i < kind["positional"] and not named_only
        how = inspect.Parameter.KEYWORD_ONLY
        if is_positional:
            how = inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = inspect.Parameter.empty if p["required"] else p["default"]
        out.append(inspect.Parameter(_python_name(p["name"]), how, default=default))
    return out


_WORDS = {"in", "lambda", "from", "global", "class", "is", "not", "and", "or", "if", "for"}


def _python_name(name: str) -> str:
    return name + "_" if name in _WORDS else name


def _named(options: dict) -> dict:
    """Options by their names in the library: `in_` is `in`, a word of Python."""
    return {k[:-1] if k.endswith("_") and k[:-1] in _WORDS else k: v for k, v in options.items()}


# Where a section begins in the documentation of a kind, which is one line.
_SECTION = re.compile(r"(?:^| )(shapes|Raises(?: \((?:construction|call)\))?|cost): ")
_WHEN = {"Raises (construction)": "at construction: ", "Raises (call)": "in a call: "}


def _doc(kind: dict) -> str:
    summary, *parts = _SECTION.split(kind["doc"])
    sections: dict = {"Args": [], "Shapes": [], "Raises": [], "Cost": []}
    for p in kind["parameters"]:
        text = f"{_python_name(p['name'])} ({p['type']}"
        text += ")" if p["required"] else f", default {p['default']!r})"
        if p["range"]:
            text += f", {p['range']}"
        if p["doc"]:
            text += f": {p['doc']}"
        sections["Args"].append(text)
    for title, text in zip(parts[::2], parts[1::2]):
        sections[title.split()[0].capitalize()].append(_WHEN.get(title, "") + text)
    blocks = ["\n  ".join([f"{title}:", *lines]) for title, lines in sections.items() if lines]
    return "\n\n".join([summary, *blocks] if summary else blocks)


class LSTMState(NamedTuple):
    """The state of an LSTM cell: its output ``h`` and its memory ``c``."""

    h: Any
    c: Any


_core._set_pair_class(LSTMState)


def _is_made_by_a_kind(made: Any) -> bool:
    """Whether the class is of the library. Classes that programs derive from it may have further attributes."""
    return "_kind" in type(made).__dict__


def _options_of(made: Any) -> list[str]:
    space, _, name = made._kind.rpartition(".")
    return [_python_name(p["name"]) for p in _table.of(space)[name]["parameters"]]


def no_parameter(layer: Layer, path: str) -> str:
    """The error for an assignment to a part that a layer does not have. Such a value would change nothing, and a copy
    of the layer would not have it. ``path``: "weight", "running/mean"."""
    prefix, slash, name = path.rpartition("/")
    kind, names = type(layer).__name__, layer._names(prefix + slash)
    if name in names:
        place = path.replace("/", ".")
        parts = ", ".join(f"{place}.{part}" for part in layer._names(path + "/"))
        return f"{kind}: '{place}' is a group of parameters. Assign its parts: {parts}"
    if slash:
        return f"{kind}.{prefix.replace('/', '.')} has no parameter '{name}'. {_advice(name, names)}".rstrip()
    if not _is_made_by_a_kind(layer):
        return f"{kind} has no parameter '{name}'. {_advice(name, names)}".rstrip()
    if name in _options_of(layer):
        return (
            f"{kind}: '{name}' is an option, which is fixed when the layer is made. Make another: "
            f"et.{layer._kind}(..., {name}=...)"
        )
    if hasattr(layer, name) and getattr(layer, name) is None:
        return f"{kind}: this layer was made without '{name}'. Make another that has it"
    return f"{kind} has no parameter '{name}'. {_advice(name, names)}An et.Module keeps other values beside a layer"


def _advice(name: str, names: list[str]) -> str:
    """The name that was meant, or all names."""
    import difflib  # takes a while to load

    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"Did you mean '{near[0]}'? "
    return f"It has: {', '.join(names)}. " if names else "It has none. "


class Layer(_core.Layer):
    """A layer: a callable from tensor to tensor, whose parameters are its attributes.

    A layer is a structure: it is differentiated, trained, staged, copied and saved like a dict of
    its parameters.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if self._has(name):
            self._set(name, value)
            return
        if _is_made_by_a_kind(self) and not name.startswith("__"):
            raise AttributeError(no_parameter(self, name))
        object.__setattr__(self, name, value)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._names()]

    def __repr__(self) -> str:
        return self._text()

    def __copy__(self) -> Layer:
        return tree.copy(self)

    def __deepcopy__(self, memo: dict) -> Layer:
        return tree.copy(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        parts = _rebuild.parts_of(self)
        if parts is not None:
            return _rebuild.structure, parts
        text = _rebuild.description_of(self, type(self).__name__)
        return _rebuild.layer, (self._kind, text, _core._flatten(self)[0])


class Cell(Layer):
    """One step of a recurrent layer: ``state = cell(x, state)``. The state of LSTM cells is an
    ``et.nn.LSTMState``."""

    def zero_state(self, n: int, dtype: Any = None) -> Any:
        """The first state for ``n`` examples."""
        return self._zero_state(n, dtype)


class Sequential(Module):
    """Layers that are applied in order: ``Sequential(layer, ...)`` or ``Sequential([layer, ...])``.
    Any callable from tensor to tensor is a layer.

    Paths of parameters are ``"layers/0/weight"``, as in C++.
    """

    def __init__(self, *layers: Callable | Iterable[Callable]) -> None:
        is_list = len(layers) == 1 and isinstance(layers[0], (list, tuple))
        self.layers = list(layers[0]) if is_list else list(layers)
        for i, layer in enumerate(self.layers):
            callee("Sequential", f"layer {i}", layer, "a layer, or a function of a tensor such as et.nn.relu")
            if isinstance(layer, type):
                raise _core.InvalidArgumentError(
                    f"Sequential: layer {i} is the class {layer.__name__}. Make a layer of it: {layer.__name__}(...)"
                )

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x

    def __getitem__(self, i: int) -> Any:
        return self.layers[i]

    def __len__(self) -> int:
        return len(self.layers)


def _layer(kind: dict) -> type:
    import inspect

    name = kind["name"]

    def __init__(self, *args: Any, **options: Any) -> None:
        _core.Layer.__init__(self, name, args, _named(options))

    self_parameter = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    __init__.__signature__ = inspect.Signature([self_parameter, *_parameters(kind)])
    return type(
        name.rpartition(".")[2],
        (Cell if kind["group"] == "cell" else Layer,),
        {
            "__init__": __init__,
            "__doc__": _doc(kind),
            "__module__": "etude." + name.rpartition(".")[0],
            "__signature__": inspect.Signature(_parameters(kind)),
            "_kind": name,
        },
    )


def _why_no_attribute(optimizer: Optimizer, name: str) -> str:
    """The error for an assignment to an optimiser, whose options are fixed."""
    kind, options = type(optimizer).__name__, _options_of(optimizer)
    if name in ("rate", *options):
        shown = "lr" if name == "rate" else name
        schedule = ". A rate that changes is a schedule, such as lr=et.optim.cosine(0.001, 1000), or optimizer.scale_rate(0.5)"
        return (
            f"{kind}: '{name}' is fixed when the optimizer is made, as in et.{optimizer._kind}({shown}=...)"
            f"{schedule if shown == 'lr' else ''}"
        )
    return f"{kind} has no attribute '{name}', and its options are fixed when it is made. {_advice(name, options)}".rstrip()


class Optimizer(_core.Optimizer):
    """An optimiser: its options, and its state.

    It is a structure of tensors: copies are independent, and ``@et.function(donate=("model",
    "optimizer"))`` runs its update in the graph.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if _is_made_by_a_kind(self) and not name.startswith("__"):
            raise AttributeError(_why_no_attribute(self, name))
        object.__setattr__(self, name, value)

    def __copy__(self) -> Optimizer:
        return tree.copy(self)

    def __deepcopy__(self, memo: dict) -> Optimizer:
        return tree.copy(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        text = _rebuild.description_of(self, type(self).__name__)
        return _rebuild.optimizer, (self._kind, text, self._extras, self.state())


def _optimizer(kind: dict) -> type:
    import inspect

    name = kind["name"]

    def __init__(self, *args: Any, **options: Any) -> None:
        if args and not kind["positional"]:
            raise _core.InvalidArgumentError(
                f"{name}: options are given by name, as in {name}(lr=0.1). The model is passed to update(model, "
                "gradients) or to et.nn.fit(model, optimizer, ...)"
            )
        _core.Optimizer.__init__(self, name, args, _named(options))

    return type(
        name.rpartition(".")[2],
        (Optimizer,),
        {
            "__init__": __init__,
            "__doc__": _doc(kind),
            "__module__": "etude." + name.rpartition(".")[0],
            "__signature__": inspect.Signature(_parameters(kind)),
            "_kind": name,
        },
    )


class Loss:
    """A loss of the library: ``loss(predicted, expected, **options)`` returns a scalar.

    ``loss.with_options(...)`` is the loss with other defaults.
    """

    def __init__(self, kind: dict, options: dict) -> None:
        import inspect

        self._kind_row = kind
        self._options = options
        self._made: Any = None
        self.__name__ = kind["name"].rpartition(".")[2]
        self.__doc__ = _doc(kind)
        first = [
            inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            for n in ("predicted", "expected")
        ]
        self.__signature__ = inspect.Signature(first + _parameters(kind, named_only=True))

    @property
    def _loss(self) -> Any:
        """The object of the kind. Made at its first use: some losses have required options."""
        if self._made is None:
            self._made = _core.KindObject(self._kind_row["name"], (), self._options)
        return self._made

    def __call__(self, predicted: Any, expected: Any, third: Any = None, **options: Any) -> Any:
        return (self.with_options(**options) if options else self)._loss._loss(
            predicted, expected, third
        )

    def with_options(self, **options: Any) -> Loss:
        return Loss(self._kind_row, {**self._options, **options})

    def __reduce__(self) -> tuple:
        return _rebuild.named, (self._kind_row["name"], self._options)

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self._options.items())
        return f"<etude loss {self._kind_row['name']}({options})>"


class Described(_core.KindObject):
    """An object of the library: an initialiser, a transform, a callback, a record."""

    def __reduce__(self) -> tuple:
        try:
            text = self._json()
        except _core.Error as error:
            raise _core.FailedPreconditionError(f"{self!r} cannot be pickled: {error}") from error
        return _rebuild.kind, (type(self), text)


class Schedule(Described):
    """A schedule of the learning rate: ``schedule(step)`` is the rate of that update, from 0."""

    def __call__(self, step: int) -> float:
        return self._rate(step)


class Metric(_core._Metric):
    """A metric: ``update(predicted, expected)`` for each batch, then ``result()``."""


class Named:
    """An initialiser, an activation, a transform or a callback: a call with options makes the
    object of the kind."""

    def __init__(self, kind: dict, cls: type) -> None:
        import inspect

        self._kind = kind["name"]
        self._class = cls
        self.__name__ = kind["name"].rpartition(".")[2]
        self.__doc__ = _doc(kind)
        self.__signature__ = inspect.Signature(_parameters(kind))

    def __call__(self, *args: Any, **options: Any) -> Any:
        made = self._class(self._kind, args, _named(options))
        if self._kind == "nn.reduce_on_plateau":
            made._borrowed = (args, options)  # the optimiser lives as long as the callback
        return made

    def __reduce__(self) -> tuple:
        return _rebuild.named, (self._kind, {})

    def __repr__(self) -> str:
        return f"<etude kind {self._kind}>"


class _Activation(Named):
    """A function from tensor to tensor, which layers take as ``activation``. Most activations are ops; this is for the
    others."""

    _made: Any = None

    def __init__(self, kind: dict, cls: type) -> None:
        import inspect

        super().__init__(kind, cls)
        x = inspect.Parameter("x", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self.__signature__ = inspect.Signature([x])

    def __call__(self, x: Any) -> Any:
        if self._made is None:
            self._made = self._class(self._kind, (), {})
        return self._made._call(x)


def _make(kind: dict) -> Any:
    group = kind["group"]
    if group == "activation" and not kind["parameters"]:
        return _Activation(kind, Described)
    if group in ("layer", "cell"):
        return _layer(kind)
    if group == "optimizer":
        return _optimizer(kind)
    if group == "loss":
        return Loss(kind, {})
    if group == "metric":
        return Named(kind, Metric)
    if group == "schedule":
        return Named(kind, Schedule)
    return Named(kind, Described)


for _name, _member in elsewhere(OPTIMIZER, Optimizer).items():
    setattr(Optimizer, _name, _member)


class _Table:
    """All kinds by namespace; read at the first use of one."""

    def __init__(self) -> None:
        self._all: dict[str, dict[str, dict]] = {}

    def of(self, space: str) -> dict[str, dict]:
        if not self._all:
            for kind in _core._kinds():
                head, _, name = kind["name"].rpartition(".")
                self._all.setdefault(head, {})[name] = kind
        return self._all.get(space, {})

    def spaces_below(self, space: str) -> set[str]:
        self.of(space)
        prefix = space + "."
        return {s[len(prefix) :].partition(".")[0] for s in self._all if s.startswith(prefix)}


_table = _Table()


def _fill(module: types.ModuleType, space: str) -> types.ModuleType:
    """Adds the names of the kinds of a namespace to a module; each is made at its first use."""

    def __getattr__(name: str) -> Any:
        kind = _table.of(space).get(name)
        if kind is not None:
            made = _make(kind)
        elif name in _table.spaces_below(space):
            made = _fill(types.ModuleType(f"etude.{space}.{name}"), f"{space}.{name}")
            sys.modules[made.__name__] = made
        else:
            from etude._other_names import missing

            raise missing(f"etude.{space}", name)
        setattr(module, name, made)
        return made

    def __dir__() -> list[str]:
        return sorted({*module.__dict__, *_table.of(space), *_table.spaces_below(space)})

    module.__getattr__ = __getattr__
    module.__dir__ = __dir__
    return module


def install(package: types.ModuleType) -> None:
    """Adds the namespaces of kinds to the package."""
    for space in ("nn", "optim"):
        module = getattr(package, space, None)
        if module is None:
            module = types.ModuleType(f"etude.{space}")
            setattr(package, space, module)
            sys.modules[module.__name__] = module
        _fill(module, space)
    package.nn.Module = package.Module
    package.nn.Layer = Layer
    package.nn.Cell = Cell
    package.nn.LSTMState = LSTMState
    package.nn.Sequential = Sequential
    package.optim.Optimizer = Optimizer
