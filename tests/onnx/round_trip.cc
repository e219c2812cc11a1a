// SPDX-License-Identifier: Apache-2.0
// Models of this library that are loaded again: their results are equal to the bit.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/onnx/onnx.h"
#include "tests/onnx/cases.h"
#include "tests/same_numbers.h"

namespace etude::onnx_cases {
namespace {

// The largest difference of elements, relative to elements above 1.
double distance(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double out = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    const double gap = std::abs(x[i] - y[i]) / std::max(1.0, std::abs(y[i]));
    out = std::max(out, std::isnan(gap) ? std::numeric_limits<double>::infinity() : gap);
  }
  return out;
}

// The first difference between a model and the function that it was saved from; "" if there is
// none.
std::string difference(const Cases& cases, std::size_t i) {
  try {
    const saved::Program program = onnx::load(cases.file_of(i));
    const saved::Function f = program.function("predict");
    for (const Run& run : cases.runs(i)) {
      const io::NamedTensors results = f.call_named(run.inputs);
      for (const auto& [name, want] : run.results) {
        const auto got = results.find(name);
        if (got == results.end()) return "has no result " + name;
        if (got->second.type() != want.type()) {
          return fmt::format("is {}, not {}", got->second.type()->to_string(),
                             want.type()->to_string());
        }
        const Tensor dense = to_dense(got->second);
        if (tests::same_numbers(dense, want)) continue;
        const double gap = distance(dense, want);
        if (gap > (itemsize(want.dtype()) == 2 ? 2e-2 : 1e-4)) {
          return fmt::format("is wrong, by {:.1e}", gap);
        }
        return "differs in the last digits";
      }
    }
    return "";
  } catch (const Error& error) {
    std::string text = error.what();
    text.resize(std::min(text.size(), text.find("\n")));
    // Without the folder, which differs between runs.
    const std::string file = cases.file_of(i).string();
    for (std::size_t at = text.find(file); at != std::string::npos; at = text.find(file)) {
      text.replace(at, file.size(), "model");
    }
    return "is refused: " + text;
  }
}

}  // namespace

std::vector<std::string> round_trip_lines(const Cases& cases) {
  struct Count {
    std::size_t all = 0, wrong = 0;
    std::string first;
  };
  std::map<std::string, Count> counts;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string& label = cases.label(i);
    Count& count = counts[label.substr(0, label.find(' '))];
    ++count.all;
    const std::string fault = difference(cases, i);
    if (fault.empty()) continue;
    if (++count.wrong == 1) count.first = fault;
  }
  std::vector<std::string> out;
  for (const auto& [op, count] : counts) {
    if (count.wrong == 0) continue;
    out.push_back(fmt::format("{}: {} of {}: {}", op, count.wrong, count.all, count.first));
  }
  return out;
}

}  // namespace etude::onnx_cases
