// SPDX-License-Identifier: Apache-2.0
#include "serve/log.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>

#include <fmt/format.h>

#include "serve/refuse.h"

namespace etude::serve {

Log::Log(const std::string& file) {
  if (file == "off") return;
  owns_ = file != "-";
  file_ = owns_ ? std::fopen(file.c_str(), "ae") : stderr;
  if (file_ == nullptr) {
    refuse(ErrorCode::kNotFound, "the log '{}' cannot be opened: {}", file, std::strerror(errno));
  }
}

Log::~Log() {
  if (owns_) std::fclose(file_);
}

void Log::write(const std::string& text) {
  if (file_ == nullptr) return;
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm parts = {};
  ::gmtime_r(&seconds, &parts);
  char day[32];
  std::strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
  std::string line = fmt::format("{}.{:03}Z {}", day, ms, text);
  std::ranges::replace(line, '\n', ' ');
  line += '\n';
  const std::lock_guard lock(mutex_);
  std::fwrite(line.data(), 1, line.size(), file_);
  std::fflush(file_);
}

}  // namespace etude::serve
