// SPDX-License-Identifier: Apache-2.0
#include "etude/io/checkpoint/run_record.h"

#include <cstddef>
#include <string_view>

#include <unistd.h>

#include "etude/core/context/ambient.h"
#include "etude/device/cpu/parallel.h"
#include "etude/files/json_writer.h"
#include "etude/kernels/cpu/simd/math_table.h"
#include "etude/version.h"

namespace etude::io::internal {
namespace {

using etude::internal::JsonWriter;

Metadata environment() {
  Metadata out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (!text.starts_with("ETUDE_") || equals == std::string_view::npos) continue;
    out[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
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
  JsonWriter out(JsonWriter::Texts::kReplaced, 2);  // the environment need not be UTF-8
  const auto texts = [&](const Metadata& all) {
    out.object([&] {
      for (const auto& [name, value] : all) out.member(name, value);
    });
  };
  out.object([&] {
    out.member("etude", version());
    out.member("compiler", __VERSION__);
    out.member("assertions", kAssertions);
    out.member("instructions", etude::internal::name(etude::internal::best_isa()));
    out.member("threads", worker_count());
    out.member("environment", [&] { texts(environment()); });
    out.member("generator", [&] {
      out.object([&] {
        out.member("seed", generator.seed);
        out.member("stream", generator.stream);
        out.member("position", generator.position);
      });
    });
    out.member("updates", updates);
    out.member("data", [&] { texts(settings); });
  });
  return out.text() + "\n";
}

}  // namespace etude::io::internal
