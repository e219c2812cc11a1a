// SPDX-License-Identifier: Apache-2.0
// Op calls for the generated functions of etude/ops.h: the eager fast path for one and two
// operands, and the general path. Not for users.
#pragma once

#include <atomic>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

#include "etude/core/call/arg.h"
#include "etude/core/call/values.h"
#include "etude/core/op/attr_view.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Op;

namespace internal {

// The record called `name`; never destroyed. throws: kInternal if there is none.
const Op& op(std::string_view name);

// A record by its name, found at the first use. A static NamedOp needs no guard of the C++ runtime:
// threads that use it for the first time at once find the same address. So fork() leaves no guard
// in the child that waits for a thread of the parent.
class NamedOp {
 public:
  // `name` is borrowed, and must outlive the object.
  constexpr explicit NamedOp(const char* name) : name_(name) {}
  operator const Op&() const {
    const Op* const found = found_.load(std::memory_order_acquire);
    return found != nullptr ? *found : find();
  }

 private:
  const Op& find() const;

  const char* name_;
  mutable std::atomic<const Op*> found_{nullptr};
};

// Calls with default attributes. Checks the thread-local mode word first, then the dispatch cache.
// cost: 10 to 60 ns for tiny operands.
Tensor call1(const Op& op, const Arg& x);
Tensor call2(const Op& op, const Arg& x, const Arg& y);
// Calls `op` with any operands and attributes. `attrs` are in the order of the record. Host numbers
// take the dtype of the first tensor among the operands that share a dtype.
Values call(const Op& op, std::span<const Arg* const> args, std::initializer_list<AttrView> attrs,
            CallSite where);
Values call_list(const Op& op, std::span<const Tensor> operands,
                 std::initializer_list<AttrView> attrs, CallSite where);

// Returns the random key of a call that draws with `probability`, such as dropout: `given` if it is
// present, else the next key of the thread. Absent if no key is given and the probability is 0.
OptionalArg key_for(const OptionalArg& given, double probability);

inline Tensor only(Values values) { return std::move(values[0]); }
inline std::vector<Tensor> list(Values values) {
  return {std::make_move_iterator(values.begin()), std::make_move_iterator(values.end())};
}

}  // namespace internal
}  // namespace etude
