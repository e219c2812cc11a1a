// SPDX-License-Identifier: Apache-2.0
// Names of generated code for external tools. ETUDE_SHOW_CODE in the environment selects the tools:
//   perf   /tmp/perf-PID.map has a line for each function, so that perf shows its name
//   gdb    each object file is registered with GDB, for function names and breakpoints
// "perf,gdb" selects both. Without the variable nothing is written.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace etude::codegen {

// The registration of one piece of code; its destructor removes it.
class ShownCode {
 public:
  ShownCode() = default;
  ShownCode(const ShownCode&) = delete;
  ShownCode& operator=(const ShownCode&) = delete;
  virtual ~ShownCode() = default;
};

// Whether code is registered with GDB.
bool shows_code_to_gdb();

// Registers the code at [begin, begin + bytes). `name` is for people and may have several lines.
// `object`: the object file with the addresses of its sections, for GDB. threads: thread-safe.
std::unique_ptr<ShownCode> show_code(const void* begin, std::size_t bytes, std::string_view name,
                                     std::string object);

// A line of a perf map without its end: "7f12ab00 1a0 etude_kernel add(x1, x2)".
std::string perf_map_line(const void* begin, std::size_t bytes, std::string_view name);

}  // namespace etude::codegen
