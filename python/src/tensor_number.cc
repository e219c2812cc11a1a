// SPDX-License-Identifier: Apache-2.0
// Operators of etude.Tensor. Each calls the op of its name in the registry. An augmented assignment
// assigns a new value to the variable; it happens in place if no other name refers to the object.
#include <string_view>

#include "etude/base/check.h"
#include "etude/core/bit_updates.h"
#include "etude/core/index.h"
#include "etude/core/internal/call.h"
#include "etude/core/op/registry.h"
#include "python/src/convert.h"
#include "python/src/frames.h"
#include "python/src/op_object.h"
#include "python/src/tensor_object.h"

namespace etude::python {
namespace {

// The record of an operator, found once.
const Op& record(const char* name) { return Registry::global().at(name); }

#define ETUDE_BINARY(function, name)             \
  PyObject* function(PyObject* x, PyObject* y) { \
    static const Op& op = record(name);          \
    return call_binary(op, x, y);                \
  }
#define ETUDE_UNARY(function, name)     \
  PyObject* function(PyObject* x) {     \
    static const Op& op = record(name); \
    return call_unary(op, x);           \
  }

ETUDE_BINARY(add, "add")
ETUDE_BINARY(subtract, "subtract")
ETUDE_BINARY(multiply, "multiply")
ETUDE_BINARY(divide, "divide")
ETUDE_BINARY(floor_divide, "floor_divide")
ETUDE_BINARY(remainder, "remainder")
ETUDE_BINARY(matmul, "matmul")
ETUDE_BINARY(left_shift, "bitwise_left_shift")
ETUDE_BINARY(right_shift, "bitwise_right_shift")
ETUDE_BINARY(bit_and, "bitwise_and")
ETUDE_BINARY(bit_or, "bitwise_or")
ETUDE_BINARY(bit_xor, "bitwise_xor")
ETUDE_UNARY(negative, "negative")
ETUDE_UNARY(positive, "positive")
ETUDE_UNARY(absolute, "abs")
ETUDE_UNARY(invert, "bitwise_invert")

PyObject* power(PyObject* x, PyObject* y, PyObject* modulus) {
  static const Op& op = record("pow");
  if (modulus != Py_None) {
    PyErr_SetString(PyExc_TypeError, "pow() of a tensor takes no modulus");
    return nullptr;
  }
  return call_binary(op, x, y);
}

// self `op=` other.
template <class Update>
PyObject* augmented(PyObject* self, PyObject* other, const Update& update) noexcept {
  return guarded([&]() -> PyObject* {
    const CallSite where = internal::mode_word != 0 ? here() : CallSite{};
    Operand operand;
    if (!operand.read(other, where, false)) Py_RETURN_NOTIMPLEMENTED;
    if (operand.is_complex_number()) operand.set_complex_precision(tensor_in(self).dtype(), where);
    const auto run = [&](Tensor& x) {
      const int64_t bytes = std::max(TensorAccess::rep(x)->type->bytes(), operand.bytes());
      if (keeps_gil(bytes)) {
        update(x, operand.arg());
      } else {
        released([&] { update(x, operand.arg()); });
      }
    };
    if (is_only_target(self)) {
      // Taken out, so that no thread sees it half-written; an error puts it back as it was.
      Tensor& variable = tensor_in(self);
      Tensor x = variable;
      variable.reset();
      try {
        run(x);
      } catch (...) {
        variable = std::move(x);
        throw;
      }
      variable = std::move(x);
      return Py_NewRef(self);
    }
    Tensor x = tensor_in(self);
    run(x);
    return new_tensor(std::move(x));
  });
}

#define ETUDE_AUGMENTED(function, operation)                                   \
  PyObject* function(PyObject* self, PyObject* other) {                        \
    return augmented(self, other, [](Tensor& x, const Arg& y) { operation; }); \
  }
ETUDE_AUGMENTED(add_to, x += y)
ETUDE_AUGMENTED(subtract_from, x -= y)
ETUDE_AUGMENTED(multiply_by, x *= y)
ETUDE_AUGMENTED(divide_by, x /= y)
ETUDE_AUGMENTED(and_with, x &= y)
ETUDE_AUGMENTED(or_with, x |= y)
ETUDE_AUGMENTED(xor_with, x ^= y)

// The other augmented forms keep the dtype of their target as well.
template <const char* const& name>
PyObject* augmented_by_op(PyObject* self, PyObject* other) {
  return augmented(self, other, [](Tensor& x, const Arg& y) {
    static const Op& op = record(name);
    const DType dtype = x.dtype();
    const Shape shape = x.type()->shape();
    Tensor out = internal::call2(op, Arg(x, y.where()), y);
    ETUDE_REQUIRE(out.dtype() == dtype && out.type()->shape() == shape,
                  "{}: the result is {}, but the updated tensor is {}{} and keeps its type. Write "
                  "x = etude.{}(x, y)",
                  name, out.type()->to_string(), etude::name(dtype), shape.to_string(), name);
    x = std::move(out);
  });
}
constexpr const char* kFloorDivide = "floor_divide";
constexpr const char* kRemainder = "remainder";
constexpr const char* kPow = "pow";
constexpr const char* kLeftShift = "bitwise_left_shift";
constexpr const char* kRightShift = "bitwise_right_shift";
constexpr const char* kMatmul = "matmul";
PyObject* matmul_with(PyObject* self, PyObject* other) {
  return guarded([&] {
    if (as_number(other)) return matmul(self, other);  // an error, as for x @ 2
    return augmented_by_op<kMatmul>(self, other);
  });
}

PyObject* power_of(PyObject* self, PyObject* other, PyObject*) {
  return augmented_by_op<kPow>(self, other);
}

int truth(PyObject* self) {
  try {
    const Tensor& x = tensor_in(self);
    return with_user_line([&] { return static_cast<bool>(x); }) ? 1 : 0;
  } catch (...) {
    set_current_exception();
    return -1;
  }
}

[[noreturn]] void refuse_conversion(const Tensor& x, const char* to) {
  throw nb::type_error(
      ("a tensor of " + std::string(name(x.dtype())) + " does not convert to " + to).c_str());
}

// The only element as a number of Python. A value that is pending or elsewhere is waited for.
template <class T>
T element(const Tensor& x) {
  return with_user_line([&] {
    return keeps_gil(0) && TensorAccess::has_elements(x)
               ? x.item<T>(CallSite{})
               : released([&] { return x.item<T>(CallSite{}); });
  });
}

PyObject* to_int(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Tensor& x = tensor_in(self);
    if (is_complex(x.dtype())) refuse_conversion(x, "int");
    if (is_differentiable(x.dtype())) {
      const nb::float_ number(element<double>(x));
      return PyNumber_Long(number.ptr());
    }
    if (x.dtype() == kUInt64) return PyLong_FromUnsignedLongLong(element<uint64_t>(x));
    return PyLong_FromLongLong(element<int64_t>(x));
  });
}

