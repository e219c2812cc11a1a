// SPDX-License-Identifier: Apache-2.0
#include "etude/io/csv.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include <sys/mman.h>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/dtype.h"
#include "etude/core/internal/host_door.h"
#include "etude/files/file_reader.h"
#include "etude/files/read_budget.h"
#include "etude/io/csv_column.h"
#include "etude/io/decimal.h"

namespace etude::io {
namespace {

using csv::Column;
using csv::Kind;
using etude::internal::number_as;
using etude::internal::whole_at;

constexpr int64_t kSample = 1000;  // rows from which the total number is estimated
constexpr std::size_t kMaxColumns = 100'000;
constexpr uint64_t kColumnBytes = 2 * sizeof(Column);

// Requests few large pages instead of many small ones, for memory that is about to be filled. Only
// advice: a system without huge pages works as well.
void prefer_large_pages(void* begin, std::size_t bytes) {
  constexpr std::uintptr_t kPage = 4096;
  const std::uintptr_t at = (reinterpret_cast<std::uintptr_t>(begin) + kPage - 1) / kPage * kPage;
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(begin) + bytes) / kPage * kPage;
  if (at < end) ::madvise(reinterpret_cast<void*>(at), end - at, MADV_HUGEPAGE);
}

class CsvReader {
 public:
  CsvReader(std::string_view text, std::string_view name, const CsvOptions& options)
      : start_(text.data()),
        begin_(start_),
        end_(text.data() + text.size()),
        name_(name),
        options_(options),
        budget_(name, text.size()) {
    for (const std::string& word : options.missing) {
      may_be_missing_[static_cast<unsigned char>(word.empty() ? 0 : word[0])] = true;
    }
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text.starts_with(kByteOrderMark)) begin_ += kByteOrderMark.size();
    ETUDE_REQUIRE(
        options.delimiter != '"' && options.delimiter != '\n' && options.delimiter != '\r',
        "the delimiter is {}, which has another meaning in a CSV file",
        options.delimiter == '"' ? "a quote" : "a line end");
  }

  CsvTable read() {
    at_ = begin_;
    read_header();
    const char* first = at_;
    const int64_t first_line = line_;
    read_rows();
    if (std::any_of(columns_.begin(), columns_.end(),
                    [](const Column& c) { return c.turns_text; })) {
      for (Column& column : columns_) {
        column.resize(0);
        column.missing = 0;
        column.inexact.clear();
        if (column.turns_text) column.kind = Kind::kText;
        column.is_fixed = column.is_fixed || column.turns_text;
        column.turns_text = false;
      }
      at_ = first;
      line_ = first_line;
      rows_ = 0;
      skipped_ = {};
      read_rows();
    }
    return table();
  }

 private:
  // A row that is bad; caught where rows are skipped.
  struct BadRow {
    std::string message;
  };

  [[noreturn]] void bad(const char* at, const std::string& where, const std::string& what) const {
    throw BadRow{
        fmt::format("{}: line {}{}, offset {}: {}", name_, line_, where, at - start_, what)};
  }

  bool is_line_end(const char* p) const { return p == end_ || *p == '\n' || *p == '\r'; }
  bool is_cell_end(const char* p) const { return p == end_ || *p == delimiter_ || is_line_end(p); }
  void skip_line_end() {
    const bool is_pair = end_ - at_ > 1 && at_[0] == '\r' && at_[1] == '\n';
    at_ += is_pair ? 2 : at_ != end_ ? 1 : 0;
    ++line_;
  }
  void skip_empty_lines() {
    while (at_ != end_ && is_line_end(at_)) skip_line_end();
  }

