// SPDX-License-Identifier: Apache-2.0
// The lines of text files as a Dataset: for texts that are read while training.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "etude/data/dataset.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

// The lines of a file in order, without "\n" or "\r\n"; a last line needs no end. Bytes are given
// as they are. The file is opened by each walk and must stay as it is. A walk is resumed by looking
// for line ends alone.
//
// throws: while walking, kNotFound when there is no file, and what else reading it gives.
data::Dataset<std::string> text_lines(const std::string& path);

// A line with its place.
struct TextLine {
  std::string file, text;
  std::int64_t number = 1;  // counted from 1
  std::int64_t offset = 0;  // of its first byte
};
// The same with their places.
data::Dataset<TextLine> numbered_lines(const std::string& path);

namespace internal {
// Throws the exception that is handled, told with the place of the line.
[[noreturn]] void throw_in(const TextLine& line);
}  // namespace internal

// f(text) for each line of a file, as Dataset::map. What f throws is told with file, line and
// offset: "map: element 6: t.csv: line 7, offset 112: three columns are missing".
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
