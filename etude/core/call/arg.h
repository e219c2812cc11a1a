// SPDX-License-Identifier: Apache-2.0
// Arg: the parameter type of op operands. Takes a tensor, a host number, or any type readable as a
// tensor (a Variable, a slice), and stores the line of the call. Use Arg only as a parameter type.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/base/has_leaf.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// A type that is read as a tensor at the time of use.
template <class T>
concept ReadableAsTensor = requires(const T& x) {
  { x.read() } -> std::convertible_to<Tensor>;
};

// An optional operand in an options struct: absent, a tensor, or a host number that takes the dtype
// of the other operands. Plain value.
class OptionalArg {
 public:
  OptionalArg() = default;
  OptionalArg(Tensor value) : tensor_(std::move(value)) {}
  template <ReadableAsTensor T>
  OptionalArg(const T& value) : tensor_(value.read()) {}
  template <std::floating_point T>
  OptionalArg(T value) : real_(static_cast<double>(value)) {}
  template <std::integral T>
  OptionalArg(T value) : integer_(static_cast<int64_t>(value)), is_bool_(std::same_as<T, bool>) {}

 private:
  friend class Arg;
  Tensor tensor_;
  std::optional<double> real_;
  std::optional<int64_t> integer_;
  bool is_bool_ = false;
};

// Constructors are implicit so that their argument `where` stores the line of the call: in `a + b`,
// the line of `a`. Lives for one call.
class Arg {
 public:
  enum class Kind : uint8_t { kTensor, kInteger, kReal, kBool };

  Arg(const Tensor& value, CallSite where = CallSite::here()) : tensor_(&value), where_(where) {}
  // An expiring operand: the result may reuse its storage.
  Arg(Tensor&& value, CallSite where = CallSite::here())
      : tensor_(&value), where_(where), expiring_(true) {}
  template <std::floating_point T>
  Arg(T value, CallSite where = CallSite::here())
      : where_(where), real_(static_cast<double>(value)), kind_(Kind::kReal) {}
  template <std::integral T>
  Arg(T value, CallSite where = CallSite::here())
      : where_(where),
        integer_(static_cast<int64_t>(value)),
        kind_(std::same_as<T, bool> ? Kind::kBool : Kind::kInteger) {}
  template <ReadableAsTensor T>
  Arg(const T& value, CallSite where = CallSite::here())
      : tensor_(&held_), where_(where), held_(value.read()) {}
  // The value of a NoDerivative, such as a constant of a layer.
  template <class T>
  requires(std::same_as<T, Tensor> || ReadableAsTensor<T>)
      Arg(const NoDerivative<T>& constant, CallSite where = CallSite::here())
      : Arg(constant.value, where) {}
  // A host number that a derivative tracks: a number on a tape, or with a tangent.
  template <internal::RecordedNumber S>
  Arg(const S& value, CallSite where = CallSite::here())
      : where_(where),
        real_(internal::NumberCrossing<S>::real(value)),
        kind_(Kind::kReal),
        held_(internal::NumberCrossing<S>::followed(value, where)) {}
  // An optional operand, which must outlive this object.
  Arg(const OptionalArg& value, CallSite where) : where_(where) {
    if (value.real_) {
      real_ = *value.real_;
      kind_ = Kind::kReal;
    } else if (value.integer_) {
      integer_ = *value.integer_;
      kind_ = value.is_bool_ ? Kind::kBool : Kind::kInteger;
    } else {
      tensor_ = &value.tensor_;
    }
  }
  Arg(const Arg&) = delete;
  Arg& operator=(const Arg&) = delete;
  ~Arg() = default;

  Kind kind() const noexcept { return kind_; }
  CallSite where() const noexcept { return where_; }
  bool is_expiring() const noexcept { return expiring_; }
  // The tensor; null for a host number.
  const Tensor* tensor() const noexcept { return tensor_; }
  double real() const noexcept {
    return kind_ == Kind::kReal ? real_ : static_cast<double>(integer_);
  }
  int64_t integer() const noexcept { return integer_; }
  // The tensor that represents a host number with a derivative; absent for a plain host number.
  const Tensor& followed() const noexcept { return held_; }

 private:
  const Tensor* tensor_ = nullptr;
  CallSite where_;
  union {
    double real_;
    int64_t integer_ = 0;
  };
  Kind kind_ = Kind::kTensor;
  bool expiring_ = false;
  Tensor held_;
};

// A list of operands for variadic ops: concat({a, b}). Lives for one call.
class Args {
 public:
  Args(std::initializer_list<Tensor> list, CallSite where = CallSite::here())
      : items_(list.begin(), list.end()), where_(where) {}
  Args(const std::vector<Tensor>& list, CallSite where = CallSite::here())
      : items_(list), where_(where) {}

  const std::vector<Tensor>& items() const noexcept { return items_; }
  CallSite where() const noexcept { return where_; }

 private:
  std::vector<Tensor> items_;
  CallSite where_;
};

namespace internal {
// The number of `arg` as a tensor of `dtype`.
// throws: kInvalidArgument if the number would be truncated (1.5 for int32).
Tensor adapt(const Arg& arg, DType dtype);
// The tensor of `arg`, or its number in the default dtype of its kind.
Tensor materialize(const Arg& arg);
}  // namespace internal
}  // namespace etude
