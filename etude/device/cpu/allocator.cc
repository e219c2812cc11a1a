// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <vector>

#include <pthread.h>

#include "etude/base/check.h"
#include "etude/base/internal/fork_lock.h"
#include "etude/core/buffer.h"
#include "etude/core/internal/device_table.h"
#include "etude/device/cpu/block_spans.h"
#include "etude/device/cpu/large_pool.h"
#include "etude/device/cpu/memory_ledger.h"

namespace etude {
namespace internal {
namespace {

constexpr int64_t kReportBytes = 64 << 10;     // small blocks are booked in sums of about this much
constexpr std::size_t kListBytes = 512 << 10;  // a thread keeps about so much of each class
constexpr std::size_t kBatchBytes = 32 << 10;

struct FreeList {
  FreeBlock* head = nullptr;
  std::atomic<uint32_t> count{0};  // written by the owner only
  uint32_t most = 0;
};

// The lists and counters of one thread. Other threads only read the counters.
struct alignas(64) ThreadMemory {
  std::atomic<int64_t> unreported{0};  // live bytes that the ledger does not know of
  int64_t high = 0;                    // highest `unreported` since the last report
  std::atomic<int64_t> allocations{0};
  std::atomic<int64_t> live_tensors{0};
  std::atomic<int64_t> deep_copies{0};
  std::atomic<int64_t> copies_avoided{0};
  std::array<FreeList, kBlockClasses> lists;

  ThreadMemory() {
    for (int c = 0; c < kBlockClasses; ++c) {
      lists[c].most = static_cast<uint32_t>(std::max<std::size_t>(kListBytes / block_bytes(c), 8));
    }
  }
};

// Plain additions: each counter has one writer.
template <class T>
void add(std::atomic<T>& counter, T value) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

// The counters of all threads. Never destroyed.
struct Threads {
  std::mutex mutex;
  std::vector<ThreadMemory*> active;
  std::vector<ThreadMemory*> spare;
  ThreadMemory ended;  // sums of ended threads; serves frees after a thread's lists are gone

