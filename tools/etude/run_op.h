// SPDX-License-Identifier: Apache-2.0
// Runs any op by name on tensors and attributes from files. Inputs are not trusted: an invalid
// input is an Error that names its fault.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "etude/core/op/op.h"
#include "etude/io/safetensors.h"

namespace etude::tools {

using Json = nlohmann::json;

// throws: kInvalidArgument for text that is not JSON, is nested deeper than 16, or has a key twice.
Json parse_json(std::string_view text);
// Attributes of `op` from a JSON object; null and missing keys mean the defaults.
// throws: kInvalidArgument, naming the attribute and the requirement.
Attrs attrs_from_json(const Op& op, const Json& json);

// One call. Operands are the tensors `PREFIX` + operand name; the tensors of a list operand `xs`
// are "xs/0", "xs/1", ...
struct OpRun {
  std::string op;
  Json attrs = Json::object();
  std::string prefix;     // in front of every name in `tensors`
  bool gradient = false;  // also "grad/x" for each operand; cotangents "ct/y", ones if missing
};
// The results by name ("y", or "ys/0", ...), and gradients. The op's errors pass through.
io::NamedTensors run_op(const OpRun& run, const io::NamedTensors& tensors);

}  // namespace etude::tools
