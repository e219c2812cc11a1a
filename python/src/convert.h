// SPDX-License-Identifier: Apache-2.0
// Python objects as operands and tensors.
#pragma once

#include <optional>

#include "etude/core/call/arg.h"
#include "python/src/bind.h"

namespace etude::python {

// A number of the host. Integers beyond int64 are `real` unless uint64 holds them.
struct HostNumber {
  enum class Kind : uint8_t { kBool, kInteger, kUnsigned, kReal, kComplex };
  Kind kind = Kind::kInteger;
  int64_t integer = 0;
  uint64_t unsigned_integer = 0;
  double real = 0, imag = 0;
};
// The number that `object` is: a bool, int, float or complex, or a scalar of NumPy; absent for
// others. throws: Error for an integer of more than 64 bits.
std::optional<HostNumber> as_number(nb::handle object);
// The number as a tensor without axes, of its default dtype or of `dtype`.
Tensor tensor_of_number(const HostNumber& number, std::optional<DType> dtype = {});

// How a new tensor is made of a Python object.
struct NewTensor {
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
  std::optional<bool> copy = {};  // false: never copies; absent: copies foreign memory
};
// The error for an object that makes no tensor.
std::string needed_text(nb::handle object);
// The tensor of `object`; absent if it is nothing that has elements.
// throws: Error, nb::python_error.
Tensor make_new_tensor(nb::handle object, const NewTensor& how);

// The operand of a call. It refers to itself once it is read, so it stays where it is.
class Operand {
 public:
  Operand() = default;
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;

  // Returns false if `object` is nothing that has elements; None is an absent tensor if
  // `allows_none`. Nothing is read from the tensor.
  bool read(nb::handle object, CallSite where, bool allows_none);
  void set_absent(CallSite where) { arg_.emplace(held_, where); }
  void set(const OptionalArg& value, CallSite where) { arg_.emplace(value, where); }
  const Arg& arg() const { return *arg_; }
  bool is_read() const noexcept { return arg_.has_value(); }
  // The tensor of the operand, or its number in the default dtype.
  Tensor tensor() const { return internal::materialize(*arg_); }
  // Bytes of the elements, if it is a tensor.
  int64_t bytes() const {
    const Tensor* tensor = arg_->tensor();
    return tensor != nullptr && tensor->has_value() ? TensorAccess::rep(*tensor)->type->bytes() : 0;
  }
  bool is_complex_number() const noexcept { return is_complex_number_; }
  // Converts a complex number of the host to the precision of the other operands.
  void set_complex_precision(DType dtype, CallSite where);

 private:
  Tensor held_;
  std::optional<Arg> arg_;
  HostNumber number_;
  bool is_complex_number_ = false;
};

// Whether an object is a tensor without elements: a function is being traced, or run on a batch.
bool is_traced(nb::handle object);

// A shape whose open sizes are None; an int is a shape of one axis. `what` begins the error:
// "Variable: the shape". throws: kInvalidArgument for a negative size.
Shape open_shape(nb::handle sizes, std::string_view what);

}  // namespace etude::python
