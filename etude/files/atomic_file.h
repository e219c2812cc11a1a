// SPDX-License-Identifier: Apache-2.0
// A file that appears whole or not at all: written under a temporary name in the same folder, then
// renamed into place. A process that has opened the older file keeps reading it. Used
// by all writers of whole files: checkpoints, tables, pictures, traces, compiled code. Not for
// appending, and not a lock: of two writers to one path the later commit wins.
//
// For tests only: with the environment variable ETUDE_TEST_KILL_AT_WRITE=n the process exits with
// status 137 instead of the n-th write, fsync, close or rename of all AtomicFiles, or other change
// of a folder that asks fault_of_test(), counted from the first that sees the variable. With
// ETUDE_TEST_FAIL_AT_WRITE=n that call fails with EIO. A test can thus end or disturb a writer at
// every point.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/base/error.h"

namespace etude::internal {

struct AtomicFileOptions {
  bool is_private = false;  // for this user alone, whatever the permissions of an older file
  bool is_durable = true;   // commit waits until the content is on the disk
};

// threads: thread-compatible.
class AtomicFile {
 public:
  // Creates the temporary file in the folder of `path`, which must exist. A file at `path` stays
  // unchanged until `commit`; the new file gets its permissions. A symbolic link to a regular file,
  // or to nothing, is replaced, not followed. The first AtomicFile of a process in a folder removes
  // the temporary files that killed processes left there.
  //
  // throws: this and the other functions name the path and the system's reason: kNotFound when the
  //         folder is missing, kFailedPrecondition when access is refused and when something else
  //         than a regular file is at `path`, such as a device or a link to one,
  //         kResourceExhausted when the disk is full, else kDataLoss.
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

  // Makes the content durable (fsync), renames it into place, makes the new name durable (fsync of
  // the folder). Before the rename, the path is checked again. If only the last step fails, the new
  // file is in place but may not survive a power failure. A file that is not durable is renamed
  // only.
  //
  // throws: as above.
  void commit();
  // The same under another name in the folder, such as a name with a checksum of the content. The
  // permissions of a file at the path of the constructor are kept, as above.
  void commit_as(std::string_view name);

  // Bytes written so far.
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  enum class State { kOpen, kFailed, kCommitted };

  [[noreturn]] void fail(std::string_view action, int error_number);
  void create_temporary();
  void require_replaceable();
  void require_open() const;

  std::filesystem::path path_, folder_, temporary_;
  AtomicFileOptions options_;
  int descriptor_ = -1;
  uint64_t size_bytes_ = 0;
  State state_ = State::kOpen;
};

// Makes the entries of a folder durable (fsync). throws: as above.
void sync_folder(const std::filesystem::path& folder);

// Removes the temporary files that killed processes of this user left in a folder. Files of
// processes that still write have a lock and stay. Best effort.
void remove_leftovers(const std::filesystem::path& folder) noexcept;

// The paths in a folder; none if there is no such folder. Iterators of std::filesystem end the
// process if they have no memory, so folders are read here.
//
// throws: kFailedPrecondition without access, kResourceExhausted without descriptors or memory,
//         kDataLoss for another failure; std::bad_alloc.
std::vector<std::filesystem::path> paths_in(const std::filesystem::path& folder);

// The error code of an error number of the system.
ErrorCode code_of_errno(int error_number);

// For tests, see above: ends the process, or returns the error number with which the next call that
// changes a file or folder has to fail; 0 for none.
int fault_of_test() noexcept;

}  // namespace etude::internal
