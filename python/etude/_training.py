# SPDX-License-Identifier: Apache-2.0
"""Training: ``fit``, ``evaluate``, ``predict``, loaders and checkpoints, with the loop of the C++
library."""

from __future__ import annotations

import os
import types
from typing import Any, Callable, Iterable

from etude import _core, _data, _kinds
from etude._arguments import not_a_path, path_text

__all__ = [
    "evaluate",
    "fit",
    "load",
    "load_checkpoint",
    "predict",
    "save",
    "save_checkpoint",
    "summary",
]


def _svg(write: Callable[[str], None]) -> str:
    """The content of the SVG file that ``write(path)`` writes, for a notebook."""
    import tempfile  # takes a while to load

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "picture.svg")
        write(path)
        with open(path, encoding="utf-8") as file:
            return file.read()


class History:
    """The numbers of a run: ``epochs`` (a dict each), ``batch_losses``, ``was_cancelled``,
    ``why``. A notebook shows curves and a table."""

    epochs: list[dict[str, Any]]
    batch_losses: list[float]
    was_cancelled: bool
    why: str

    def __init__(self, **numbers: Any) -> None:
        self.__dict__.update(numbers)

    def __repr__(self) -> str:
        lines = [
            "  ".join(
                f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in epoch.items()
            )
            for epoch in self.epochs
        ]
        return "\n".join(lines)

    def curves(self) -> dict[str, list[float]]:
        """The losses by batch, or by epoch where there is a validation: name -> values."""
        names = [n for n in ("loss", "validation_loss") if self.epochs and n in self.epochs[0]]
        if len(names) == 2 and len(self.epochs) > 1:
            return {name: [epoch[name] for epoch in self.epochs] for name in names}
        return {"loss": list(self.batch_losses)}

    def plot(self, path: str, *, log: bool = False) -> None:
        """Writes the curves as an SVG file; ``log`` for a logarithmic axis."""
        curves = self.curves()
        x = "epoch" if "validation_loss" in curves else "batch"
        _core._write_curves(path_text("History.plot", path), curves, "", x, "loss", log)

    def _repr_html_(self) -> str:
        import html

        if not self.batch_losses:
            return "<p>no batches</p>"
        names = list(self.epochs[0]) if self.epochs else []
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        rows = "".join(
            "<tr>" + "".join(f"<td>{_short(epoch.get(name))}</td>" for name in names) + "</tr>"
            for epoch in self.epochs
        )
        return f"{_svg(self.plot)}<table><tr>{head}</tr>{rows}</table>"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _confusion_svg(self: Any, path: str, names: Iterable[str] = ()) -> None:
    """Writes the matrix as an SVG file; ``names`` are the names of the classes."""
    self._write(path_text("Confusion.write", path), list(names))


_core.Confusion.write = _confusion_svg
_core.Confusion._repr_html_ = lambda self: _svg(self.write)


def fit(
    model: Any,
    optimizer: _core.Optimizer,
    data: Any,
    loss: Callable,
    *,
    epochs: int = 1,
    validation: tuple[Any, Any] | None = None,
    callbacks: Iterable[Any] = (),
    metrics: dict[str, Any] | None = None,
    mode: str = "eager",
    on_non_finite: str = "go_on",
    gradient_norms: bool = False,
    prolong: bool = False,
    steps_per_epoch: int | None = None,
) -> History:
    """Trains ``model`` in place, from the current position of ``data`` to the end of the last
    epoch.

    Args:
      model: a callable structure: a layer, an ``et.Module``, a dataclass with ``__call__``.
      data: an ``et.data.Loader``, a pair ``(inputs, labels)``, an iterable of batches ``(inputs,
        labels)``, or a function that returns one. A pass over an iterable is an epoch. A generator
        gives its batches once, so more epochs need a function.
      loss: ``loss(predicted, labels)``, a scalar.
      validation: ``(inputs, labels)``, evaluated after each epoch.
      callbacks: objects of the library, or ``callback(event, state)``, which may return the part
        of the run to end: "batch", "part", "epoch" or "fit".
      mode: "eager", "staged" for steps that are one graph (fastest), or "lazy" for steps that are
        recorded and compiled. All compute the same bits.
      on_non_finite: for a loss that is NaN or infinite: "go_on", "stop", "skip" the batch, or
        "restore_best" the model after the epoch with the lowest loss.
      steps_per_epoch: of an iterable without an end, or for epochs of another length.

    Ctrl-C ends the run with the state after the last finished batch, and raises KeyboardInterrupt;
    a further call with the same loader resumes it, bit for bit.
    """
    _check_fit(model, optimizer, epochs, validation, callbacks, metrics)
    if isinstance(data, tuple) and len(data) == 2:
        inputs, labels = data
        count = len(inputs) if hasattr(inputs, "__len__") else 32
        data = _core.Loader(inputs, labels, batch=max(1, min(32, count)))
    options = {
        "epochs": epochs,
        "mode": mode,
        "prolong": prolong,
        "on_non_finite": on_non_finite,
        "gradient_norms": gradient_norms,
        "metrics": dict(metrics or {}),
        "callbacks": tuple(callbacks),
        "validation": validation,
        "steps_per_epoch": steps_per_epoch,
    }
    return History(**_core._fit(model, optimizer, data, loss, options))


