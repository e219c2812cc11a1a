// SPDX-License-Identifier: Apache-2.0
#include "etude/io/text_lines.h"

#include <cstring>
#include <exception>
#include <type_traits>

#include "etude/base/check.h"
#include "etude/base/error.h"
#include "etude/files/mapped_file.h"

namespace etude::io {
namespace {

// The lines of a file, as T{file, text, number, offset} or as texts alone.
template <class T>
class LinesCursor final : public data::internal::Cursor {
 public:
  explicit LinesCursor(const std::string& path)
      : path_(path),
        file_(path),
        begin_(reinterpret_cast<const char*>(file_.bytes().data())),
        at_(begin_),
        end_(at_ + file_.bytes().size()) {}

  data::internal::Element next() override {
    if (at_ == end_) return nullptr;
    const char* start = at_;
    const char* stop = pass_line();
    if (stop != start && stop[-1] == '\r') --stop;
    std::string text(start, stop);
    if constexpr (std::is_same_v<T, TextLine>) {
      return data::internal::element_of(TextLine{path_, std::move(text), passed_, start - begin_});
    } else {
      return data::internal::element_of(std::move(text));
    }
  }
  int64_t skip(int64_t n) override {
    int64_t done = 0;
    for (; done < n && at_ != end_; ++done) pass_line();
    return done;
  }

 private:
  // Advances past the line; returns its end.
  const char* pass_line() {
    const auto* stop =
        static_cast<const char*>(std::memchr(at_, '\n', static_cast<std::size_t>(end_ - at_)));
    at_ = stop == nullptr ? end_ : stop + 1;
    ++passed_;
    return stop == nullptr ? end_ : stop;
  }

  std::string path_;
  etude::internal::MappedFile file_;
  const char *begin_, *at_, *end_;
  int64_t passed_ = 0;  // lines
};

template <class T>
data::Dataset<T> lines_of(const std::string& path) {
  return data::Dataset<T>(data::internal::source_stage(
      [path] { return std::make_unique<LinesCursor<T>>(path); }, "lines(" + path + ")"));
}

}  // namespace

data::Dataset<std::string> text_lines(const std::string& path) {
  return lines_of<std::string>(path);
}
data::Dataset<TextLine> numbered_lines(const std::string& path) { return lines_of<TextLine>(path); }

namespace internal {

void throw_in(const TextLine& line) {
  const std::string place =
      fmt::format("{}: line {}, offset {}: ", line.file, line.number, line.offset);
  try {
    throw;
  } catch (const Error& error) {
    throw Error(error.code(), place + error.what());
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kDataLoss, place + error.what());
  }
}

}  // namespace internal
}  // namespace etude::io
