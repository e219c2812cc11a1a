// SPDX-License-Identifier: Apache-2.0
// The options of vmap (function_values.h), as its caller writes them and as contexts read them.
#pragma once

#include <cstdint>
#include <string>

#include "etude/base/call_site.h"
#include "etude/base/error.h"
#include "etude/version.h"

namespace ETUDE_API etude {

struct VmapOptions {
  // Random draws of f: "error" refuses them, "same" gives every example the same draws, and
  // "different" gives each example draws of its own. A draw with an explicit key follows the key.
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
