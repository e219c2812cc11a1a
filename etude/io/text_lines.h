// SPDX-License-Identifier: Apache-2.0
// The lines of a text file as a Dataset, for texts that are read during training.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "etude/data/dataset.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

// Returns the lines of a file in order, without "\n" or "\r\n". The last line needs no line end.
// All other bytes are unchanged. Each iteration opens the file and reads up to the size at that
// time. Lines that are appended later belong to the next iteration. If an iteration is resumed, the
// lines before its position are only searched for line ends.
//
// throws: during iteration: kNotFound if the file does not exist; kInvalidArgument if it is not a
//         regular file; kDataLoss, with the offset, if the file becomes shorter.
data::Dataset<std::string> text_lines(const std::string& path);

// A line with its position.
struct TextLine {
  std::string file, text;
  int64_t number = 1;  // counted from 1
  int64_t offset = 0;  // of its first byte in the file
};
// Returns the same lines with their positions.
data::Dataset<TextLine> numbered_lines(const std::string& path);

namespace internal {
// Rethrows the current exception with the position of the line. A std::exception that is not an
// Error becomes an Error with the code kDataLoss.
[[noreturn]] void throw_in(const TextLine& line);
}  // namespace internal

// Applies f(text) to each line of a file, as Dataset::map does. An error of f also states file,
// line and offset: "map: element 6: t.csv: line 7, offset 112: three columns are missing".
//
//   auto samples = io::map_lines("t.csv", parse,
//                                {.parallel = 8, .on_error = data::OnError::kSkip});
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
