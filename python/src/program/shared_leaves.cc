// SPDX-License-Identifier: Apache-2.0
#include "python/src/program/shared_leaves.h"

#include <type_traits>
#include <unordered_map>
#include <utility>

#include "etude/autodiff/tangent.h"
#include "etude/base/check.h"
#include "etude/core/internal/traced.h"

namespace etude::python {
namespace {

// The path of the layer, or of the tensor, that two paths have in common at their ends.
std::pair<std::string, std::string> owners(const std::string& first, const std::string& later) {
  std::size_t common = 0;
  while (common < first.size() && common < later.size() &&
         first[first.size() - 1 - common] == later[later.size() - 1 - common]) {
    ++common;
  }
  const std::string end = first.substr(first.size() - common);
  const std::size_t slash = end.find('/');
  const std::size_t cut = slash == std::string::npos ? 0 : end.size() - slash;
  return {first.substr(0, first.size() - cut), later.substr(0, later.size() - cut)};
}

}  // namespace

SharedLeaves::SharedLeaves(const Tree& tree) : def_(tree.def) {
  std::unordered_map<const PyObject*, std::size_t> seen;
  seen.reserve(tree.leaves.size());
  for (std::size_t i = 0; i < tree.leaves.size(); ++i) {
    const NodeKind kind = def_->leaves[i];
    if ((kind != NodeKind::kTensor && kind != NodeKind::kState) || tree.leaves[i].is_none()) {
      continue;
    }
    const auto [at, is_new] = seen.emplace(tree.leaves[i].ptr(), i);
    if (!is_new) pairs_.push_back({at->second, i});
  }
}

const FormLeaf& SharedLeaves::leaf_of(std::size_t leaf) const {
  return def_->form()->leaves()[static_cast<std::size_t>(def_->form_leaves[leaf])];
}

void SharedLeaves::add_up(Parts& gradients) const {
  for (const auto& [first, later] : pairs_) {
    const int32_t to = leaf_of(first).tangent, from = leaf_of(later).tangent;
    if (to < 0 || from < 0) continue;
    const FormLeaf& at = gradients.leaf(static_cast<std::size_t>(to));
    Parts::at(gradients, gradients.leaf(static_cast<std::size_t>(from)), [&](auto& by) {
      using Leaf = std::remove_cvref_t<decltype(by)>;
      Parts::at(gradients, at, [&](auto& sum) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(sum)>, Leaf>) {
          if constexpr (std::is_same_v<Leaf, Tensor>) {
            Tensor more = std::exchange(by, Tensor());
            if (!more.has_value()) return;
            if (sum.has_value() && TensorAccess::is_sparse(sum)) sum = to_dense(sum);
            if (sum.has_value()) {
              DifferentiableTraits<Tensor>::move(sum, more);
            } else {
              sum = std::move(more);
            }
          } else if constexpr (std::is_same_v<Leaf, NewState<Tensor>>) {
            const auto [a, b] = owners(def_->paths[first], def_->paths[later]);
            ETUDE_REQUIRE(!by.value || !sum.value,
                          "the layer at '{}' is also at '{}', and its state '{}' changes at both. "
                          "Keep the layer at one path and call it twice",
                          a, b, def_->paths[first].substr(a.size() + (a.empty() ? 0 : 1)));
            if (by.value) sum = std::exchange(by, Leaf());
          }
        }
      });
    });
  }
}

void SharedLeaves::take_away(Parts& parts) const {
  for (const Pair& pair : pairs_) {
    Parts::at(parts, leaf_of(pair.later), [](auto& value) {
      using Leaf = std::remove_cvref_t<decltype(value)>;
      if constexpr (std::is_same_v<Leaf, Tensor> || std::is_same_v<Leaf, LayerState<Tensor>>) {
        value = Leaf();
      }
    });
  }
}

void SharedLeaves::fill(Parts& parts) const {
  for (const Pair& pair : pairs_) {
    Parts::at(parts, leaf_of(pair.later), [&](auto& to) {
      using Leaf = std::remove_cvref_t<decltype(to)>;
      Parts::at(parts, leaf_of(pair.first), [&](auto& from) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(from)>, Leaf> &&
                      (std::is_same_v<Leaf, Tensor> || std::is_same_v<Leaf, LayerState<Tensor>>)) {
          to = from;
        }
      });
    });
  }
}

void SharedLeaves::join(std::vector<nb::object>& leaves) const {
  for (const Pair& pair : pairs_) leaves[pair.later] = leaves[pair.first];
}

void require_living_states(const Parts& gradients) {
  gradients.each_part([&](const FormLeaf& leaf, const auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, NewState<Tensor>>) {
      if (!value.value || !value.value->has_value()) return;
      const internal::TraceInfo* const trace = internal::trace_of(*value.value);
      ETUDE_REQUIRE_CODE(kFailedPrecondition, trace == nullptr || !trace->is_over,
                         "the new state '{}' of a layer is a value of function '{}', whose trace "
                         "has ended, so that nothing was updated. Pass the model to this function "
                         "as an argument, or leave the function unstaged",
                         leaf.path, trace->function);
    }
  });
}

}  // namespace etude::python
