// SPDX-License-Identifier: Apache-2.0
// Requests that are joined along axis 0 of their tensors, and results that are split again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "etude/io/safetensors.h"

namespace etude::serve {

// The size of axis 0, which all inputs share; -1 if they do not.
int64_t rows_of(const io::NamedTensors& inputs);
// Whether both have the same inputs with the same sizes, axis 0 aside.
bool fit_together(const io::NamedTensors& a, const io::NamedTensors& b);

// How many of the first requests one call answers, by their rows: as many as possible so that the
// sum is 1, 2, 3, 4, 6, 8, 12, ..., or `most`; all of them if no sum is. A program keeps plans for
// a few sizes only, and to make one takes longer than to run it.
std::size_t requests_of_call(std::span<const int64_t> rows, int64_t most);

io::NamedTensors join(std::span<const io::NamedTensors* const> all);
// Splits each result after `rows[i]` rows.
// throws: kInternal for a result with another number of rows.
std::vector<io::NamedTensors> split(const io::NamedTensors& joined, std::span<const int64_t> rows);

}  // namespace etude::serve
