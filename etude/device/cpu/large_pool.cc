// SPDX-License-Identifier: Apache-2.0
#include "etude/device/cpu/large_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include <sys/mman.h>

#include "etude/device/cpu/host.h"

namespace etude::internal {

// The header before the memory of a chunk. Chunks of an arena are contiguous; free neighbours are
// merged.
struct alignas(64) LargePool::Chunk {
  std::size_t bytes = 0;        // with this header
  std::size_t dirty = 0;        // of a free chunk: about how much of it the system has filled
  Chunk* below = nullptr;       // neighbour at the lower address; null: first of its arena
  Chunk* bin_before = nullptr;  // in the list of its bin, while free
  Chunk* bin_after = nullptr;
  bool is_free = false;
  bool is_last = false;  // of its arena

  char* begin() { return reinterpret_cast<char*>(this); }
  char* memory() { return begin() + sizeof(Chunk); }
  Chunk* above() { return is_last ? nullptr : reinterpret_cast<Chunk*>(begin() + bytes); }
};

namespace {

constexpr std::size_t kHeader = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kHuge = std::size_t{2} << 20;
constexpr std::size_t kArena = std::size_t{32} << 20;
constexpr std::size_t kSmallestRest = 1024;  // a smaller remainder stays with its chunk
constexpr int kLongestSearch = 64;

constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) & ~(unit - 1);
}

// Four bins per power of two, from 64 bytes up.
int bin_of(std::size_t bytes) {
  const int power = std::bit_width(bytes) - 1;
  const auto quarter = static_cast<int>((bytes >> (power - 2)) & 3);
  return (power - 6) * 4 + quarter;
}

// Address space that begins at a multiple of 2 MiB, with huge pages from byte `plain` on; null when
// the system refuses.
char* map_arena(std::size_t bytes, std::size_t plain) {
  void* raw =
      mmap(nullptr, bytes + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  char* from = static_cast<char*>(raw);
  char* begin = reinterpret_cast<char*>(round_up(reinterpret_cast<std::size_t>(from), kHuge));
  if (begin != from) munmap(from, static_cast<std::size_t>(begin - from));
  const auto behind = static_cast<std::size_t>(from + kHuge - begin);
  if (behind != 0) munmap(begin + bytes, behind);
  // Only advice: a system without huge pages works as well.
  if (bytes > plain) madvise(begin + plain, bytes - plain, MADV_HUGEPAGE);
  return begin;
}

}  // namespace

LargePool& LargePool::for_buffers() {
  static LargePool& pool = *new LargePool(
      std::max(std::size_t{256} << 20, static_cast<std::size_t>(host_memory_bytes()) / 4));
  return pool;
}

LargePool& LargePool::for_blocks() {
  static LargePool& pool = *new LargePool(std::size_t{64} << 20, kHuge);
  return pool;
}

LargePool::LargePool(std::size_t mark, std::size_t plain) : mark_(mark), plain_(plain) {
  static_assert(sizeof(Chunk) == kHeader);
}

void LargePool::insert(Chunk* chunk) noexcept {
  const int bin = bin_of(chunk->bytes);
  chunk->is_free = true;
  chunk->bin_before = nullptr;
  chunk->bin_after = bins_[bin];
  if (chunk->bin_after != nullptr) chunk->bin_after->bin_before = chunk;
  bins_[bin] = chunk;
  filled_[bin / 64] |= uint64_t{1} << (bin % 64);
}

void LargePool::remove(Chunk* chunk) noexcept {
  const int bin = bin_of(chunk->bytes);
  chunk->is_free = false;
  if (chunk->bin_after != nullptr) chunk->bin_after->bin_before = chunk->bin_before;
  if (chunk->bin_before != nullptr) {
    chunk->bin_before->bin_after = chunk->bin_after;
    return;
  }
  bins_[bin] = chunk->bin_after;
  if (chunk->bin_after == nullptr) filled_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
}

LargePool::Chunk* LargePool::find(std::size_t need) noexcept {
  for (int bin = bin_of(need); bin < kBins; ++bin) {
    const uint64_t rest = filled_[bin / 64] >> (bin % 64);
    if (rest == 0) {
      bin |= 63;
      continue;
    }
    bin += std::countr_zero(rest);
    Chunk* best = nullptr;
    int looked = 0;
    for (Chunk* c = bins_[bin]; c != nullptr && (best == nullptr || looked < kLongestSearch);
         c = c->bin_after, ++looked) {
      if (c->bytes < need || (best != nullptr && best->bytes <= c->bytes)) continue;
      best = c;
      if (c->bytes == need) break;
    }
    if (best != nullptr) return best;
  }
  return nullptr;
}