  // Returns the cell at at_, and advances at_. The text of a quoted cell is in `unquoted_`.
  std::string_view cell() {
    if (at_ == end_ || *at_ != '"') {
      const char* start = at_;
      while (!is_cell_end(at_)) ++at_;
      return {start, static_cast<std::size_t>(at_ - start)};
    }
    const char* start = at_++;
    const int64_t lines = line_;
    unquoted_.clear();
    for (;;) {
      const auto* quote =
          static_cast<const char*>(std::memchr(at_, '"', static_cast<std::size_t>(end_ - at_)));
      if (quote == nullptr) {
        line_ = lines;
        at_ = end_;
        bad(start, "", "the quoted cell that begins here has no end");
      }
      unquoted_.append(at_, quote);
      line_ += std::count(at_, quote, '\n');
      at_ = quote + 1;
      if (at_ == end_ || *at_ != '"') break;
      unquoted_ += '"';
      ++at_;
    }
    if (!is_cell_end(at_)) bad(at_, "", "a quoted cell has text after its closing quote");
    return unquoted_;
  }

  void read_header() {
    skip_empty_lines();
    const char* start = at_;
    const int64_t line = line_;
    std::vector<std::string> names;
    try {
      while (at_ != end_) {
        if (names.size() >= kMaxColumns) bad(at_, "", "there are more than 100000 columns");
        budget_.need_bytes(kColumnBytes, static_cast<uint64_t>(at_ - start_));
        names.emplace_back(cell());
        if (at_ == end_ || *at_ != delimiter_) break;
        ++at_;
        if (at_ == end_) names.emplace_back();
      }
    } catch (const BadRow& row) {
      etude::internal::throw_error(ErrorCode::kDataLoss, row.message);
    }
    if (options_.header) {
      if (at_ != end_) skip_line_end();
    } else {
      at_ = start;
      line_ = line;
      for (std::size_t i = 0; i < names.size(); ++i) names[i] = std::to_string(i);
    }
    make_columns(names);
  }

  void make_columns(const std::vector<std::string>& names) {
    for (const std::string& column : names) {
      columns_.emplace_back().name = column;
      columns_.back().is_kept = options_.columns.empty();
    }
    if (options_.header) {
      std::vector<std::string> sorted = names;
      std::sort(sorted.begin(), sorted.end());
      const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
      ETUDE_REQUIRE_CODE(kDataLoss, twice == sorted.end(),
                         "{}: the header at line {} has two columns '{}'. Pass header=false and "
                         "name them by number",
                         name_, std::max<int64_t>(1, line_ - 1),
                         twice == sorted.end() ? "" : *twice);
    }
    for (const std::string& column : options_.columns) at(column).is_kept = true;
    for (const auto& [column, dtype] : options_.dtypes) at(column).ask_for(dtype);
    for (const std::string& column : options_.texts) {
      at(column).kind = Kind::kText;
      at(column).is_fixed = true;
    }
  }

  Column& at(const std::string& column) {
    const auto found = std::find_if(columns_.begin(), columns_.end(),
                                    [&](const Column& c) { return c.name == column; });
    ETUDE_REQUIRE_CODE(kNotFound, found != columns_.end(),
                       "{}: there is no column '{}'; there are {}", name_, column,
                       names_of_columns());
    return *found;
  }
  std::string names_of_columns() const {
    constexpr std::size_t kShown = 20;
    std::string text;
    for (std::size_t i = 0; i < std::min(kShown, columns_.size()); ++i) {
      text += (i == 0 ? "'" : ", '") + columns_[i].name + "'";
    }
    return text + (columns_.size() > kShown ? ", ..." : columns_.empty() ? "none" : "");
  }

  // For as many rows as the length of the first ones promises.
  void make_room(const char* first) {
    const double more = static_cast<double>(end_ - first) / static_cast<double>(at_ - first);
    const auto expected = static_cast<std::size_t>(1.05 * more * static_cast<double>(rows_));
    for (Column& column : columns_) {
      if (!column.ints.empty()) column.ints.reserve(expected);
      if (!column.floats.empty()) column.floats.reserve(expected);
      if (column.texts.empty()) continue;
      column.texts.reserve(expected);
      prefer_large_pages(column.texts.data() + column.texts.size(),
                         (column.texts.capacity() - column.texts.size()) * sizeof(std::string));
    }
  }

