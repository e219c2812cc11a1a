// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/code_names.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

// GDB's interface for code that is made while a program runs: it sets a breakpoint in this function
// and reads this list. The names are GDB's.
extern "C" {

struct jit_code_entry {  // NOLINT(readability-identifier-naming): GDB's name
  jit_code_entry* next_entry;
  jit_code_entry* prev_entry;
  const char* symfile_addr;
  uint64_t symfile_size;
};
struct jit_descriptor {  // NOLINT(readability-identifier-naming): GDB's name
  uint32_t version;
  uint32_t action_flag;  // 0: nothing, 1: relevant_entry is new, 2: it goes
  jit_code_entry* relevant_entry;
  jit_code_entry* first_entry;
};

[[gnu::used, gnu::visibility("hidden")]] jit_descriptor __jit_debug_descriptor = {1, 0, nullptr,
                                                                                  nullptr};
[[gnu::used, gnu::noinline, gnu::visibility("hidden")]] void __jit_debug_register_code() {
  asm volatile("" ::: "memory");
}
}

namespace etude::codegen {
namespace {

constexpr std::size_t kMostName = 100;  // characters of a name that perf gets

bool is_asked_for(std::string_view what) {
  const char* value = std::getenv("ETUDE_SHOW_CODE");
  for (std::string_view rest = value == nullptr ? "" : value; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    if (item == what) return true;
  }
  return false;
}

bool shows_code_to_perf() {
  static const bool is_asked = is_asked_for("perf");
  return is_asked;
}

std::mutex& gdb_mutex() {
  static auto* const made = new std::mutex;  // code may go while statics are destroyed
  return *made;
}

class GdbEntry final : public ShownCode {
 public:
  explicit GdbEntry(std::string object) : object_(std::move(object)) {
    const std::lock_guard lock(gdb_mutex());
    jit_descriptor& list = __jit_debug_descriptor;
    entry_ = {list.first_entry, nullptr, object_.data(), object_.size()};
    if (list.first_entry != nullptr) list.first_entry->prev_entry = &entry_;
    list.first_entry = &entry_;
    notify(1);
  }
  ~GdbEntry() override {
    const std::lock_guard lock(gdb_mutex());
    jit_code_entry*& place = entry_.prev_entry != nullptr ? entry_.prev_entry->next_entry
                                                          : __jit_debug_descriptor.first_entry;
    place = entry_.next_entry;
    if (entry_.next_entry != nullptr) entry_.next_entry->prev_entry = entry_.prev_entry;
    notify(2);
  }

 private:
  void notify(uint32_t action) {
    __jit_debug_descriptor.relevant_entry = &entry_;
    __jit_debug_descriptor.action_flag = action;
    __jit_debug_register_code();
    __jit_debug_descriptor.action_flag = 0;
  }

  std::string object_;
  jit_code_entry entry_{};
};

// The file may be of an earlier process with this number: a process begins a new file. perf reads
// it when the process has ended; freed code stays in it. Other users can write to /tmp: a link is
// not followed, and a file of another user not written.
void write_perf_line(const std::string& line) {
  static auto* const mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  static pid_t of = 0;
  const bool is_new = std::exchange(of, ::getpid()) != ::getpid();
  const std::string path = fmt::format("/tmp/perf-{}.map", ::getpid());
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const int file = ::open(path.c_str(), kFlags, 0600);
  if (file < 0) return;
  struct stat facts {};
  const bool is_ours = ::fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) &&
                       facts.st_uid == ::geteuid() && facts.st_nlink == 1;
  if (is_ours && (!is_new || ::ftruncate(file, 0) == 0)) {
    const std::string text = line + "\n";
    [[maybe_unused]] const auto ignored = ::write(file, text.data(), text.size());
  }
  ::close(file);
}

}  // namespace

bool shows_code_to_gdb() {
  static const bool is_asked = is_asked_for("gdb");
  return is_asked;
}

std::string perf_map_line(const void* begin, std::size_t bytes, std::string_view name) {
  std::string text(name.substr(0, kMostName));
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return fmt::format("{:x} {:x} {}", reinterpret_cast<uintptr_t>(begin), bytes, text);
}

std::unique_ptr<ShownCode> show_code(const void* begin, std::size_t bytes, std::string_view name,
                                     std::string object) {
  if (shows_code_to_perf()) write_perf_line(perf_map_line(begin, bytes, name));
  if (!shows_code_to_gdb()) return nullptr;
  return std::make_unique<GdbEntry>(std::move(object));
}

}  // namespace etude::codegen
