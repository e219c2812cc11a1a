// SPDX-License-Identifier: Apache-2.0
#include "etude/data/read_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "etude/base/check.h"

namespace etude::data::internal {

std::vector<uint8_t> read_file(const std::string& name) {
  std::error_code error;
  const auto status = std::filesystem::status(name, error);
  ETUDE_REQUIRE_CODE(kNotFound, std::filesystem::status_known(status) && exists(status),
                     "there is no file '{}'", name);
  ETUDE_REQUIRE(is_regular_file(status), "'{}' is not a regular file", name);
  errno = 0;
  std::ifstream stream(name, std::ios::binary | std::ios::ate);
  ETUDE_REQUIRE(stream.is_open(), "'{}' cannot be opened: {}", name, std::strerror(errno));
  const std::streamoff size = stream.tellg();
  ETUDE_REQUIRE_CODE(kDataLoss, size >= 0 && static_cast<uint64_t>(size) <= kMaxBytes,
                     "'{}' has {} bytes; the limit is {}", name, size, kMaxBytes);
  std::vector<uint8_t> bytes(static_cast<std::size_t>(size));
  stream.seekg(0);
  stream.read(reinterpret_cast<char*>(bytes.data()), size);
  ETUDE_REQUIRE_CODE(kDataLoss, stream.gcount() == size, "'{}': reading stopped at byte {} of {}",
                     name, stream.gcount(), size);
  return bytes;
}

}  // namespace etude::data::internal