  void read_rows() {
    const char* first = at_;
    for (;;) {
      skip_empty_lines();
      if (at_ == end_) return;
      const char* start = at_;
      const int64_t line = line_;
      try {
        read_row();
        if (++rows_ == kSample) make_room(first);
      } catch (const BadRow& row) {
        if (options_.on_error == data::OnError::kThrow) {
          etude::internal::throw_error(ErrorCode::kDataLoss, row.message);
        }
        skip_bad_row(row, start, line);
      }
    }
  }

  // Continues after the line where the row began: a wrong quote may have swallowed lines.
  void skip_bad_row(const BadRow& row, const char* start, int64_t line) {
    constexpr int64_t kKept = 8;
    if (++skipped_.count <= kKept) skipped_.first.push_back(row.message);
    for (Column& column : columns_) column.resize(static_cast<std::size_t>(rows_));
    at_ = std::find_if(start, end_, [](char c) { return c == '\n' || c == '\r'; });
    line_ = line;
    if (at_ != end_) skip_line_end();
  }

  void read_row() {
    const char* start = at_;
    const std::size_t count = columns_.size();
    budget_.need_items(count, static_cast<uint64_t>(start - start_));
    for (std::size_t i = 0; i < count; ++i) {
      if (columns_[i].is_kept) {
        read_cell(columns_[i]);
      } else {
        cell();
      }
      if (i + 1 == count) break;
      if (at_ == end_ || *at_ != delimiter_) {
        bad(start, "", fmt::format("the row has {} cells, but there are {} columns", i + 1, count));
      }
      ++at_;
    }
    if (!is_line_end(at_)) {
      std::size_t cells = count;
      while (at_ != end_ && *at_ == delimiter_) {
        ++at_;
        cell();
        ++cells;
      }
      bad(start, "", fmt::format("the row has {} cells, but there are {} columns", cells, count));
    }
    if (at_ != end_) skip_line_end();
  }

  // Unquoted numbers go straight into the column.
  void read_cell(Column& column) {
    if (column.kind == Kind::kFloat) {
      double value = 0;
      const char* stop = column.dtype == kFloat32 ? number_as<float>(at_, end_, value)
                                                  : number_as<double>(at_, end_, value);
      if (stop != nullptr && is_cell_end(stop)) {
        if (std::abs(value) >= csv::kInexact) column.note_inexact({at_, stop}, value);
        at_ = stop;
        column.floats.push_back(value);
        return;
      }
    } else if (column.is_whole()) {
      int64_t value = 0;
      const char* stop = whole_at(at_, end_, value);
      if (stop != nullptr && is_cell_end(stop) && column.takes(value)) {
        at_ = stop;
        column.ints.push_back(value);
        return;
      }
    }
    const char* start = at_;
    const std::string_view text = cell();
    if (is_missing(text)) {
      add_missing(column, start);
    } else {
      add(column, text, start);
    }
  }

  bool is_missing(std::string_view text) const {
    const auto first = static_cast<unsigned char>(text.empty() ? 0 : text[0]);
    return may_be_missing_[first] && std::find(options_.missing.begin(), options_.missing.end(),
                                               text) != options_.missing.end();
  }

  void add_missing(Column& column, const char* at) {
    if (column.is_fixed && (column.is_whole() || column.kind == Kind::kBool)) {
      bad(at, fmt::format(", column '{}'", column.name),
          fmt::format("a value is missing, which {} cannot show. Take float64, or skip such rows",
                      name(*column.dtype)));
    }
    ++column.missing;
    if (column.kind == Kind::kText) {
      column.texts.emplace_back();
      return;
    }
    if (column.is_whole()) column.widen();
    if (column.kind == Kind::kBool) column.turns_text = true;
    column.floats.push_back(std::numeric_limits<double>::quiet_NaN());
  }

