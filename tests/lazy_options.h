// SPDX-License-Identifier: Apache-2.0
// Options of lazy execution for one test, and programs that it has to make itself.
#pragma once

#include "etude/etude.h"

namespace etude {

// `change` gets the options, which are as before when this goes.
class ChangedLazyOptions {
 public:
  template <class F>
  explicit ChangedLazyOptions(const F& change) {
    LazyOptions options = saved_;
    change(options);
    set_lazy_options(options);
  }
  ChangedLazyOptions(const ChangedLazyOptions&) = delete;
  ChangedLazyOptions& operator=(const ChangedLazyOptions&) = delete;
  ~ChangedLazyOptions() { set_lazy_options(saved_); }

 private:
  LazyOptions saved_ = lazy_options();
};

// No program of an earlier test is there.
inline void forget_lazy_programs() { set_lazy_options(lazy_options()); }

}  // namespace etude
