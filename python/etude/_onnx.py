# SPDX-License-Identifier: Apache-2.0
"""ONNX: functions as models that other programs run, such as onnxruntime, and models of other programs as functions."""

from __future__ import annotations

import os
import types
from typing import Any, Mapping, Sequence

from etude import _core
from etude._arguments import flag, integer, path_text, shape_of, text
from etude._saved import Program, _exported, _named

__all__ = ["load", "save"]


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
    file = path_text(where, path, "et.onnx.save(path, function)")
    _core._saved._save_onnx(
        file,
        _exported(where, function),
        integer(where, "opset", opset),
        "" if name is None else text(where, "name", name),
        integer(where, "graph", graph),
        flag(where, "training", training),
        flag(where, "open_sizes", open_sizes),
        text(where, "doc", doc),
        integer(where, "external_bytes", external_bytes),
    )


def load(
    path: str | os.PathLike,
    *,
    function: str = "predict",
    sizes: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int | None]] | None = None,
    constants: Mapping[str, ArrayLike] | None = None,
    trainable: bool = True,
    max_loop_steps: int = 0,
) -> Program:
    """Reads a model of ONNX as a program with one function, which can be called, trained further, staged, batched and
    saved, as the functions that :func:`et.saved.load` returns.

    The function has the inputs of the model as parameters. It returns the output of the model, or a named tuple of its
    outputs. Initialisers of floats with axes are Variables with their names. A size with a name (``dim_param``) stays
    open. The file is not trusted: external data is read from its folder only, and ``et.set_read_limits()`` bounds the
    memory.

    Args:
      function: the name of the function in the program.
      sizes: open sizes of the model that the function fixes, by name: ``{"batch": 8}``. A size without a name is called
        by input and axis: ``"image.0"``.
      shapes: shapes of inputs in place of those in the model, with None for an open size:
        ``{"image": (None, 3, 224, 224)}``.
      constants: inputs with fixed values, which are no parameters of the function. An input that determines the size of
        another value needs a fixed value. A value is converted to the dtype of its input; only floats may round.
      trainable: whether the weights are trainable Variables.
      max_loop_steps: refuses models whose loops may run more steps; 0: no limit.

    Raises:
      NotFoundError: if there is no file, and for an option that names no input or size of the model.
      DataLossError: for a file that is no model, with the offset.
      UnimplementedError: for an operator, an attribute, a dtype or an opset that is not imported, with its node.
      FailedPreconditionError: for a value or a size that has to be known, with input and node.
      InvalidArgumentError: for a model that is wrong, with its node, and for an option that does not fit.
      ResourceExhaustedError: beyond ``et.read_limits()`` or ``max_loop_steps``.
    """
    where = "et.onnx.load"
    return _core._saved._load_onnx(
        path_text(where, path),
        text(where, "function", function),
        [
            (name, integer(where, f"sizes[{name!r}]", size))
            for name, size in _named(where, "sizes", sizes, "open sizes to integers: {'batch': 8}")
        ],
        [
            (name, shape_of(where, f"shapes[{name!r}]", shape))
            for name, shape in _named(where, "shapes", shapes, "inputs to shapes: {'image': (None, 3)}")
        ],
        [
            (name, _tensor(where, name, value))
            for name, value in _named(where, "constants", constants, "inputs to tensors: {'axis': 1}")
        ],
        flag(where, "trainable", trainable),
        integer(where, "max_loop_steps", max_loop_steps),
    )


def _tensor(function: str, name: str, value: Any) -> _core.Tensor:
    try:
        made = _core.asarray(value)
        # Numbers of Python keep their digits until the dtype of the input is known.
        if isinstance(value, (float, complex, list, tuple)) and _core.isdtype(made.dtype, "real floating"):
            made = _core.asarray(value, dtype=_core.float64)
        elif isinstance(value, (complex, list, tuple)) and _core.isdtype(made.dtype, "complex floating"):
            made = _core.asarray(value, dtype=_core.complex128)
    except (TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise _core.InvalidArgumentError(
            f"{function}: constants[{name!r}] is a {type(value).__name__} that makes no tensor: {reason}"
        ) from None
    return made


def install(package: types.ModuleType) -> None:
    """Adds the namespace onnx."""
    import sys

    module = types.ModuleType("etude.onnx", __doc__)
    module.load, module.save = load, save
    package.onnx = module
    sys.modules[module.__name__] = module
