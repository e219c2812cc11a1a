// SPDX-License-Identifier: Apache-2.0
#include "python/src/program/after_call.h"

#include <optional>
#include <utility>

#include "etude/autodiff/state_update.h"
#include "etude/base/check.h"
#include "etude/core/context/ambient.h"
#include "etude/core/internal/traced.h"

namespace etude::python {

using internal::StateAccess;

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

TracedStates::~TracedStates() {
  for (const Entry& each : all_) {
    each.direct->close();
    each.taken->close();
  }
}

nb::object TracedStates::add(std::size_t leaf, bool is_donated, Tensor value) {
  const int vmaps = internal::count_vmaps();
  const uint64_t since = internal::next_moment();
  auto taken = std::make_shared<Box>(nullptr, vmaps, since);
  auto direct = std::make_shared<Box>(taken, vmaps, since);
  direct->is_taken = false;  // notes the layer
  auto is_lost = std::make_shared<bool>(false);
  const auto look = [is_lost, direct = direct.get(), taken = taken.get(),
                     own = internal::trace_of(value)](const Tensor& now, const auto&) {
    const internal::TraceInfo* const trace = internal::trace_of(now);
    if (trace == nullptr || trace == own || !trace->is_of_body) return;
    // No later change may look at this value.
    *is_lost = direct->is_frozen = taken->is_frozen = true;
  };
  direct->pass_on = taken->pass_on = look;
  LayerState<Tensor> state(std::move(value));
  StateAccess::set_box(state, direct);
  all_.push_back({leaf, is_donated, std::move(direct), std::move(is_lost), std::move(taken)});
  return wrap_state(std::move(state));
}

void TracedStates::take(const std::vector<std::string>& paths, std::vector<Tensor>& outputs,
                        std::vector<ResultForm::NewState>& to) {
  for (const Entry& each : all_) {
    const bool is_direct = each.direct->value() != nullptr;
    if (each.is_donated) {
      if (is_direct) {
        internal::warn_untaken(each.direct->layer, paths[each.leaf], each.direct->where);
      }
      continue;
    }
    if (*each.is_lost) {
      to.push_back({each.leaf, is_direct, true, each.direct->layer});
      continue;
    }
    if (is_direct) each.direct->hand_on();
    const Tensor* const now = each.taken->value();
    if (now == nullptr) continue;
    const internal::TraceInfo* const trace = internal::trace_of(*now);
    const bool is_lost = trace != nullptr && trace->is_over;
    if (!is_lost) outputs.push_back(*now);
    to.push_back({each.leaf, is_direct, is_lost, each.direct->layer});
  }
}

namespace {

std::optional<Tensor> latest_of(nb::handle state) {
  const LayerState<Tensor>& of = state_of(state);
  const auto& box = StateAccess::box(of);
  if (box != nullptr && box->is_open()) {
    const Tensor* const found = box->latest();
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  internal::TapedStates* const taped = internal::taped_states();
  if (taped == nullptr) return std::nullopt;
  NewState<Tensor> found = taped->take(of);
  if (found.value) taped->box(of)->is_taken = false;  // the gradient takes it, or a warning follows
  return std::move(found.value);
}

}  // namespace

void read_states(const CallLayout& layout, CallReader& reader) {
  if (!is_training()) return;
  for (std::size_t i = 0; i < layout.order.size(); ++i) {
    CallReader::Leaf& leaf = reader.leaves[layout.order[i]];
    if (layout.def->leaves[i] != NodeKind::kState || layout.is_donated[i] != 0) continue;
    if (!leaf.value.has_value()) continue;
    if (std::optional<Tensor> latest = latest_of(leaf.object)) leaf.value = *std::move(latest);
  }
}

static void pass_on_state(nb::handle state, const ResultForm::NewState& made, Tensor value) {
  const LayerState<Tensor>& to = state_of(state);
  with_user_line([&] {
    if (made.is_direct) {
      update_state(
          to, made.layer, [&](const Tensor&) { return value; }, here());
      return;
    }
    const auto box = std::make_shared<internal::StateBox<Tensor>>(
        StateAccess::box(to), internal::count_vmaps(), internal::next_moment());
    box->put(std::move(value));
    box->hand_on();
  });
}

// A state that a branch or a loop of the graph changes.
static void refuse_lost(nb::handle state, const ResultForm::NewState& made,
                        const std::string& path) {
  const auto& box = StateAccess::box(state_of(state));
  const bool is_open = box != nullptr && box->is_open() && !box->is_frozen;
  ETUDE_REQUIRE_CODE(kFailedPrecondition, !is_open && internal::taped_states() == nullptr,
                     "a staged function changes the state '{}' of a layer in a branch or in the "
                     "body of a loop of its graph, which cannot pass it on. Call the layer outside "
                     "of them, or leave the function unstaged",
                     path);
  with_user_line([&] { internal::warn_untaken(made.layer, path, here()); });
}

void pass_on_states(const ResultForm& form, const CallLayout& layout, const CallReader& reader,
                    Values& out, std::size_t next) {
  const auto object_of = [&](const ResultForm::NewState& made) {
    return reader.leaves[layout.order[made.leaf]].object;
  };
  for (std::size_t i = 0; i < form.states.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      ETUDE_REQUIRE(object_of(form.states[i]) != object_of(form.states[k]),
                    "a staged function changes the state '{}', which is also at '{}'. Keep the "
                    "layer at one path and call it twice",
                    layout.def->paths[form.states[k].leaf], layout.def->paths[form.states[i].leaf]);
    }
  }
  for (std::size_t i = 0; i < form.states.size(); ++i) {
    const ResultForm::NewState& made = form.states[i];
    if (made.is_lost) {
      refuse_lost(object_of(made), made, layout.def->paths[made.leaf]);
    } else {
      pass_on_state(object_of(made), made, std::move(out[next++]));
    }
  }
}

}  // namespace etude::python
