// SPDX-License-Identifier: Apache-2.0
// Reads tables from CSV files into columns of stated or inferred dtypes. Files are not trusted. Not
// for writing. For tables that do not fit into memory, text_lines.h reads line by line.
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
  bool header = true;  // the first row has the column names; false: the names are "0", "1", ...
  std::vector<std::string> columns = {};  // columns to read, in this order; empty: all
  // Dtypes by column name. Other columns get a dtype that fits all their values, see read_csv.
  std::map<std::string, DType> dtypes = {};
  std::vector<std::string> texts = {};  // columns that are read as text
  std::vector<std::string> missing = {"", "NA", "N/A", "NaN", "nan", "null", "NULL"};
  data::OnError on_error = data::OnError::kThrow;  // kSkip: bad rows are skipped and counted
};

struct CsvColumn {
  std::string name;
  Tensor values;                   // [rows]; absent for text
  std::vector<std::string> texts;  // [rows] for text, else empty
  int64_t missing = 0;             // number of cells without a value, which become NaN or ""
};

struct CsvTable {
  int64_t rows = 0;
  std::vector<CsvColumn> columns;
  data::Skipped skipped;

  // Returns the column of this name. throws: kNotFound, with the existing names.
  const CsvColumn& column(std::string_view name, CallSite where = CallSite::here()) const;
  // Returns the columns `names` as a matrix [rows, columns]. If `names` is empty, the matrix has
  // all columns that are not text.
  //
  // throws: kNotFound as above; kInvalidArgument for a column of text.
  Tensor matrix(const std::vector<std::string>& names = {}, DType dtype = kFloat32,
                CallSite where = CallSite::here()) const;
};

// Reads the table in the file at `path`. Lines end with "\n", "\r\n" or "\r". Empty lines and a
// byte order mark are ignored. Cells may be in double quotes. Inside the quotes a double quote is
// written twice, and line ends are part of the text.
//
// A column without a stated dtype gets the first of these types that fits all its cells: int64,
// uint64, float64, bool, text. Whole numbers with missing cells become float64. Bools are "true"
// and "false", in upper or lower case. Decimal numbers are rounded to the nearest floating-point
// number, in every locale. A warning is printed once per column whose whole numbers lose digits in
// float64.
//
// throws: kNotFound if the file or a named column does not exist; kDataLoss, with file, line and
//         offset, for a row of another length, a cell that does not fit its dtype, an unclosed
//         quote, or two columns with the same name; kResourceExhausted beyond read_limits().
// cost:   one pass; a second pass if a column of numbers or bools turns out to be text.
CsvTable read_csv(const std::string& path, const CsvOptions& options = {},
                  CallSite where = CallSite::here());
// Parses the table in `text`, the content of a file with that `name`.
CsvTable parse_csv(std::string_view text, std::string_view name, const CsvOptions& options = {},
                   CallSite where = CallSite::here());

}  // namespace io
}  // namespace etude
