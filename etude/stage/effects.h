// SPDX-License-Identifier: Apache-2.0
// print() and assert_true(): effects that are visible outside of the program. In eager mode they
// run at once. In a staged function they run at each call, in program order, also inside branches
// and loops.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/core/call/arg.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// An argument of print(): a text, a number, a Tensor, or a value that can be read as a tensor.
// Stores the caller's line. Use it only as the type of a parameter.
class Printed {
 public:
  template <class T>
  requires std::convertible_to<const T&, std::string_view> Printed(
      const T& text, CallSite where = CallSite::here())
      : text_(std::string_view(text)), where_(where) {}
  template <class T>
  requires std::is_arithmetic_v<T> Printed(T number, CallSite where = CallSite::here())
      : text_(text_of(number)), where_(where) {}
  Printed(const Tensor& x, CallSite where = CallSite::here())
      : tensor_(x), is_tensor_(true), where_(where) {}
  template <ReadableAsTensor T>
  Printed(const T& x, CallSite where = CallSite::here())
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

// Writes one line with the values, separated by spaces; a matrix takes several lines. The output is
// standard output or the sink of set_print_sink(). A tensor is written as its elements. Dots
// abbreviate a long tensor.
//
//   print("step", step, "loss", loss);     // step 3 loss 0.25
//
// In a staged function, prints at each call of the function. Texts and host numbers have the values
// of the trace. If an argument depends on the examples of a vmap, prints a line for each example,
// in order. A derivative that runs steps of a loop again does not print again. Only recompute_grad,
// which runs its function again, repeats prints.
// threads: thread-safe; lines are not interleaved.
void print(const Printed& first, const std::convertible_to<Printed> auto&... others);

// Fails unless all elements of `condition`, a bool tensor of any shape, are true. A call of a
// staged function fails at the assertion. Later prints then do not happen, and no Variable is
// assigned.
//
// throws: kInvalidArgument for another dtype; kFailedPrecondition with `message` and the first
//         element that is false.
void assert_true(const Tensor& condition, std::string_view message,
                 CallSite where = CallSite::here());

// Receives the lines of print(), without the line end, one at a time. Lines of one thread arrive in
// the order of its prints. An empty sink means standard output. While a thread runs the sink, lines
// of other threads are queued, and these threads continue. If the sink throws, the call that runs
// the sink fails. The next print then writes the queued lines.
using PrintSink = std::function<void(std::string_view line)>;
// Sets the sink of the process, and returns the previous sink. Waits until no thread runs the
// previous sink.
//
// throws: kFailedPrecondition inside a sink. print() throws the same error there.
// threads: thread-safe.
PrintSink set_print_sink(PrintSink sink);

namespace internal {

// Prints the values as one line, with spaces between them.
void print_all(const std::vector<Printed>& values);
void print_line(std::string_view line);

}  // namespace internal

void print(const Printed& first, const std::convertible_to<Printed> auto&... others) {
  internal::print_all({first, Printed(others)...});
}

}  // namespace etude
