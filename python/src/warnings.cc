// SPDX-License-Identifier: Apache-2.0
// Warnings of the library as warnings of Python (the module `warnings`), at the user's line. They
// go to the standard error stream where Python cannot take them: while it ends, and if a filter
// makes an error of one, since the library cannot be left there.
#include <cstdio>
#include <string>

#include "etude/base/warning.h"
#include "python/src/bind.h"
#include "python/src/program/held.h"
#include "python/src/spelling.h"

namespace etude::python {
namespace {

bool is_ending() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

bool told_to_python(const std::string& text) {
  if (Py_IsInitialized() == 0 || is_ending()) return false;
  return with_gil([&] {
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);  // of the call that warns
    const CallSite where = here();
    const char* const file = where.known() ? where.file : "etude";
    const bool is_told = PyErr_WarnExplicit(PyExc_UserWarning, text.c_str(), file,
                                            static_cast<int>(where.line), nullptr, nullptr) == 0;
    if (!is_told) {
      // Ctrl-C is for the program.
      if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0) PyErr_SetInterrupt();
      PyErr_Clear();
    }
    PyErr_Restore(type, value, trace);
    return is_told;
  });
}

void tell(std::string_view message) {
  const std::string text = in_python(message);
  if (!told_to_python(text)) std::fprintf(stderr, "etude: warning: %s\n", text.c_str());
}

}  // namespace

void bind_warnings(nb::module_& m) {
  set_warning_handler(tell);
  m.def("_in_python", [](const std::string& text) { return in_python(text); });
}

}  // namespace etude::python