// A free chunk of a new arena, in no bin.
LargePool::Chunk* LargePool::grow(std::size_t need) noexcept {
  std::size_t bytes = need > kArena / 2 ? round_up(need, kHuge) : kArena;
  char* begin = map_arena(bytes, plain_);
  if (begin == nullptr && bytes == kArena) {  // a small arena may still be had
    bytes = round_up(need, kHuge);
    begin = map_arena(bytes, plain_);
  }
  if (begin == nullptr) return nullptr;
  auto* chunk = new (begin) Chunk;
  chunk->bytes = bytes;
  chunk->is_last = true;
  return chunk;
}

// Cuts the chunk after `bytes` and returns the rest. Both parts are in no bin.
LargePool::Chunk* LargePool::split(Chunk* chunk, std::size_t bytes) noexcept {
  auto* rest = new (chunk->begin() + bytes) Chunk;
  rest->bytes = chunk->bytes - bytes;
  rest->dirty = chunk->dirty > bytes ? chunk->dirty - bytes : 0;
  rest->below = chunk;
  rest->is_last = chunk->is_last;
  chunk->bytes = bytes;
  chunk->dirty -= rest->dirty;
  chunk->is_last = false;
  if (Chunk* above = rest->above()) above->below = rest;
  return rest;
}

void* LargePool::allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (bytes > std::size_t{1} << 48) return nullptr;
  if constexpr (kBypassPools) {
    void* memory =
        nullptr;  // not aligned_alloc: it wants a rounded size, which would hide overruns
    return posix_memalign(&memory, alignment, std::max<std::size_t>(bytes, 1)) == 0 ? memory
                                                                                    : nullptr;
  }
  const std::size_t need = round_up(std::max<std::size_t>(bytes, 64), 64) + kHeader;
  const std::lock_guard lock(mutex_);
  Chunk* chunk = find(alignment > 64 ? need + alignment : need);
  if (chunk != nullptr) {
    remove(chunk);
    dirty_.store(dirty_.load(std::memory_order_relaxed) - chunk->dirty, std::memory_order_relaxed);
  } else {
    chunk = grow(alignment > 64 ? need + alignment : need);
    if (chunk == nullptr) return nullptr;
  }
  const auto put_back = [this](Chunk* part) {
    dirty_.store(dirty_.load(std::memory_order_relaxed) + part->dirty, std::memory_order_relaxed);
    insert(part);
  };
  const auto address = reinterpret_cast<std::size_t>(chunk->memory());
  if (const std::size_t gap = round_up(address, alignment) - address; gap != 0) {
    Chunk* front = chunk;
    chunk = split(front, gap);
    put_back(front);
  }
  if (chunk->bytes - need >= kSmallestRest) put_back(split(chunk, need));
  chunk->dirty = 0;
  return chunk->memory();
}

void LargePool::free(void* memory) noexcept {
  if constexpr (kBypassPools) {
    std::free(memory);
    return;
  }
  auto* chunk = reinterpret_cast<Chunk*>(static_cast<char*>(memory) - kHeader);
  const std::lock_guard lock(mutex_);
  chunk->dirty = chunk->bytes;
  std::size_t dirty = dirty_.load(std::memory_order_relaxed) + chunk->bytes;
  if (Chunk* above = chunk->above(); above != nullptr && above->is_free) {
    remove(above);
    chunk->bytes += above->bytes;
    chunk->dirty += above->dirty;
    chunk->is_last = above->is_last;
  }
  if (Chunk* below = chunk->below; below != nullptr && below->is_free) {
    remove(below);
    below->bytes += chunk->bytes;
    below->dirty += chunk->dirty;
    below->is_last = chunk->is_last;
    chunk = below;
  }
  if (Chunk* above = chunk->above()) above->below = chunk;
  insert(chunk);
  dirty_.store(dirty, std::memory_order_relaxed);
  if (dirty > mark_) trim_locked(mark_ / 2);
}

// Returns the pages of a free chunk to the system, and the address space if the whole arena is
// free.
void LargePool::release_chunk(Chunk* chunk) noexcept {
  dirty_.store(dirty_.load(std::memory_order_relaxed) - chunk->dirty, std::memory_order_relaxed);
  chunk->dirty = 0;
  if (chunk->below == nullptr && chunk->is_last) {
    remove(chunk);
    munmap(chunk->begin(), chunk->bytes);
    return;
  }
  const auto begin = round_up(reinterpret_cast<std::size_t>(chunk->memory()), kPage);
  const auto end = reinterpret_cast<std::size_t>(chunk->begin() + chunk->bytes) & ~(kPage - 1);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void LargePool::trim_locked(std::size_t keep) noexcept {
  for (int bin = kBins - 1; bin >= 0; --bin) {  // the largest first: few calls give much back
    for (Chunk* chunk = bins_[bin]; chunk != nullptr;) {
      if (keep != 0 && dirty_.load(std::memory_order_relaxed) <= keep) return;
      Chunk* next = chunk->bin_after;
      release_chunk(chunk);
      chunk = next;
    }
  }
}

void LargePool::trim(std::size_t keep) noexcept {
  const std::lock_guard lock(mutex_);
  trim_locked(keep);
}

}  // namespace etude::internal
