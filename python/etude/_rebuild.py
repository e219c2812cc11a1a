# SPDX-License-Identifier: Apache-2.0
"""Functions by which pickled objects name how they are made again."""

from etude import _core


def tensor(dtype: str, shape: tuple[int, ...], data: bytes) -> _core.Tensor:
    """The tensor of these elements in row-major order."""
    return _core._unpickle(dtype, shape, data)


def dtype(name: str) -> _core.DType:
    """The dtype of this name."""
    return getattr(_core, name)


def op(name: str) -> _core.Op:
    """The op of this name, with its namespace."""
    return _core._ops[name]
