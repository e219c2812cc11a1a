// SPDX-License-Identifier: Apache-2.0
// The samples of all op records as models.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "etude/core/call/builtin.h"
#include "etude/core/call/run.h"
#include "etude/saved/source.h"
#include "tests/onnx/cases.h"
#include "tests/ops/calls.h"

namespace etude::onnx_cases {
namespace {

using matrix::Call;

// Calls of other dtypes than the first test casts, and need few shapes.
constexpr std::size_t kMostOfOtherDTypes = 4;

bool is_complex_tensor(const Tensor& x) { return x.has_value() && is_complex(x.dtype()); }
bool is_empty(const Call& call) {
  return std::ranges::any_of(call.operands,
                             [](const Tensor& x) { return x.has_value() && x.size() == 0; });
}

// The results; empty if the record refuses the call.
Values results_of(const Call& call) {
  try {
    Values out = internal::run_all(*call.op, call.list().view(), call.attrs);
    for (Tensor& y : out) y = to_dense(y);
    return out;
  } catch (const Error&) {
    return {};
  }
}

saved::internal::Source source_of(const Call& call, const GraphRef& graph, std::size_t results) {
  saved::internal::Source out;
  out.function = call.op->name();
  for (std::size_t i = 0; i < graph->inputs().size(); ++i) {
    out.inputs.push_back({fmt::format("x{}", i), {}});
  }
  for (std::size_t i = 0; i < results; ++i) out.outputs.push_back(fmt::format("y{}", i));
  out.graphs = {graph};
  return out;
}

// The reason of an error without the op, the types and the line.
std::string reason_of(const Error& error) {
  std::string text = error.what();
  text.resize(std::min(text.size(), text.find("\n  at ")));
  if (const std::size_t at = text.find(" of ("); at != std::string::npos) {
    const std::size_t end = text.find(") has no form", at);
    if (end != std::string::npos) text.erase(at, end + 1 - at);
  }
  text.resize(std::min(text.size(), text.find(". ")));
  const std::size_t colon = text.rfind(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

void add_call(Cases& to, const Call& call) {
  const Values results = results_of(call);
  if (results.empty()) return;
  const bool is_real = std::ranges::none_of(results, is_complex_tensor) &&
                       std::ranges::none_of(call.operands, is_complex_tensor);
  if (!is_real && !to.form().takes_complex) return;
  if (std::ranges::any_of(results, [](const Tensor& y) { return y.size() == 0; })) return;
  const GraphRef graph = matrix::graph_of(call);
  to.form().write(to, call.label("model"), source_of(call, graph, results.size()));
  Run run;
  std::size_t next = 0;
  for (const Tensor& x : call.operands) {
    if (x.has_value()) run.inputs[fmt::format("x{}", next++)] = to_dense(x);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    run.results[fmt::format("y{}", i)] = results[i];
  }
  to.add({run});
}

}  // namespace

std::vector<std::string> add_op_cases(Cases& to) {
  std::vector<std::string> lines;
  for (const Op* op : Registry::global().ops()) {
    std::map<std::string, std::vector<std::string>> refused;  // dtypes by reason
    const std::vector<DType> dtypes = matrix::dtypes_of(*op);
    for (const DType dtype : dtypes) {
      if (is_complex(dtype) && !to.form().takes_complex) continue;
      std::size_t count = 0;
      const bool is_main = dtype == dtypes.front() || dtype == kFloat32;
      for (const Call& call : matrix::calls_of(*op, dtype)) {
        if (matrix::has_data_sizes(call)) {
          refused["sizes of its results depend on elements"].push_back(std::string(name(dtype)));
          break;
        }
        if (is_empty(call) || (!is_main && count >= kMostOfOtherDTypes)) continue;
        try {
          add_call(to, call);
          ++count;
        } catch (const Error& error) {
          // An op in a graph or a program is refused. It has its own line.
          if (op->def().samples.around != nullptr || op == &internal::program_op()) continue;
          std::vector<std::string>& names = refused[reason_of(error)];
          if (names.empty() || names.back() != name(dtype)) names.emplace_back(name(dtype));
        }
      }
    }
    for (const auto& [reason, names] : refused) {
      lines.push_back(fmt::format("{} ({}): {}", op->full_name(), fmt::join(names, " "), reason));
    }
  }
  return lines;
}

}  // namespace etude::onnx_cases
