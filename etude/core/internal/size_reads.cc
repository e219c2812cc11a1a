// SPDX-License-Identifier: Apache-2.0
#include "etude/core/internal/size_reads.h"

#include <utility>

#include "etude/core/call/call_scope.h"
#include "etude/core/context/size_decision.h"
#include "etude/core/internal/mode.h"
#include "etude/core/shape.h"

namespace etude::internal {

thread_local constinit SizeReads* size_reads = nullptr;

SizeReads::SizeReads() noexcept : outer_(std::exchange(size_reads, this)) {}

void SizeReads::leave() noexcept {
  if (std::exchange(is_open_, false)) size_reads = outer_;
}

void SizeReads::add(const std::vector<SizeRead>& reads) {
  for (const SizeRead& read : reads) {
    if (!is_full()) list_.push_back(read);
  }
}

SizeReadsPause::SizeReadsPause() noexcept : saved_(std::exchange(size_reads, nullptr)) {}
SizeReadsPause::~SizeReadsPause() { size_reads = saved_; }

bool start_watching(CallSite where) noexcept {
  if (is_inside_rule()) return false;
  size_reads->where_ = where;
  return true;
}

void note_size(int64_t size) noexcept {
  if (size_reads == nullptr || is_inside_rule() || size_reads->is_full()) return;
  size_reads->list_.push_back({size, size_reads->where_});
}

void note_decision(int64_t size) noexcept {
  if (size_reads != nullptr) size_reads->add({{size, user_call}});
}

}  // namespace etude::internal
