// SPDX-License-Identifier: Apache-2.0
#include "etude/io/text_lines.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "etude/base/check.h"
#include "etude/base/error.h"
#include "etude/files/file_reader.h"

namespace etude::io {
namespace {

// The lines of a file, as T{file, text, number, offset} or as texts alone.
template <class T>
class LinesCursor final : public data::internal::Cursor {
 public:
  explicit LinesCursor(const std::string& path) : file_(path) {}

  data::internal::Element next() override {
    const std::optional<std::string_view> line = pass_line();
    if (!line) return nullptr;
    std::string text(*line);
    if (!text.empty() && text.back() == '\r') text.pop_back();
    if constexpr (std::is_same_v<T, TextLine>) {
      return data::internal::element_of(TextLine{file_.name(), std::move(text), passed_, line_at_});
    } else {
      return data::internal::element_of(std::move(text));
    }
  }
  int64_t skip(int64_t n) override {
    int64_t done = 0;
    while (done < n && pass_line()) ++done;
    return done;
  }

 private:
  static constexpr uint64_t kStep = uint64_t{1} << 18;  // bytes of a read

  // The next line without its '\n', valid until the next call; nothing at the end.
  std::optional<std::string_view> pass_line() {
    line_at_ = static_cast<int64_t>(read_ - (buffer_.size() - at_));
    std::size_t searched = at_;
    for (;;) {
      const std::size_t end = buffer_.find('\n', searched);
      if (end != buffer_.npos || read_ == file_.size()) {
        if (at_ == buffer_.size()) return std::nullopt;
        const std::size_t stop = std::min(end, buffer_.size());
        const std::string_view line = std::string_view(buffer_).substr(at_, stop - at_);
        at_ = std::min(stop + 1, buffer_.size());
        ++passed_;
        return line;
      }
      buffer_.erase(0, std::exchange(at_, 0));
      searched = buffer_.size();
      // A long line doubles the step, so that its bytes are moved a few times only.
      const uint64_t step = std::min(std::max<uint64_t>(kStep, searched), file_.size() - read_);
      buffer_.resize(searched + step);
      file_.read(read_, {reinterpret_cast<uint8_t*>(buffer_.data()) + searched, step});
      read_ += step;
    }
  }

  etude::internal::FileReader file_;
  std::string buffer_;   // bytes of the file up to `read_`
  uint64_t read_ = 0;    // offset in the file
  std::size_t at_ = 0;   // of the next line in the buffer
  int64_t line_at_ = 0;  // of the last line in the file
  int64_t passed_ = 0;   // lines
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
