// SPDX-License-Identifier: Apache-2.0
#include "etude/eager/cancel.h"

#include <atomic>
#include <memory>
#include <utility>

#include "etude/core/internal/mode.h"

namespace etude {
namespace {

thread_local constinit const CancelScope* innermost = nullptr;

}  // namespace

Cancellation::Cancellation() : is_cancelled_(std::make_shared<std::atomic<bool>>(false)) {}

CancelScope::CancelScope(Cancellation cancellation) noexcept
    : cancellation_(std::move(cancellation)), outer_(std::exchange(innermost, this)) {
  internal::mode_word |= internal::kModeCancel;
}

CancelScope::~CancelScope() {
  innermost = outer_;
  if (outer_ == nullptr) internal::mode_word &= ~internal::kModeCancel;
}

bool is_cancelled() noexcept {
  for (const CancelScope* scope = innermost; scope != nullptr; scope = scope->outer_) {
    if (scope->cancellation_.is_cancelled()) return true;
  }
  return false;
}

}  // namespace etude
