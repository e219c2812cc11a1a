// SPDX-License-Identifier: Apache-2.0
// The content of a file as read-only memory. Used by readers of parts of large files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace etude::internal {

// threads: thread-safe to read.
class MappedFile {
 public:
  // throws: kNotFound when there is no file, kInvalidArgument when it is no regular file,
  //         kFailedPrecondition when access is refused, kDataLoss for other failures; all with the
  //         path.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Valid as long as this object. The bytes do not change if another file is renamed to the path.
  std::span<const uint8_t> bytes() const { return {data_, size_}; }

 private:
  const uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace etude::internal