  static Threads& instance() {
    static Threads& threads = *new Threads;
    return threads;
  }
};

// The locks of the allocator, which fork() holds. Otherwise a child may find one of them closed by
// another thread of its parent.
bool try_lock_allocator(void*) {
  std::unique_lock threads(Threads::instance().mutex, std::try_to_lock);
  if (!threads) return false;
  std::unique_lock spans(BlockSpans::instance(), std::try_to_lock);
  if (!spans) return false;
  std::unique_lock blocks(LargePool::for_blocks(), std::try_to_lock);
  if (!blocks) return false;
  std::unique_lock buffers(LargePool::for_buffers(), std::try_to_lock);
  if (!buffers || !MemoryLedger::instance().try_lock()) return false;
  threads.release();
  spans.release();
  blocks.release();
  buffers.release();
  return true;
}
void unlock_allocator(void*) {
  Threads::instance().mutex.unlock();
  BlockSpans::instance().unlock();
  LargePool::for_blocks().unlock();
  LargePool::for_buffers().unlock();
  MemoryLedger::instance().unlock();
}
void prepare_allocator_for_forks() {
  static auto* const lock =
      new ForkLock(nullptr, {try_lock_allocator, unlock_allocator, unlock_allocator});
  static_cast<void>(lock);
}

// One word each in the static thread-local block, so that they work in a library opened at run
// time.
[[gnu::tls_model("initial-exec")]] thread_local constinit ThreadMemory* thread_memory = nullptr;
[[gnu::tls_model("initial-exec")]] thread_local constinit bool thread_ended = false;

void report(ThreadMemory& mine) noexcept {
  const int64_t difference = mine.unreported.load(std::memory_order_relaxed);
  mine.unreported.store(0, std::memory_order_relaxed);
  MemoryLedger::instance().report(difference, mine.high);
  mine.high = 0;
}

void empty_lists(ThreadMemory& mine) noexcept {
  for (int c = 0; c < kBlockClasses; ++c) {
    FreeList& list = mine.lists[c];
    if (list.head != nullptr) BlockSpans::instance().give(c, list.head);
    list.head = nullptr;
    list.count.store(0, std::memory_order_relaxed);
  }
}

void detach(ThreadMemory& mine) noexcept {
  report(mine);
  empty_lists(mine);
  Threads& threads = Threads::instance();
  const std::lock_guard lock(threads.mutex);
  for (auto counter : {&ThreadMemory::allocations, &ThreadMemory::live_tensors,
                       &ThreadMemory::deep_copies, &ThreadMemory::copies_avoided}) {
    add(threads.ended.*counter, (mine.*counter).load(std::memory_order_relaxed));
    (mine.*counter).store(0, std::memory_order_relaxed);
  }
  threads.active.erase(std::find(threads.active.begin(), threads.active.end(), &mine));
  threads.spare.push_back(&mine);  // does not throw: attach() made room
}

// Returns the lists at the end of a thread. Other objects of the thread may be destroyed later, and
// static objects are; memory that they free goes to the shared lists of ended threads.
void end_thread(void* memory) noexcept {
  thread_ended = true;
  thread_memory = nullptr;
  detach(*static_cast<ThreadMemory*>(memory));
}

// A key of the threads library. To register the destructor of a thread-local variable glibc needs
// memory, and ends the process where there is none. Below 0: the process has no key left.
int key_of_ends() noexcept {
  static const int made = [] {
    pthread_key_t key = 0;
    return pthread_key_create(&key, end_thread) == 0 ? static_cast<int>(key) : -1;
  }();
  return made;
}

// Null without memory.
ThreadMemory* attach() noexcept {
  ThreadMemory* mine = nullptr;
  try {
    prepare_allocator_for_forks();
    Threads& threads = Threads::instance();
    const int key = key_of_ends();
    const std::lock_guard lock(threads.mutex);
    threads.active.reserve(threads.active.size() + 1);
    threads.spare.reserve(threads.active.size() + 1);
    if (threads.spare.empty()) threads.spare.push_back(new ThreadMemory);
    mine = threads.spare.back();
    if (key < 0 || pthread_setspecific(static_cast<pthread_key_t>(key), mine) != 0) return nullptr;
    threads.active.push_back(mine);
    threads.spare.pop_back();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return thread_memory = mine;
}

// Calls `use` with this thread's memory, even before its initialisation and after its destruction.
// Without memory for it, `use` gets the memory of ended threads: frees and counters do not fail.
template <class F>
[[gnu::noinline]] auto with_thread_memory(F use) {
  if (thread_memory != nullptr) return use(*thread_memory);
  ThreadMemory* const made = thread_ended ? nullptr : attach();
  if (made != nullptr) return use(*made);
  struct Ended {
    std::lock_guard<std::mutex> lock{Threads::instance().mutex};
    ThreadMemory& memory = Threads::instance().ended;
    ~Ended() { report(memory); }
  } ended;
  return use(ended.memory);
}

int batch_of(int size_class) {
  return static_cast<int>(std::clamp<std::size_t>(kBatchBytes / block_bytes(size_class), 1, 64));
}

inline void* pop(ThreadMemory& mine, FreeList& list, int64_t unreported) noexcept {
  FreeBlock* block = list.head;
  list.head = block->next;
  add(list.count, ~uint32_t{0});
  mine.unreported.store(unreported, std::memory_order_relaxed);
  add<int64_t>(mine.allocations, 1);
  return block;
}

inline void count(std::atomic<int64_t> ThreadMemory::*counter, int64_t difference) noexcept {
  ThreadMemory* mine = thread_memory;
  if (mine != nullptr) [[likely]]
    return add(mine->*counter, difference);
  with_thread_memory([=](ThreadMemory& m) { add(m.*counter, difference); });
}

// Books `bytes` before they are allocated. throws: kResourceExhausted; then nothing is booked.
int64_t admit(ThreadMemory& mine, int64_t bytes) {
  int64_t unreported = mine.unreported.load(std::memory_order_relaxed) + bytes;
  if (unreported > kReportBytes) {
    if (!MemoryLedger::instance().has_room(unreported)) {
      MemoryLedger::instance().throw_exhausted(bytes);
    }
    report(mine);
    unreported = bytes;
  }
  mine.high = std::max(mine.high, unreported);
  return unreported;
}

void trim_shared() noexcept {
  try {
    BlockSpans::instance().trim();
    LargePool::for_blocks().trim(0);
    LargePool::for_buffers().trim(0);
  } catch (const std::bad_alloc&) {  // of a pool that is not made yet, and so is empty
  }
}

void* take_slowly(ThreadMemory& mine, std::size_t bytes, std::size_t counted) {
  const int size_class = block_class(bytes);
  FreeList& list = mine.lists[size_class];
  if (list.head == nullptr) {
    int taken = BlockSpans::instance().take(size_class, batch_of(size_class), list.head);
    if (taken == 0) {
      empty_lists(mine);
      trim_shared();
      taken = BlockSpans::instance().take(size_class, 1, list.head);
    }
    if (taken == 0) MemoryLedger::instance().throw_exhausted(static_cast<int64_t>(counted));
    add(list.count, static_cast<uint32_t>(taken));
  }
  const int64_t unreported = admit(mine, static_cast<int64_t>(counted));
  return pop(mine, list, unreported);
}

[[gnu::noinline]] void shrink(ThreadMemory& mine, int size_class) noexcept {
  if (mine.unreported.load(std::memory_order_relaxed) < -kReportBytes) report(mine);
  FreeList& list = mine.lists[size_class];
  const uint32_t count = list.count.load(std::memory_order_relaxed);
  if (count <= list.most) return;
  // Keeps the blocks freed last, since they are warm in the cache.
  FreeBlock* last = list.head;
  for (uint32_t i = 1; i < count / 2; ++i) last = last->next;
  BlockSpans::instance().give(size_class, last->next);
  last->next = nullptr;
  list.count.store(count / 2, std::memory_order_relaxed);
}

inline void put_into(ThreadMemory& mine, void* block, std::size_t bytes,
                     std::size_t counted) noexcept {
  const int size_class = block_class(bytes);
  FreeList& list = mine.lists[size_class];
  list.head = new (block) FreeBlock{list.head};
  const uint32_t count = list.count.load(std::memory_order_relaxed) + 1;
  list.count.store(count, std::memory_order_relaxed);
  const int64_t unreported =
      mine.unreported.load(std::memory_order_relaxed) - static_cast<int64_t>(counted);
  mine.unreported.store(unreported, std::memory_order_relaxed);
  if (count > list.most || unreported < -kReportBytes) [[unlikely]]
    shrink(mine, size_class);
}

// Allocations without lists: large buffers, or all allocations under the address sanitizer.
void* take_single(std::size_t bytes, std::size_t counted) {
  const auto asked = static_cast<int64_t>(counted);
  with_thread_memory([](ThreadMemory& mine) { report(mine); });
  MemoryLedger& ledger = MemoryLedger::instance();
  if (!ledger.reserve(asked)) ledger.throw_exhausted(asked);
  void* memory = LargePool::for_buffers().allocate(bytes);
  if (memory == nullptr) {
    trim_memory();
    memory = LargePool::for_buffers().allocate(bytes);
  }
  if (memory == nullptr) {
    ledger.give_back(asked);
    ledger.throw_exhausted(asked);
  }
  with_thread_memory([](ThreadMemory& mine) { add<int64_t>(mine.allocations, 1); });
  return memory;
}

void put_single(void* memory, std::size_t counted) noexcept {
  MemoryLedger::instance().give_back(static_cast<int64_t>(counted));
  LargePool::for_buffers().free(memory);
}

// Allocates a block of `bytes` and books `counted` of them.
inline void* take(std::size_t bytes, std::size_t counted) {
  if (kBypassPools || bytes > kMaxBlock) return take_single(bytes, counted);
  ThreadMemory* mine = thread_memory;
  if (mine != nullptr) [[likely]] {
    FreeList& list = mine->lists[block_class(bytes)];
    const int64_t unreported =
        mine->unreported.load(std::memory_order_relaxed) + static_cast<int64_t>(counted);
    if (list.head != nullptr && (unreported <= mine->high || unreported <= kReportBytes))
        [[likely]] {
      if (unreported > mine->high) mine->high = unreported;
      return pop(*mine, list, unreported);
    }
  }
  return with_thread_memory([=](ThreadMemory& m) { return take_slowly(m, bytes, counted); });
}

inline void put(void* block, std::size_t bytes, std::size_t counted) noexcept {
  if (kBypassPools || bytes > kMaxBlock) return put_single(block, counted);
  ThreadMemory* mine = thread_memory;
  if (mine != nullptr) [[likely]]
    return put_into(*mine, block, bytes, counted);
  with_thread_memory([=](ThreadMemory& m) { put_into(m, block, bytes, counted); });
}

// Large buffers are listed, so that an error can name the holders.
constexpr int64_t kListedBytes = 64 << 10;
constexpr std::size_t kBufferHeader = 64;
static_assert(sizeof(LargeBuffer) == kBufferHeader && kListedBytes + kBufferHeader == kMaxBlock);

}  // namespace

void* allocate_block(std::size_t bytes) { return take(bytes, bytes); }

void free_block(void* block, std::size_t bytes) noexcept { put(block, bytes, bytes); }

Buffer* allocate_buffer(int64_t bytes) {
  ETUDE_CHECK(bytes >= 0, "a buffer of {} bytes was requested", bytes);
  const auto size = static_cast<std::size_t>(bytes);
  void* memory = take(kBufferHeader + size, size);
  auto* buffer = new (memory) LargeBuffer;
  buffer->bytes = size;
  buffer->data = buffer + 1;
  if (bytes > kListedBytes) MemoryLedger::instance().add_holder(buffer);
  return buffer;
}

void free_buffer(Buffer* buffer) noexcept {
  if (buffer->memory != nullptr) [[unlikely]]
    return buffer->memory->free(static_cast<DeviceBuffer*>(buffer));
  auto* large = static_cast<LargeBuffer*>(buffer);
  const std::size_t size = large->bytes;
  if (size > static_cast<std::size_t>(kListedBytes)) MemoryLedger::instance().remove_holder(large);
  put(large, kBufferHeader + size, size);
}

void count_tensor(int64_t difference) noexcept { count(&ThreadMemory::live_tensors, difference); }
void count_deep_copy() noexcept { count(&ThreadMemory::deep_copies, 1); }
int64_t thread_allocations() noexcept {
  int64_t out = 0;
  with_thread_memory(
      [&](ThreadMemory& mine) { out = mine.allocations.load(std::memory_order_relaxed); });
  return out;
}

void count_copy_avoided() noexcept { count(&ThreadMemory::copies_avoided, 1); }

namespace {
void report_thread() noexcept { with_thread_memory(report); }
}  // namespace

PeakWatch::PeakWatch() {
  report_thread();
  MemoryLedger::instance().add_watch(this);
}

PeakWatch::~PeakWatch() { MemoryLedger::instance().remove_watch(this); }

}  // namespace internal

MemoryStats memory_stats() {
  using internal::ThreadMemory;
  internal::report_thread();
  internal::MemoryLedger& ledger = internal::MemoryLedger::instance();
  MemoryStats stats;
  stats.cached_bytes = static_cast<int64_t>(internal::LargePool::for_blocks().cached_bytes() +
                                            internal::LargePool::for_buffers().cached_bytes()) +
                       internal::BlockSpans::instance().cached_bytes();
  internal::Threads& threads = internal::Threads::instance();
  const std::lock_guard lock(threads.mutex);
  const auto sum = [&stats](const ThreadMemory& thread) {
    stats.live_bytes += thread.unreported.load(std::memory_order_relaxed);
    stats.allocations += thread.allocations.load(std::memory_order_relaxed);
    stats.live_tensors += thread.live_tensors.load(std::memory_order_relaxed);
    stats.deep_copies += thread.deep_copies.load(std::memory_order_relaxed);
    stats.copies_avoided += thread.copies_avoided.load(std::memory_order_relaxed);
    for (int c = 0; c < internal::kBlockClasses; ++c) {
      stats.cached_bytes += thread.lists[c].count.load(std::memory_order_relaxed) *
                            static_cast<int64_t>(internal::block_bytes(c));
    }
  };
  for (const ThreadMemory* thread : threads.active) sum(*thread);
  sum(threads.ended);
  stats.live_bytes += ledger.live_bytes();
  stats.peak_bytes = std::max(ledger.peak_bytes(), stats.live_bytes);
  stats.limit_bytes = ledger.limit_bytes();
  return stats;
}

void reset_peak_memory() {
  internal::report_thread();
  internal::MemoryLedger::instance().reset_peak();
}

void set_memory_limit(int64_t bytes) {
  ETUDE_REQUIRE(bytes >= 0, "a memory limit of {} bytes is below zero. Pass 0 for no limit", bytes);
  internal::MemoryLedger::instance().set_limit(bytes);
}

void trim_memory() {
  internal::with_thread_memory(internal::empty_lists);
  internal::trim_shared();
}

MemoryScope::MemoryScope() : start_(memory_stats()) {}

MemoryStats MemoryScope::stats() const {
  MemoryStats stats = memory_stats();
  const int64_t peak = internal::MemoryLedger::instance().peak_of(watch_);
  stats.peak_bytes = std::max(peak, stats.live_bytes) - start_.live_bytes;
  stats.live_bytes -= start_.live_bytes;
  stats.allocations -= start_.allocations;
  stats.live_tensors -= start_.live_tensors;
  stats.deep_copies -= start_.deep_copies;
  stats.copies_avoided -= start_.copies_avoided;
  return stats;
}

}  // namespace etude
