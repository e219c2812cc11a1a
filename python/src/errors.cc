// SPDX-License-Identifier: Apache-2.0
// Errors of Etude as exceptions of Python: one class per code, which derives from etude.Error and
// from the built-in exception that a Python program expects.
#include <array>
#include <new>
#include <string>

#include "etude/base/check.h"
#include "python/src/bind.h"
#include "python/src/spelling.h"

namespace etude::internal {

// The library's own are hidden (base/check.h).
void throw_error(ErrorCode code, std::string message) { throw Error(code, std::move(message)); }
void throw_check(const char* file, int line, const char* condition, const std::string& message) {
  throw Error(ErrorCode::kInternal,
              message + " (" + file + ":" + std::to_string(line) + ": " + condition + ")");
}

}  // namespace etude::internal

namespace etude::python {
namespace {

constexpr std::size_t kCodes = static_cast<std::size_t>(ErrorCode::kInternal) + 1;
PyObject* base_class = nullptr;
std::array<PyObject*, kCodes> classes{};

struct Row {
  ErrorCode code;
  const char* name;
  const char* doc;
};
constexpr Row kRows[] = {
    {ErrorCode::kInvalidArgument, "InvalidArgumentError",
     "The caller can fix the value, shape or type."},
    {ErrorCode::kFailedPrecondition, "FailedPreconditionError",
     "The object is in the wrong state."},
    {ErrorCode::kNotFound, "NotFoundError", "There is no such name, file or device."},
    {ErrorCode::kOutOfRange, "OutOfRangeError", "An index or axis is outside of its range."},
    {ErrorCode::kUnimplemented, "UnimplementedError",
     "The call is legal, but has no rule or kernel yet."},
    {ErrorCode::kResourceExhausted, "ResourceExhaustedError",
     "Memory, or a configured limit, is used up."},
    {ErrorCode::kUnavailable, "UnavailableError",
     "A peer is gone. The same call may succeed later."},
    {ErrorCode::kDataLoss, "DataLossError", "A file is torn or altered."},
    {ErrorCode::kCancelled, "CancelledError", "The work was cancelled on request."},
    {ErrorCode::kInternal, "InternalError", "A bug in Etude."},
};

// The built-in classes that programs catch for errors of a code.
nb::tuple built_in(ErrorCode code) {
  const nb::handle base(base_class);
  const auto with = [&](PyObject* other) { return nb::make_tuple(base, nb::handle(other)); };
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return nb::make_tuple(base, nb::handle(PyExc_ValueError), nb::handle(PyExc_TypeError));
    case ErrorCode::kNotFound:
      return with(PyExc_LookupError);
    case ErrorCode::kOutOfRange:
      return with(PyExc_IndexError);
    case ErrorCode::kUnimplemented:
      return with(PyExc_NotImplementedError);
    case ErrorCode::kResourceExhausted:
      return with(PyExc_MemoryError);
    case ErrorCode::kUnavailable:
      return with(PyExc_ConnectionError);
    case ErrorCode::kDataLoss:
      return with(PyExc_OSError);
    case ErrorCode::kFailedPrecondition:
    case ErrorCode::kCancelled:
    case ErrorCode::kInternal:
      break;
  }
  return with(PyExc_RuntimeError);
}

// The exception of a program that `error` reports; invalid if there is none.
nb::object cause_of(const Error& error) {
  if (error.cause() == nullptr) return {};
  try {
    std::rethrow_exception(error.cause());
  } catch (const nb::python_error& python) {
    return nb::borrow(python.value());
  } catch (const std::exception& other) {
    return nb::handle(PyExc_RuntimeError)(other.what());
  } catch (...) {
    return {};
  }
}

nb::object make_exception(const Error& error) {
  const nb::handle type(classes[static_cast<std::size_t>(error.code())]);
  const std::string message = in_python(error.what());
  // Bytes that are no UTF-8 come from names of files and from the user's text.
  const nb::object text = nb::steal(
      PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace"));
  if (!text.is_valid()) throw nb::python_error();
  nb::object made = type(text);
  if (!error.op().empty()) made.attr("op") = nb::str(error.op().data(), error.op().size());
  if (error.is_located()) {
    made.attr("file") = error.where().file;
    made.attr("line") = error.where().line;
  }
  if (const nb::object cause = cause_of(error); cause.is_valid()) {
    PyException_SetCause(made.ptr(), nb::object(cause).release().ptr());
  }
  return made;
}

nb::object new_class(const char* name, const char* doc, nb::handle bases) {
  const std::string full = std::string("etude.") + name;
  PyObject* made = PyErr_NewExceptionWithDoc(full.c_str(), doc, bases.ptr(), nullptr);
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

}  // namespace

void set_exception(const Error& error) noexcept {
  try {
    // sys.exit() and Ctrl-C in Python code of a graph end the program or the cell, as elsewhere.
    const nb::object cause = cause_of(error);
    if (cause.is_valid() && PyErr_GivenExceptionMatches(cause.ptr(), PyExc_Exception) == 0) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(cause.ptr())), cause.ptr());
      return;
    }
    Error located(error);
    located.locate(here());
    const nb::object made = make_exception(located);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  } catch (nb::python_error& python) {
    python.restore();
  } catch (...) {
    PyErr_NoMemory();
  }
}

