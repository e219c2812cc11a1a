// SPDX-License-Identifier: Apache-2.0
// Tables in text files: CSV into columns of stated or found dtypes. Files are not trusted. Not for
// writing, and not for tables that do not fit into memory: text_lines.h gives lines one by one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "etude/core/tensor.h"
#include "etude/data/pipeline.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

struct CsvOptions {
  char delimiter = ',';
  bool header = true;  // the first row has the names of the columns; else they are "0", "1", ...
  std::vector<std::string> columns = {};     // those to keep, in this order; empty: all
  std::map<std::string, DType> dtypes = {};  // of columns; others get what holds all their values
  std::vector<std::string> texts = {};       // columns that stay text whatever they hold
  std::vector<std::string> missing = {"", "NA", "N/A", "NaN", "nan", "null", "NULL"};
  data::OnError on_error = data::OnError::kThrow;  // kSkip: bad rows are left out and counted
};

struct CsvColumn {
  std::string name;
  Tensor values;                   // [rows]; absent for text
  std::vector<std::string> texts;  // [rows] for text, else empty
  std::int64_t missing = 0;        // cells without a value: NaN, or ""
};

struct CsvTable {
  std::int64_t rows = 0;
  std::vector<CsvColumn> columns;
  data::Skipped skipped;

  // throws: kNotFound, with the names that there are.
  const CsvColumn& column(std::string_view name, CallSite where = CallSite::here()) const;
  // Columns of numbers side by side, [rows, names]; all that are no text if no names are given.
  //
  // throws: kNotFound as above; kInvalidArgument for a column of text.
  Tensor matrix(const std::vector<std::string>& names = {}, DType dtype = kFloat32,
                CallSite where = CallSite::here()) const;
};

// Reads the table in the file at `path`. Cells may be in double quotes, in which two stand for one
// and line ends are text; lines end with "\n", "\r\n" or "\r"; empty lines and a byte order mark
// are left out. A column without a dtype becomes int64, uint64, float64 (also for whole numbers
// with missing ones), bool (true, false, in any case) or text, the first of them that holds all
// cells. Decimal numbers are read to the nearest float, whatever the locale. Where a column of
// whole numbers has become float64 and lost digits, a warning says so once for the file.
//
// throws: kNotFound when there is no file, or no such column; kDataLoss, with file, line, column
// and
//         offset, for a row of another length, a cell that its dtype does not hold, or a quote
//         without end.
// cost:   one pass, a second one where a column turns out to be text behind numbers.
CsvTable read_csv(const std::string& path, const CsvOptions& options = {},
                  CallSite where = CallSite::here());
// The table in `text`, the content of a file with that `name`.
CsvTable parse_csv(std::string_view text, std::string_view name, const CsvOptions& options = {},
                   CallSite where = CallSite::here());

}  // namespace io
}  // namespace etude
