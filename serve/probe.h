// SPDX-License-Identifier: Apache-2.0
// Facts about a model that its signature lacks, found by calls when it is loaded: the sizes of its
// outputs, and whether the rows of a call depend on each other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "etude/io/safetensors.h"
#include "serve/metadata.h"

namespace etude::serve {

using ModelCall = std::function<io::NamedTensors(const io::NamedTensors&)>;

// Completes the shapes of outputs that the metadata does not know, and keeps the batch axis only if
// the outputs have it. Returns why that failed; "" if it did not.
std::string find_output_sizes(ModelMetadata& metadata, const ModelCall& f);

// Whether the results for a row depend on the other rows of a call.
enum class Joining : uint8_t {
  kNone,   // requests are not joined
  kClose,  // results of a joined call differ in the last digits
  kEqual,  // results of a joined call have the same bits
};
// Calls `f` with pseudo-random rows, alone and joined, and compares: a few rows and `most` rows,
// with small and with large numbers. A call with large numbers may fail, such as for an index out
// of range; then only small numbers count. A check by samples, no proof.
// throws: the errors of a call with small numbers.
Joining compare_joined(const ModelMetadata& metadata, int64_t most, const ModelCall& f);

}  // namespace etude::serve
