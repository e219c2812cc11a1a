// SPDX-License-Identifier: Apache-2.0
// Collects the warnings of a test during its lifetime.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/base/warning.h"
#include "etude/codegen/compiler.h"

namespace etude::tests {

class Warnings {
 public:
  // As in a new process, no warning was printed before. Background compiles of earlier tests end
  // first, since their warnings would appear here.
  Warnings() {
    wait_for_compile();
    internal::forget_warnings();
    was_ = set_warning_handler([this](std::string_view text) { told.emplace_back(text); });
  }
  ~Warnings() { set_warning_handler(std::move(was_)); }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  std::vector<std::string> told;

 private:
  WarningHandler was_;
};

// The warnings that f() causes.
template <class F>
std::vector<std::string> warnings_of(F&& f) {
  Warnings heard;
  std::forward<F>(f)();
  return std::move(heard.told);
}

}  // namespace etude::tests
