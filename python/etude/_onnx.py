# SPDX-License-Identifier: Apache-2.0
"""ONNX: functions as models that other programs run, such as onnxruntime."""

from __future__ import annotations

import os
import types
from typing import Any, Mapping

from etude import _core
from etude._saved import _flag, _integer, _pairs, _path

__all__ = ["save"]


def save(
    path: str | os.PathLike,
    function: Any | Mapping[str, Any],
    *,
    name: str | None = None,
    opset: int = 17,
    graph: int = 0,
    training: bool = False,
    open_sizes: bool = True,
    doc: str = "",
    external_bytes: int = 1 << 30,
) -> None:
    """Writes a function as a model of ONNX. The file appears whole or not at all.

    The model holds one graph of the function, and the values of its state: call the function before it is exported, or
    give it a signature. Calls with two sizes of a batch make one model for all sizes. Inputs and results have the names
    of saved functions, and weights their paths, ``"net/hidden/weight"``.

    Args:
      function: a function of ``@et.function``, a method, ``et.saved.bind(function, net)``, a loaded function, a loaded
        program, or the entries of :func:`et.saved.save` by name: a function with the objects that hold its Variables.
      name: the function, if there are several.
      opset: the version of ONNX's ops, 17 to 21. Runtimes take models of versions that they know.
      graph: the number of the graph, as ``et.saved.Function.explain()`` lists graphs; 0: the first graph for many
        sizes, else the first graph.
      training: the graphs of the training phase, in which dropout draws and layers use the batch.
      open_sizes: sizes that vary between calls stay open, as ``dim_param``; else the model has the sizes of the first
        call.
      doc: a text for readers of the model.
      external_bytes: if the weights have more bytes in all, they are in a second file in the folder of the model, which
        must be moved with it.

    Raises:
      UnimplementedError: for a call that ONNX has no form for, with its line, and for a function that changes state or
        draws random numbers.
      FailedPreconditionError: for a function without a graph, or with state without a value.
      InvalidArgumentError: for an unknown graph, and for an option out of its range.
      NotFoundError: for an unknown function.
    """
    where = "et.onnx.save"
    if not isinstance(function, Mapping):
        lone = _core._saved._lone_name(function)
        if lone is None:
            raise _core.InvalidArgumentError(
                f"{where}: the function is a {type(function).__name__}, but must be a function of @et.function, "
                "et.saved.bind(function, objects...), a loaded function or program, or a dict of these by name"
            )
        function = {lone: function}
    for option, value in (("name", name or ""), ("doc", doc)):
        if not isinstance(value, str):
            raise _core.InvalidArgumentError(f"{where}: {option} is {value!r}, but must be a text")
    _core._saved._save_onnx(
        _path(where, path),
        _pairs(where, function),
        _integer(where, "opset", opset),
        name or "",
        _integer(where, "graph", graph),
        _flag(where, "training", training),
        _flag(where, "open_sizes", open_sizes),
        doc,
        _integer(where, "external_bytes", external_bytes),
    )


def install(package: types.ModuleType) -> None:
    """Adds the namespace onnx."""
    import sys

    module = types.ModuleType("etude.onnx", __doc__)
    module.save = save
    package.onnx = module
    sys.modules[module.__name__] = module
