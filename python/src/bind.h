// SPDX-License-Identifier: Apache-2.0
// The contract of the sources of the Python module etude._core. Tensors and ops are types of
// CPython (tensor_object.h, op_object.h), since each call makes one; other classes use nanobind.
//
// The sources here count as sources of the library (python/CMakeLists.txt maps their path), so a
// CallSite::here() in them is unknown, and a call has the line of the innermost CallScope. Code
// that runs calls for the user opens it by with_user_line().
#pragma once

#include <optional>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "etude/base/call_site.h"
#include "etude/base/error.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/internal/mode.h"
#include "etude/core/tensor.h"
#include "etude/variables/variable.h"

namespace etude::python {

namespace nb = nanobind;

// Whether `object` is an etude.Tensor. A Variable is not.
bool is_tensor(nb::handle object) noexcept;
// The value of an etude.Tensor; valid while `object` lives and is not written. Requires
// is_tensor(object).
const Tensor& tensor_of(nb::handle object) noexcept;
// The same for an update of the variable that `object` is (values.md, V60).
Tensor& mutable_tensor_of(nb::handle object) noexcept;
// A new etude.Tensor; None for an absent tensor. throws: nb::python_error without memory.
nb::object wrap(Tensor value);
// The value of a tensor, Variable, number, bool, NumPy array, other array or nested list.
// throws: nb::python_error (TypeError) for other objects; Error for lists that are not rectangular.
Tensor as_tensor(nb::handle object);
// Whether as_tensor() takes an object of this type without looking into it: a tensor or Variable, a
// number, a NumPy array, an object with __dlpack__. Lists are structures for the caller to walk.
bool is_array_like(nb::handle object) noexcept;

// The class of an object for messages: "list", "numpy.ndarray".
std::string type_text(nb::handle object);
// The same with an article: "a list", "an int", "None".
std::string kind_text(nb::handle object);

bool is_variable(nb::handle object) noexcept;
// Requires is_variable(object).
Variable& variable_of(nb::handle object);

// The line of the innermost Python frame outside of this package; unknown if there is none. The
// file name is never freed, so copies of the CallSite stay valid. Requires the GIL.
CallSite here() noexcept;

// Makes `error` the exception of this thread. Requires the GIL. An error without a line gets
// here().
void set_exception(const Error& error) noexcept;
// The same, and throws nb::python_error. Functions that nanobind binds need neither: the module
// registers a translator.
[[noreturn]] void raise(const Error& error);
// Makes the C++ exception that is being handled the exception of this thread.
void set_current_exception() noexcept;

// Runs f(), a function that returns a new reference or null, for CPython: an exception of C++
// becomes the exception of this thread, and the result is null.
template <class F>
PyObject* guarded(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    set_current_exception();
    return nullptr;
  }
}

// Drops a reference. Without the GIL the object goes to a list, which the next holder of the GIL
// empties; after the end of the interpreter it leaks. threads: thread-safe.
void release_later(PyObject* object) noexcept;
// Empties that list. Requires the GIL. cost: one load if the list is empty.
void release_pending() noexcept;

// A reference to a Python object that may die on any thread.
class KeptObject {
 public:
  KeptObject() = default;
  explicit KeptObject(nb::object object) noexcept : object_(object.release().ptr()) {}
  KeptObject(KeptObject&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  KeptObject(const KeptObject&) = delete;
  KeptObject& operator=(KeptObject&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~KeptObject() {
    if (object_ != nullptr) release_later(object_);
  }
  nb::handle get() const noexcept { return object_; }

 private:
  PyObject* object_ = nullptr;
};

// While alive, this thread does not hold the GIL. Requires that it holds the GIL before.
class ReleasedGil {
 public:
  ReleasedGil() noexcept : state_(PyEval_SaveThread()) {}
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;
  ~ReleasedGil() {
    PyEval_RestoreThread(state_);
    release_pending();
  }

 private:
  PyThreadState* state_;
};

// Runs f without the GIL. Required for work that traces, compiles, runs a plan, waits for a lock of
// Etude, or reads more than kSmallBytes.
template <class F>
auto released(F&& f) -> decltype(f()) {
  const ReleasedGil scope;
  return f();
}
inline constexpr int64_t kSmallBytes = 32 << 10;

// Runs f, which calls the library for the user: its calls and its errors get the user's line. The
// frame is looked up only where a context watches, or when an error passes.
template <class F>
auto with_user_line(F&& f) -> decltype(f()) {
  std::optional<CallScope> scope;
  if (internal::mode_word != 0) scope.emplace(here());
  try {
    return f();
  } catch (Error& error) {
    if (!error.is_located()) error.locate(here());
    throw;
  }
}
// The same without the GIL.
template <class F>
auto with_user_line_released(F&& f) -> decltype(f()) {
  return with_user_line([&] { return released(f); });
}

// Each source with Python names has a function that adds them to the module.
using Bind = void (*)(nb::module_&);
void bind_errors(nb::module_& m);
void bind_frames(nb::module_& m);
void bind_dtype(nb::module_& m);
void bind_device(nb::module_& m);
void bind_device_scope(nb::module_& m);
void bind_tensor(nb::module_& m);
void bind_ops(nb::module_& m);
void bind_create(nb::module_& m);
void bind_dlpack(nb::module_& m);
void bind_variable(nb::module_& m);
void bind_random(nb::module_& m);
void bind_warnings(nb::module_& m);

}  // namespace etude::python
