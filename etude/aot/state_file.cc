// SPDX-License-Identifier: Apache-2.0
#include "etude/aot/state_file.h"

#include <cstring>

#include <fmt/format.h>

#include "etude/core/internal/host_door.h"
#include "etude/files/crc32c.h"

namespace etude::aot {
namespace {

constexpr uint64_t kAlignment = 64, kHeadBytes = 64;

template <class T>
void put(std::string& to, uint64_t at, T value) {
  std::memcpy(to.data() + at, &value, sizeof(value));
}

}  // namespace

StateFacts state_facts(const State& state) {
  StateFacts out;
  std::string lines;
  out.bytes = kHeadBytes;
  for (const auto& [path, x] : state) {
    out.arrays.push_back({path, x.type(), out.bytes});
    lines += fmt::format("{}: {}\n", path, x.type()->to_string());
    const auto bytes = static_cast<uint64_t>(x.nbytes());
    out.bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  out.layout = internal::crc32c(0, lines);
  return out;
}

std::string state_file(const State& state) {
  const StateFacts facts = state_facts(state);
  std::string out(facts.bytes, '\0');
  kStateMark.copy(out.data(), kStateMark.size());
  put(out, 8, facts.layout);
  put(out, 16, facts.bytes);
  for (std::size_t i = 0; i < state.size(); ++i) {
    const Tensor home = internal::at_home(state[i].second);
    const auto count = static_cast<std::size_t>(home.nbytes());
    if (count > 0) {
      std::memcpy(out.data() + facts.arrays[i].offset, internal::host_elements(home), count);
    }
  }
  return out;
}

}  // namespace etude::aot
