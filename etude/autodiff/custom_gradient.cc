// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/custom_gradient.h"

#include <algorithm>
#include <optional>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/internal/call.h"

namespace etude::internal {

void ReadList::variable_read(const Variable& variable, const Tensor& snapshot) {
  const bool known = std::any_of(variables.begin(), variables.end(),
                                 [&](const Variable& v) { return v.ref() == variable.ref(); });
  if (!variable.trainable() || known) return;
  variables.push_back(variable);
  snapshots.push_back(snapshot);
}

void ReadList::remove(const LeafList& arguments) {
  for (const LeafRef& leaf : arguments.items()) {
    if (leaf.variable == nullptr) continue;
    for (std::size_t i = 0; i < variables.size(); ++i) {
      if (variables[i].ref() != leaf.variable->ref()) continue;
      variables.erase(variables.begin() + static_cast<std::ptrdiff_t>(i));
      snapshots.erase(snapshots.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
}

RuleCaptures::RuleCaptures(const LeafList& arguments, std::span<const Tensor> inputs)
    : is_needed_(takes_derivatives()), captures_(is_needed_, CaptureList::Noted::kDifferentiated) {
  if (!is_needed_) return;
  captures_.leave_out(inputs);
  // A sparse argument is represented by its rows.
  for (const LeafRef& leaf : arguments.items()) {
    const auto rows =
        leaf.tensor != nullptr && leaf.tensor->has_value() ? leaf.tensor->slices() : std::nullopt;
    if (rows) captures_.leave_out({&rows->values, 1});
  }
}

void RuleCaptures::finish(std::span<const Tensor> results, std::span<const Tensor> known,
                          CallSite where) {
  if (!is_needed_) return;
  for (const Tensor& y : results) captures_.note(y);
  captures_.leave();
  warn_of_captures(captures_.found(), known, where);
}

void throw_unlisted_variables(const std::vector<Variable>& variables) {
  std::vector<std::string> names;
  for (const Variable& v : variables) {
    names.push_back(!v.name().empty() ? "'" + v.name() + "'"
                    : v.where().known()
                        ? fmt::format("the one made at {}:{}", v.where().file, v.where().line)
                        : "one without a name");
  }
  Error error(
      ErrorCode::kFailedPrecondition,
      fmt::format("the function reads Variables that are not arguments ({}), but its pullback "
                  "returns no gradients for them. Pass them as arguments, or let the pullback "
                  "take std::span<const Variable> last and return their gradients too",
                  fmt::join(names, ", ")));
  error.name_op("custom_gradient");
  throw error;
}

Tensor stop_leaf(const Tensor& x) { return x.has_value() ? stop_gradient(x) : Tensor(); }

}  // namespace etude::internal
