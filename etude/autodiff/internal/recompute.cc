// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/internal/recompute.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "etude/autodiff/traced_rule.h"
#include "etude/core/call/builtin.h"
#include "etude/core/context/placement.h"

namespace etude::internal {

namespace {

// A tensor for each leaf: its dense form, or the result of `stands_for` for a Variable. A tape
// tracks both the rows of a sparse tensor and its dense form.
template <class F>
std::vector<Tensor> dense_leaves(const LeafList& leaves, const F& stands_for) {
  std::vector<Tensor> out;
  for (const LeafRef& leaf : leaves.items()) {
    out.push_back(leaf.tensor != nullptr ? to_dense(*leaf.tensor) : stands_for(*leaf.variable));
  }
  return out;
}

}  // namespace

std::vector<Tensor> values_of(const LeafList& leaves) {
  return dense_leaves(leaves, [](const Variable& variable) { return variable.read(); });
}

std::vector<Tensor> RunRecord::tensors_of(const LeafList& leaves) {
  return dense_leaves(leaves, [](const Variable&) { return Tensor(); });
}

std::vector<Tensor> RunRecord::inputs() const {
  std::vector<Tensor> out = arguments;
  for (const VariableUse& use : variables) {
    out.insert(out.end(), use.values.begin(), use.values.end());
  }
  out.insert(out.end(), captures.begin(), captures.end());
  return out;
}

RecordedRun::RecordedRun(RunRecord& record)
    : record_(record), captures_(untaped_.has_tapes() || !ContextStack::is_eager()) {
  captures_.leave_out(record.arguments);
}

void RecordedRun::finish(const LeafList& results) {
  for (const LeafRef& leaf : results.items()) {
    if (leaf.tensor != nullptr) captures_.note(*leaf.tensor);
  }
  captures_.leave();
  record_.variables = history_.take();
  record_.keys = std::move(keys_.keys);
  record_.states = states_.take();
  // A value that was read from a Variable inside is no capture, even if it was known before.
  const auto is_read = [&](const Tensor& x) {
    return std::ranges::any_of(record_.variables, [&](const VariableUse& use) {
      return std::ranges::any_of(use.values, [&](const Tensor& value) {
        return value.has_value() && TensorAccess::id_or_zero(value) == TensorAccess::id(x);
      });
    });
  };
  std::ranges::remove_copy_if(captures_.found(), std::back_inserter(record_.captures), is_read);
}

namespace {

// The record with values that become available after the cotangents.
RunRecord all_held_back(RunRecord record, std::span<const Tensor> dy) {
  record.arguments = held_back(record.arguments, dy);
  record.keys = held_back(record.keys, dy);
  for (VariableUse& use : record.variables) {
    use.values = held_back(use.values, dy);
  }
  return record;
}

std::vector<Tensor> dense(std::span<const Tensor> xs) {
  std::vector<Tensor> out;
  for (const Tensor& x : xs) out.push_back(x.has_value() ? to_dense(x) : x);
  return out;
}

}  // namespace

RepeatedRun::RepeatedRun(const RunRecord& record, std::span<const Tensor> dy)
    : record_(all_held_back(record, dy)), first_inputs_(record.inputs()), dy_(dense(dy)) {
  // New identities distinguish arguments, and values that were read, from captures of the same
  // tensors.
  const auto make_fresh = [](std::vector<Tensor>& xs) {
    for (Tensor& x : xs) {
      if (x.has_value()) x = identity(x);
    }
  };
  make_fresh(record_.arguments);
  for (VariableUse& use : record_.variables) make_fresh(use.values);
  const auto watch = [&](std::span<const Tensor> xs) {
    for (const Tensor& x : xs) {
      if (moves(x)) tape_.watch(x);
    }
  };
  watch(first_inputs_);
  watch(record_.inputs());
  if (record_.device) place_.emplace(*record_.device);
}

std::vector<Tensor> RepeatedRun::gradients(const LeafList& results) {
  place_.reset();
  // The function may capture one of its own arguments: its gradient is computed in both roles.
  const std::size_t count = first_inputs_.size(), captures = record_.captures.size();
  std::vector<Tensor> sources = first_inputs_;
  const std::vector<Tensor> inputs = record_.inputs();
  sources.insert(sources.end(), inputs.begin(),
                 inputs.end() - static_cast<std::ptrdiff_t>(captures));
  std::vector<Tensor> found =
      GradientTapeAccess::sweep_arrived(tape_, results, dy_, LeafList(sources));
  // The second run may have been in a scope of another device than its inputs.
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].has_value()) found[i] = moved(found[i], sources[i].device());
  }
  for (std::size_t i = count; i < found.size(); ++i) {
    Tensor& sum = found[i - count];
    if (!found[i].has_value()) continue;
    sum = sum.has_value() ? add(std::move(sum), found[i]) : found[i];
  }
  found.resize(count);
  return found;
}

}  // namespace etude::internal
