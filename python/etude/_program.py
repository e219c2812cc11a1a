# SPDX-License-Identifier: Apache-2.0
"""Names of programs: structures, derivatives, staging, control flow, layers and training."""

from __future__ import annotations

import importlib
import types
from typing import Any

from etude import _core
from etude import _control, _derivatives, _functions, _kinds, _onnx, _saved, _stablehlo, _structures, _training
from etude._control import *  # noqa: F401,F403
from etude._derivatives import *  # noqa: F401,F403
from etude._functions import *  # noqa: F401,F403
from etude._structures import *  # noqa: F401,F403

__all__ = [
    *_structures.__all__,
    *_derivatives.__all__,
    *_functions.__all__,
    *_control.__all__,
]


def install(package: types.ModuleType) -> None:
    """Adds the namespaces nn, optim, io, data, saved, onnx and stablehlo, and the conversion of control flow."""
    _kinds.install(package)
    _training.install(package)
    _saved.install(package)
    _onnx.install(package)
    _stablehlo.install(package)
    _core._set_converter(_convert)
    package.__getattr__ = _lazily


def _lazily(name: str) -> Any:
    """Modules that are loaded when a program first uses them."""
    if name in ("autograph", "testing"):
        return importlib.import_module(f"etude.{name}")
    from etude._other_names import missing

    raise missing("etude", name)


def _convert(f: Any) -> Any:
    """The function with its control flow converted. The converter is loaded when a first function
    is traced."""
    from etude import autograph

    return autograph.convert(f)
