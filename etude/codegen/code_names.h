// SPDX-License-Identifier: Apache-2.0
// Generated code for tools that look at a process from outside. ETUDE_SHOW_CODE in the environment
// says for which:
//   perf   /tmp/perf-PID.map has a line for each function, so that perf names it
//   gdb    GDB is told of each object file, so that it names functions and sets breakpoints there
// "perf,gdb" for both. Without it nothing is written.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace etude::codegen {

// What is told of one piece of code; it is taken back when this goes.
class ShownCode {
 public:
  ShownCode() = default;
  ShownCode(const ShownCode&) = delete;
  ShownCode& operator=(const ShownCode&) = delete;
  virtual ~ShownCode() = default;
};

// Whether GDB is to be told.
bool shows_code_to_gdb();

// Tells of the code at [begin, begin + bytes), which is `name` for people, be it of several lines.
// `object`: the object file with the addresses of its sections, for GDB. threads: thread-safe.
std::unique_ptr<ShownCode> show_code(const void* begin, std::size_t bytes, std::string_view name,
                                     std::string object);

// A line of a perf map without its end: "7f12ab00 1a0 etude_kernel add(x1, x2)".
std::string perf_map_line(const void* begin, std::size_t bytes, std::string_view name);

}  // namespace etude::codegen
