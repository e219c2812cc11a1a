// SPDX-License-Identifier: Apache-2.0
// Index expressions of Python, for tensors and Variables.
#pragma once

#include "etude/core/index.h"
#include "python/src/bind.h"

namespace etude::python {

// The index of x[key]; empty for x[()].
// throws: nb::python_error (TypeError) for items that are no index; Error for huge integers.
Index index_of(PyObject* key, CallSite where);

}  // namespace etude::python
