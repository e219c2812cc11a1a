// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/internal/parameters.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "etude/base/check.h"

namespace etude::optim::internal {

void add_parameter(std::vector<Parameter>& out, Tensor& value, const std::string& path) {
  out.push_back({.value = &value, .path = path});
}

void mark_frozen(std::vector<Parameter>& parameters, std::vector<const Tensor*> frozen) {
  std::sort(frozen.begin(), frozen.end(), std::less<>());
  for (Parameter& p : parameters) {
    p.is_frozen = std::binary_search(frozen.begin(), frozen.end(), p.value, std::less<>());
  }
}

void put_tangent(Parameters& out, MovedPart part, std::vector<Parameter> tangent) {
  const auto begin = std::find_if(out.all.begin(), out.all.end(), [&](const Parameter& p) {
    return !part.tensors.empty() && p.value == part.tensors.front();
  });
  if (begin == out.all.end()) return;  // of a part that moves as a whole
  for (Parameter& p : tangent) {
    p.is_tangent = true;
    p.is_frozen = begin->is_frozen;
  }
  part.first = static_cast<std::size_t>(begin - out.all.begin());
  part.count = tangent.size();
  const auto rest = out.all.erase(begin, begin + static_cast<std::ptrdiff_t>(part.tensors.size()));
  out.all.insert(rest, std::make_move_iterator(tangent.begin()),
                 std::make_move_iterator(tangent.end()));
  out.moved.push_back(std::move(part));
}

void throw_unpaired(std::size_t parameters, std::size_t gradients) {
  ETUDE_THROW(kInvalidArgument,
              "the model has {} tensors, but the gradients have {}. Pass what gradient() gave for "
              "this model",
              parameters, gradients);
}

}  // namespace etude::optim::internal
