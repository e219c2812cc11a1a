// SPDX-License-Identifier: Apache-2.0
#include "etude/files/folder_lock.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "etude/base/check.h"
#include "etude/base/warning.h"
#include "etude/files/atomic_file.h"

namespace etude::internal {
namespace {

constexpr std::size_t kMostShown = 200;

// The text of the holder, "process 1234 on node7".
std::string holder_in(int descriptor) {
  std::array<char, kMostShown> text;
  const ssize_t n = ::pread(descriptor, text.data(), text.size(), 0);
  std::string out(text.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  out.resize(std::min(out.find('\n'), out.size()));
  return out.empty() ? "another process" : out;
}

void warn_without_locks(const std::string& folder, int error) {
  if (!see_first("no locks in " + folder)) return;
  warn(
      fmt::format("the file system of '{}' has no locks ({}): two programs that save into one "
                  "folder may damage each other's checkpoints",
                  folder, std::generic_category().message(error)));
}

}  // namespace

// Returns whether the lock was taken.
bool FolderLock::take() {
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  for (;;) {
    descriptor_ = ::open(file_.c_str(), kFlags, 0666);
    if (descriptor_ < 0 && errno == EINTR) continue;
    if (descriptor_ < 0 && errno == EACCES) {  // the file of another user
      descriptor_ = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
      if (descriptor_ < 0 && errno == ENOENT)
        errno = EACCES;  // there is none, and none can be made
    }
    if (descriptor_ < 0) {
      const int error = errno;
      ETUDE_REQUIRE_CODE(kNotFound, error != ENOENT, "there is no folder '{}' to save into",
                         file_.parent_path().string());
      throw_error(code_of_errno(error),
                  fmt::format("cannot lock the folder '{}': {}", file_.parent_path().string(),
                              std::generic_category().message(error)));
    }
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK || errno == EINTR) return false;
      warn_without_locks(file_.parent_path().string(), errno);
      return true;
    }
    // The former holder may have removed this file; then the lock has no effect.
    struct stat held {
    }, there{};
    if (::fstat(descriptor_, &held) == 0 && ::stat(file_.c_str(), &there) == 0 &&
        held.st_ino == there.st_ino && held.st_dev == there.st_dev) {
      return true;
    }
    ::close(std::exchange(descriptor_, -1));
  }
}

void FolderLock::note_holder() const {
  std::array<char, 64> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  const std::string text = fmt::format("process {} on {}\n", ::getpid(), host.data());
  // Best effort: the text is for messages only.
  [[maybe_unused]] const bool is_noted =
      ::ftruncate(descriptor_, 0) == 0 && ::pwrite(descriptor_, text.data(), text.size(), 0) > 0;
}

FolderLock::FolderLock(const std::filesystem::path& folder, std::string_view name,
                       std::chrono::milliseconds patience)
    : file_(folder / name) {
  try {
    wait_for(folder, patience);
    note_holder();
  } catch (...) {  // no destructor runs
    release();
    throw;
  }
}

void FolderLock::wait_for(const std::filesystem::path& folder, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kStep(5);
  const auto begin = std::chrono::steady_clock::now();
  while (!take()) {
    const std::string holder = holder_in(descriptor_);
    ::close(std::exchange(descriptor_, -1));
    ETUDE_REQUIRE_CODE(
        kFailedPrecondition, patience.count() > 0,
        "{} saves a run into the folder '{}'. Two runs in one folder would replace and remove each "
        "other's checkpoints. Take another folder, or end that process",
        holder, folder.string());
    ETUDE_REQUIRE_CODE(
        kUnavailable, std::chrono::steady_clock::now() - begin < patience,
        "{} has been saving into the folder '{}' for {} s. Try again, or end that process", holder,
        folder.string(), std::chrono::duration_cast<std::chrono::seconds>(patience).count());
    std::this_thread::sleep_for(kStep);
  }
  is_held_ = true;
}

FolderLock::~FolderLock() { release(); }

void FolderLock::release() noexcept {
  if (descriptor_ < 0) return;
  if (is_held_) ::unlink(file_.c_str());  // while no other process has the lock
  ::close(descriptor_);
}

}  // namespace etude::internal
