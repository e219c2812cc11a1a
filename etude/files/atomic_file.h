// SPDX-License-Identifier: Apache-2.0
// A file that becomes visible only when it is complete. It is written under a temporary name in the
// same folder, then renamed. A process that has mapped the older file continues to read that file.
// Used by all writers of whole files: checkpoints, tables, pictures, traces, compiled code. Not for
// appending, and not a lock: of two writers to one path the later commit wins.
//
// For tests only: with the environment variable ETUDE_TEST_KILL_AT_WRITE=n the process exits with
// status 137 instead of the n-th write, fsync or rename of all AtomicFiles, counted from the first
// AtomicFile that sees the variable. A test can thus kill a writer at every point.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace etude::internal {

struct AtomicFileOptions {
  bool is_private = false;  // for this user alone, whatever the permissions of an older file
  bool is_durable = true;   // commit waits until the content is on the disk
};

// threads: thread-compatible.
class AtomicFile {
 public:
  // Creates the temporary file in the folder of `path`, which must exist. A file at `path` stays
  // unchanged until `commit`; the new file gets its permissions. A symbolic link is replaced, not
  // followed.
  //
  // throws: this and the other functions name the path and the system's reason: kNotFound when the
  //         folder is missing, kFailedPrecondition when access is refused, kResourceExhausted when
  //         the disk is full, else kDataLoss.
  explicit AtomicFile(std::filesystem::path path, const AtomicFileOptions& options = {});
  // Removes the temporary file unless it was committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends without a buffer.
  //
  // throws: as above; kFailedPrecondition after `commit` or after an error.
  void write(std::span<const uint8_t> bytes);
  void write(std::string_view text);

  // Makes the content durable (fsync), renames the file, and makes the new name durable (fsync of
  // the folder). If only the last step fails, the new file exists but may not survive a power
  // failure. Without is_durable, the file is only renamed.
  //
  // throws: as above.
  void commit();

  // Bytes written so far.
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  enum class State { kOpen, kFailed, kCommitted };

  [[noreturn]] void fail(std::string_view action, int error_number);
  void require_open() const;

  std::filesystem::path path_, folder_, temporary_;
  AtomicFileOptions options_;
  int descriptor_ = -1;
  uint64_t size_bytes_ = 0;
  State state_ = State::kOpen;
};

// Makes the entries of a folder durable (fsync). throws: as above.
void sync_folder(const std::filesystem::path& folder);

}  // namespace etude::internal
