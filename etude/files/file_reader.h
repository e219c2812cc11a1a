// SPDX-License-Identifier: Apache-2.0
// Files that are read. Nothing is mapped: a page of a mapped file that another process makes
// shorter ends this process by SIGBUS. A file that becomes shorter while it is read is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace etude::internal {

// A regular file, open for reading at any offset. threads: thread-safe.
class FileReader {
 public:
  // Does not wait: a pipe without a writer is refused at once.
  //
  // throws: kNotFound when there is no file, kInvalidArgument when it is no regular file,
  //         kFailedPrecondition when access is refused, kDataLoss for other failures; all with the
  //         path.
  explicit FileReader(const std::filesystem::path& path);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  const std::string& name() const { return name_; }
  // In bytes, when it was opened. A new file renamed into place does not change this one.
  uint64_t size() const { return size_; }
  // Fills `to` with the bytes from `offset` on.
  //
  // throws: kDataLoss, with path and offset, where the file ends before: it was cut off meanwhile.
  void read(uint64_t offset, std::span<uint8_t> to) const;

 private:
  std::string name_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

// The content of a whole file in memory.
class FileBytes {
 public:
  // throws: as FileReader, and as its read().
  explicit FileBytes(const std::filesystem::path& path);
  std::span<const uint8_t> bytes() const { return {data_.get(), size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_.get()), size_}; }

 private:
  std::unique_ptr<uint8_t[]> data_;
  std::size_t size_ = 0;
};

// Bytes that lie in memory or in a file, for readers of both; neither is owned.
class ByteSource {
 public:
  ByteSource(std::span<const uint8_t> bytes)
      : bytes_(bytes) {}  // NOLINT(google-explicit-constructor): readers take either
  ByteSource(const FileReader& file)
      : file_(&file) {}  // NOLINT(google-explicit-constructor): readers take either

  uint64_t size() const { return file_ != nullptr ? file_->size() : bytes_.size(); }
  // The offsets must be within the size. throws: as FileReader::read.
  void read(uint64_t offset, std::span<uint8_t> to) const;
  // Returns `count` bytes from `offset` on. `room` holds them if they come from a file.
  std::span<const uint8_t> view(uint64_t offset, uint64_t count, std::vector<uint8_t>& room) const;

 private:
  std::span<const uint8_t> bytes_;
  const FileReader* file_ = nullptr;
};

}  // namespace etude::internal
