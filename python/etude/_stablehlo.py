# SPDX-License-Identifier: Apache-2.0
"""StableHLO: functions as modules that compilers read, such as XLA and so JAX."""

from __future__ import annotations

import os
import types
from typing import Any, Mapping

from etude import _core
from etude._arguments import flag, integer, path_text, text
from etude._saved import _exported, _named

__all__ = ["save"]


def save(
    path: str | os.PathLike,
    function: Any | Mapping[str, Any],
    *,
    name: str | None = None,
    graph: int = 0,
    training: bool = False,
    sizes: Mapping[str, int] | None = None,
    weights_as_arguments: bool = False,
) -> None:
    """Writes a function as a module of StableHLO, as text. The file appears whole or not at all.

    The module has one function, ``main``: one graph of the function, with fixed sizes. Call the function before it is
    exported, or give it a signature. Attributes ``etude.name`` of arguments and results are their names, as in a saved
    function, and locations are the lines of your program.

    Args:
      function: a function of ``@et.function``, a method, ``et.saved.bind(function, net)``, a loaded function, a loaded
        program, or the entries of :func:`et.saved.save` by name: a function with the objects that hold its Variables.
      name: the function, if there are several.
      graph: the number of the graph, as ``et.saved.Function.explain()`` lists graphs; 0: the first graph for many
        sizes, else the first graph.
      training: the graphs of the training phase, in which layers use the batch.
      sizes: the sizes of a graph for many sizes, by name: ``{"n": 8}``. The other sizes are those of the first call.
      weights_as_arguments: whether the state is passed as arguments, after the inputs and in the order of their names
        in the module; else it is constants. A text has two characters for each byte of a constant.

    Raises:
      UnimplementedError: for a call that StableHLO has no form for, with its line, and for a function that changes state
        or draws random numbers.
      FailedPreconditionError: for a function without a graph, or with state without a value.
      InvalidArgumentError: for an unknown graph or size, and for an option out of its range.
      NotFoundError: for an unknown function.
    """
    where = "et.stablehlo.save"
    file = path_text(where, path, "et.stablehlo.save(path, function)")
    _core._saved._save_stablehlo(
        file,
        _exported(where, function),
        "" if name is None else text(where, "name", name),
        integer(where, "graph", graph),
        flag(where, "training", training),
        [
            (size, integer(where, f"sizes[{size!r}]", number))
            for size, number in _named(where, "sizes", sizes, "open sizes to integers: {'n': 8}")
        ],
        flag(where, "weights_as_arguments", weights_as_arguments),
    )


def install(package: types.ModuleType) -> None:
    """Adds the namespace stablehlo."""
    import sys

    module = types.ModuleType("etude.stablehlo", __doc__)
    module.save = save
    package.stablehlo = module
    sys.modules[module.__name__] = module