void raise(const Error& error) {
  set_exception(error);
  throw nb::python_error();
}

namespace {

// A value that nanobind cannot convert.
Error misfit() {
  return Error(ErrorCode::kInvalidArgument,
               "a value does not fit its parameter: integers have up to 64 bits, and texts are "
               "UTF-8");
}

PyObject* class_of(nb::exception_type type) noexcept {
  switch (type) {
    case nb::exception_type::stop_iteration:
      return PyExc_StopIteration;
    case nb::exception_type::index_error:
      return PyExc_IndexError;
    case nb::exception_type::key_error:
      return PyExc_KeyError;
    case nb::exception_type::value_error:
      return PyExc_ValueError;
    case nb::exception_type::type_error:
      return PyExc_TypeError;
    case nb::exception_type::buffer_error:
      return PyExc_BufferError;
    case nb::exception_type::import_error:
      return PyExc_ImportError;
    case nb::exception_type::attribute_error:
      return PyExc_AttributeError;
    default:
      return PyExc_RuntimeError;
  }
}

}  // namespace

void set_current_exception() noexcept {
  try {
    throw;
  } catch (const nb::builtin_exception& error) {
    PyErr_SetString(class_of(error.type()), error.what());
  } catch (nb::python_error& python) {
    python.restore();
  } catch (const Error& error) {
    set_exception(error);
  } catch (const nb::cast_error&) {
    set_exception(misfit());
  } catch (const std::bad_alloc&) {
    set_exception(
        Error(ErrorCode::kResourceExhausted, "the host has no memory left for this call"));
  } catch (const std::exception& other) {
    PyErr_SetString(PyExc_RuntimeError, other.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an exception of C++ that is no std::exception");
  }
}

void bind_errors(nb::module_& m) {
  const nb::object base =
      new_class("Error",
                "The base of all errors of Etude. `code` is the kind of error, `op` the "
                "op that failed, `file` and `line` are the user's line.",
                nb::handle(PyExc_Exception));
  base_class = nb::object(base).release().ptr();
  for (const char* name : {"code", "op", "file", "line"}) base.attr(name) = nb::none();
  m.attr("Error") = base;
  for (const Row& row : kRows) {
    const nb::object made = new_class(row.name, row.doc, built_in(row.code));
    const std::string_view code = to_string(row.code);
    made.attr("code") = nb::str(code.data(), code.size());
    classes[static_cast<std::size_t>(row.code)] = nb::object(made).release().ptr();
    m.attr(row.name) = made;
  }
  nb::register_exception_translator([](const std::exception_ptr& error, void*) {
    try {
      std::rethrow_exception(error);
    } catch (const Error& known) {
      set_exception(known);
    } catch (const nb::cast_error&) {
      set_exception(misfit());
    }
  });
}

}  // namespace etude::python
