// SPDX-License-Identifier: Apache-2.0
#include "etude/files/mapped_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "etude/base/check.h"

namespace etude::internal {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  const std::string text = path.string() + ": cannot be read: " + std::strerror(error);
  if (error == ENOENT || error == ENOTDIR) throw Error(ErrorCode::kNotFound, text);
  if (error == EACCES || error == EPERM) throw Error(ErrorCode::kFailedPrecondition, text);
  throw Error(ErrorCode::kDataLoss, text);
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) fail(path, errno);
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) fail(path, errno);
  ETUDE_REQUIRE(S_ISREG(status.st_mode), "{} is not a regular file", path.string());
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (data == MAP_FAILED) fail(path, errno);
  data_ = static_cast<const uint8_t*>(data);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
}

}  // namespace etude::internal
