// SPDX-License-Identifier: Apache-2.0
// The attributes of one call, from Python objects by the kinds of the record.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "etude/core/call/arg.h"
#include "etude/core/call/values.h"
#include "etude/core/op/attrs.h"
#include "etude/core/op/op.h"
#include "python/src/bind.h"

namespace etude::python {

class Attributes {
 public:
  static constexpr std::size_t kMost = 10;

  explicit Attributes(const Op& op) noexcept : op_(op) {}
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  // Sets attribute i. The object must outlive the call. throws: nb::python_error (TypeError) for an
  // object of another kind; kFailedPrecondition for a tensor whose value is not known yet.
  void set(std::size_t i, nb::handle value);
  bool is_set(std::size_t i) const noexcept { return ((set_ >> i) & 1) != 0; }
  // The number in attribute i, or its default.
  double real(std::size_t i) const;
  // `bytes` times the sizes among the attributes: more than any result has.
  int64_t scaled(int64_t bytes) const noexcept { return std::max(bytes, scale_ * bytes); }

  Values call(std::span<const Arg* const> args, CallSite where) const;
  Values call_list(std::span<const Tensor> operands, CallSite where) const;

 private:
  void read(std::size_t i, nb::handle value);
  void set_ints(std::size_t i, nb::handle value);
  void set_reals(std::size_t i, nb::handle value);
  void scale_by(int64_t size) noexcept;

  const Op& op_;
  std::array<AttrView, kMost> views_;
  std::array<double, kMost> numbers_;
  uint32_t set_ = 0;
  int64_t scale_ = 1;
  std::vector<std::vector<int64_t>> ints_;
  std::vector<std::vector<double>> reals_;
  std::vector<std::string> texts_;
};

}  // namespace etude::python
