// SPDX-License-Identifier: Apache-2.0
// Bodies of requests to the server: random bytes are a request or an Error, and a request that is
// read can be answered. The first byte selects the length of the JSON.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tests/fuzz/serve_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::optional<std::size_t> header;
  if (data[0] != 0) header = data[0] == 255 ? body.find('\n') + 1 : body.size() * data[0] / 254;
  try {
    const auto request = etude::serve::read_infer(body, header, etude::serve::take_few_shapes);
    static_cast<void>(etude::serve::write_infer(request, etude::serve::echo_of(request)));
  } catch (const etude::Error& error) {
    etude::serve::expect_known(error);
  }
  return 0;
}
