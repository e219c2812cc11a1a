// SPDX-License-Identifier: Apache-2.0
// Lines with a time, to a file or to standard error.
#pragma once

#include <cstdio>
#include <mutex>
#include <string>

namespace etude::serve {

// threads: thread-safe.
class Log {
 public:
  // "-": standard error; "off": nothing; else a file, to which lines are appended.
  // throws: kNotFound for a file that cannot be opened.
  explicit Log(const std::string& file);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  bool is_on() const { return file_ != nullptr; }
  // "2026-11-29T20:25:00.123Z text". Line breaks become spaces.
  void write(const std::string& text);

 private:
  std::mutex mutex_;
  std::FILE* file_ = nullptr;
  bool owns_ = false;
};

}  // namespace etude::serve
