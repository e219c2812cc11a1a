// SPDX-License-Identifier: Apache-2.0
#include "etude/io/checkpoint/checkpoint.h"

#include <array>
#include <cstdlib>

#include "etude/base/check.h"
#include "etude/core/context/ambient.h"

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

void add_run(NamedTensors& all, int64_t epoch, int64_t step) {
  const Generator& generator = ambient().generator;
  all["position"] = Tensor(std::vector<int64_t>{epoch, step});
  all["generator"] =
      Tensor(std::vector<uint64_t>{generator.seed, generator.stream, generator.position});
}

Run take_run(NamedTensors& all, std::string_view file) {
  const Tensor position = take(all, "position", intern_type(kInt64, {2}), file);
  const Tensor saved = take(all, "generator", intern_type(kUInt64, {3}), file);
  const auto words = saved.data<uint64_t>();
  Generator generator(words[0], words[1]);
  generator.position = words[2];
  ambient().generator = generator;
  const auto at = position.data<int64_t>();
  return {at[0], at[1]};
}

namespace {

struct Setting {
  const char* key;
  int64_t RunSettings::*value;
  const char* name;
};
constexpr std::array kSettings = {
    Setting{"etude.seed", &RunSettings::seed, "the seed of the data"},
    Setting{"etude.batch", &RunSettings::batch, "the batch"},
    Setting{"etude.samples", &RunSettings::samples, "the number of samples"},
    Setting{"etude.shuffle", &RunSettings::shuffle, "shuffle"},
    Setting{"etude.keep_remainder", &RunSettings::keep_remainder, "keep_remainder"},
    Setting{"etude.ranks", &RunSettings::ranks, "the number of ranks"}};
constexpr const char* kEpochs = "etude.epochs";

}  // namespace

void add_settings(Metadata& metadata, const RunSettings& settings) {
  for (const Setting& s : kSettings) metadata[s.key] = std::to_string(settings.*s.value);
  metadata[kEpochs] = std::to_string(settings.epochs);
}

int64_t check_settings(const Metadata& metadata, const RunSettings& settings,
                       std::string_view file) {
  for (const Setting& s : kSettings) {
    const auto kept = metadata.find(s.key);
    const std::string now = std::to_string(settings.*s.value);
    ETUDE_REQUIRE(kept == metadata.end() || kept->second == now,
                  "{}: the checkpoint was made with {}, but here {} is {}. Go on with {}", file,
                  kept->second, s.name, now, kept->second);
  }
  const auto kept = metadata.find(kEpochs);
  return kept == metadata.end() ? 0 : std::strtoll(kept->second.c_str(), nullptr, 10);
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