def _check_fit(
    model: Any, optimizer: Any, epochs: Any, validation: Any, callbacks: Any, metrics: Any
) -> None:
    """Refuses arguments of wrong kinds by name."""
    for name, value in (("model", model), ("optimizer", optimizer)):
        if isinstance(value, type):
            raise _core.InvalidArgumentError(
                f"fit: the {name} is the class {value.__name__}. Make an object of it: {value.__name__}(...)"
            )
    if isinstance(epochs, bool) or not hasattr(epochs, "__index__"):
        raise _core.InvalidArgumentError(f"fit: epochs is {epochs!r}, but must be an integer")
    is_pair = isinstance(validation, (tuple, list)) and len(validation) == 2
    if validation is not None and not is_pair:
        raise _core.InvalidArgumentError(
            f"fit: validation is a {type(validation).__name__}, but must be a pair (inputs, labels)"
        )
    if not isinstance(callbacks, (list, tuple)) and (callable(callbacks) or not isinstance(callbacks, Iterable)):
        raise _core.InvalidArgumentError(
            f"fit: callbacks is {_of_kind(callbacks)}, but must be a list: callbacks=[callback]"
        )
    for i, callback in enumerate(callbacks if isinstance(callbacks, (list, tuple)) else ()):
        _check_made(f"callbacks[{i}]", callback)
    _check_metrics("fit", metrics)


def _check_metrics(function: str, metrics: Any) -> None:
    if metrics is not None and not isinstance(metrics, dict):
        raise _core.InvalidArgumentError(
            f"{function}: metrics is {_of_kind(metrics)}, but must be a dict by name: "
            "metrics={'right': et.nn.metrics.accuracy()}"
        )
    for name, metric in (metrics or {}).items():
        _check_made(f"the metric {name!r}", metric, function)
        if not isinstance(metric, _core._Metric):
            raise _core.InvalidArgumentError(
                f"{function}: the metric {name!r} is {_of_kind(metric)}, but must be one of et.nn.metrics, such as "
                "et.nn.metrics.accuracy()"
            )


def _of_kind(value: Any) -> str:
    """What a value is: "et.nn.progress", the maker of a kind; "a list"."""
    if isinstance(value, _kinds.Named):
        return f"et.{value._kind}"
    if isinstance(value, _core.KindObject):
        return f"one object, {value!r}"
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _check_made(place: str, value: Any, function: str = "fit") -> None:
    """Refuses what makes an object of the library in place of the object: et.nn.metrics.accuracy, or a class."""
    if isinstance(value, _kinds.Named):
        raise _core.InvalidArgumentError(
            f"{function}: {place} is et.{value._kind}, which makes an object. Call it: et.{value._kind}(...)"
        )
    if isinstance(value, type):
        raise _core.InvalidArgumentError(
            f"{function}: {place} is the class {value.__name__}. Make an object of it: {value.__name__}(...)"
        )


def keep_best(*, monitor: Any = None) -> Any:
    """A callback: at the end of the run, sets the model to its value after the best epoch.

    ``monitor``: an ``et.nn.Monitored``; default: the loss of the validation. Together with
    ``et.nn.early_stopping`` the run ends with the best weights.
    """
    if monitor is not None and not isinstance(monitor, _core.KindObject):
        raise _core.InvalidArgumentError(
            f"keep_best: monitor is {monitor!r}, but must be an et.nn.Monitored(name=...)"
        )
    return _core._KeepBest(monitor)


