// SPDX-License-Identifier: Apache-2.0
// Staged functions, derivatives and control flow on Parts. These are compiled functions of the
// library. They are for callers whose functions are known only at run time, such as other languages
// and loaded programs. C++ programs may call the templates of the same names with any callable on
// Parts; both compute the same bits.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "etude/autodiff/gradient.h"
#include "etude/diff/vmap_options.h"
#include "etude/parts/parts.h"
#include "etude/stage/control_flow.h"
#include "etude/stage/function.h"
#include "etude/version.h"

namespace ETUDE_API etude {

extern template class Function<Parts(Parts&)>;

namespace parts {

using ToTensor = std::function<Tensor(const Parts&)>;
using ToParts = std::function<Parts(const Parts&)>;
using Step = std::function<Parts(const Parts& state, const Parts& row)>;
using StepWithRow = std::function<std::pair<Parts, Parts>(const Parts& state, const Parts& row)>;

// A staged function with one argument, which a call may change. To pass several arguments, make
// them fields of the Parts.
using Staged = Function<Parts(Parts&)>;
Staged function(std::function<Parts(Parts&)> f, FunctionOptions options = {},
                CallSite where = CallSite::here());

// throws (all): the errors of the templates.
std::pair<Tensor, Parts> value_with_gradient(const ToTensor& f, const Parts& x,
                                             CallSite where = CallSite::here());
std::pair<Parts, ToParts> value_with_pullback(const ToParts& f, const Parts& x,
                                              CallSite where = CallSite::here());
std::pair<Parts, Parts> jvp(const ToParts& f, const Parts& x, const Parts& tangent,
                            CallSite where = CallSite::here());
Parts hvp(const ToTensor& f, const Parts& x, const Parts& tangent,
          CallSite where = CallSite::here());
ToParts vmap(ToParts f, const VmapOptions& options = {}, CallSite where = CallSite::here());
// rule(x) returns the value and its pullback.
ToParts custom_gradient(std::function<std::pair<Parts, ToParts>(const Parts&)> rule,
                        CallSite where = CallSite::here());
ToParts recompute_grad(ToParts f);

// Runs branch number `index` on x. For a bool index, false is branch 0 and true is branch 1.
Parts switch_case(const Arg& index, const std::vector<ToParts>& branches, const Parts& x);
Parts while_loop(const ToTensor& condition, const ToParts& body, Parts init,
                 const LoopOptions& options = {}, CallSite where = CallSite::here());
Parts fold(const Step& body, Parts init, const Parts& rows, CallSite where = CallSite::here());
std::pair<Parts, Parts> scan(const StepWithRow& body, Parts init, const Parts& rows,
                             CallSite where = CallSite::here());

}  // namespace parts
}  // namespace etude
