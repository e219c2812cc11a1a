// SPDX-License-Identifier: Apache-2.0
// Requests for inference as JSON with binary tensors (HTTP), and their answers. Bodies are not
// trusted: a request is refused, or it is a list of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/core/dtype.h"
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

// The parameter of a tensor in shared memory, which this server does not read or write.
inline constexpr const char* kSharedMemory = "shared_memory_region";
// `of`: "input 'x'". throws: kUnimplemented.
[[noreturn]] void refuse_shared_memory(std::string_view of);

struct RequestLimits {
  std::size_t json_bytes = std::size_t{16} << 20;
  int depth = 32;
  std::size_t tensors = 4096;     // inputs, and outputs
  std::size_t text_bytes = 1024;  // of a name and an id
  std::size_t parts = 1 << 16;    // fields of a message of gRPC, without the numbers of tensors
};

// Called with name, dtype and sizes of an input before its elements are read. Throws to refuse it:
// a process keeps each type of a tensor that it has made, so a server makes only the types that its
// models take.
using CheckInput =
    std::function<void(const std::string&, DType, const std::vector<int64_t>& shape)>;

// A body: JSON of `header_length` bytes, and the data of binary tensors after it. Without
// header_length all of it is JSON.
//
// throws: kInvalidArgument, with the input; kResourceExhausted beyond the limits; the errors of
//   `check`.
// cost:   one pass over the JSON. Its tensors take up to 4 times its bytes (FP64 written as "0,"),
//   binary tensors their bytes once. All else is bounded by the limits.
InferRequest read_infer(std::string_view body, std::optional<std::size_t> header_length,
                        const CheckInput& check, const RequestLimits& limits = {});

struct InferBody {
  std::string text;
  std::optional<std::size_t> header_length;  // if an output is binary
};
// Counts bytes of an answer before they are written. Throws to refuse them.
using Reserve = std::function<void(int64_t)>;
// `reserve` gets the bytes of binary data and the least bytes of JSON before anything is written,
// and the rest of the JSON while it is written; it may be empty.
// throws: kInvalidArgument for a number that JSON cannot write, with its output; the errors of
//   `reserve`.
InferBody write_infer(const InferRequest& request, const InferResult& result,
                      const Reserve& reserve = {});

// throws: kInvalidArgument if a request wants an output that is not in `names`, or wants it twice.
void check_outputs(const std::string& model, const std::vector<WantedOutput>& wanted,
                   const std::vector<std::string>& names);
// The outputs that a request wants, in its order; all of them, if it lists none.
// throws: kInvalidArgument for an output that is missing: the graphs of a function may differ.
std::vector<std::pair<std::string, Tensor>> wanted_outputs(const std::vector<WantedOutput>& wanted,
                                                           const std::vector<std::string>& names,
                                                           const io::NamedTensors& all);

}  // namespace etude::serve
