// SPDX-License-Identifier: Apache-2.0
// PrecisionScope: refuses mixed precisions. Used by nn/precision.h: its layers declare a compute
// dtype, and a promotion from 16 bits inside them would be a silent mistake.
#pragma once

#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// Whether a PrecisionScope lives on this thread.
bool& refuses_mixed_precision() noexcept;

}  // namespace internal

// While alive, a call of this thread with operands of different floating dtypes throws
// kInvalidArgument instead of promoting them. Host numbers still take the dtype of the tensors.
// threads: confined to the thread that made it.
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
