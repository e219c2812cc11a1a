// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/object_cache.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "etude/files/atomic_file.h"
#include "etude/files/safe_owner.h"

namespace etude::codegen {
namespace {

namespace fs = std::filesystem;

// A file: the magic, the lengths of key and object, both of them, and a sum over all that.
constexpr char kMagic[] = "etude kernel 1\n";
constexpr std::size_t kMostBytes = 4 << 20;  // of a file that is read
constexpr std::size_t kMostFiles = 2048;

// FNV-1a, begun in two ways for two independent halves of a name.
uint64_t hash(std::string_view bytes, uint64_t h = 0xcbf29ce484222325) {
  for (const char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

class File {
 public:
  explicit File(int number) : number_(number) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  bool is_open() const { return number_ >= 0; }

  // Whether it belongs to this user, and others may only look.
  bool is_own(mode_t kind, off_t* size = nullptr) const {
    struct stat facts;
    if (::fstat(number_, &facts) != 0) return false;
    if (size != nullptr) *size = facts.st_size;
    return (facts.st_mode & S_IFMT) == kind && (facts.st_mode & S_IWGRP) == 0 &&
           internal::why_unsafe(facts, ::geteuid()).empty();
  }
  bool read(std::string& out) const {
    for (std::size_t done = 0; done < out.size();) {
      const ssize_t n = ::read(number_, out.data() + done, out.size() - done);
      if (n <= 0) return false;
      done += static_cast<std::size_t>(n);
    }
    return true;
  }

 private:
  int number_;
};

bool is_own_folder(const std::string& folder) {
  const File file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return file.is_open() && file.is_own(S_IFDIR);
}

std::string number_text(uint64_t n) { return std::string(reinterpret_cast<const char*>(&n), 8); }

std::string file_text(std::string_view key, std::string_view object) {
  std::string out = kMagic + number_text(key.size()) + number_text(object.size());
  out += key;
  out += object;
  return out + number_text(hash(out));
}

std::string folder_of_environment() {
  const auto setting = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
  };
  const std::string own = setting("ETUDE_KERNEL_CACHE");
  if (own == "off") return "";
  if (!own.empty()) return own;
  const std::string shared = setting("XDG_CACHE_HOME"), home = setting("HOME");
  if (shared.starts_with('/')) return shared + "/etude/kernels";
  return home.starts_with('/') ? home + "/.cache/etude/kernels" : "";
}

// Whether this cache wrote the file: the folder may hold other files of the user.
bool is_of_cache(const fs::path& path) {
  constexpr std::size_t kDigits = 32;
  const std::string name = path.filename().string();
  if (name.size() != kDigits + 2 || !name.ends_with(".o") ||
      name.find_first_not_of("0123456789abcdef") != kDigits) {
    return false;
  }
  const File file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::string magic(sizeof kMagic - 1, '\0');
  return file.is_open() && file.is_own(S_IFREG) && file.read(magic) && magic == kMagic;
}

// Makes room: a quarter of the files goes, those first that were written first.
void drop_oldest(const std::string& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().ends_with(".o")) continue;
    std::error_code gone;
    const auto time = entry.last_write_time(gone);
    if (!gone) files.emplace_back(time, entry.path());
  }
  if (files.size() <= kMostFiles) return;
  std::ranges::sort(files);
  std::size_t superfluous = files.size() - kMostFiles * 3 / 4;
  for (const auto& [time, path] : files) {
    if (superfluous == 0) return;
    std::error_code gone;
    if (is_of_cache(path) && fs::remove(path, gone)) --superfluous;
  }
}

std::optional<std::string> read_object(const std::string& path, std::string_view key) {
  const File file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  off_t size = 0;
  if (!file.is_open() || !file.is_own(S_IFREG, &size)) return std::nullopt;
  const std::size_t head = sizeof kMagic - 1 + 16, around = head + key.size() + 8;
  const auto bytes = static_cast<std::size_t>(std::max<off_t>(size, 0));
  if (bytes < around || bytes > kMostBytes) return std::nullopt;
  std::string text(bytes, '\0');
  if (!file.read(text)) return std::nullopt;
  std::string object = text.substr(head + key.size(), bytes - around);
  if (text != file_text(key, object)) return std::nullopt;
  return object;
}

}  // namespace

const ObjectCache& ObjectCache::of_process() {
  static const auto* const cache = new ObjectCache(folder_of_environment());
  return *cache;
}

std::string ObjectCache::path_of(std::string_view key) const {
  return fmt::format("{}/{:016x}{:016x}.o", folder_, hash(key), hash(key, 0x9e3779b97f4a7c15));
}

std::optional<std::string> ObjectCache::find(std::string_view key) const noexcept {
  try {
    if (folder_.empty() || !is_own_folder(folder_)) return std::nullopt;
    return read_object(path_of(key), key);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

bool ObjectCache::store(std::string_view key, std::string_view object) const noexcept {
  static std::atomic<uint64_t> count{0};
  if (folder_.empty()) return false;
  try {
    std::error_code failed;
    if (!fs::exists(folder_, failed) && fs::create_directories(folder_, failed)) {
      fs::permissions(folder_, fs::perms::owner_all, failed);
    }
    if (!is_own_folder(folder_)) return false;
    if (count.fetch_add(1) % 64 == 0) drop_oldest(folder_);
    // A file that a power failure tears is not taken: its sum is wrong.
    internal::AtomicFile file(path_of(key), {.is_private = true, .is_durable = false});
    file.write(file_text(key, object));
    file.commit();
    return true;
  } catch (const std::exception&) {
    return false;  // as if there were no folder
  }
}

}  // namespace etude::codegen
