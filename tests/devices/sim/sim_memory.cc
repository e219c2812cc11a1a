// SPDX-License-Identifier: Apache-2.0
#include "tests/devices/sim/sim_memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>

#include <sys/mman.h>
#include <unistd.h>

#include "etude/base/check.h"

namespace etude::sim {
namespace {

constexpr int64_t kMappedBytes = int64_t{4} << 30;  // of addresses: pages are made when written
constexpr int64_t kAlignment = 64;
constexpr int kFreed = 0xA5;  // written over freed memory

int64_t aligned(int64_t bytes) {
  return (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

char* map_file(int file, int protection) {
  void* const at = mmap(nullptr, static_cast<std::size_t>(kMappedBytes), protection,
                        MAP_SHARED | MAP_NORESERVE, file, 0);
  ETUDE_CHECK(at != MAP_FAILED, "the system maps no {} bytes for a simulated device", kMappedBytes);
  return static_cast<char*>(at);
}

}  // namespace

// The header of a buffer, on the host, and its entry in the list of holders.
struct Memory::Buffer : internal::DeviceBuffer {
  internal::LargeBuffer listed;
};

Memory::Memory(const std::string& device, int64_t limit_bytes) : queue_(device), ledger_(device) {
  ledger_.set_limit(limit_bytes);
  const int file = memfd_create("etude_sim", MFD_CLOEXEC);
  ETUDE_CHECK(file >= 0 && ftruncate(file, kMappedBytes) == 0,
              "the system has no file for a simulated device");
  shown_ = map_file(file, PROT_NONE);
  found_ = map_file(file, PROT_READ | PROT_WRITE);
  close(file);
  free_.emplace(0, kMappedBytes);
}

bool Memory::holds(const void* address) const noexcept {
  const auto* at = static_cast<const char*>(address);
  return at >= shown_ && at < shown_ + kMappedBytes;
}

void* Memory::found_at(const void* address) const noexcept {
  if (!holds(address)) return const_cast<void*>(address);
  return found_ + (static_cast<const char*>(address) - shown_);
}

int64_t Memory::take(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find_if(free_, [&](const auto& f) { return f.second >= bytes; });
  if (at == free_.end()) return -1;
  const auto [offset, size] = *at;
  free_.erase(at);
  if (size > bytes) free_.emplace(offset + bytes, size - bytes);
  return offset;
}

void Memory::give(int64_t offset, int64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(offset, bytes);
}

internal::DeviceBuffer* Memory::allocate(int64_t bytes) {
  auto buffer = std::make_unique<Buffer>();
  if (!ledger_.reserve(bytes)) ledger_.throw_exhausted(bytes);
  const int64_t offset = take(aligned(bytes));
  if (offset < 0) {
    ledger_.give_back(bytes);
    ledger_.throw_exhausted(bytes);
  }
  buffer->bytes = static_cast<std::size_t>(bytes);
  buffer->listed.bytes = buffer->bytes;
  buffer->data = shown_ + offset;
  buffer->memory = this;
  ledger_.add_holder(&buffer->listed);
  allocations_.fetch_add(1, std::memory_order_relaxed);
  live_buffers_.fetch_add(1, std::memory_order_relaxed);
  return buffer.release();
}

// The place is free for other buffers at once: jobs that use them come later.
void Memory::free(internal::DeviceBuffer* buffer) noexcept {
  const std::unique_ptr<Buffer> own(static_cast<Buffer*>(buffer));
  const Span span{own->data, own->bytes};
  try {
    queue_.add({{}, {span}, [this, span] {
                  std::memset(found_at(span.at), kFreed, span.bytes);
                  return true;
                }});
  } catch (const std::bad_alloc&) {  // then the old values stay
  }
  ledger_.remove_holder(&own->listed);
  ledger_.give_back(static_cast<int64_t>(own->bytes));
  live_buffers_.fetch_sub(1, std::memory_order_relaxed);
  give(static_cast<char*>(own->data) - shown_, aligned(static_cast<int64_t>(own->bytes)));
}

void Memory::put(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const auto copy = std::make_shared<std::string>(static_cast<const char*>(from), bytes);
  queue_.add({{}, {{to, bytes}}, [this, to, copy] {
                std::memcpy(found_at(to), copy->data(), copy->size());
                return true;
              }});
}

void Memory::get(void* to, const void* from, std::size_t bytes) {
  queue_.wait_for({from, bytes});
  if (bytes > 0) std::memcpy(to, found_at(from), bytes);
}

void Memory::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  queue_.add({{{from, bytes}}, {{to, bytes}}, [this, to, from, bytes] {
                std::memmove(found_at(to), found_at(from), bytes);
                return true;
              }});
}

MemoryStats Memory::stats() {
  MemoryStats stats;
  stats.live_bytes = ledger_.live_bytes();
  stats.peak_bytes = ledger_.peak_bytes();
  stats.limit_bytes = ledger_.limit_bytes();
  stats.allocations = allocations_.load(std::memory_order_relaxed);
  stats.live_tensors = live_buffers_.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace etude::sim
