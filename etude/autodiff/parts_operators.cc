// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/parts_operators.h"

#include <optional>
#include <span>
#include <string>

#include "etude/autodiff/batch.h"
#include "etude/autodiff/custom_gradient.h"
#include "etude/base/check.h"
#include "etude/core/call/arg.h"
#include "etude/core/call/call_scope.h"

namespace etude {

template class Function<Parts(Parts&)>;

namespace parts {

Staged function(std::function<Parts(Parts&)> f, FunctionOptions options, CallSite where) {
  return Staged(std::move(f), std::move(options), where);
}

std::pair<Tensor, Parts> value_with_gradient(const ToTensor& f, const Parts& x, CallSite where) {
  return etude::value_with_gradient<Parts>({f, where}, x);
}

std::pair<Parts, ToParts> value_with_pullback(const ToParts& f, const Parts& x, CallSite where) {
  const CallScope scope(where);
  auto [value, pull] = etude::value_with_pullback(f, x);
  return {std::move(value), std::move(pull)};
}

std::pair<Parts, Parts> jvp(const ToParts& f, const Parts& x, const Parts& tangent,
                            CallSite where) {
  return etude::jvp(f, x, tangent, where);
}

Parts hvp(const ToTensor& f, const Parts& x, const Parts& tangent, CallSite where) {
  return etude::hvp(f, x, tangent, where);
}

ToParts vmap(ToParts f, const VmapOptions& options, CallSite where) {
  return etude::vmap(std::move(f), options, where);
}

ToParts custom_gradient(std::function<std::pair<Parts, ToParts>(const Parts&)> rule,
                        CallSite where) {
  return etude::custom_gradient(std::move(rule), where);
}

ToParts recompute_grad(ToParts f) { return etude::recompute_grad(std::move(f)); }

Parts switch_case(const Arg& index, const std::vector<ToParts>& branches, const Parts& x) {
  const Tensor choice = etude::internal::materialize(index);
  ETUDE_REQUIRE(!branches.empty(), "switch_case: there is no branch to choose. Pass one");
  std::optional<std::size_t> known;
  const bool is_bool = choice.has_value() && choice.dtype() == kBool;
  if (is_bool) {
    ETUDE_REQUIRE(branches.size() == 2, "switch_case: a bool chooses among 2 branches, not {}",
                  branches.size());
    if (const std::optional<bool> is_true =
            etude::internal::bool_of("cond", choice, index.where())) {
      known = *is_true ? 0 : 1;
    }
  } else {
    known = etude::internal::index_of(choice, branches.size(), index.where());
  }
  const etude::internal::StepKeys keys;
  if (known) {
    Parts out = branches[*known](x);
    etude::internal::OwnValues(index.where()).settle(out);
    return out;
  }
  etude::internal::StagedSwitch call(is_bool ? "cond" : "switch_case", keys.base(), index.where());
  std::vector<Parts> results;
  const auto trace = [&](std::size_t i, const std::string& name) {
    call.trace(name, [&](std::span<const Tensor>) {
      return etude::internal::tensors_of(results.emplace_back(branches[i](x)));
    });
  };
  // A switch on a bool numbers the branch of false first.
  for (std::size_t i = 0; i < branches.size(); ++i) {
    trace(is_bool ? 1 - i : i, "branch" + std::to_string(is_bool ? 1 - i : i));
  }
  const etude::internal::StructureShape shape(is_bool ? "cond" : "switch_case", "result",
                                              results[0], index.where());
  for (const Parts& result : results) {
    shape.require_same(result, "from the first branch", "from another branch");
  }
  Parts out = std::move(results[0]);
  etude::internal::put_tensors(out, call.run(choice));
  return out;
}

Parts while_loop(const ToTensor& condition, const ToParts& body, Parts init,
                 const LoopOptions& options, CallSite where) {
  return etude::while_loop(condition, body, std::move(init), options, where);
}

Parts fold(const Step& body, Parts init, const Parts& rows, CallSite where) {
  return etude::fold(body, std::move(init), rows, where);
}

std::pair<Parts, Parts> scan(const StepWithRow& body, Parts init, const Parts& rows,
                             CallSite where) {
  return etude::scan(body, std::move(init), rows, where);
}

}  // namespace parts
}  // namespace etude
