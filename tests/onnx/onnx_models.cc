// SPDX-License-Identifier: Apache-2.0
// onnx_models KIND FOLDER OPSET [LIST]: writes models with expected results. For ops, LIST is the
// checked list of the ops that are refused; ETUDE_UPDATE=1 writes it. For round_trip, the models
// are loaded again, and LIST has those whose results differ.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "etude/base/error.h"
#include "tests/onnx/cases.h"

namespace etude::onnx_cases {

std::filesystem::path Cases::file(const std::string& label) {
  labels_.push_back(label);
  runs_.emplace_back();
  return file_of(labels_.size() - 1);
}

std::filesystem::path Cases::file_of(std::size_t i) const {
  return folder_ / fmt::format("{}.onnx", i);
}

void Cases::add(const std::vector<Run>& runs) {
  const std::size_t number = labels_.size() - 1;
  runs_[number] = runs;
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto listed = [&](const io::NamedTensors& tensors, const char* kind) {
      std::vector<std::string> out;
      for (const auto& [name, x] : tensors) {
        const std::string key = fmt::format("{}/{}/{}/{}", number, r, kind, name);
        tensors_[key] = x;
        out.push_back(fmt::format("\"{}\": \"{}\"", name, key));
      }
      return fmt::format("{{{}}}", fmt::join(out, ", "));
    };
    texts.push_back(fmt::format("{{\"inputs\": {}, \"results\": {}}}", listed(runs[r].inputs, "in"),
                                listed(runs[r].results, "out")));
  }
  texts_.push_back(fmt::format("{{\"label\": \"{}\", \"model\": \"{}.onnx\", \"runs\": [{}]}}",
                               labels_[number], number, fmt::join(texts, ", ")));
}

void Cases::write() const {
  std::ofstream(folder_ / "cases.json") << fmt::format("[{}]\n", fmt::join(texts_, ",\n"));
  io::save_safetensors(folder_ / "tensors.safetensors", tensors_);
}

namespace {

constexpr std::string_view kHead =
    "# Ops for which onnx::save() refuses some or all samples, with dtypes and reason. Complex "
    "numbers are refused\n"
    "# everywhere. Written by ETUDE_UPDATE=1 ctest -R onnx.ops; do not edit.\n";

constexpr std::string_view kRoundTripHead =
    "# Ops and models whose results are not equal to the bit after onnx::save() and onnx::load(): "
    "ONNX "
    "has no operator\n"
    "# for the function, so a formula of several operators comes back. Written by ETUDE_UPDATE=1 "
    "ctest "
    "-R onnx.round_trip;\n"
    "# do not edit.\n";

int check_list(const std::filesystem::path& list, std::string_view head,
               const std::vector<std::string>& lines) {
  const std::string text = fmt::format("{}{}\n", head, fmt::join(lines, "\n"));
  if (std::getenv("ETUDE_UPDATE") != nullptr) {
    std::ofstream(list) << text;
    return 0;
  }
  std::ifstream in(list);
  const std::string known{std::istreambuf_iterator<char>(in), {}};
  if (known == text) return 0;
  std::istringstream old(known);
  std::vector<std::string> before;
  for (std::string line; std::getline(old, line);) before.push_back(line);
  for (const std::string& line : lines) {
    if (std::ranges::find(before, line) == before.end()) fmt::print("new: {}\n", line);
  }
  for (const std::string& line : before) {
    const bool is_comment = line.starts_with("#");
    if (!is_comment && std::ranges::find(lines, line) == lines.end())
      fmt::print("gone: {}\n", line);
  }
  fmt::print(
      "{} is stale. Give the op a row in etude/onnx/conversions/ or etude/onnx/import/, or run "
      "ETUDE_UPDATE=1 ctest -R onnx and read the change\n",
      list.string());
  return 1;
}

int run(int argc, char** argv) {
  if (argc < 4) {
    fmt::print("onnx_models ops|layers|models|round_trip FOLDER OPSET [LIST]\n");
    return 2;
  }
  const std::string kind = argv[1];
  Cases cases(argv[2]);
  const int64_t opset = std::stoll(argv[3]);
  int status = 0;
  if (kind == "ops") {
    const std::vector<std::string> lines = add_op_cases(cases, opset);
    if (argc > 4) status = check_list(argv[4], kHead, lines);
    fmt::print("{} lines of refused ops\n", lines.size());
  } else if (kind == "round_trip") {
    add_op_cases(cases, opset);
    add_layer_cases(cases, opset);
    add_model_cases(cases, opset);
    const std::vector<std::string> lines = round_trip_lines(cases);
    if (argc > 4) status = check_list(argv[4], kRoundTripHead, lines);
    fmt::print("{} models, {} lines of ops and models that are not equal to the bit\n",
               cases.size(), lines.size());
    return status;
  } else if (kind == "layers") {
    add_layer_cases(cases, opset);
  } else {
    add_model_cases(cases, opset);
  }
  cases.write();
  fmt::print("{} models\n", cases.size());
  return status;
}

}  // namespace
}  // namespace etude::onnx_cases

int main(int argc, char** argv) {
  try {
    return etude::onnx_cases::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print("onnx_models: {}\n", error.what());
    return 1;
  }
}
