// SPDX-License-Identifier: Apache-2.0
// Arrays of other libraries: NumPy, by the buffer protocol, and all that speak DLPack. NumPy is
// imported only for a call that returns an array of NumPy.
#pragma once

#include <optional>

#include "python/src/bind.h"

namespace etude::python {

// Whether NumPy is loaded and `object` is a scalar of it, such as numpy.float32(1).
bool is_numpy_scalar(nb::handle object) noexcept;
// Whether `object` has elements by the buffer protocol, DLPack or __array__.
bool is_foreign_array(nb::handle object) noexcept;
// The tensor of a foreign array; absent if the object has no elements. `copy` as in asarray: true
// always copies; false never does; absent copies.
// throws: Error if a copy is needed and forbidden, for elements without a dtype of Etude.
Tensor tensor_of_array(nb::handle object, std::optional<bool> copy);
// The tensor of an object with __dlpack__ (dlpack.cc).
Tensor tensor_of_dlpack(nb::handle object, std::optional<bool> copy, nb::handle device);
// An array of NumPy over the elements of x, read-only; keeps them alive.
nb::object numpy_array(const Tensor& x);

// x.__array__(dtype=None, *, copy=None).
nb::object array_protocol(nb::handle x, nb::handle dtype, nb::handle copy);
// x.__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None).
nb::object dlpack_protocol(const Tensor& x, nb::handle stream, nb::handle max_version,
                           nb::handle dl_device, nb::handle copy);

}  // namespace etude::python
