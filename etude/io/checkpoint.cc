// SPDX-License-Identifier: Apache-2.0
#include "etude/io/checkpoint.h"

#include "etude/base/check.h"
#include "etude/core/ambient.h"

namespace etude::io::internal {
namespace {

Tensor take(NamedTensors& all, const std::string& name, const Type* type, std::string_view file) {
  const auto found = all.find(name);
  ETUDE_REQUIRE_CODE(kDataLoss, found != all.end() && found->second.type() == type,
                     "{}: is no checkpoint: it has no '{}' of type {}", file, name,
                     type->to_string());
  Tensor out = std::move(found->second);
  all.erase(found);
  return out;
}

}  // namespace

void add_run(NamedTensors& all, std::int64_t epoch, std::int64_t step) {
  const Generator& generator = ambient().generator;
  all["position"] = Tensor(std::vector<std::int64_t>{epoch, step});
  all["generator"] =
      Tensor(std::vector<std::uint64_t>{generator.seed, generator.stream, generator.position});
}

Run take_run(NamedTensors& all, std::string_view file) {
  const Tensor position = take(all, "position", intern_type(kInt64, {2}), file);
  const Tensor saved = take(all, "generator", intern_type(kUInt64, {3}), file);
  const auto words = saved.data<std::uint64_t>();
  Generator generator(words[0], words[1]);
  generator.position = words[2];
  ambient().generator = generator;
  const auto at = position.data<std::int64_t>();
  return {at[0], at[1]};
}

NamedTensors take_below(NamedTensors& all, const std::string& prefix) {
  NamedTensors out;
  const std::string folder = prefix + "/";
  for (auto it = all.begin(); it != all.end();) {
    if (!it->first.starts_with(folder)) {
      ++it;
      continue;
    }
    out.emplace(it->first.substr(folder.size()), std::move(it->second));
    it = all.erase(it);
  }
  return out;
}

void add_below(NamedTensors& all, const std::string& prefix, const NamedTensors& part) {
  for (const auto& [name, tensor] : part) all[prefix + "/" + name] = tensor;
}

}  // namespace etude::io::internal
