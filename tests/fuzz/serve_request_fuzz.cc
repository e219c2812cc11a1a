// SPDX-License-Identifier: Apache-2.0
// Bodies of requests to the server: random bytes are a request or an Error, and a request that is
// read can be answered. The first byte selects the length of the JSON.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "etude/base/error.h"
#include "serve/request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::optional<std::size_t> header;
  if (data[0] != 0) header = data[0] == 255 ? body.find('\n') + 1 : body.size() * data[0] / 254;
  try {
    const etude::serve::InferRequest request = etude::serve::read_infer(body, header);
    etude::serve::InferResult result{"m", "1", {}};
    for (const auto& [name, x] : request.inputs) result.outputs.emplace_back(name, x);
    if (request.outputs.size() < result.outputs.size() && !request.outputs.empty()) return 0;
    static_cast<void>(etude::serve::write_infer(request, result));
  } catch (const etude::Error&) {
  }
  return 0;
}
