// SPDX-License-Identifier: Apache-2.0
#include "etude/device/cpu/block_spans.h"

#include <new>

#include "etude/device/cpu/large_pool.h"

namespace etude::internal {
namespace {

constexpr std::size_t kSpan = std::size_t{64} << 10;
// With the pool's own header of 64 bytes, spans are contiguous.
constexpr std::size_t kSpanMemory = kSpan - 64;

}  // namespace

// Aligned to 64 KiB, so that a block's address determines its span. The blocks follow this header.
struct alignas(64) BlockSpans::Span {
  FreeBlock* free = nullptr;
  Span* before = nullptr;
  Span* after = nullptr;
  uint32_t block = 0;     // bytes of one
  uint32_t capacity = 0;  // blocks in all
  uint32_t cut = 0;       // blocks that were handed out at least once: the others are untouched
  uint32_t idle = 0;      // blocks in `free`

  bool is_empty_handed() const { return idle == 0 && cut == capacity; }
  bool is_unused() const { return idle == cut; }
};

BlockSpans& BlockSpans::instance() {
  static BlockSpans& spans = *new BlockSpans;
  return spans;
}

void BlockSpans::link(Stock& stock, Span* span) noexcept {
  span->before = nullptr;
  span->after = stock.spans;
  if (span->after != nullptr) span->after->before = span;
  stock.spans = span;
}

void BlockSpans::unlink(Stock& stock, Span* span) noexcept {
  if (span->after != nullptr) span->after->before = span->before;
  (span->before != nullptr ? span->before->after : stock.spans) = span->after;
}

BlockSpans::Span* BlockSpans::new_span(Stock& stock, int size_class) noexcept {
  void* memory = LargePool::for_blocks().allocate(kSpanMemory, kSpan);
  if (memory == nullptr) return nullptr;
  static_assert(sizeof(Span) == 64);
  auto* span = new (memory) Span;
  span->block = static_cast<uint32_t>(block_bytes(size_class));
  span->capacity = static_cast<uint32_t>((kSpanMemory - sizeof(Span)) / span->block);
  link(stock, span);
  ++stock.unused;
  return span;
}

int BlockSpans::take(int size_class, int most, FreeBlock*& chain) noexcept {
  if (size_class >= kSpanClasses) {
    void* memory = LargePool::for_blocks().allocate(block_bytes(size_class));
    if (memory == nullptr) return 0;
    chain = new (memory) FreeBlock{chain};
    return 1;
  }
  Stock& stock = stocks_[size_class];
  const std::lock_guard lock(stock.mutex);
  int taken = 0, reused = 0;
  while (taken < most) {
    Span* span = stock.spans;
    if (span == nullptr && (taken > 0 || (span = new_span(stock, size_class)) == nullptr)) break;
    if (span->is_unused()) --stock.unused;
    while (taken < most && span->free != nullptr) {
      FreeBlock* block = span->free;
      span->free = block->next;
      --span->idle;
      block->next = chain;
      chain = block;
      ++taken;
      ++reused;
    }
    for (; taken < most && span->cut < span->capacity; ++taken) {
      char* place = reinterpret_cast<char*>(span + 1) + std::size_t{span->cut++} * span->block;
      chain = new (place) FreeBlock{chain};
    }
    if (span->is_empty_handed()) unlink(stock, span);
  }
  cached_.fetch_sub(reused * static_cast<int64_t>(block_bytes(size_class)),
                    std::memory_order_relaxed);
  return taken;
}

void BlockSpans::give(int size_class, FreeBlock* chain) noexcept {
  if (size_class >= kSpanClasses) {
    while (chain != nullptr) {
      FreeBlock* block = chain;
      chain = block->next;
      LargePool::for_blocks().free(block);
    }
    return;
  }
  Stock& stock = stocks_[size_class];
  const std::lock_guard lock(stock.mutex);
  int64_t blocks = 0;
  while (chain != nullptr) {
    FreeBlock* block = chain;
    chain = block->next;
    auto* span =
        reinterpret_cast<Span*>(reinterpret_cast<uintptr_t>(block) & ~uintptr_t{kSpan - 1});
    if (span->is_empty_handed()) link(stock, span);
    block->next = span->free;
    span->free = block;
    ++span->idle;
    ++blocks;
    if (!span->is_unused()) continue;
    if (stock.unused == 0) {  // one is kept, so that a single value does not map and unmap a span
      ++stock.unused;
      continue;
    }
    blocks -= span->idle;
    unlink(stock, span);
    LargePool::for_blocks().free(span);
  }
  cached_.fetch_add(blocks * static_cast<int64_t>(block_bytes(size_class)),
                    std::memory_order_relaxed);
}

void BlockSpans::trim() noexcept {
  for (Stock& stock : stocks_) {
    const std::lock_guard lock(stock.mutex);
    for (Span* span = stock.spans; span != nullptr;) {
      Span* next = span->after;
      if (span->is_unused()) {
        cached_.fetch_sub(int64_t{span->idle} * span->block, std::memory_order_relaxed);
        --stock.unused;
        unlink(stock, span);
        LargePool::for_blocks().free(span);
      }
      span = next;
    }
  }
}

bool BlockSpans::try_lock() noexcept {
  for (std::size_t i = 0; i < stocks_.size(); ++i) {
    if (stocks_[i].mutex.try_lock()) continue;
    while (i > 0) stocks_[--i].mutex.unlock();
    return false;
  }
  return true;
}

void BlockSpans::unlock() noexcept {
  for (Stock& stock : stocks_) stock.mutex.unlock();
}

}  // namespace etude::internal
