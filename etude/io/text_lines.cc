// SPDX-License-Identifier: Apache-2.0
#include "etude/io/text_lines.h"

#include <cstring>

#include "etude/io/mapped_file.h"

namespace etude::io {
namespace {

class LinesCursor final : public data::internal::Cursor {
 public:
  explicit LinesCursor(const std::string& path)
      : file_(path),
        at_(reinterpret_cast<const char*>(file_.bytes().data())),
        end_(at_ + file_.bytes().size()) {}

  data::internal::Element next() override {
    if (at_ == end_) return nullptr;
    const char* start = at_;
    const char* stop = pass_line();
    if (stop != start && stop[-1] == '\r') --stop;
    return data::internal::element_of(std::string(start, stop));
  }
  std::int64_t skip(std::int64_t n) override {
    std::int64_t done = 0;
    for (; done < n && at_ != end_; ++done) pass_line();
    return done;
  }

 private:
  // Goes behind the line; gives where it ends.
  const char* pass_line() {
    const auto* stop =
        static_cast<const char*>(std::memchr(at_, '\n', static_cast<std::size_t>(end_ - at_)));
    at_ = stop == nullptr ? end_ : stop + 1;
    return stop == nullptr ? end_ : stop;
  }

  etude::internal::MappedFile file_;
  const char *at_, *end_;
};

}  // namespace

data::Dataset<std::string> text_lines(const std::string& path) {
  return data::Dataset<std::string>(data::internal::source_stage(
      [path] { return std::make_unique<LinesCursor>(path); }, "lines(" + path + ")"));
}

}  // namespace etude::io
