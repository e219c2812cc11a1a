// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/text/print.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "etude/core/op/exact_text.h"
#include "etude/core/op/op.h"
#include "etude/graph/text/constant_text.h"
#include "etude/graph/text/names.h"

namespace etude {
namespace {

using internal::GraphList;

constexpr std::size_t kMaxHeader = 100;
// Longer node lines do not move the column of call sites.
constexpr std::size_t kMaxColumn = 72;

// "train.cc:41". A file name that would not parse back is quoted.
std::string site_text(CallSite where) {
  const std::string_view file = where.file;
  const bool is_plain = !file.empty() && file[0] != '"' && file.front() != ' ' &&
                        file.back() != ' ' && std::ranges::none_of(file, [](char c) {
                          return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\';
                        });
  return fmt::format("{}:{}", is_plain ? std::string(file) : internal::quoted_text(file),
                     where.line);
}

class GraphPrinter {
 public:
  GraphPrinter(const Graph& graph, const std::string& name, const GraphList& graphs,
               const TextOptions& options)
      : graph_(graph),
        name_(name),
        graphs_(graphs),
        options_(options),
        values_(internal::value_names(graph)) {}

  std::string print() const {
    std::string text = header();
    for (GraphValue v = graph_.first_constant(); v < graph_.first_result(); ++v) {
      const Tensor& value = graph_.constants()[v - graph_.first_constant()];
      text +=
          fmt::format("  {} = constant {} {}\n", values_[v], internal::type_text(graph_.type(v)),
                      internal::constant_text(value, options_.elide_constants));
    }
    text += nodes();
    const std::string outputs = list(graph_.outputs());
    return text + (outputs.empty() ? "  return\n" : fmt::format("  return {}\n", outputs));
  }

 private:
  std::string value(GraphValue v) const {
    if (v == kNoValue) return "none";
    return v < values_.size() ? values_[v] : fmt::format("<value {}>", v);
  }
  std::string list(std::span<const GraphValue> values) const {
    std::vector<std::string> names;
    for (const GraphValue v : values) names.push_back(value(v));
    return fmt::format("{}", fmt::join(names, ", "));
  }

  std::string header() const {
    std::vector<std::string> inputs, outputs;
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      inputs.push_back(
          fmt::format("{}: {}", values_[i], internal::type_text(graph_.inputs()[i].type)));
    }
    for (const GraphValue v : graph_.outputs()) {
      const bool has_type = v != kNoValue && v < graph_.value_count();
      outputs.push_back(internal::type_text(has_type ? graph_.type(v) : nullptr));
    }
    const auto line = [&](std::string_view open, std::string_view between, std::string_view arrow) {
      return fmt::format("graph {}({}{}){}-> ({})\n", name_, open, fmt::join(inputs, between),
                         arrow, fmt::join(outputs, ", "));
    };
    std::string short_line = line("", ", ", " ");
    if (short_line.size() <= kMaxHeader + 1 || inputs.empty()) return short_line;
    return line("\n    ", ",\n    ", "\n    ");
  }

  std::string call(const Graph::Node& node) const {
    std::vector<std::string> results;
    for (GraphValue v = node.first_result; v < node.first_result + node.results; ++v) {
      results.push_back(values_[v]);
      if (options_.types) results.back() += ": " + internal::type_text(graph_.type(v));
    }
    std::vector<std::string> operands;
    for (const GraphValue v : node.operands) operands.push_back(value(v));
    const std::vector<std::string> attrs = internal::attr_texts(node.attrs, graphs_);
    operands.insert(operands.end(), attrs.begin(), attrs.end());
    const int version = node.op.def().version;
    return fmt::format("  {}{}{}{}({})", fmt::join(results, ", "), results.empty() ? "" : " = ",
                       internal::op_text(node.op), version > 1 ? fmt::format("@{}", version) : "",
                       fmt::join(operands, ", "));
  }

  std::string nodes() const {
    std::vector<std::string> lines;
    std::size_t column = 0;
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      lines.push_back(call(graph_.node(i)));
      if (lines.back().size() <= kMaxColumn) column = std::max(column, lines.back().size());
    }
    std::string text;
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const CallSite where = graph_.node(i).where;
      if (options_.call_sites && where.known()) {
        lines[i].resize(std::max(column, lines[i].size()), ' ');
        lines[i] += "  # " + site_text(where);
      }
      text += lines[i] + "\n";
    }
    return text;
  }

  const Graph& graph_;
  const std::string& name_;
  const GraphList& graphs_;
  const TextOptions& options_;
  std::vector<std::string> values_;
};

}  // namespace

std::string to_text(const Graph& graph, const TextOptions& options) {
  const GraphList graphs(graph);
  std::string text;
  for (std::size_t i = 0; i < graphs.graphs().size(); ++i) {
    if (i > 0) text += "\n";
    text += GraphPrinter(*graphs.graphs()[i], graphs.name(i), graphs, options).print();
  }
  return text;
}

}  // namespace etude
