// SPDX-License-Identifier: Apache-2.0
// Any text is an equation for operands of some ranks or an Error. The first byte is their number,
// as many bytes follow with a rank each, and the rest is the text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "etude/base/error.h"
#include "etude/ops/linalg/einsum_equation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t count = std::min<std::size_t>(data[0] % 8, size - 1);
  std::vector<int> ranks;
  for (std::size_t i = 0; i < count; ++i) ranks.push_back(data[1 + i] % 17);
  const std::string_view text(reinterpret_cast<const char*>(data) + 1 + count, size - 1 - count);
  try {
    const etude::ops::EinsumEquation equation = etude::ops::parse_einsum(text, ranks);
    if (equation.operands.size() != count) std::abort();
    for (std::size_t i = 0; i < count; ++i) {
      if (equation.operands[i].size() != static_cast<std::size_t>(ranks[i])) std::abort();
    }
    for (const int label : equation.result) {
      const auto holds = [&](const std::vector<int>& labels) {
        return std::find(labels.begin(), labels.end(), label) != labels.end();
      };
      if (std::none_of(equation.operands.begin(), equation.operands.end(), holds)) std::abort();
    }
  } catch (const etude::Error&) {
  }
  return 0;
}
