// SPDX-License-Identifier: Apache-2.0
#include "etude/device/cpu/memory_ledger.h"

#include <algorithm>
#include <functional>
#include <map>

#include "etude/base/check.h"
#include "etude/device/cpu/host.h"

namespace etude::internal {
namespace {

// "64.0 MiB"
std::string readable(int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  auto value = static_cast<double>(bytes);
  const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;
  for (; value >= 1023.95 && unit < 6; ++unit) value /= 1024;  // 1023.96 would print as 1024.0
  return fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace

MemoryLedger& MemoryLedger::instance() {
  static MemoryLedger& ledger = *new MemoryLedger("");
  return ledger;
}

int64_t MemoryLedger::most_bytes() const noexcept {
  const int64_t limit = limit_bytes();
  return limit > 0 ? std::min(limit, host_memory_bytes()) : host_memory_bytes();
}

bool MemoryLedger::reserve(int64_t bytes) noexcept {
  const int64_t most = most_bytes();
  int64_t live = live_bytes();
  do {
    if (bytes > most - live) return false;
  } while (!live_.compare_exchange_weak(live, live + bytes, std::memory_order_relaxed));
  note(live + bytes);
  return true;
}

void MemoryLedger::report(int64_t difference, int64_t high) noexcept {
  const int64_t before = live_.fetch_add(difference, std::memory_order_relaxed);
  note(before + std::max(high, difference));
}

void MemoryLedger::note(int64_t live) noexcept {
  if (live <= lowest_peak_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  peak_ = std::max(peak_, live);
  int64_t lowest = peak_;
  for (PeakWatch* w = watches_; w != nullptr; w = w->next) {
    w->peak_bytes = std::max(w->peak_bytes, live);
    lowest = std::min(lowest, w->peak_bytes);
  }
  lowest_peak_.store(lowest, std::memory_order_relaxed);
}

int64_t MemoryLedger::peak_bytes() noexcept {
  const std::lock_guard lock(mutex_);
  return peak_;
}

void MemoryLedger::reset_peak() noexcept {
  const std::lock_guard lock(mutex_);
  peak_ = live_bytes();
  lowest_peak_.store(std::min(peak_, lowest_peak_.load(std::memory_order_relaxed)),
                     std::memory_order_relaxed);
}

void MemoryLedger::add_watch(PeakWatch* watch) noexcept {
  const std::lock_guard lock(mutex_);
  watch->peak_bytes = live_bytes();
  watch->next = watches_;
  watches_ = watch;
  lowest_peak_.store(std::min(watch->peak_bytes, lowest_peak_.load(std::memory_order_relaxed)),
                     std::memory_order_relaxed);
}

void MemoryLedger::remove_watch(PeakWatch* watch) noexcept {
  const std::lock_guard lock(mutex_);
  PeakWatch** place = &watches_;
  while (*place != watch) place = &(*place)->next;
  *place = watch->next;
  int64_t lowest = peak_;
  for (PeakWatch* w = watches_; w != nullptr; w = w->next) lowest = std::min(lowest, w->peak_bytes);
  lowest_peak_.store(lowest, std::memory_order_relaxed);
}

int64_t MemoryLedger::peak_of(const PeakWatch& watch) noexcept {
  const std::lock_guard lock(mutex_);
  return watch.peak_bytes;
}

void MemoryLedger::add_holder(LargeBuffer* buffer) noexcept {
  const std::lock_guard lock(mutex_);
  buffer->after = holders_;
  if (holders_ != nullptr) holders_->before = buffer;
  holders_ = buffer;
}

void MemoryLedger::remove_holder(LargeBuffer* buffer) noexcept {
  const std::lock_guard lock(mutex_);
  if (buffer->after != nullptr) buffer->after->before = buffer->before;
  (buffer->before != nullptr ? buffer->before->after : holders_) = buffer->after;
}

// "2 buffers of 256.0 MiB, 1 buffer of 3.0 MiB": the three buffer sizes with the largest totals.
std::string MemoryLedger::largest_holders() {
  std::map<int64_t, int64_t> counts;
  {
    const std::lock_guard lock(mutex_);
    for (const LargeBuffer* b = holders_; b != nullptr; b = b->after) {
      ++counts[static_cast<int64_t>(b->bytes)];
    }
  }
  std::multimap<int64_t, std::string, std::greater<>> lines;
  for (const auto& [bytes, count] : counts) {
    lines.emplace(bytes * count, fmt::format("{} {} of {}", count,
                                             count == 1 ? "buffer" : "buffers", readable(bytes)));
  }
  std::string text;
  int left = 3;
  for (const auto& [total, line] : lines) {
    if (left-- == 0) break;
    text += (text.empty() ? "" : ", ") + line;
  }
  return text.empty() ? "none above 64.0 KiB" : text;
}

void MemoryLedger::throw_exhausted(int64_t bytes) {
  const int64_t limit = limit_bytes(), live = live_bytes();
  const std::string on = device_.empty() ? "" : " on " + device_;
  if (limit > 0 && bytes > limit) {
    ETUDE_THROW(
        kResourceExhausted,
        "{} were requested{}, which is more than the limit of {} for all tensors together. Use "
        "smaller sizes, or raise the limit with set_memory_limit",
        readable(bytes), on, readable(limit));
  }
  if (bytes > host_memory_bytes()) {
    ETUDE_THROW(kResourceExhausted,
                "{} were requested{}, but the system has {} in all. Use smaller sizes",
                readable(bytes), on, readable(host_memory_bytes()));
  }
  if (limit > 0 && bytes > limit - live) {
    ETUDE_THROW(
        kResourceExhausted,
        "{} were requested{}, but {} of the limit of {} are in use; largest holders: {}. Free "
        "values, use smaller batches or raise the limit with set_memory_limit",
        readable(bytes), on, readable(live), readable(limit), largest_holders());
  }
  ETUDE_THROW(
      kResourceExhausted,
      "{} were requested{}, but the system has no more: of its {}, {} are in use by tensors; "
      "largest holders: {}. Free values or use smaller batches",
      readable(bytes), on, readable(host_memory_bytes()), readable(live), largest_holders());
}

}  // namespace etude::internal
