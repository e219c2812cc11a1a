// SPDX-License-Identifier: Apache-2.0
// Which plans of a part of a test have forks, and the number of threads that run them.
#pragma once

#include "etude/device/cpu/parallel.h"
#include "etude/plan/forks.h"

namespace etude::tests {

// During its lifetime plans are made with this setting.
class ForkScope {
 public:
  explicit ForkScope(internal::Forks forks) { internal::set_forks(forks); }
  ForkScope(const ForkScope&) = delete;
  ForkScope& operator=(const ForkScope&) = delete;
  ~ForkScope() { internal::set_forks(saved_); }

 private:
  const internal::Forks saved_ = internal::forks_setting();
};

class ThreadCountScope {
 public:
  explicit ThreadCountScope(int count) { set_thread_count(count); }
  ThreadCountScope(const ThreadCountScope&) = delete;
  ThreadCountScope& operator=(const ThreadCountScope&) = delete;
  ~ThreadCountScope() { set_thread_count(0); }
};

}  // namespace etude::tests
