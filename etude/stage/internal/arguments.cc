// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/internal/arguments.h"

namespace etude::internal {

ETUDE_INTERNAL_FLATTEN(, etude::Parts);

IndexedSlices& Arguments::add_slices(Tensor& x) {
  if (rows == nullptr) rows = std::make_shared<std::deque<SlicesArgument>>();
  return rows->emplace_back(SlicesArgument{&x, tensors.size(), *x.slices()}).rows;
}

void Arguments::join_slices(const std::vector<uint8_t>& which) const {
  if (rows == nullptr) return;
  for (const SlicesArgument& r : *rows) {
    if (which.empty() || which[r.first] != 0) *r.whole = make_slices(r.rows);
  }
}

bool Arguments::are_same(std::size_t i, std::size_t k) const {
  if (rows == nullptr) return tensors[i] == tensors[k];
  const auto part_of = [&](std::size_t at) -> const SlicesArgument* {
    for (const SlicesArgument& r : *rows) {
      if (at == r.first || at == r.first + 1) return &r;
    }
    return nullptr;
  };
  const SlicesArgument *a = part_of(i), *b = part_of(k);
  return a != nullptr && b != nullptr ? a != b && a->whole == b->whole : tensors[i] == tensors[k];
}

}  // namespace etude::internal
