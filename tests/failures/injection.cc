// SPDX-License-Identifier: Apache-2.0
#include "tests/failures/injection.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "etude/base/sanitizers.h"

namespace etude::failures {
namespace {

// Plain data that needs no initialisation: the first malloc of a process comes before all else.
struct Counter {
  std::atomic<bool> is_on;
  std::atomic<bool> is_for_ever;
  std::atomic<long> count;
  std::atomic<long> fails_at;  // 0: never

  void begin(long n, HowOften how_often) noexcept {
    is_for_ever = how_often == HowOften::kForEver;
    count = 0;
    fails_at = n;
    is_on = true;
  }
  bool fails_now() noexcept {
    if (!is_on.load(std::memory_order_relaxed)) return false;
    const long n = ++count;
    const long at = fails_at.load(std::memory_order_relaxed);
    return at > 0 && (n == at || (n > at && is_for_ever.load(std::memory_order_relaxed)));
  }
};

[[gnu::tls_model("initial-exec")]] thread_local constinit Counter allocations{};
constinit Counter all_allocations{};
constinit Counter threads{};
constinit Counter file_changes{};

Counter& counter_of(What what) noexcept {
  switch (what) {
    case What::kAllocation:
      return allocations;
    case What::kAllocationAnywhere:
      return all_allocations;
    case What::kThread:
      return threads;
    case What::kFileChange:
      break;
  }
  return file_changes;
}

char work[512];

void tell(int signal) {
  const char* const how = signal == SIGALRM ? "does not end: " : "crashed: ";
  for (const char* text : {how, static_cast<const char*>(work), "\n"}) {
    if (::write(2, text, std::strlen(text)) < 0) break;
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

FailureScope::FailureScope(What what, long n, HowOften how_often) noexcept : what_(what) {
  counter_of(what).begin(n, how_often);
}
void FailureScope::end() noexcept { counter_of(what_).is_on = false; }
bool FailureScope::has_failed() noexcept {
  const Counter& counter = counter_of(what_);
  return counter.fails_at > 0 && counter.count >= counter.fails_at;
}
long FailureScope::count() noexcept { return counter_of(what_).count; }

Quiet::Quiet() noexcept
    : was_on_{allocations.is_on.exchange(false), all_allocations.is_on.exchange(false),
              threads.is_on.exchange(false), file_changes.is_on.exchange(false)} {}
Quiet::~Quiet() {
  allocations.is_on = was_on_[0];
  all_allocations.is_on = was_on_[1];
  threads.is_on = was_on_[2];
  file_changes.is_on = was_on_[3];
}

void describe_work(const std::string& text, unsigned seconds) noexcept {
  std::snprintf(work, sizeof(work), "%s", text.c_str());
  for (const int signal : {SIGALRM, SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, tell);
  alarm(seconds);
}

long places_per_job(long by_default) {
  const char* const wish = std::getenv("ETUDE_TEST_CASES");
  return wish != nullptr ? std::strtol(wish, nullptr, 10) : by_default;
}

}  // namespace etude::failures

namespace {

bool allocation_fails() noexcept {
  const bool fails = etude::failures::allocations.fails_now();
  if (!etude::failures::all_allocations.fails_now() && !fails) return false;
  errno = ENOMEM;
  return true;
}

[[maybe_unused]] bool file_change_fails() noexcept {
  if (!etude::failures::file_changes.fails_now()) return false;
  errno = ENOSPC;
  return true;
}

// The next definition of a function that this program replaces.
template <class F>
F* next(const char* name) noexcept {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ETUDE_TEST_KEEPS_MALLOC 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ETUDE_TEST_KEEPS_MALLOC 1
#endif
#endif

#if defined(ETUDE_TEST_KEEPS_MALLOC)

// Sanitizers have their own malloc, write and pthread_create, which this program must not replace.
// The linker directs the calls of this program and of the static library to the functions below
// (--wrap in CMakeLists.txt); calls inside shared libraries stay as they are.
extern "C" {

void* __real_malloc(std::size_t size);
void* __real_calloc(std::size_t count, std::size_t size);
void* __real_realloc(void* old, std::size_t size);
int __real_posix_memalign(void** out, std::size_t alignment, std::size_t size);
ssize_t __real_write(int file, const void* bytes, std::size_t size);
int __real_fsync(int file);
int __real_rename(const char* from, const char* to);

void* __wrap_malloc(std::size_t size) { return allocation_fails() ? nullptr : __real_malloc(size); }
void* __wrap_calloc(std::size_t count, std::size_t size) {
  return allocation_fails() ? nullptr : __real_calloc(count, size);
}
void* __wrap_realloc(void* old, std::size_t size) {
  return allocation_fails() ? nullptr : __real_realloc(old, size);
}
int __wrap_posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  return allocation_fails() ? ENOMEM : __real_posix_memalign(out, alignment, size);
}
ssize_t __wrap_write(int file, const void* bytes, std::size_t size) {
  return file > 2 && file_change_fails() ? -1 : __real_write(file, bytes, size);
}
int __wrap_fsync(int file) { return file_change_fails() ? -1 : __real_fsync(file); }
int __wrap_rename(const char* from, const char* to) {
  return file_change_fails() ? -1 : __real_rename(from, to);
}

}  // extern "C"

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (allocation_fails()) throw std::bad_alloc();
  if (void* made = __real_malloc(size == 0 ? 1 : size)) return made;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  if (allocation_fails()) throw std::bad_alloc();
  if (void* made = std::aligned_alloc(step, (size + step) / step * step)) return made;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocation_fails() ? nullptr : __real_malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

#else

extern "C" {

void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) { return allocation_fails() ? nullptr : __libc_malloc(size); }
void* calloc(std::size_t count, std::size_t size) {
  return allocation_fails() ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) {
  return allocation_fails() ? nullptr : __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return allocation_fails() ? nullptr : __libc_memalign(alignment, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  return allocation_fails() ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  if (allocation_fails()) return ENOMEM;
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  static auto* const real = next<decltype(pthread_create)>("pthread_create");
  if (etude::failures::threads.fails_now()) return EAGAIN;
  return real(thread, attributes, run, argument);
}

ssize_t write(int file, const void* bytes, std::size_t size) {
  static auto* const real = next<decltype(write)>("write");
  if (file > 2 && file_change_fails()) return -1;
  return real(file, bytes, size);
}
int fsync(int file) {
  static auto* const real = next<decltype(fsync)>("fsync");
  return file_change_fails() ? -1 : real(file);
}
int rename(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("rename");
  return file_change_fails() ? -1 : real(from, to);
}
int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const real = next<int(const char*, mode_t)>("mkdir");
  return file_change_fails() ? -1 : real(path, mode);
}
// Closes the file even where it fails, as the system does. Only files that were open for writing
// count: others have nothing to lose.
int close(int file) {
  static auto* const real = next<decltype(close)>("close");
  const int mode = fcntl(file, F_GETFL);
  const bool fails = mode >= 0 && (mode & O_ACCMODE) != O_RDONLY && file_change_fails();
  const int result = real(file);
  if (fails) errno = EIO;
  return fails ? -1 : result;
}

}  // extern "C"

#endif
