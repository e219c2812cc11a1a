// SPDX-License-Identifier: Apache-2.0
// Zip archives as written by NumPy and PyTorch: stored and deflated entries, zip64. Used by npz and
// by the reader of PyTorch's files. Not for encrypted or split archives. Archives are not trusted:
// every position is checked against the file, and entries must not overlap.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "etude/files/atomic_file.h"
#include "etude/files/file_reader.h"
#include "etude/files/read_budget.h"

namespace etude::internal {

struct ZipEntry {
  std::string name;
  uint64_t begin = 0;         // offset of its data in the file
  uint64_t packed_bytes = 0;  // in the file
  uint64_t bytes = 0;         // after inflating
  uint32_t crc = 0;
  bool is_deflated = false;
};

// The content of an archive in memory or in a file. The source, and the budget with its name, must
// outlive it. threads: confined to one thread, as its budget.
class ZipReader {
 public:
  // throws: kDataLoss, with file and offset, when it is truncated or not an archive; kUnimplemented
  //         for methods and forms that Etude lacks; kResourceExhausted for more entries than the
  //         budget has room for.
  ZipReader(ByteSource file, ReadBudget& budget);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  // Null if there is no entry of that name.
  const ZipEntry* find(std::string_view name) const;
  // The bytes of an entry; `room` holds them if they were deflated or come from a file.
  //
  // throws: kDataLoss, with file and offset, when they are damaged; kResourceExhausted, before any
  //         memory is taken, for more bytes than the budget has room for.
  std::span<const uint8_t> read(const ZipEntry& entry, std::vector<uint8_t>& room) const;

 private:
  void read_directory(uint64_t begin, uint64_t end, uint64_t count);
  void check_places();
  void inflate_entry(const ZipEntry& entry, std::span<uint8_t> to) const;

  ByteSource file_;
  ReadBudget& budget_;
  std::string_view name_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string_view, std::size_t> by_name_;  // places of entries
};

// Writes an archive to `file`, which must be empty.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}
  // Adds an entry whose data is `head` followed by `body`.
  void add(const std::string& name, std::span<const uint8_t> head, std::span<const uint8_t> body,
           bool deflate);
  // Writes the directory; nothing may be added after it.
  void finish();

 private:
  struct Written {
    ZipEntry entry;
    uint64_t header;  // offset of its local header
  };
  AtomicFile& file_;
  std::vector<Written> written_;
};

}  // namespace etude::internal
