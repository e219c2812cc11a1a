// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "etude/base/check.h"
#include "etude/core/internal/host_door.h"
#include "etude/files/crc32c.h"
#include "etude/io/tensor_file.h"
#include "etude/saved/gather.h"
#include "etude/variables/variable_cell.h"

namespace etude::saved::internal {
namespace {

SavedVariable facts_of(const Variable& variable) {
  const std::shared_ptr<void> state = etude::internal::weak_state(variable).lock();
  const auto& cell = *static_cast<const etude::internal::VariableCell*>(state.get());
  return {.paths = {},
          .name = variable.name(),
          .is_trainable = variable.trainable(),
          .dtype = variable.dtype(),
          .shape = cell.shape,
          .device = variable.device().to_string(),
          .variable = variable};
}

}  // namespace

void Store::claim(const std::string& path) {
  ETUDE_REQUIRE(paths_.insert(path).second,
                "two Variables or tensors have the path '{}'. Give the entries other names", path);
}

int64_t Store::add(const Variable& variable, std::string path) {
  const auto [at, is_new] =
      by_cell_.emplace(variable.ref(), static_cast<int64_t>(to_.variables.size()));
  if (is_new) to_.variables.push_back(facts_of(variable));
  std::vector<std::string>& paths = to_.variables[static_cast<std::size_t>(at->second)].paths;
  if (std::ranges::find(paths, path) == paths.end()) {
    claim(path);
    paths.push_back(std::move(path));
  }
  return at->second;
}

int64_t Store::add(const SavedVariable& saved, const std::string& prefix) {
  int64_t index = -1;
  for (const std::string& path : saved.paths) index = add(*saved.variable, prefix + path);
  return index;
}

int64_t Store::add_state(std::string path, const Tensor& value, bool is_trained) {
  claim(path);
  SavedVariable& made = to_.variables.emplace_back();
  made.name = path;
  made.paths = {std::move(path)};
  made.dtype = value.dtype();
  made.is_trainable = is_trained && is_differentiable(value.dtype());
  made.shape = value.shape();
  made.device = value.device().to_string();
  made.value = value;
  return static_cast<int64_t>(to_.variables.size()) - 1;
}

int64_t Store::find(const void* cell) const {
  const auto known = by_cell_.find(cell);
  return known == by_cell_.end() ? -1 : known->second;
}

int64_t Store::reach(const Variable& variable) {
  const auto expected = expected_.find(variable.ref());
  if (expected != expected_.end()) {
    for (const std::string& path : std::exchange(expected->second, {})) add(variable, path);
  }
  return find(variable.ref());
}

int64_t Store::constant(const Tensor& given) {
  const Tensor value = etude::internal::at_home(to_dense(given));
  const auto bytes = etude::internal::bytes_of(value);
  const uint64_t hash =
      (static_cast<uint64_t>(bytes.size()) << 32) ^ etude::internal::crc32c(0, bytes);
  const auto [first, last] = constants_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const Tensor& known = to_.constants[static_cast<std::size_t>(at->second)];
    const auto other = etude::internal::bytes_of(known);
    const bool is_same = known.type() == value.type() &&
                         (other.data() == bytes.data() || bytes.empty() ||
                          std::memcmp(other.data(), bytes.data(), bytes.size()) == 0);
    if (is_same) return at->second;
  }
  const auto index = static_cast<int64_t>(to_.constants.size());
  constants_.emplace(hash, index);
  to_.constants.push_back(value);
  return index;
}

}  // namespace etude::saved::internal
