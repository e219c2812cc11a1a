// SPDX-License-Identifier: Apache-2.0
// etude.DType and etude.Device as Python objects.
#pragma once

#include <optional>

#include "etude/core/device.h"
#include "etude/core/dtype.h"
#include "python/src/bind.h"

namespace etude::python {

// The only object of this dtype, such as etude.float32.
nb::object dtype_object(DType dtype);
// The dtype that an object names: an etude.DType, its name, a NumPy dtype or scalar type, or bool,
// int, float, complex for the default dtypes; absent for others.
std::optional<DType> find_dtype(nb::handle object);
// throws: nb::python_error (TypeError) for others, naming `parameter`.
DType as_dtype(nb::handle object, const char* parameter = "dtype");
// The same; None is absent.
std::optional<DType> as_optional_dtype(nb::handle object, const char* parameter = "dtype");

nb::object device_object(const Device& device);
// A device or its name. throws: TypeError; Error for names of no device.
Device as_device(nb::handle object);
std::optional<Device> as_optional_device(nb::handle object);

}  // namespace etude::python
