// SPDX-License-Identifier: Apache-2.0
// LeakCheck: a scope that as many tensors leave as have entered. Put around a test or a training
// step, it finds what keeps tensors alive: a cache that grows, a cycle, a forgotten tape.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <utility>

#include "etude/base/call_site.h"
#include "etude/core/buffer.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Counts the tensors of all threads, so nothing else may run beside it.
//
//   {
//     const LeakCheck check;
//     const Tensor y = model(x);
//   }   // prints "LeakCheck at train.cc:42: ..." if more tensors live than before
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

  // Tensors alive now beyond those at the start; negative if some of those have died.
  std::int64_t more_tensors() const { return scope_.stats().live_tensors; }

 private:
  Report report_;
  CallSite where_;
  MemoryScope scope_;
};

}  // namespace etude
