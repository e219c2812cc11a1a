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
//   it. Loads and stores are in the order of the plan's steps, so that its places stay valid.
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
  // [outer, size, inner] to [outer, inner], in the order of kernels/cpu/reduce/reduce.h.
  struct Axes {
    uint32_t outer, size, inner;
  };

  Kind kind = Kind::kMove;
  // By operand: the index of the element that element i of the result reads; an empty list means
  // index i. kMove has a single list, which numbers the elements of all operands consecutively.
  std::vector<List> at;
  // For kProgram: the program that is applied to those elements.
  std::shared_ptr<const scalar::Program> program;
  std::vector<double> params;
  // For kProduct: the sum, from 0, of `depth` products. Each is a fused multiply-add; each step
  // advances by `strides` elements.
  uint32_t depth = 0;
  std::array<uint32_t, 2> strides{};
  // For kCombine: consecutive reductions, then a division.
  Combine combine = Combine::kSum;
  std::vector<Axes> passes;
  float divisor = 1;
};

struct Cluster {
  static constexpr std::size_t kMostElements = SmallCall::kMostDescribed;  // four vectors of 16
  static constexpr std::size_t kMostSlots = 64;                            // of a loop
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
  // The location of a value: `slot` is one of the pointer arguments of the function. In a loop,
  // step s adds s strides; a backward loop starts at the end.
  struct Place {
    uint32_t value = 0, slot = 0;
    int64_t offset = 0, stride = 0;  // bytes
  };
  // A carried value: `before` of a step is `after` of the previous step. The first step loads it,
  // and the last step stores it.
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
  // All parameters, in the order of calls.
  std::vector<double> params() const;
};

// The cluster as text, without its parameters. Clusters with equal texts share a function.
std::string to_string(const Cluster& cluster);
// throws: kInternal if an invariant is broken.
void check(const Cluster& cluster);

}  // namespace etude::internal
