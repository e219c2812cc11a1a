// SPDX-License-Identifier: Apache-2.0
#include "etude/saved/internal/given.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "etude/base/warning.h"
#include "etude/core/call/builtin.h"

namespace etude::saved::internal {
namespace {

std::string_view first_component(std::string_view path) { return path.substr(0, path.find('/')); }

const Type* home_type(const Tensor& x) { return x.has_value() ? x.type()->on(Device()) : nullptr; }

}  // namespace

std::string entry_name(const std::string& name) {
  const std::string last = name.substr(name.rfind('/') + 1);
  return last.empty() ? "function" : last;
}

std::string ArgumentCursor::next(First first) {
  const auto& [list, at] = [&]() -> std::pair<const std::vector<std::string>*, std::size_t> {
    switch (first) {
      case First::kTensor:
        return {&names_.tensors, tensor_};
      case First::kWord:
        return {&names_.words, word_};
      case First::kObject:
        return {&names_.objects, object_};
      case First::kNone:
        break;
    }
    return {nullptr, 0};
  }();
  std::string name = "arg" + std::to_string(argument_++);
  if (list == nullptr || at >= list->size()) return name;
  name = first_component((*list)[at]);
  const auto pass = [&](const std::vector<std::string>& all, std::size_t& i) {
    while (i < all.size() && first_component(all[i]) == name) ++i;
  };
  pass(names_.tensors, tensor_);
  pass(names_.words, word_);
  pass(names_.objects, object_);
  return name;
}

bool fits_bound(const etude::internal::Trace& trace, const Arguments& bound) {
  const etude::internal::TraceKey& key = trace.key;
  if (key.types.size() < bound.tensors.size() || key.words.size() < bound.words.size() ||
      key.objects.size() < bound.objects.size()) {
    return false;
  }
  for (std::size_t i = 0; i < bound.tensors.size(); ++i) {
    if (key.types[i] != home_type(*bound.tensors[i])) return false;
  }
  for (std::size_t i = 0; i < bound.objects.size(); ++i) {
    const auto& given = bound.objects[i];
    if (given.equal != key.objects[i].equal) return false;
    if (!given.equal(given.value, key.objects[i].value)) return false;
  }
  return std::equal(bound.words.begin(), bound.words.end(), key.words.begin());
}

QuietTraces::QuietTraces() : before_(std::make_shared<WarningHandler>()) {
  const auto thread = std::this_thread::get_id();
  *before_ = set_warning_handler([thread, before = before_](std::string_view text) {
    const bool is_of_trace = text.find("' was traced 5 times within 10 calls") != text.npos;
    if (is_of_trace && std::this_thread::get_id() == thread) return;
    if (*before) return (*before)(text);
    std::fprintf(stderr, "etude: warning: %.*s\n", static_cast<int>(text.size()), text.data());
  });
}

QuietTraces::~QuietTraces() { set_warning_handler(*before_); }

bool SizedCall::fill(const Arguments& flat) {
  const auto& words = trace_.key.words;
  if (!flat.objects.empty() || !flat.variables.empty()) return false;
  if (tensor_ + flat.tensors.size() > types_.size() || word_ + flat.words.size() > words.size()) {
    return false;
  }
  if (!std::equal(flat.words.begin(), flat.words.end(),
                  words.begin() + static_cast<std::ptrdiff_t>(word_))) {
    return false;
  }
  word_ += flat.words.size();
  for (Tensor* x : flat.tensors) {
    const Type* type = types_[tensor_++];
    *x = type == nullptr ? Tensor() : etude::internal::full(type, 0);
  }
  return true;
}

namespace {

// The types of the tensors of a call at these sizes.
std::vector<const Type*> types_at(const GivenTrace& given, std::span<const int64_t> sizes) {
  std::vector<const Type*> inputs;
  for (const Graph::Input& input : given.symbolic->graphs().front()->inputs()) {
    inputs.push_back(input.type);
  }
  const auto names = given.symbolic->sizes();
  for (std::size_t s = 0; s < names.size(); ++s) {
    for (const auto& [input, axis] : names[s].axes) {
      Shape shape = inputs[input]->shape();
      shape.set(axis, sizes[s]);
      inputs[input] = intern_type(inputs[input]->dtype(), shape);
    }
  }
  std::vector<const Type*> out(given.trace->key.types.size(), nullptr);
  for (std::size_t i = 0; i < given.trace->inputs.size(); ++i) {
    out[static_cast<std::size_t>(given.trace->inputs[i])] = inputs[i];
  }
  return out;
}

}  // namespace

std::vector<SpecialSizes> special_sizes(const GivenTrace& given) {
  constexpr std::size_t kMostSizes = 3;
  const auto sizes = given.symbolic->sizes();
  std::vector<SpecialSizes> out;
  if (sizes.empty() || sizes.size() > kMostSizes) return out;
  // The sizes whose bit is set are 1; a lone size may be 0 as well.
  for (uint32_t set = 1; set < (uint32_t{1} << sizes.size()); ++set) {
    const bool leaves_others = set + 1 != (uint32_t{1} << sizes.size());
    SpecialSizes& calls = out.emplace_back();
    for (std::size_t point = 0; point < (leaves_others ? 2 : 1); ++point) {
      std::vector<int64_t> at;
      for (std::size_t s = 0; s < sizes.size(); ++s) {
        at.push_back(((set >> s) & 1) != 0 ? 1 : sizes[s].seen[point]);
      }
      calls.calls.push_back(types_at(given, at));
    }
  }
  if (sizes.size() == 1) out.push_back({{types_at(given, std::vector<int64_t>{0})}});
  return out;
}

void add_special(GivenFunction& to, const std::vector<TraceRef>& traces,
                 const std::vector<Parts>& results) {
  SymbolicGraphRef symbolic;
  if (traces.size() > 1) {
    std::vector<GraphRef> graphs;
    for (const TraceRef& trace : traces) graphs.push_back(trace->graph);
    symbolic = SymbolicGraph::of(graphs).symbolic;
    if (!symbolic) return;
  }
  for (const GivenTrace& known : to.traces) {
    if (known.trace.get() == traces.front().get()) return;
  }
  to.traces.push_back({traces.front(), symbolic, results.front(), true, true});
}

}  // namespace etude::saved::internal
