// SPDX-License-Identifier: Apache-2.0
#include "etude/files/atomic_file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "etude/base/check.h"

namespace etude::internal {
namespace {

constexpr std::string_view kPrefix = ".etude-", kSuffix = ".tmp";

// A name that no other AtomicFile of this machine uses now. It is hidden, and short enough for any
// file name that leaves no room for a suffix.
std::filesystem::path temporary_name() {
  static std::atomic<unsigned> serial = 0;
  return fmt::format("{}{}-{}{}", kPrefix, getpid(), serial++, kSuffix);
}

bool is_temporary_name(std::string_view name) {
  constexpr std::string_view kNumbers = "0123456789-";
  return name.size() > kPrefix.size() + kSuffix.size() && name.starts_with(kPrefix) &&
         name.ends_with(kSuffix) &&
         name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size())
                 .find_first_not_of(kNumbers) == name.npos;
}

// Removes the temporary file at `path` if no process writes to it any more: a writer has a lock on
// it, which the system drops when the process ends. The file goes while this process has the lock:
// a writer that made the file and waits for its lock finds it gone, and makes another.
void remove_if_abandoned(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return;
  struct stat facts;
  if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == geteuid() &&
      flock(file, LOCK_EX | LOCK_NB) == 0) {
    unlink(path.c_str());
  }
  close(file);
}

// Removes leftovers, once for each folder.
void remove_leftovers_once(const std::filesystem::path& folder) noexcept {
  constexpr std::size_t kMostFolders = 1000;  // bounds the list
  struct Cleaned {
    std::mutex mutex;
    std::set<std::string> folders;
  };
  static auto* const cleaned = new Cleaned;  // files may be written while statics are destroyed
  try {
    const std::lock_guard lock(cleaned->mutex);
    if (cleaned->folders.size() >= kMostFolders) cleaned->folders.clear();
    if (!cleaned->folders.insert(std::filesystem::absolute(folder).string()).second) return;
  } catch (const std::exception&) {
    return;  // the files stay
  }
  remove_leftovers(folder);
}

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISFIFO(mode)) return "a pipe";
  return S_ISSOCK(mode) ? "a socket" : "no regular file";
}

}  // namespace

