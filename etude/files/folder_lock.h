// SPDX-License-Identifier: Apache-2.0
// A lock of a folder among processes, and among the threads of one process. Used by savers of
// checkpoints. The lock is a hidden file in the folder, which goes with the lock; the lock of a
// process that was killed goes with the process.
#pragma once

#include <chrono>
#include <filesystem>
#include <string_view>

namespace etude::internal {

// threads: confined to one thread at a time; two objects exclude each other on any threads.
class FolderLock {
 public:
  // For the time of one save; for the time of a run.
  static constexpr std::string_view kSave = ".etude-lock", kRun = ".etude-run-lock";

  // Waits at most `patience` for another holder. `path` names the folder, which must exist, `name`
  // the file in it. A file system without locks is used without one, after a warning.
  //
  // throws: kUnavailable with folder, process and machine of the holder, after the patience;
  //         kFailedPrecondition instead if there is no patience; else the errors of AtomicFile.
  explicit FolderLock(const std::filesystem::path& folder, std::string_view name = kSave,
                      std::chrono::milliseconds patience = std::chrono::minutes(5));
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  void wait_for(const std::filesystem::path& folder, std::chrono::milliseconds patience);
  bool take();
  void note_holder() const;
  void release() noexcept;

  std::filesystem::path file_;
  int descriptor_ = -1;
  bool is_held_ = false;
};

}  // namespace etude::internal
