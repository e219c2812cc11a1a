// SPDX-License-Identifier: Apache-2.0
#include "etude/io/text_lines.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

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
  static constexpr std::size_t kStep = std::size_t{1} << 16;  // bytes of a read

  // The next line without its '\n', valid until the next call; nothing at the end.
  std::optional<std::string_view> pass_line() {
    line_at_ = static_cast<int64_t>(read_ - (end_ - at_));
    std::size_t searched = at_;
    for (;;) {
      const char* begin = buffer_.data() + searched;
      const void* found = searched == end_ ? nullptr : std::memchr(begin, '\n', end_ - searched);
      if (found != nullptr || read_ == file_.size()) {
        if (at_ == end_) return std::nullopt;
        const std::size_t stop =
            found == nullptr
                ? end_
                : static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.data());
        const std::string_view line(buffer_.data() + at_, stop - at_);
        at_ = std::min(stop + 1, end_);
        ++passed_;
        return line;
      }
      read_more();
      searched = end_ - read_bytes_;
    }
  }

  // Moves the begun line to the front of the buffer, and fills the rest. A line that leaves less
  // than half of the buffer doubles it, so that its bytes are moved a few times only.
  void read_more() {
    const std::size_t begun = end_ - at_;
    if (buffer_.size() < kStep || begun > buffer_.size() / 2) {
      buffer_.resize(std::max(kStep, 2 * buffer_.size()));
    }
    if (begun > 0) std::memmove(buffer_.data(), buffer_.data() + at_, begun);
    at_ = 0;
    read_bytes_ =
        static_cast<std::size_t>(std::min<uint64_t>(buffer_.size() - begun, file_.size() - read_));
    file_.read(read_, {reinterpret_cast<uint8_t*>(buffer_.data()) + begun, read_bytes_});
    read_ += read_bytes_;
    end_ = begun + read_bytes_;
  }

  etude::internal::FileReader file_;
  std::vector<char> buffer_;
  uint64_t read_ = 0;             // offset in the file of the end of the read bytes
  std::size_t at_ = 0, end_ = 0;  // the next line, and the end of the read bytes, in the buffer
  std::size_t read_bytes_ = 0;    // by the last read
  int64_t line_at_ = 0;           // of the last line in the file
  int64_t passed_ = 0;            // lines
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