ErrorCode code_of_errno(int error_number) {
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

int fault_of_test() noexcept {
  const char* kill = std::getenv("ETUDE_TEST_KILL_AT_WRITE");
  const char* fail = std::getenv("ETUDE_TEST_FAIL_AT_WRITE");
  if (kill == nullptr && fail == nullptr) return 0;
  static std::atomic<long> calls = 0;
  constexpr int kLikeSigkill = 128 + 9;
  const long call = ++calls;
  if (kill != nullptr && call == std::strtol(kill, nullptr, 10)) _exit(kLikeSigkill);
  return fail != nullptr && call == std::strtol(fail, nullptr, 10) ? EIO : 0;
}

AtomicFile::AtomicFile(std::filesystem::path path, const AtomicFileOptions& options)
    : path_(std::move(path)),
      folder_(path_.has_parent_path() ? path_.parent_path() : "."),
      options_(options) {
  if (!path_.has_filename()) fail("name", EISDIR);
  require_replaceable();
  remove_leftovers_once(folder_);
  create_temporary();
  struct stat old;
  if (!options_.is_private && lstat(path_.c_str(), &old) == 0 && S_ISREG(old.st_mode)) {
    // Best effort: a file system without permissions refuses, and the content matters more.
    [[maybe_unused]] const int ignored = fchmod(descriptor_, old.st_mode & 07777);
  }
}

void AtomicFile::create_temporary() {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  const mode_t mode = options_.is_private ? 0600 : 0666;  // less the umask
  for (;;) {
    std::filesystem::path name = folder_ / temporary_name();
    descriptor_ = open(name.c_str(), kFlags, mode);
    if (descriptor_ < 0 && (errno == EEXIST || errno == EINTR)) continue;  // a killed process' name
    if (descriptor_ < 0) fail("create a temporary file next to", errno);
    temporary_ = std::move(name);  // allocates nothing: the file exists, and has to be removed
    // The lock marks a file that is being written. Another process may have removed the file before
    // this process had the lock.
    struct stat facts;
    const bool is_locked = flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
    if (!is_locked && errno != EWOULDBLOCK) return;  // a file system without locks
    if (is_locked && fstat(descriptor_, &facts) == 0 && facts.st_nlink > 0) return;
    close(std::exchange(descriptor_, -1));
    unlink(temporary_.c_str());
  }
}

// A rename would replace whatever is at the path.
void AtomicFile::require_replaceable() {
  struct stat facts;
  if (lstat(path_.c_str(), &facts) != 0) return;  // nothing; another fault shows later
  const bool is_link = S_ISLNK(facts.st_mode);
  if (is_link && stat(path_.c_str(), &facts) != 0) return;  // a link to nothing is replaced
  if (S_ISREG(facts.st_mode)) return;
  if (state_ == State::kOpen) state_ = State::kFailed;
  ETUDE_THROW(kFailedPrecondition,
              "cannot save to '{}': it is {}{}, which a file must not replace. Give the path of a "
              "file",
              path_.string(), is_link ? "a link to " : "", kind_of(facts.st_mode));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (state_ != State::kCommitted && !temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::fail(std::string_view action, int error_number) {
  if (state_ == State::kOpen) state_ = State::kFailed;
  throw_error(code_of_errno(error_number),
              fmt::format("cannot {} '{}': {}", action, path_.string(),
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
    if (const int fault = fault_of_test()) fail("write", fault);
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
    if (const int fault = fault_of_test()) fail("make durable", fault);
    if (fsync(descriptor_) != 0) fail("make durable", errno);
  }
  if (const int fault = fault_of_test()) fail("close", fault);
  if (close(std::exchange(descriptor_, -1)) != 0) fail("close", errno);
  if (const int fault = fault_of_test()) fail("rename a temporary file to", fault);
  require_replaceable();
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename a temporary file to", errno);
  state_ = State::kCommitted;
  if (options_.is_durable) sync_folder(folder_);
}

void AtomicFile::commit_as(std::string_view name) {
  require_open();
  path_ = folder_ / name;
  commit();
}

void sync_folder(const std::filesystem::path& path) {
  const auto fail = [&](std::string_view action, int error_number) {
    throw_error(code_of_errno(error_number),
                fmt::format("cannot {} '{}': {}", action, path.string(),
                            std::generic_category().message(error_number)));
  };
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) fail("open the folder", errno);
  int error_number = fault_of_test();
  if (error_number == 0 && fsync(folder) != 0) error_number = errno;
  close(folder);
  // Some network file systems cannot do this for a folder; their rename is durable by itself.
  if (error_number != 0 && error_number != EINVAL) {
    fail("make durable the names in the folder", error_number);
  }
}

std::vector<std::filesystem::path> paths_in(const std::filesystem::path& folder) {
  const auto fail = [&](int error_number) {
    throw_error(code_of_errno(error_number),
                fmt::format("cannot read the folder '{}': {}", folder.string(),
                            std::generic_category().message(error_number)));
  };
  const auto close = [](DIR* opened) { closedir(opened); };
  const std::unique_ptr<DIR, decltype(close)> entries(opendir(folder.c_str()), close);
  std::vector<std::filesystem::path> out;
  if (entries == nullptr && (errno == ENOENT || errno == ENOTDIR)) return out;
  if (entries == nullptr) fail(errno);
  for (;;) {
    errno = 0;
    const dirent* const entry = readdir(entries.get());
    if (entry == nullptr && errno != 0) fail(errno);
    if (entry == nullptr) return out;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") out.push_back(folder / name);
  }
}

void remove_leftovers(const std::filesystem::path& folder) noexcept {
  try {
    for (const std::filesystem::path& path : paths_in(folder)) {
      if (is_temporary_name(path.filename().string())) remove_if_abandoned(path);
    }
  } catch (const std::exception&) {  // the files stay
  }
}

}  // namespace etude::internal
