// SPDX-License-Identifier: Apache-2.0
// Which machine code a part of a test runs.
#pragma once

#include <optional>

#include "etude/core/op/tier.h"

namespace etude::tests {

// During its lifetime kernels and plans are made for this tier; nullopt: for the tier that their
// run time justifies.
class TierScope {
 public:
  explicit TierScope(std::optional<internal::Tier> tier) { internal::fix_tier(tier); }
  TierScope(const TierScope&) = delete;
  TierScope& operator=(const TierScope&) = delete;
  ~TierScope() { internal::fix_tier(saved_); }

 private:
  const std::optional<internal::Tier> saved_ = internal::fixed_tier();
};

}  // namespace etude::tests