PyObject* to_index(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Tensor& x = tensor_in(self);
    if (!is_integer(x.dtype()) || x.rank() != 0) {
      throw nb::type_error(("only a tensor of one integer without axes is an index, but this is " +
                            x.type()->to_string())
                               .c_str());
    }
    return to_int(self);
  });
}

PyObject* to_float(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Tensor& x = tensor_in(self);
    if (is_complex(x.dtype())) refuse_conversion(x, "float");
    return PyFloat_FromDouble(element<double>(x));
  });
}

}  // namespace

PyNumberMethods tensor_number = [] {
  PyNumberMethods table{};
  table.nb_add = add;
  table.nb_subtract = subtract;
  table.nb_multiply = multiply;
  table.nb_true_divide = divide;
  table.nb_floor_divide = floor_divide;
  table.nb_remainder = remainder;
  table.nb_power = power;
  table.nb_matrix_multiply = matmul;
  table.nb_lshift = left_shift;
  table.nb_rshift = right_shift;
  table.nb_and = bit_and;
  table.nb_or = bit_or;
  table.nb_xor = bit_xor;
  table.nb_negative = negative;
  table.nb_positive = positive;
  table.nb_absolute = absolute;
  table.nb_invert = invert;
  table.nb_bool = truth;
  table.nb_int = to_int;
  table.nb_index = to_index;
  table.nb_float = to_float;
  table.nb_inplace_add = add_to;
  table.nb_inplace_subtract = subtract_from;
  table.nb_inplace_multiply = multiply_by;
  table.nb_inplace_true_divide = divide_by;
  table.nb_inplace_and = and_with;
  table.nb_inplace_or = or_with;
  table.nb_inplace_xor = xor_with;
  table.nb_inplace_floor_divide = augmented_by_op<kFloorDivide>;
  table.nb_inplace_remainder = augmented_by_op<kRemainder>;
  table.nb_inplace_power = power_of;
  table.nb_inplace_lshift = augmented_by_op<kLeftShift>;
  table.nb_inplace_rshift = augmented_by_op<kRightShift>;
  table.nb_inplace_matrix_multiply = matmul_with;
  return table;
}();

PyObject* compare_tensors(PyObject* a, PyObject* b, int how) noexcept {
  static const Op* const ops[] = {&record("less"),    &record("less_equal"),
                                  &record("equal"),   &record("not_equal"),
                                  &record("greater"), &record("greater_equal")};
  return call_binary(*ops[how], a, b);  // Py_LT, Py_LE, Py_EQ, Py_NE, Py_GT, Py_GE
}

}  // namespace etude::python
