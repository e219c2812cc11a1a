// SPDX-License-Identifier: Apache-2.0
// The lines of text files as a Dataset: for texts that are read during training.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "etude/data/dataset.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

// The lines of a file in order, without "\n" or "\r\n"; the last line needs no end. Bytes are
// returned unchanged. Each iteration opens the file and reads the bytes that it has then: lines
// that are appended meanwhile belong to the next iteration. Resuming an iteration only searches for
// line ends.
//
// throws: during iteration, kNotFound when there is no file, kInvalidArgument when it is no regular
//         file, kDataLoss, with the offset, when it is cut off meanwhile.
data::Dataset<std::string> text_lines(const std::string& path);

// A line with its position.
struct TextLine {
  std::string file, text;
  int64_t number = 1;  // counted from 1
  int64_t offset = 0;  // of its first byte
};
// The same with their positions.
data::Dataset<TextLine> numbered_lines(const std::string& path);

namespace internal {
// Rethrows the current exception with the position of the line.
[[noreturn]] void throw_in(const TextLine& line);
}  // namespace internal

// Applies f(text) to each line of a file, as Dataset::map does. File, line and offset are added to
// an error of f: "map: element 6: t.csv: line 7, offset 112: three columns are missing".
//
//   auto samples = io::map_lines("t.csv", parse, {.parallel = 8, .on_error =
//   data::OnError::kSkip});
template <class F>
auto map_lines(const std::string& path, F f, data::MapOptions options = {},
               CallSite where = CallSite::here()) {
  return numbered_lines(path).map(
      [f = std::move(f)](TextLine line) mutable {
        std::string text = std::move(line.text);
        try {
          return f(std::move(text));
        } catch (...) {
          internal::throw_in(line);
        }
      },
      options, where);
}

}  // namespace io
}  // namespace etude
