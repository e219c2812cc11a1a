// SPDX-License-Identifier: Apache-2.0
// PrecisionScope: where calls mix no precisions. Used by nn/precision.h, whose layers say in which
// dtype they compute: there a promotion from 16 bits would be a mistake that nobody sees.
#pragma once

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Whether a PrecisionScope lives on this thread.
bool& refuses_mixed_precision() noexcept;

}  // namespace internal

// While alive, a call of this thread whose operands are of several floating dtypes throws
// kInvalidArgument, where it would promote them else. Numbers beside tensors take their dtype as
// always. confined to the thread that made it.
class PrecisionScope {
 public:
  PrecisionScope() noexcept : was_(internal::refuses_mixed_precision()) {
    internal::refuses_mixed_precision() = true;
  }
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;
  ~PrecisionScope() { internal::refuses_mixed_precision() = was_; }

 private:
  bool was_;
};

}  // namespace etude