  void add(Column& column, std::string_view text, const char* at) {
    if (column.kind == Kind::kText) {
      column.texts.emplace_back(text);
      return;
    }
    const std::string_view number = csv::trimmed(text);
    if (column.kind == Kind::kNone) column.find_kind(number);
    if (column.kind == Kind::kText) {  // nothing but missing cells came before
      column.texts.resize(column.floats.size());
      column.floats = {};
      column.texts.emplace_back(text);
      return;
    }
    column.make_room_for(number);
    if (column.add(number)) return;
    if (!column.is_fixed) {  // the values so far are not used any more
      column.turns_text = true;
      return;
    }
    constexpr std::size_t kShown = 40;
    bad(at, fmt::format(", column '{}'", column.name),
        fmt::format("'{}' is no {}", text.substr(0, kShown), name(*column.dtype)));
  }

  CsvTable table() {
    CsvTable out;
    out.rows = rows_;
    out.skipped = std::move(skipped_);
    const auto finish = [&](Column& column) {
      CsvColumn& made = out.columns.emplace_back();
      made.name = column.name;
      made.missing = column.missing;
      if (column.kind == Kind::kText) {
        made.texts = std::move(column.texts);
      } else {
        column.warn_of_lost_digits(name_);
        made.values = column.take_values(rows_);
      }
    };
    if (options_.columns.empty()) {
      for (Column& column : columns_) finish(column);
    } else {
      for (const std::string& column : options_.columns) finish(at(column));
    }
    return out;
  }

  const char *start_, *begin_, *end_;  // of the file; after a byte order mark
  const char* at_ = nullptr;
  std::string_view name_;
  const CsvOptions& options_;
  char delimiter_ = options_.delimiter;
  std::array<bool, 256> may_be_missing_{};  // by the first byte of a cell, 0 for an empty one
  std::vector<Column> columns_;
  int64_t rows_ = 0, line_ = 1;
  std::string unquoted_;
  data::Skipped skipped_;
  etude::internal::ReadBudget budget_;
};

}  // namespace

const CsvColumn& CsvTable::column(std::string_view name, CallSite where) const {
  return etude::internal::located("CsvTable", where, [&]() -> const CsvColumn& {
    const auto found = std::find_if(columns.begin(), columns.end(),
                                    [&](const CsvColumn& c) { return c.name == name; });
    std::vector<std::string_view> names;
    for (const CsvColumn& c : columns) names.emplace_back(c.name);
    ETUDE_REQUIRE_CODE(kNotFound, found != columns.end(), "there is no column '{}'; there are: {}",
                       name, fmt::join(names, ", "));
    return *found;
  });
}

Tensor CsvTable::matrix(const std::vector<std::string>& names, DType dtype, CallSite where) const {
  return etude::internal::located("CsvTable::matrix", where, [&] {
    std::vector<const CsvColumn*> chosen;
    for (const std::string& name : names) chosen.push_back(&column(name));
    for (const CsvColumn& c : columns) {
      if (names.empty() && c.values.has_value()) chosen.push_back(&c);
    }
    const auto width = static_cast<int64_t>(chosen.size());
    Tensor out = etude::internal::make_tensor(intern_type(dtype, Shape{rows, width}));
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      ETUDE_REQUIRE(chosen[i]->values.has_value(), "column '{}' is text; leave it out",
                    chosen[i]->name);
      visit_dtype(dtype, [&]<class T>() {
        const std::vector<T> values = chosen[i]->values.to_vector<T>();
        T* to = static_cast<T*>(etude::internal::host_elements_for_writing(out)) + i;
        for (const auto& value : values) {
          *to = value;
          to += width;
        }
      });
    }
    return out;
  });
}

CsvTable parse_csv(std::string_view text, std::string_view name, const CsvOptions& options,
                   CallSite where) {
  return etude::internal::located("read_csv", where,
                                  [&] { return CsvReader(text, name, options).read(); });
}

CsvTable read_csv(const std::string& path, const CsvOptions& options, CallSite where) {
  return etude::internal::located("read_csv", where, [&] {
    const etude::internal::FileBytes file(path);
    return parse_csv(file.text(), path, options);
  });
}

}  // namespace etude::io
