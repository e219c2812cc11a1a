// SPDX-License-Identifier: Apache-2.0
#include "etude/data/dataset_sources.h"

namespace etude::data {

Dataset<int64_t> count_up(int64_t n) {
  return Dataset<int64_t>(internal::indexed_stage(
      n < 0 ? 0 : n, [](int64_t i) { return internal::element_of(i); },
      n == internal::kEndless ? "count" : "count(" + std::to_string(n) + ")"));
}

}  // namespace etude::data
