// SPDX-License-Identifier: Apache-2.0
#include "etude/data/read_file.h"

#include "etude/files/file_reader.h"

namespace etude::data::internal {

std::vector<uint8_t> read_file(const std::string& name) {
  const etude::internal::FileReader file(name);
  std::vector<uint8_t> bytes(static_cast<std::size_t>(file.size()));
  file.read(0, bytes);
  return bytes;
}

}  // namespace etude::data::internal
