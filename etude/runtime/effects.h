// SPDX-License-Identifier: Apache-2.0
// print() and assert_true(): what the world sees of a program. Both run eagerly, and in a function
// at each call of it, in the order in which the program has them, also inside branches and loops.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/core/arg.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Something that print() takes: a text, a number, a Tensor, or what can be read as one. Notes the
// caller's line. Only a parameter type.
class Printed {
 public:
  template <class T>
  requires std::convertible_to<const T&, std::string_view> Printed(
      const T& text, CallSite where = CallSite::here())  // NOLINT(google-explicit-constructor)
      : text_(std::string_view(text)), where_(where) {}
  template <class T>
  requires std::is_arithmetic_v<T> Printed(
      T number, CallSite where = CallSite::here())  // NOLINT(google-explicit-constructor)
      : text_(text_of(number)), where_(where) {}
  Printed(const Tensor& x,
          CallSite where = CallSite::here())  // NOLINT(google-explicit-constructor)
      : tensor_(x), is_tensor_(true), where_(where) {}
  template <ReadableAsTensor T>
  Printed(const T& x, CallSite where = CallSite::here())  // NOLINT(google-explicit-constructor)
      : tensor_(x.read()), is_tensor_(true), where_(where) {}

  bool is_tensor() const noexcept { return is_tensor_; }
  const Tensor& tensor() const noexcept { return tensor_; }
  const std::string& text() const noexcept { return text_; }
  CallSite where() const noexcept { return where_; }

 private:
  template <class T>
  static std::string text_of(T number) {
    if constexpr (std::is_same_v<T, bool>) {
      return number ? "true" : "false";
    } else if constexpr (std::is_same_v<T, char>) {
      return std::string(1, number);
    } else if constexpr (std::is_integral_v<T>) {
      return std::to_string(number);
    } else if constexpr (std::is_same_v<T, float>) {
      return real_text(number);
    } else {
      return real_text(static_cast<double>(number));
    }
  }
  static std::string real_text(float number);
  static std::string real_text(double number);

  std::string text_;
  Tensor tensor_;
  bool is_tensor_ = false;
  CallSite where_;
};

// Writes one line (more for matrices): the values, with spaces between them, to standard output or
// to what set_print_sink() gave. Tensors are written as their elements, long ones with dots.
//
//   print("step", step, "loss", loss);     // step 3 loss 0.25
//
// In a function it prints when the function runs; texts and host numbers are those of the trace. In
// a vmap that a value depends on, each example has a line, in their order. Derivatives print
// nothing more: what runs the steps of a loop again leaves prints out, except recompute_grad, which
// runs its function again. thread-safe: lines stay whole.
void print(const Printed& first, const std::convertible_to<Printed> auto&... others);

// Fails unless all elements of `condition`, which is bool of any shape, are true. In a function it
// fails the call when it runs: prints behind it do not happen, and no Variable has been assigned.
//
// throws: kInvalidArgument for another dtype; kFailedPrecondition with `message` and the first
//         element that is false.
void assert_true(const Tensor& condition, std::string_view message,
                 CallSite where = CallSite::here());

// Who gets the lines of print(), without their end; an empty one stands for standard output. What
// it throws fails the call that prints.
using PrintSink = std::function<void(std::string_view line)>;
// Of the process; gives the one before. thread-safe: waits for a line that is being written.
//
// throws: kFailedPrecondition inside of a sink, where print() does so too.
PrintSink set_print_sink(PrintSink sink);

namespace internal {

void print_all(const std::vector<Printed>& values);
void print_line(std::string_view line);

}  // namespace internal

void print(const Printed& first, const std::convertible_to<Printed> auto&... others) {
  internal::print_all({first, Printed(others)...});
}

}  // namespace etude
