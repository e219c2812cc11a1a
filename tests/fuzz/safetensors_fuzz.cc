// SPDX-License-Identifier: Apache-2.0
// Any bytes are a safetensors file or an Error. A file that was read can be written, and reads the
// same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "etude/base/error.h"
#include "etude/io/safetensors_format.h"

namespace {

using etude::internal::SafetensorsHeader;

// A file with the given header, and zeros as data.
void check_round_trip(SafetensorsHeader header) {
  const std::string text =
      etude::internal::make_safetensors_header(header.entries, header.metadata);
  std::vector<uint8_t> file(text.begin(), text.end());
  if (!header.entries.empty()) file.resize(text.size() + header.entries.back().end);
  const SafetensorsHeader again = etude::internal::parse_safetensors_header(file, "again");
  if (again.entries != header.entries || again.metadata != header.metadata) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  SafetensorsHeader header;
  try {
    header = etude::internal::parse_safetensors_header({data, size}, "fuzz.safetensors");
  } catch (const etude::Error&) {
    return 0;
  }
  check_round_trip(std::move(header));
  return 0;
}
