// SPDX-License-Identifier: Apache-2.0
// Requests for inference as JSON with binary tensors (HTTP), and their answers. Bodies are not
// trusted: a request is refused, or it is a list of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/core/tensor.h"
#include "etude/io/safetensors.h"

namespace etude::serve {

struct WantedOutput {
  std::string name;
  bool binary = false;
};

struct InferRequest {
  std::string id;
  io::NamedTensors inputs;
  std::vector<WantedOutput> outputs;  // empty: all
  bool binary_outputs = false;        // of outputs that are not listed
  std::optional<int64_t> timeout_us;
};

struct InferResult {
  std::string model, version;
  std::vector<std::pair<std::string, Tensor>> outputs;
};

struct RequestLimits {
  std::size_t json_bytes = std::size_t{16} << 20;
  int depth = 32;
};

// A body: JSON of `header_length` bytes, and the data of binary tensors after it. Without
// header_length all of it is JSON.
//
// throws: kInvalidArgument, with the input; kResourceExhausted beyond the limits.
// cost:   memory of up to 24 times the bytes of the JSON.
InferRequest read_infer(std::string_view body, std::optional<std::size_t> header_length,
                        const RequestLimits& limits = {});

struct InferBody {
  std::string text;
  std::optional<std::size_t> header_length;  // if an output is binary
};
// throws: kInvalidArgument for a number that JSON cannot write, with its output.
InferBody write_infer(const InferRequest& request, const InferResult& result);

// The outputs that a request wants, in its order; all of them, if it lists none.
// throws: kInvalidArgument for an unknown output, and for an output that is listed twice.
std::vector<std::pair<std::string, Tensor>> wanted_outputs(const std::string& model,
                                                           const std::vector<WantedOutput>& wanted,
                                                           const std::vector<std::string>& order,
                                                           const io::NamedTensors& all);

}  // namespace etude::serve
