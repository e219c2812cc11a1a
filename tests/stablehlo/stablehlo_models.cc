// SPDX-License-Identifier: Apache-2.0
// stablehlo_models KIND FOLDER [LIST]: writes modules with expected results. For ops, LIST is the
// checked list of the ops that are refused; ETUDE_UPDATE=1 writes it.
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "etude/base/error.h"
#include "etude/saved/gather.h"
#include "etude/saved/source.h"
#include "etude/stablehlo/emit.h"
#include "etude/stablehlo/stablehlo.h"
#include "tests/onnx/cases.h"
#include "tests/stablehlo/gradient_cases.h"

namespace etude::stablehlo_cases {
namespace {

using onnx_cases::Cases;
using onnx_cases::Run;

constexpr std::string_view kHead =
    "# Ops for which stablehlo::save() refuses some or all samples, with dtypes and reason. "
    "Written "
    "by\n"
    "# ETUDE_UPDATE=1 ctest -R stablehlo.ops; do not edit.\n";
constexpr std::string_view kAdvice =
    "Give the op a row in etude/stablehlo/conversions/, or run ETUDE_UPDATE=1 ctest -R stablehlo "
    "and read the change";

// The open sizes of a function, by the sizes of the inputs of a run.
std::map<std::string, int64_t> sizes_of(const saved::Entry& function, const Run& run) {
  const saved::internal::Content content = saved::internal::gather({function}, {}).content;
  const saved::internal::Source source =
      saved::internal::source_of(content, "", {.format = "a module", .open_sizes = true});
  std::map<std::string, int64_t> out;
  for (const saved::internal::OpenSize& size : source.sizes) {
    out[size.name] = run.inputs.at(size.input).shape()[static_cast<int>(size.axis)];
  }
  return out;
}

// A module has fixed sizes, so each run has a module of its own. The weights of every other module
// are arguments.
void add_runs(Cases& to, const std::string& label, const saved::Entry& function,
              const std::vector<Run>& runs) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const bool weights_as_arguments = i % 2 == 1;
    Run run = runs[i];
    stablehlo::save(
        to.file(fmt::format("{} {}", label, i)), {function},
        {.sizes = sizes_of(function, run), .weights_as_arguments = weights_as_arguments});
    if (weights_as_arguments) {
      const saved::internal::Content content = saved::internal::gather({function}, {}).content;
      for (const auto& input : saved::internal::source_of(content, "", {}).inputs) {
        if (input.variable >= 0) run.inputs.emplace(input.name, input.value);
      }
    }
    to.add({run});
  }
}

Cases::Form form() {
  return {.extension = ".mlir",
          .takes_complex = true,
          .add = add_runs,
          .write = [](Cases& to, const std::string& label, const saved::internal::Source& source) {
            const std::string text = stablehlo::internal::module_text(source, false);
            std::ofstream(to.file(label)) << text;
          }};
}

int run(int argc, char** argv) {
  if (argc < 3) {
    fmt::print("stablehlo_models ops|layers|models FOLDER [LIST]\n");
    return 2;
  }
  const std::string kind = argv[1];
  Cases cases(argv[2], form());
  int status = 0;
  if (kind == "ops") {
    const std::vector<std::string> lines = add_op_cases(cases);
    if (argc > 3) status = onnx_cases::check_list(argv[3], kHead, lines, kAdvice);
    fmt::print("{} lines of refused ops\n", lines.size());
  } else if (kind == "layers") {
    add_layer_cases(cases);
  } else {
    add_model_cases(cases);
    add_gradient_cases(cases);
  }
  cases.write();
  fmt::print("{} modules\n", cases.size());
  return status;
}

}  // namespace
}  // namespace etude::stablehlo_cases

int main(int argc, char** argv) {
  try {
    return etude::stablehlo_cases::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print("stablehlo_models: {}\n", error.what());
    return 1;
  }
}
