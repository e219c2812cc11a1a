// SPDX-License-Identifier: Apache-2.0
// A cluster is a group of consecutive calls of a plan, each on a few elements, that is compiled to
// one function of machine code (docs/design/0016). It may also be a whole loop of such calls. Until
// the code is compiled, the plan runs the calls one by one; both compute the same bits. Used by
// plans and loops (plan.h); codegen/ makes the code.
//
// Invariants, verified by check():
// * Each value has exactly one source: it is the result of a call, carried, or loaded. A call comes
//   after the calls that compute its operands.
// * A value is loaded before the first call that reads it, and stored after the call that computes
//   it. Loads and stores are in the order of the plan's steps, since a later step may reuse the
//   memory of a value.
// * No value has more than kMostElements. All are float32, or bools in bytes of 0 and 1.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "etude/base/scalars/scalar_program.h"
#include "etude/core/op/rules.h"
#include "etude/core/op/tier.h"

namespace etude::internal {

// The computation of a call, element by element, so that the call can be inlined. Kernels provide
// the description (kernels/cpu/elementwise/small_calls.h), so this code names no op.
struct SmallCall {
  enum class Kind : uint8_t { kProgram, kProduct, kCombine, kMove };
  enum class Combine : uint8_t { kSum, kProd, kMax, kMin };
  static constexpr std::size_t kMostDescribed = 64;  // elements of an operand or of the result
  using List = std::vector<uint16_t>;
  // Reduces [outer, size, inner] to [outer, inner], in the order of kernels/cpu/reduce/reduce.h.
  struct Axes {
    uint32_t outer, size, inner;
  };

  Kind kind = Kind::kMove;
  // One list per operand: entry i is the index of the element that element i of the result reads.
  // An empty list means index i. kMove has a single list; its indices number the elements of all
  // operands consecutively.
  std::vector<List> at;
  // For kProgram: the program that is applied to those elements.
  std::shared_ptr<const scalar::Program> program;
  std::vector<double> params;
  // For kProduct: a dot product with `depth` terms, each a fused multiply-add, starting from 0.
  // From one term to the next, operand o advances by strides[o] elements.
  uint32_t depth = 0;
  std::array<uint32_t, 2> strides{};
  // For kCombine: consecutive reductions, then a division by `divisor`.
  Combine combine = Combine::kSum;
  std::vector<Axes> passes;
  float divisor = 1;
};

struct Cluster {
  static constexpr std::size_t kMostElements = SmallCall::kMostDescribed;  // four vectors of 16
  static constexpr std::size_t kMostSlots = 64;                            // in a loop
  static constexpr std::size_t kMostWork = 2000;  // of one function, in units of work()

  struct Value {
    uint32_t count = 1;
    bool is_bool = false;
  };
  struct Call {
    SmallCall what;
    std::vector<uint32_t> operands;  // values
    uint32_t result = 0;
  };
  // The address of a value: `slot` is the index of a pointer argument of the function. Step s of a
  // loop adds s strides; in a reverse loop of n steps, it adds n - 1 - s strides.
  struct Place {
    uint32_t value = 0, slot = 0;
    int64_t offset = 0, stride = 0;  // bytes
  };
  // A value that a loop carries: `after` of one step is `before` of the next. It is loaded from
  // `from` before the first step, and stored to `to` after the last step.
  struct Carried {
    uint32_t before = 0, after = 0;
    Place from, to;
  };

  std::vector<Value> values;
  std::vector<Call> calls;
  std::vector<Place> loads, stores;
  bool is_loop = false;  // else one step
  bool is_reverse = false;
  std::vector<Carried> carried;

  // An estimate of the number of vector instructions, which limits the size of a function.
  static std::size_t work(const SmallCall& call, std::size_t count);
  // The parameters of all calls, in the order of the calls.
  std::vector<double> params() const;
};

// The cluster as text, without the values of its parameters. Clusters with equal texts share a
// function.
std::string to_string(const Cluster& cluster);
// throws: kInternal if an invariant is broken.
void check(const Cluster& cluster);

}  // namespace etude::internal
