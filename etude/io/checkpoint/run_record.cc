// SPDX-License-Identifier: Apache-2.0
#include "etude/io/checkpoint/run_record.h"

#include <cstring>
#include <utility>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "etude/core/context/ambient.h"
#include "etude/device/cpu/parallel.h"
#include "etude/files/json_tree.h"
#include "etude/kernels/cpu/simd/math_table.h"
#include "etude/version.h"

namespace etude::io::internal {
namespace {

using Json = nlohmann::ordered_json;

Json environment() {
  Metadata sorted;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (!text.starts_with("ETUDE_") || equals == std::string_view::npos) continue;
    sorted[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  Json out = Json::object();
  for (const auto& [name, value] : sorted) out[name] = value;
  return out;
}

}  // namespace

std::string run_record(int64_t updates, const Metadata& settings) {
  const Generator& generator = ambient().generator;
#ifdef ETUDE_ASSERTIONS
  constexpr bool kAssertions = true;
#else
  constexpr bool kAssertions = false;
#endif
  Json out = {
      {"etude", version()},
      {"compiler", __VERSION__},
      {"assertions", kAssertions},
      {"instructions", std::string(etude::internal::name(etude::internal::best_isa()))},
      {"threads", worker_count()},
      {"environment", environment()},
      {"generator",
       {{"seed", generator.seed}, {"stream", generator.stream}, {"position", generator.position}}},
      {"updates", updates},
      {"data", Json::object()}};
  for (const auto& [name, value] : settings) out["data"][name] = value;
  // Texts of the environment need not be UTF-8.
  return etude::internal::JsonTree<Json>(std::move(out))
             .root()
             .dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace etude::io::internal
