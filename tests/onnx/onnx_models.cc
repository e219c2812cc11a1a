// SPDX-License-Identifier: Apache-2.0
// onnx_models KIND FOLDER OPSET [LIST]: writes models with expected results. For ops, LIST is the
// checked list of the ops that are refused; ETUDE_UPDATE=1 writes it. For round_trip, the models
// are loaded again, and LIST has those whose results differ.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "etude/base/error.h"
#include "etude/onnx/emit.h"
#include "etude/onnx/onnx.h"
#include "etude/onnx/write.h"
#include "tests/onnx/cases.h"

namespace etude::onnx_cases {
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

constexpr std::string_view kAdvice =
    "Give the op a row in etude/onnx/conversions/ or etude/onnx/import/, or run ETUDE_UPDATE=1 "
    "ctest -R onnx and read the change";

Cases::Form form_of(int64_t opset) {
  const onnx::SaveOptions options{.opset = opset};
  return {.extension = ".onnx",
          .add =
              [=](Cases& to, const std::string& label, const saved::Entry& function,
                  const std::vector<Run>& runs) {
                onnx::save(to.file(label), {function}, options);
                to.add(runs);
              },
          .write =
              [=](Cases& to, const std::string& label, const saved::internal::Source& source) {
                const onnx::internal::Model model = onnx::internal::make_model(source, options);
                onnx::internal::write_model(to.file(label), model, options.external_bytes);
              }};
}

int run(int argc, char** argv) {
  if (argc < 4) {
    fmt::print("onnx_models ops|layers|models|round_trip FOLDER OPSET [LIST]\n");
    return 2;
  }
  const std::string kind = argv[1];
  Cases cases(argv[2], form_of(std::stoll(argv[3])));
  int status = 0;
  if (kind == "ops") {
    const std::vector<std::string> lines = add_op_cases(cases);
    if (argc > 4) status = check_list(argv[4], kHead, lines, kAdvice);
    fmt::print("{} lines of refused ops\n", lines.size());
  } else if (kind == "round_trip") {
    add_op_cases(cases);
    add_layer_cases(cases);
    add_model_cases(cases);
    const std::vector<std::string> lines = round_trip_lines(cases);
    if (argc > 4) status = check_list(argv[4], kRoundTripHead, lines, kAdvice);
    fmt::print("{} models, {} lines of ops and models that are not equal to the bit\n",
               cases.size(), lines.size());
    return status;
  } else if (kind == "layers") {
    add_layer_cases(cases);
  } else {
    add_model_cases(cases);
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
