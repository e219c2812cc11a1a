// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/text/attr_reader.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "etude/core/op/exact_text.h"
#include "etude/graph/text/names.h"
#include "etude/graph/text/programs.h"

namespace etude::internal {
namespace {

template <class T>
T read_number(TextReader& in, std::string_view what) {
  in.skip_blanks();
  T value{};
  const char* behind = in.data();
  if (!read_exact(behind, in.end(), value)) {
    in.fail(fmt::format("{} is expected, but here is {}", what, in.seen()));
  }
  in.set(behind);
  return value;
}

template <class T>
std::vector<T> read_list(TextReader& in, std::string_view list, std::string_view what) {
  if (!in.take("[")) {
    in.fail(fmt::format("{} is expected, as in [1, 2], but here is {}", list, in.seen()));
  }
  std::vector<T> out;
  for (bool is_first = true; !in.take("]"); is_first = false) {
    if (!is_first) in.need(",", "an element of a list");
    out.push_back(read_number<T>(in, what));
  }
  return out;
}

DType read_dtype(TextReader& in) {
  in.skip_blanks();
  const std::size_t at = in.at();
  const std::string seen = in.seen();
  const auto dtype = dtype_named(in.word());
  if (!dtype) in.fail(at, fmt::format("a dtype is expected, but here is {}", seen));
  return *dtype;
}

std::string read_text(TextReader& in) {
  in.skip_blanks();
  std::string text;
  const char* behind = in.data();
  if (!read_quoted(behind, in.end(), text)) {
    in.fail(fmt::format("a text in quotes is expected, but here is {}", in.seen()));
  }
  in.set(behind);
  return text;
}

const ScalarDef* read_program(TextReader& in) {
  in.skip_blanks();
  const std::size_t at = in.at();
  if (!in.take("{")) {
    in.fail(fmt::format("a scalar program in braces is expected, but here is {}", in.seen()));
  }
  const std::string_view rest(in.data(), static_cast<std::size_t>(in.end() - in.data()));
  const std::size_t length = rest.substr(0, rest.find('\n')).find('}');
  if (length == std::string_view::npos) in.fail(at, "this '{' has no '}' in its line");
  const std::string_view text = rest.substr(0, length);
  in.set(in.data() + length + 1);
  const uint64_t n = in.ordinal();
  const ScalarDef* program = find_program(text, n);
  if (program == nullptr) {
    const std::string which = n == 1 ? "" : fmt::format("~{}", n);
    in.fail(at, fmt::format("{{{}}}{} is no scalar program: calls of element-wise functions on "
                            "operands x1, x2, ..., parameters p1, p2, ... and numbers. `etude ops "
                            "show NAME` prints those of an op",
                            text, which));
  }
  return program;
}

RefPtr<const AttrObject> read_graph(TextReader& in, const SubGraphs& graphs, int& depth,
                                    ReadBudget& budget) {
  in.skip_blanks();
  const std::size_t at = in.at();
  if (!in.take("@")) {
    in.fail(fmt::format("a graph is expected, as in @body, but here is {}", in.seen()));
  }
  std::string name = "@" + spell_name(in.name("a graph"));
  if (const uint64_t n = in.ordinal(); n > 1) name += fmt::format("~{}", n);
  const auto found = graphs.find(name);
  if (found == graphs.end()) {
    in.fail(at,
            fmt::format("there is no graph {} below this one. A graph must come after the graphs "
                        "that refer to it",
                        name));
  }
  depth = std::max(depth, found->second.depth + 1);
  if (!budget.has_depth(depth)) {
    in.fail(at,
            fmt::format("graphs refer to graphs more than {} levels deep", budget.limits().depth));
  }
  return found->second.graph;
}

std::vector<RefPtr<const AttrObject>> read_graphs(TextReader& in, const SubGraphs& graphs,
                                                  int& depth, ReadBudget& budget) {
  if (!in.take("[")) {
    in.fail(fmt::format("a list of graphs is expected, as in [@then, @else], but here is {}",
                        in.seen()));
  }
  std::vector<RefPtr<const AttrObject>> out;
  for (bool is_first = true; !in.take("]"); is_first = false) {
    if (!is_first) in.need(",", "an element of a list");
    out.push_back(read_graph(in, graphs, depth, budget));
  }
  return out;
}

}  // namespace

AttrValue read_attr(TextReader& in, const AttrDef& def, const SubGraphs& graphs, int& depth,
                    ReadBudget& budget) {
  const std::string what = fmt::format("a value of '{}'", def.name);
  if (!def.required && in.take("none")) return {};
  switch (def.kind) {
    case AttrKind::kFlag:
      return read_number<bool>(in, what + ", true or false,");
    case AttrKind::kInt:
      return read_number<int64_t>(in, what + ", an integer of 64 bits,");
    case AttrKind::kReal:
      return read_number<double>(in, what + ", a number,");
    case AttrKind::kDType:
      return read_dtype(in);
    case AttrKind::kInts:
      return read_list<int64_t>(in, "a list of integers", "an integer of 64 bits");
    case AttrKind::kText:
      return read_text(in);
    case AttrKind::kReals:
      return read_list<double>(in, "a list of numbers", "a number");
    case AttrKind::kProgram:
      return read_program(in);
    case AttrKind::kGraph:
      return read_graph(in, graphs, depth, budget);
    case AttrKind::kGraphs:
      return read_graphs(in, graphs, depth, budget);
    case AttrKind::kHost:
      in.fail(in.at(),
              fmt::format("attribute '{}' is {}, which exists only in the process that made it, so "
                          "no text has it",
                          def.name, in.seen()),
              ErrorCode::kUnimplemented);
    case AttrKind::kNone:
      break;
  }
  in.fail(fmt::format("attribute '{}' has no kind", def.name));
}

}  // namespace etude::internal
