// SPDX-License-Identifier: Apache-2.0
// Ops as Python functions: one type of CPython whose objects hold a record and parse arguments by
// it. Functions, signatures and docs of the package come from the registry alone.
#pragma once

#include <string>
#include <vector>

#include <Python.h>

#include "etude/core/op/op.h"
#include "python/src/bind.h"

namespace etude::python {

// A parameter of the function of an op, in the order of its signature.
struct Parameter {
  enum class Mode : uint8_t { kPositional, kEither, kKeyword, kList };
  PyObject* name = nullptr;  // an interned str
  bool is_operand = true;
  std::size_t index = 0;  // among the operands, or the attributes
  Mode mode = Mode::kEither;
  bool is_required = true;
};

struct Signature {
  std::vector<Parameter> parameters;
  std::size_t positional = 0;  // that may be given by position
  std::size_t required = 0;    // by position, before the optional ones
  // 1 or 2: calls with so many tensors by position, and nothing else, have all that the op needs.
  std::size_t plain = 0;
  int list = -1;         // the place of the list of operands
  int key = -1;          // the operand with the random key of dropout
  int dropout = -1;      // the attribute with its probability
  bool spreads = false;  // f(a, b) besides f([a, b])
};

struct OpObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  const Op* op;
  const Signature* signature;
  PyObject* result_type;  // of several named results, after a call; null: a tensor, or a tuple
};

extern PyTypeObject op_type;

// The signature of the function of a record (op_signature.cc).
Signature make_signature(const Op& op);
// "matmul(x, y, /, *, transpose_x=False, transpose_y=False)".
std::string signature_text(const Op& op, const Signature& signature);
// The names of its results, by the Array API standard where that has names.
std::vector<std::string> result_names(const Op& op);
extern PyGetSetDef op_properties[];
extern PyMethodDef op_methods[];

// Calls with one and two operands and no attributes, for operators. Return NotImplemented for an
// operand that is nothing with elements.
PyObject* call_unary(const Op& op, PyObject* x) noexcept;
PyObject* call_binary(const Op& op, PyObject* x, PyObject* y) noexcept;
// The result of a call: a tensor, or a tuple of several.
PyObject* results_of(Values values, PyObject* result_type, bool is_one);

// Whether a call on so many bytes may keep the GIL: nothing watches, and it is short.
inline bool keeps_gil(int64_t bytes) noexcept {
  return internal::mode_word == 0 && bytes <= kSmallBytes;
}

}  // namespace etude::python
