// SPDX-License-Identifier: Apache-2.0
// Facts about the Python frame that called into the module.
#pragma once

#include <Python.h>

namespace etude::python {

// Whether `object`, the left operand of an augmented assignment that is running, is referred to by
// the variable that is assigned and by nothing else. Then the object may keep its identity and be
// updated in place, since no other name sees it.
bool is_only_target(PyObject* object) noexcept;

}  // namespace etude::python
