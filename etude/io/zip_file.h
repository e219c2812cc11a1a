// SPDX-License-Identifier: Apache-2.0
// Zip archives as NumPy and PyTorch write them: stored and deflated entries, zip64. Used by npz and
// by the reader of PyTorch's files. Not for encrypted or split archives. Archives are not trusted:
// every place is checked against the file, and no entry may lie over another one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/io/atomic_file.h"

namespace etude::internal {

struct ZipEntry {
  std::string name;
  std::uint64_t begin = 0;         // offset of its data in the file
  std::uint64_t packed_bytes = 0;  // there
  std::uint64_t bytes = 0;         // once it is inflated
  std::uint32_t crc = 0;
  bool is_deflated = false;
};

// The content of an archive; `file` and `name`, its name, must outlive it. thread-safe to read.
class ZipReader {
 public:
  // throws: kDataLoss, with file and offset, when it is torn or no archive; kUnimplemented for
  //         methods and forms that Etude has not.
  ZipReader(std::span<const std::uint8_t> file, std::string_view name);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  // Null if there is none of that name.
  const ZipEntry* find(std::string_view name) const;
  // The bytes of an entry; `room` keeps them where they were deflated.
  //
  // throws: kDataLoss, with file and offset, when they are damaged.
  std::span<const std::uint8_t> read(const ZipEntry& entry, std::vector<std::uint8_t>& room) const;

 private:
  void read_directory(std::uint64_t begin, std::uint64_t end, std::uint64_t count);
  void check_places();

  std::span<const std::uint8_t> file_;
  std::string_view name_;
  std::vector<ZipEntry> entries_;
};

// Writes an archive behind what `file` has so far, which must be nothing.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}
  // Adds an entry of `head` and then `body`.
  void add(const std::string& name, std::span<const std::uint8_t> head,
           std::span<const std::uint8_t> body, bool deflate);
  // Writes the directory; nothing may be added after it.
  void finish();

 private:
  struct Written {
    ZipEntry entry;
    std::uint64_t header;  // offset of its local header
  };
  AtomicFile& file_;
  std::vector<Written> written_;
};

}  // namespace etude::internal
