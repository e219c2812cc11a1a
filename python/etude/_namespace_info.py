# SPDX-License-Identifier: Apache-2.0
"""The object of __array_namespace_info__()."""

from __future__ import annotations

from etude import _core

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


class NamespaceInfo:
    """Devices, dtypes and capabilities of the namespace."""

    def capabilities(self) -> dict[str, bool | int | None]:
        """Sizes that depend on data, and masks as indices, are supported."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 16}

    def default_device(self) -> _core.Device:
        """Where new tensors are outside of a device scope."""
        return _core.Device("cpu:0")

    def default_dtypes(self, *, device=None) -> dict[str, _core.DType]:
        """The dtypes of new tensors for which none is given."""
        real = _core.default_dtype()
        return {
            "real floating": real,
            "complex floating": _core.complex128 if real == _core.float64 else _core.complex64,
            "integral": _core.int32,
            "indexing": _core.int64,
        }

    def devices(self) -> tuple[_core.Device, ...]:
        """The devices of this process."""
        return tuple(_core.list_devices())

    def dtypes(self, *, device=None, kind=None) -> dict[str, _core.DType]:
        """The dtypes of the standard, of one kind or of a tuple of kinds."""
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        return {name: getattr(_core, name) for one in kinds for name in _KINDS[one]}
