// SPDX-License-Identifier: Apache-2.0
// Captures the lines of print(), for tests.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/stage/effects.h"

namespace etude::tests {

// Keeps the printed lines during its lifetime, and calls `at_line` at each line.
class Printing {
 public:
  explicit Printing(std::function<void()> at_line = {})
      : before_(set_print_sink([this, at_line = std::move(at_line)](std::string_view line) {
          lines_.emplace_back(line);
          if (at_line) at_line();
        })) {}
  Printing(const Printing&) = delete;
  Printing& operator=(const Printing&) = delete;
  ~Printing() { set_print_sink(before_); }
  // The lines printed since the last call.
  std::vector<std::string> take() { return std::exchange(lines_, {}); }

 private:
  std::vector<std::string> lines_;
  PrintSink before_;
};

}  // namespace etude::tests
