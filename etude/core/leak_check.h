// SPDX-License-Identifier: Apache-2.0
// LeakCheck: a scope that reports if the number of live tensors changes between its start and its
// end. Put a LeakCheck around a test or a training step to find leaks: a growing cache, a reference
// cycle, a forgotten tape.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <utility>

#include "etude/base/call_site.h"
#include "etude/core/buffer.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Counts the tensors of all threads, so no other work may run in parallel.
//
//   {
//     const LeakCheck check;
//     const Tensor y = model(x);
//   }   // prints "LeakCheck at train.cc:42: ..." if the number of tensors changed
class LeakCheck {
 public:
  using Report = std::function<void(const std::string& message)>;

  explicit LeakCheck(Report report = {}, CallSite where = CallSite::here())
      : report_(std::move(report)), where_(where) {}
  LeakCheck(const LeakCheck&) = delete;
  LeakCheck& operator=(const LeakCheck&) = delete;
  ~LeakCheck() {
    const MemoryStats stats = scope_.stats();
    if (stats.live_tensors == 0) return;
    const std::string message = std::string("LeakCheck at ") + where_.file + ":" +
                                std::to_string(where_.line) + ": " +
                                std::to_string(stats.live_tensors) + " more tensors (" +
                                std::to_string(stats.live_bytes) + " bytes) than before";
    if (report_) {
      report_(message);
    } else {
      std::fprintf(stderr, "%s\n", message.c_str());
    }
  }

  // Returns the number of live tensors minus the number at the start.
  int64_t more_tensors() const { return scope_.stats().live_tensors; }

 private:
  Report report_;
  CallSite where_;
  MemoryScope scope_;
};

}  // namespace etude
