# SPDX-License-Identifier: Apache-2.0
"""Etude: tensors and derivatives; eager, staged and lazy from one program text.

The functions on tensors come from the records of the library's ops, with the names and meanings of
the Python Array API standard. The namespaces `nn`, `linalg`, `fft`, `image` and `random` are modules.
"""

import os as _os

try:
    from etude import _core
except ImportError as _error:
    from etude._missing import explained as _explained

    raise _explained(_error) from None
from etude._core import *  # noqa: F401,F403  classes, dtypes and all ops

from etude import _array_api, _other_names

_core._set_package_folder(_os.path.dirname(__file__) + _os.sep)

for _function in _array_api.ROOT:
    globals()[_function.__name__] = _function
for _name in _array_api.SHARED:
    setattr(_core.linalg, _name, _core._ops[_name])
for _function in _array_api.LINALG:
    setattr(_core.linalg, _function.__name__, _function)
for _function in _array_api.FFT:
    setattr(_core.fft, _function.__name__, _function)
del _function, _name

# Tensor.sum and the like: the functions whose first operand is the tensor.
_core._add_methods({name: globals()[name] for name in _core._method_names})
_core._add_methods({"__round__": _array_api.round_of})
_core._add_methods(_other_names.elsewhere(_other_names.TENSOR, _core.Tensor))
_core.Variable.__round__ = _array_api.round_of

import sys as _sys

from etude import _program
from etude._program import *  # noqa: F401,F403,E402  structures, derivatives, staging, control flow

_program.install(_sys.modules[__name__])

__version__ = _core.__version__
__array_api_version__ = "2025.12"
newaxis = None
from math import e, inf, nan, pi  # noqa: E402,F401


def _check_api_version(version: str) -> None:
    if version not in ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
        raise InvalidArgumentError(  # noqa: F405
            f"there is no version {version!r} of the Array API standard here; the newest is 2025.12"
        )


def __array_namespace_info__():
    """Devices, dtypes and capabilities, as the Array API standard asks."""
    from etude._namespace_info import NamespaceInfo

    return NamespaceInfo()
