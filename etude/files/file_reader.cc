// SPDX-License-Identifier: Apache-2.0
#include "etude/files/file_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "etude/base/check.h"

namespace etude::internal {
namespace {

[[noreturn]] void fail(const std::string& name, int error) {
  const std::string text = name + ": cannot be read: " + std::generic_category().message(error);
  if (error == ENOENT || error == ENOTDIR) throw Error(ErrorCode::kNotFound, text);
  if (error == EACCES || error == EPERM) throw Error(ErrorCode::kFailedPrecondition, text);
  if (error == EMFILE || error == ENFILE || error == ENOMEM) {
    throw Error(ErrorCode::kResourceExhausted, text);
  }
  throw Error(ErrorCode::kDataLoss, text);
}

void require_regular(const std::string& name, const struct stat& facts) {
  ETUDE_REQUIRE(S_ISREG(facts.st_mode), "{} is not a regular file", name);
}

}  // namespace

FileReader::FileReader(const std::filesystem::path& path) : name_(path.string()) {
  struct stat facts {};
  // Before it is opened, since opening a device may have an effect.
  if (::stat(path.c_str(), &facts) != 0) fail(name_, errno);
  require_regular(name_, facts);
  // It may be a pipe by now, which O_NONBLOCK opens at once.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor_ < 0) fail(name_, errno);
  try {
    if (::fstat(descriptor_, &facts) != 0) fail(name_, errno);
    require_regular(name_, facts);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
  size_ = static_cast<uint64_t>(facts.st_size);
}

FileReader::~FileReader() { ::close(descriptor_); }

void FileReader::read(uint64_t offset, std::span<uint8_t> to) const {
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // Linux reads less than 2 GiB at once
  while (!to.empty()) {
    const ssize_t n = ::pread(descriptor_, to.data(), std::min(to.size(), kMostAtOnce),
                              static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(name_, errno);
    ETUDE_REQUIRE_CODE(kDataLoss, n > 0,
                       "{}: offset {}: the file ends here, but it had {} bytes when it was opened: "
                       "it was cut off while it was read",
                       name_, offset, size_);
    offset += static_cast<uint64_t>(n);
    to = to.subspan(static_cast<std::size_t>(n));
  }
}

FileBytes::FileBytes(const std::filesystem::path& path) {
  const FileReader file(path);
  size_ = static_cast<std::size_t>(file.size());
  data_ = std::make_unique_for_overwrite<uint8_t[]>(size_);
  file.read(0, {data_.get(), size_});
}

void ByteSource::read(uint64_t offset, std::span<uint8_t> to) const {
  if (file_ != nullptr) return file_->read(offset, to);
  if (!to.empty()) std::memcpy(to.data(), bytes_.data() + offset, to.size());
}

std::span<const uint8_t> ByteSource::view(uint64_t offset, uint64_t count,
                                          std::vector<uint8_t>& room) const {
  if (file_ == nullptr) return bytes_.subspan(offset, count);
  room.resize(count);
  file_->read(offset, room);
  return room;
}

}  // namespace etude::internal
