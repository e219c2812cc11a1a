// SPDX-License-Identifier: Apache-2.0
// Small blocks from thread-local lists; large buffers from a process-wide cache by size class,
// since fresh pages cost more than most kernels that write them.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "etude/base/check.h"
#include "etude/core/buffer.h"
#include "etude/device/cpu/memory_counters.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ETUDE_NO_BLOCK_CACHE 1  // sanitizers see every allocation
#endif

namespace etude {
namespace internal {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kBlockClasses = 66;  // up to the header and kInlineBytes, in lines
constexpr int kBlocksPerClass = 256;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// ---- counters
// -------------------------------------------------------------------------------------

struct CounterList {
  std::mutex mutex;
  std::vector<MemoryCounters*> all;
};
CounterList& counter_list() {
  static auto* list = new CounterList;  // read by destructors of static tensors
  return *list;
}

MemoryCounters* new_counters() {
  auto* counters = new MemoryCounters;  // kept for ever: its sums stay part of the totals
  const std::lock_guard lock(counter_list().mutex);
  counter_list().all.push_back(counters);
  return counters;
}

thread_local MemoryCounters* my_counters = nullptr;

std::atomic<int64_t> large_live{0}, large_peak{0}, cached{0}, limit{0};

void add_large(int64_t bytes) {
  const int64_t now = large_live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = large_peak.load(std::memory_order_relaxed);
  while (now > peak && !large_peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

// ---- small blocks
// ---------------------------------------------------------------------------------

#if !defined(ETUDE_NO_BLOCK_CACHE)
struct FreeBlock {
  FreeBlock* next;
};
struct FreeList {
  FreeBlock* first = nullptr;
  int count = 0;
};

// A plain array without a destructor, so that blocks freed while a thread ends still find it; a
// guard object gives the blocks back and closes the lists.
thread_local constinit std::array<FreeList, kBlockClasses> block_lists{};
thread_local constinit bool lists_closed = false;

struct ListGuard {
  ~ListGuard() {
    lists_closed = true;
    for (FreeList& list : block_lists) {
      while (list.first != nullptr) std::free(std::exchange(list.first, list.first->next));
      list.count = 0;
    }
  }
};

void guard_lists() {
  thread_local ListGuard guard;
  static_cast<void>(guard);
}
#endif

[[noreturn]] void throw_exhausted(int64_t bytes) {
  ETUDE_THROW(kResourceExhausted, "{:.1f} MiB were asked for, but the host has no more memory",
              static_cast<double>(bytes) / (1 << 20));
}

// ---- large buffers
// --------------------------------------------------------------------------------

// Size classes: eight per power of two, so that at most an eighth is unused.
std::size_t size_class(std::size_t bytes) {
  const std::size_t step = std::max(std::bit_floor(bytes) / 8, kLine);
  return (bytes + step - 1) / step * step;
}

void* map_pages(std::size_t bytes) {
  const std::size_t room = bytes >= kHugePage ? bytes + kHugePage : bytes;
  void* raw = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  if (bytes < kHugePage) return raw;
  auto begin = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = (begin + kHugePage - 1) & ~(kHugePage - 1);
  if (aligned > begin) munmap(raw, aligned - begin);
  const uintptr_t end = begin + room, used = aligned + bytes;
  if (end > used) munmap(reinterpret_cast<void*>(used), end - used);
  madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(aligned);
}

constexpr std::size_t kMapFrom = std::size_t{1} << 18;  // below, malloc serves

std::size_t round_pages(std::size_t bytes) { return (bytes + 4095) & ~std::size_t{4095}; }

class BufferCache {
 public:
  static BufferCache& of_process() {
    static auto* cache = new BufferCache;
    return *cache;
  }

  Buffer* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = free_.find(bytes);
    if (found == free_.end() || found->second.empty()) return nullptr;
    Buffer* buffer = found->second.back();
    found->second.pop_back();
    cached.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
    return buffer;
  }

  void put(Buffer* buffer) {
    {
      const std::lock_guard lock(mutex_);
      const int64_t held = cached.load(std::memory_order_relaxed);
      const int64_t high =
          std::max<int64_t>(large_peak.load(std::memory_order_relaxed), int64_t{64} << 20);
      if (held + static_cast<int64_t>(buffer->bytes) <= high) {
        free_[buffer->bytes].push_back(buffer);
        cached.fetch_add(static_cast<int64_t>(buffer->bytes), std::memory_order_relaxed);
        return;
      }
    }
    give_back(buffer);
  }

  void trim() {
    std::map<std::size_t, std::vector<Buffer*>> all;
    {
      const std::lock_guard lock(mutex_);
      all.swap(free_);
      cached = 0;
    }
    for (auto& [bytes, list] : all) {
      for (Buffer* buffer : list) give_back(buffer);
    }
  }

 private:
  static void give_back(Buffer* buffer) {
    if (buffer->bytes >= kMapFrom) {
      munmap(buffer->data, round_pages(buffer->bytes));
    } else {
      std::free(buffer->data);
    }
    delete buffer;
  }

  std::mutex mutex_;
  std::map<std::size_t, std::vector<Buffer*>> free_;
};

// More than the machine has would be granted by the system and then end the process when touched.
std::size_t physical_bytes() {
  static const std::size_t bytes = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                                   static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

void* fresh(std::size_t bytes) {
  if (bytes > physical_bytes()) return nullptr;
  return bytes >= kMapFrom ? map_pages(round_pages(bytes)) : std::aligned_alloc(kLine, bytes);
}

void require_within_limit(std::size_t bytes) {
  const int64_t most = limit.load(std::memory_order_relaxed);
  const int64_t live = large_live.load(std::memory_order_relaxed);
  if (most == 0 || live + static_cast<int64_t>(bytes) <= most) return;
  constexpr double kMiB = 1 << 20;
  ETUDE_THROW(kResourceExhausted,
              "{:.1f} MiB were asked for, but {:.1f} MiB of the limit of {:.1f} MiB are held by "
              "tensors. Drop some, use a smaller batch, or raise set_memory_limit",
              static_cast<double>(bytes) / kMiB, static_cast<double>(live) / kMiB,
              static_cast<double>(most) / kMiB);
}

}  // namespace

MemoryCounters& memory_counters() noexcept {
  if (my_counters == nullptr) my_counters = new_counters();
  return *my_counters;
}

void count_tensor(int64_t difference) noexcept { bump(memory_counters().live_tensors, difference); }
void count_deep_copy() noexcept { bump(memory_counters().deep_copies, 1); }
void count_copy_avoided() noexcept { bump(memory_counters().copies_avoided, 1); }

Buffer* allocate_buffer(int64_t bytes) {
  ETUDE_CHECK(bytes >= 0, "a buffer of {} bytes", bytes);
  const std::size_t size = size_class(static_cast<std::size_t>(bytes));
  require_within_limit(size);
  Buffer* buffer = BufferCache::of_process().take(size);
  if (buffer == nullptr) {
    void* data = fresh(size);
    if (data == nullptr) {
      trim_memory();
      data = fresh(size);
    }
    if (data == nullptr) throw_exhausted(bytes);
    buffer = new Buffer;
    buffer->bytes = size;
    buffer->data = data;
  }
  buffer->count.store(1, std::memory_order_relaxed);
  add_large(static_cast<int64_t>(size));
  bump(memory_counters().allocations, 1);
  return buffer;
}

void free_buffer(Buffer* buffer) noexcept {
  add_large(-static_cast<int64_t>(buffer->bytes));
  BufferCache::of_process().put(buffer);
}

void* allocate_block(std::size_t bytes) {
  const std::size_t lines = (bytes + kLine - 1) / kLine;
  MemoryCounters& counters = memory_counters();
  bump(counters.allocations, 1);
  bump(counters.block_bytes, static_cast<int64_t>(lines * kLine));
#if !defined(ETUDE_NO_BLOCK_CACHE)
  if (lines < kBlockClasses) {
    FreeList& list = block_lists[lines];
    if (list.first != nullptr) {
      --list.count;
      return std::exchange(list.first, list.first->next);
    }
  }
#endif
  void* block = std::aligned_alloc(kLine, lines * kLine);
  if (block == nullptr) throw_exhausted(static_cast<int64_t>(bytes));
  return block;
}

void free_block(void* block, std::size_t bytes) noexcept {
  const std::size_t lines = (bytes + kLine - 1) / kLine;
  bump(memory_counters().block_bytes, -static_cast<int64_t>(lines * kLine));
#if !defined(ETUDE_NO_BLOCK_CACHE)
  if (lines < kBlockClasses && !lists_closed) {
    FreeList& list = block_lists[lines];
    if (list.count < kBlocksPerClass) {
      if (list.count++ == 0) guard_lists();
      auto* free_block = static_cast<FreeBlock*>(block);
      free_block->next = std::exchange(list.first, free_block);
      return;
    }
  }
#endif
  std::free(block);
}

}  // namespace internal

MemoryStats memory_stats() {
  using namespace internal;  // NOLINT(google-build-using-namespace): counters of this file
  MemoryStats s;
  {
    const std::lock_guard lock(counter_list().mutex);
    for (const MemoryCounters* c : counter_list().all) {
      s.allocations += c->allocations.load(std::memory_order_relaxed);
      s.live_tensors += c->live_tensors.load(std::memory_order_relaxed);
      s.deep_copies += c->deep_copies.load(std::memory_order_relaxed);
      s.copies_avoided += c->copies_avoided.load(std::memory_order_relaxed);
      s.live_bytes += c->block_bytes.load(std::memory_order_relaxed);
    }
  }
  s.peak_bytes = s.live_bytes + large_peak.load(std::memory_order_relaxed);
  s.live_bytes += large_live.load(std::memory_order_relaxed);
  s.cached_bytes = cached.load(std::memory_order_relaxed);
  s.limit_bytes = limit.load(std::memory_order_relaxed);
  return s;
}

void reset_peak_memory() { internal::large_peak = internal::large_live.load(); }
void set_memory_limit(int64_t bytes) { internal::limit = bytes; }
void trim_memory() { internal::BufferCache::of_process().trim(); }

MemoryScope::MemoryScope() : start_(memory_stats()) { reset_peak_memory(); }

MemoryStats MemoryScope::stats() const {
  MemoryStats now = memory_stats();
  now.live_tensors -= start_.live_tensors;
  now.allocations -= start_.allocations;
  now.deep_copies -= start_.deep_copies;
  now.copies_avoided -= start_.copies_avoided;
  now.peak_bytes -= start_.live_bytes;
  now.live_bytes -= start_.live_bytes;
  return now;
}

}  // namespace etude
