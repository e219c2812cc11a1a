// SPDX-License-Identifier: Apache-2.0
// Host values of Python among the arguments of a staged function: they are fixed in the graph, and
// are part of its key. Numbers and texts count by type and value, objects with an equality of their
// own by that, all others by identity, held weakly (staging.md, 0.1).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "etude/stage/function_core.h"
#include "python/src/bind.h"

namespace etude::python {

// How an object is compared.
enum class HostEquality : uint8_t {
  kIdentity,  // weakly
  kMethod,    // a bound method: its object weakly, and its function
  kValue,     // by ==, held strongly
};

// A host value of a call. Borrowed.
struct HostLeaf {
  PyObject* object = nullptr;
  HostEquality equality = HostEquality::kIdentity;
};

// Calls word(uint64_t) for each word of a number or a text, and returns true; false for an object.
template <class Word>
bool host_words(PyObject* x, Word&& word) {
  if (PyBool_Check(x) != 0) {
    word(1);
    word(x == Py_True ? 1 : 0);
    return true;
  }
  if (PyLong_CheckExact(x) != 0) {
    int overflow = 0;
    const int64_t value = PyLong_AsLongLongAndOverflow(x, &overflow);
    if (overflow != 0) return false;
    word(2);
    word(static_cast<uint64_t>(value));
    return true;
  }
  const auto real = [&](double value) {
    uint64_t bits = 0;
    static_assert(sizeof(bits) == sizeof(value));
    __builtin_memcpy(&bits, &value, sizeof(bits));
    word(bits);
  };
  if (PyFloat_CheckExact(x) != 0) {
    word(3);
    real(PyFloat_AS_DOUBLE(x));
    return true;
  }
  if (PyComplex_CheckExact(x) != 0) {
    word(4);
    real(PyComplex_RealAsDouble(x));
    real(PyComplex_ImagAsDouble(x));
    return true;
  }
  if (PyUnicode_CheckExact(x) == 0) return false;
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(x, &size);
  if (text == nullptr) {  // lone surrogates
    PyErr_Clear();
    return false;
  }
  word(5);
  word(static_cast<uint64_t>(size));
  for (Py_ssize_t i = 0; i < size; i += 8) {
    uint64_t bits = 0;
    __builtin_memcpy(&bits, text + i, static_cast<std::size_t>(size - i < 8 ? size - i : 8));
    word(bits);
  }
  return true;
}

// throws: kInvalidArgument for an object that cannot be a key, such as a set: `path` is its place
// among the arguments of `function`.
HostLeaf host_leaf(PyObject* object, const std::string& path, const std::string& function);
// The entry of a key of a staged function. `leaf` must outlive it.
internal::HostValue host_value(const HostLeaf& leaf);
// A short repr, for explain() and messages; never fails.
std::string host_text(PyObject* object);

}  // namespace etude::python
