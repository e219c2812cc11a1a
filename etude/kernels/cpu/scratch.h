// SPDX-License-Identifier: Apache-2.0
// Work memory of a kernel for one run: small amounts on the stack, larger ones on the heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// Undefined bytes. Kernels do not throw: if data() is null, call report() and return.
class Scratch {
 public:
  explicit Scratch(int64_t bytes) {
    if (bytes <= static_cast<int64_t>(sizeof inline_)) return;
    heap_.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(bytes)]);
    failed_ = heap_ == nullptr;
  }
  std::byte* data() noexcept {
    return failed_ ? nullptr : heap_ != nullptr ? heap_.get() : inline_;
  }
  static bool report() {
    return report_fault(ErrorCode::kResourceExhausted, "the host has no memory left for this call");
  }

 private:
  alignas(64) std::byte inline_[2048];
  std::unique_ptr<std::byte[]> heap_;
  bool failed_ = false;
};

}  // namespace etude::kernels::cpu
