// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets of requests.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "etude/base/error.h"
#include "serve/request.h"

namespace etude::serve {

// The check of a model with few shapes: a process keeps all types of tensors that it has made.
inline void take_few_shapes(const std::string&, DType, const std::vector<int64_t>& shape) {
  if (shape.size() > 3) throw Error(ErrorCode::kInvalidArgument, "too many axes");
  for (const int64_t size : shape) {
    if (size > 6) throw Error(ErrorCode::kInvalidArgument, "too large");
  }
}

// A request is refused by a fault that the server knows, never by kInternal.
inline void expect_known(const Error& error) {
  if (error.code() == ErrorCode::kInternal) std::abort();
}

// The answer of a model that returns its inputs.
inline InferResult echo_of(const InferRequest& request) {
  InferResult out{"m", "1", {}};
  std::vector<std::string> names;
  for (const auto& [name, x] : request.inputs) names.push_back(name);
  check_outputs("m", request.outputs, names);
  out.outputs = wanted_outputs(request.outputs, names, request.inputs);
  return out;
}

}  // namespace etude::serve
