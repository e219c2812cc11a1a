// SPDX-License-Identifier: Apache-2.0
#include "etude/files/atomic_file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "etude/base/check.h"

namespace etude::internal {
namespace {

// Ends the process at the write that a test selects (see the header).
void maybe_end_process() {
  const char* asked = std::getenv("ETUDE_TEST_KILL_AT_WRITE");
  if (asked == nullptr) return;
  static std::atomic<long> calls = 0;
  constexpr int kLikeSigkill = 128 + 9;
  if (++calls == std::strtol(asked, nullptr, 10)) _exit(kLikeSigkill);
}

ErrorCode code_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP:
      return ErrorCode::kFailedPrecondition;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return ErrorCode::kResourceExhausted;
    default:
      return ErrorCode::kDataLoss;
  }
}

// A name that no other AtomicFile of this machine uses now. It is hidden, and short enough for any
// file name that leaves no room for a suffix.
std::filesystem::path temporary_name() {
  static std::atomic<unsigned> serial = 0;
  return fmt::format(".etude-{}-{}.tmp", getpid(), serial++);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path, const AtomicFileOptions& options)
    : path_(std::move(path)),
      folder_(path_.has_parent_path() ? path_.parent_path() : "."),
      options_(options) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  const mode_t mode = options_.is_private ? 0600 : 0666;  // less the umask
  if (!path_.has_filename()) fail("name", EISDIR);
  do {  // a name is taken when a process with our id was killed
    temporary_ = folder_ / temporary_name();
    descriptor_ = open(temporary_.c_str(), kFlags, mode);
  } while (descriptor_ < 0 && (errno == EEXIST || errno == EINTR));
  if (descriptor_ < 0) fail("create a temporary file next to", errno);
  struct stat old;
  if (!options_.is_private && lstat(path_.c_str(), &old) == 0 && S_ISREG(old.st_mode)) {
    // Best effort: a file system without permissions refuses, and the content matters more.
    [[maybe_unused]] const int ignored = fchmod(descriptor_, old.st_mode & 07777);
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (state_ != State::kCommitted && !temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::fail(std::string_view action, int error_number) {
  if (state_ == State::kOpen) state_ = State::kFailed;
  throw_error(code_of(error_number), fmt::format("cannot {} '{}': {}", action, path_.string(),
                                                 std::generic_category().message(error_number)));
}

void AtomicFile::require_open() const {
  ETUDE_REQUIRE_CODE(kFailedPrecondition, state_ == State::kOpen,
                     "'{}' takes no more data: it was {}; make another AtomicFile", path_.string(),
                     state_ == State::kCommitted ? "committed" : "given up after an error");
}

void AtomicFile::write(std::span<const uint8_t> bytes) {
  constexpr std::size_t kMaxStep = std::size_t{1} << 30;  // Linux writes less than 2 GiB at once
  require_open();
  while (!bytes.empty()) {
    maybe_end_process();
    const ssize_t n = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxStep));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    size_bytes_ += static_cast<uint64_t>(n);
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

void AtomicFile::commit() {
  require_open();
  if (options_.is_durable) {
    maybe_end_process();
    if (fsync(descriptor_) != 0) fail("make durable", errno);
  }
  if (close(std::exchange(descriptor_, -1)) != 0) fail("close", errno);
  maybe_end_process();
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename a temporary file to", errno);
  state_ = State::kCommitted;
  if (options_.is_durable) sync_folder(folder_);
}

void sync_folder(const std::filesystem::path& path) {
  const auto fail = [&](std::string_view action, int error_number) {
    throw_error(code_of(error_number), fmt::format("cannot {} '{}': {}", action, path.string(),
                                                   std::generic_category().message(error_number)));
  };
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) fail("open the folder", errno);
  maybe_end_process();
  const int error_number = fsync(folder) == 0 ? 0 : errno;
  close(folder);
  // Some network file systems cannot do this for a folder; their rename is durable by itself.
  if (error_number != 0 && error_number != EINVAL) {
    fail("make durable the names in the folder", error_number);
  }
}

}  // namespace etude::internal
