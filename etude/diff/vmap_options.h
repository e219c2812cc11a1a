// SPDX-License-Identifier: Apache-2.0
// The options of vmap (function_values.h), for callers and for contexts.
#pragma once

#include <cstdint>
#include <string>

#include "etude/base/call_site.h"
#include "etude/base/error.h"
#include "etude/version.h"

namespace ETUDE_API etude {

struct VmapOptions {
  // Random draws of f: "error" refuses them, "same" uses the same draws for every example, and
  // "different" uses independent draws for each example. A draw with an explicit key depends only
  // on the key.
  std::string randomness = "error";
};

namespace internal {

enum class Randomness : uint8_t { kError, kSame, kDifferent };

// throws: kInvalidArgument for an unknown word.
inline Randomness randomness_of(const VmapOptions& options, CallSite where) {
  if (options.randomness == "error") return Randomness::kError;
  if (options.randomness == "same") return Randomness::kSame;
  if (options.randomness == "different") return Randomness::kDifferent;
  Error error(ErrorCode::kInvalidArgument, "option 'randomness' is '" + options.randomness +
                                               "', but must be 'error', 'same' or 'different'");
  error.name_op("vmap");
  error.locate(where);
  throw error;
}

}  // namespace internal
}  // namespace etude
