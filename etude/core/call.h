// SPDX-License-Identifier: Apache-2.0
// How the generated functions of etude/ops.h call ops: the eager fast path for one and two operands
// and the general way for all others. Not for users.
#pragma once

#include <initializer_list>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

#include "etude/core/arg.h"
#include "etude/core/attr_view.h"
#include "etude/core/values.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Op;

namespace internal {

// The record called `name`; lives for ever. throws: kInternal if it is not there.
const Op& op(std::string_view name);

// Default attributes; the thread-local mode word is looked at first, then the dispatch cache.
// cost: 10 to 60 ns for tiny operands.
Tensor call1(const Op& op, const Arg& x);
Tensor call2(const Op& op, const Arg& x, const Arg& y);
// Any operands and attributes, these in the order of the record. Host numbers take the dtype of the
// first tensor among the operands that share one.
Values call(const Op& op, std::span<const Arg* const> args, std::initializer_list<AttrView> attrs,
            CallSite where);
Values call_list(const Op& op, std::span<const Tensor> operands,
                 std::initializer_list<AttrView> attrs, CallSite where);

// The key of a draw with this probability: the given one, else the next of the thread; absent where
// nothing is drawn.
OptionalArg key_for(const OptionalArg& given, double probability);

inline Tensor only(Values values) { return std::move(values[0]); }
inline std::vector<Tensor> list(Values values) {
  return {std::make_move_iterator(values.begin()), std::make_move_iterator(values.end())};
}

}  // namespace internal
}  // namespace etude