def evaluate(
    model: Any,
    inputs: Any,
    labels: Any,
    loss: Callable,
    *,
    batch: int = 500,
    metrics: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns loss, accuracy (for classes) and metrics of a model, in the inference phase; for
    classes also their confusion matrix, ``"confusion"``, which a notebook draws."""
    _check_metrics("evaluate", metrics)
    return _core._evaluate(model, inputs, labels, loss, batch, dict(metrics or {}))


def predict(model: Any, inputs: Any, *, batch: int = 500) -> Any:
    """Returns the outputs of a model for all inputs, in the inference phase."""
    return _core._predict(model, inputs, batch)


def _model_file(function: str, model: Any, path: Any) -> str:
    """The path of a file for a model; the two may be exchanged."""
    call = f"{function}(model, path)"
    not_a_path(function, "model", model, call)
    return path_text(function, path, call)


def save(model: Any, path: str | os.PathLike, metadata: dict[str, str] | None = None) -> None:
    """Writes the tensors of a structure to a safetensors file, by their paths. C++ programs read it
    by io::load."""
    _core._save_model(model, _model_file("et.io.save", model, path), metadata or {})


def load(model: Any, path: str | os.PathLike) -> None:
    """Reads the tensors of a structure from a file that :func:`save`, or io::save in C++, has
    written.

    Raises:
      InvalidArgumentError: with the paths, for a file of another structure.
    """
    _core._load_model(model, _model_file("et.io.load", model, path))


def _checkpoint_file(function: str, path: Any, model: Any, optimizer: Any, data: Any) -> str:
    """The path of a checkpoint, for arguments in the order of the call."""
    call = f"{function}(path, model, optimizer, data)"
    file = path_text(function, path, call)
    not_a_path(function, "model", model, call)
    for name, value, cls in (("optimizer", optimizer, _core.Optimizer), ("data", data, _core.Loader)):
        if not isinstance(value, cls):
            wanted = "an object of et.optim" if cls is _core.Optimizer else "an et.data.Loader"
            raise _core.InvalidArgumentError(
                f"{function}: the {name} is a {type(value).__name__}, but must be {wanted}. The order is {call}"
            )
    return file


def save_checkpoint(
    path: str | os.PathLike, model: Any, optimizer: _core.Optimizer, data: _core.Loader
) -> None:
    """Writes model, optimiser and position of the data: a run resumes from it bit for bit, also in
    C++."""
    file = _checkpoint_file("et.io.save_checkpoint", path, model, optimizer, data)
    _core._save_checkpoint(file, model, optimizer, data)


def load_checkpoint(
    path: str | os.PathLike, model: Any, optimizer: _core.Optimizer, data: _core.Loader
) -> None:
    """Restores the state that :func:`save_checkpoint` has written. All three must be made as for
    the saved run."""
    file = _checkpoint_file("et.io.load_checkpoint", path, model, optimizer, data)
    _core._load_checkpoint(file, model, optimizer, data)


def summary(model: Any) -> str:
    """Returns a table of the parameters of a model: path, type, number of elements."""
    leaves, form = _core._flatten(model)
    rows, total = [], 0
    for path, leaf in zip(_core._paths(form, False), leaves):
        leaf = (
            getattr(leaf, "value", leaf) if type(leaf).__name__ in ("_State", "_NewState") else leaf
        )
        if not isinstance(leaf, (_core.Tensor, _core.Variable)):
            continue
        size = 1
        for n in leaf.shape:
            size *= n
        total += size
        rows.append((path, f"{leaf.dtype}{list(leaf.shape)}", str(size)))
    widths = [max(len(row[i]) for row in [*rows, ("part", "type", "parameters")]) for i in range(3)]
    lines = ["  ".join(text.ljust(w) for text, w in zip(("part", "type", "parameters"), widths))]
    lines += ["  ".join(text.ljust(w) for text, w in zip(row, widths)) for row in rows]
    lines.append(f"{total:,} parameters")
    return "\n".join(lines)


def install(package: types.ModuleType) -> None:
    """Adds training to the namespaces nn, io and data."""
    for name in ("History", "fit", "evaluate", "keep_best", "predict", "summary"):
        setattr(package.nn, name, globals()[name])
    io = types.ModuleType("etude.io", "Files of tensors and checkpoints.")
    for name in ("save", "load", "save_checkpoint", "load_checkpoint"):
        setattr(io, name, globals()[name])
    package.nn.Confusion = _core.Confusion
    data = types.ModuleType("etude.data", "Data sets and loaders.")
    for name in _data.__all__:
        setattr(data, name, getattr(_data, name))
    data.fashion_mnist = fashion_mnist
    import sys

    for module in (io, data):
        setattr(package, module.__name__.rpartition(".")[2], module)
        sys.modules[module.__name__] = module


def fashion_mnist(folder: str = "") -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Returns ((inputs, labels), (inputs, labels)) of Fashion-MNIST for training and tests.

    Inputs are float32 [n,28,28,1] in [0,1], labels int32 [n]. Default folder:
    $ETUDE_DATA/fashion-mnist, or that of the Debian package dataset-fashion-mnist.
    """
    return _core._fashion_mnist(folder)
