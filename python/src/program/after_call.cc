// SPDX-License-Identifier: Apache-2.0
#include "python/src/program/after_call.h"

#include <utility>

namespace etude::python {
namespace {

bool has_value(nb::handle leaf) { return is_tensor(leaf) && tensor_of(leaf).has_value(); }

}  // namespace

bool AfterCall::add(const TreeDef& before, const TreeDef& after, std::span<const nb::object> now,
                    std::size_t& next) {
  if (before.kind == NodeKind::kOptimizer && after.kind == NodeKind::kOptimizer) {
    add_optimizer(before, after, now.subspan(next, after.parts.size()));
    next += after.parts.size();
    return true;
  }
  if (before.parts.empty()) {
    if (&before != &after) return false;
    for (std::size_t i = 0; i < before.leaves.size(); ++i) leaves.push_back(now[next++]);
    return true;
  }
  if (before.kind != after.kind || before.type != after.type || before.keys != after.keys ||
      before.parts.size() != after.parts.size()) {
    return false;
  }
  const bool is_whole = before.kind == NodeKind::kLayer || before.kind == NodeKind::kCustom;
  if (is_whole && before.aux != after.aux) return false;
  for (std::size_t i = 0; i < before.parts.size(); ++i) {
    if (!add(*before.parts[i], *after.parts[i], now, next)) return false;
  }
  return true;
}

void AfterCall::add_optimizer(const TreeDef& before, const TreeDef& after,
                              std::span<const nb::object> now) {
  const std::size_t first = leaves.size();
  const std::span<const nb::object> old = std::span(passed).subspan(first, before.parts.size());
  bool is_same = &before == &after;
  for (std::size_t i = 0; is_same && i < now.size(); ++i) {
    is_same = has_value(old[i]) == has_value(now[i]);
  }
  const auto kept = is_same ? now : old;
  leaves.insert(leaves.end(), kept.begin(), kept.end());
  if (is_same) return;
  ResultForm::Grown made{first, &after, {}};
  for (const nb::object& leaf : now) {
    made.has.push_back(has_value(leaf) ? 1 : 0);
    if (has_value(leaf)) grown_leaves.push_back(leaf);
  }
  grown.push_back(std::move(made));
}

}  // namespace etude::python
