// SPDX-License-Identifier: Apache-2.0
#include "tests/devices/sim/sim_queue.h"

#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "etude/eager/dispatch.h"

namespace etude::sim {

void Poison::mark(Span span, const Fault& fault) {
  if (span.bytes == 0) return;
  const auto begin = reinterpret_cast<uintptr_t>(span.at);
  const uintptr_t end = begin + span.bytes;
  auto at = parts_.upper_bound(begin);
  if (at != parts_.begin() && std::prev(at)->second.end > begin) --at;
  while (at != parts_.end() && at->first < end) {
    const auto [from, part] = *at;
    at = parts_.erase(at);
    if (from < begin) parts_.emplace(from, Part{begin, part.fault});
    if (part.end > end) parts_.emplace(end, part);
  }
  if (fault) parts_.emplace(begin, Part{end, fault});
}

Poison::Fault Poison::find(Span span) const {
  if (span.bytes == 0) return {};
  const auto begin = reinterpret_cast<uintptr_t>(span.at);
  auto at = parts_.upper_bound(begin);
  if (at != parts_.begin() && std::prev(at)->second.end > begin) --at;
  if (at == parts_.end() || at->first >= begin + span.bytes) return {};
  return at->second.fault;
}

Queue::Queue(std::string device) : device_(std::move(device)) {
  std::thread([this] { run(); }).detach();
}

void Queue::add(Job job) {
  internal::CallNote note = internal::note_of_call();
  const std::lock_guard lock(mutex_);
  added_ = mailbox_.note(std::move(note));
  entries_.push_back({added_, std::move(job)});
  changed_.notify_all();
}

void Queue::wait_for(Span span) {
  Poison::Fault fault;
  bool is_lost = false;
  {
    std::unique_lock lock(mutex_);
    const uint64_t last = added_;
    changed_.wait(lock, [&] { return done_ >= last; });
    fault = poison_.find(span);
    is_lost = is_lost_;
  }
  if (fault) throw Error(fault->error);
  if (is_lost) {
    throw Error(ErrorCode::kUnavailable,
                fmt::format("{} has vanished, and its values are lost. Compute them again on "
                            "another device",
                            device_));
  }
}

void Queue::hold() {
  const std::lock_guard lock(mutex_);
  ++holds_;
}

void Queue::release() {
  const std::lock_guard lock(mutex_);
  --holds_;
  changed_.notify_all();
}

void Queue::lose() {
  const std::lock_guard lock(mutex_);
  is_lost_ = true;
}

int64_t Queue::pending() {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(added_ - done_);
}

uint64_t Queue::done() {
  const std::lock_guard lock(mutex_);
  return done_;
}

// So that the host is ahead of the device by none, a few or many jobs.
void Queue::sleep_sometimes() {
  const auto draw = random_();
  if (draw % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(draw / 16 % 60));
  if (draw % 16 == 1) std::this_thread::yield();
}

Poison::Fault Queue::run_job(Entry& entry) {
  {
    const std::lock_guard lock(mutex_);
    if (is_lost_) {
      const Error gone(ErrorCode::kUnavailable,
                       fmt::format("{} vanished before this call ran", device_));
      return mailbox_.report(entry.number, gone);
    }
    for (const Span& span : entry.job.reads) {
      if (Poison::Fault fault = poison_.find(span)) {
        mailbox_.finish(entry.number);
        return fault;
      }
    }
  }
  mailbox_.begin(entry.number);
  try {
    if (entry.job.run()) {
      mailbox_.finish(entry.number);
      return {};
    }
    internal::throw_fault();
  } catch (const Error& error) {
    return mailbox_.report(entry.number, error);
  }
}

void Queue::run() {
  for (;;) {
    Entry entry;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return holds_ == 0 && !entries_.empty(); });
      entry = std::move(entries_.front());
      entries_.pop_front();
    }
    sleep_sometimes();
    const Poison::Fault fault = run_job(entry);
    entry.job.run = nullptr;  // its memory is free when the job is done
    const std::lock_guard lock(mutex_);
    for (const Span& span : entry.job.writes) poison_.mark(span, fault);
    done_ = entry.number;
    changed_.notify_all();
  }
}

}  // namespace etude::sim
