// SPDX-License-Identifier: Apache-2.0
// Opens a library with LAPACK and finds its routines.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <sys/mman.h>

#include "etude/base/check.h"
#include "etude/device/cpu/host.h"
#include "etude/kernels/cpu/lapack/lapack.h"

namespace etude::kernels::cpu::lapack {
namespace {

// OpenBLAS built with OpenMP is tried first: opening it starts no thread, and several threads may
// call it at once, each limited to one thread here. OpenBLAS with its own threads is as good once
// it is open. OpenBLAS for one thread shares memory between two callers.
constexpr const char* kLibraries[] = {"/usr/lib/x86_64-linux-gnu/openblas-openmp/libopenblas.so.0",
                                      "/usr/lib/aarch64-linux-gnu/openblas-openmp/libopenblas.so.0",
                                      "libopenblas.so.0", "liblapack.so.3"};

struct Library {
  void* handle = nullptr;
  bool one_at_a_time = false;
};

template <class F>
F symbol(void* library, const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}

// OpenBLAS maps a buffer of this size for each thread of OpenMP when it is loaded, and for each
// further concurrent caller. Without memory it tries again in an endless loop, so the memory is
// checked here before each of these steps.
constexpr std::size_t kBufferBytes = std::size_t{128} << 20, kLibraryBytes = std::size_t{48} << 20;
constexpr std::size_t kMostBuffers = 128;

// throws: kResourceExhausted if the process cannot map so many buffers and so many bytes at once.
void require_room(std::size_t buffers, std::size_t bytes) {
  std::vector<std::pair<void*, std::size_t>> made;
  bool is_there = true;
  const auto map = [&](std::size_t size) {
    void* const at =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
      is_there = false;
    else
      made.emplace_back(at, size);
  };
  made.reserve(buffers + 1);
  if (bytes > 0) map(bytes);
  for (std::size_t i = 0; is_there && i < buffers; ++i) map(kBufferBytes);
  for (const auto& [at, size] : made) munmap(at, size);
  ETUDE_REQUIRE_CODE(
      kResourceExhausted, is_there,
      "OpenBLAS, the library with LAPACK, needs {} MiB of address space for its work "
      "memory, and this process cannot have them. Raise its limit (ulimit -v, or the "
      "memory of its container)",
      (buffers * kBufferBytes + bytes) >> 20);
}

// The buffers of OpenBLAS: one for each caller at a time.
struct Buffers {
  std::mutex mutex;
  std::size_t callers = 0;  // now
  std::size_t ready = 0;    // buffers that exist for them
};
Buffers& buffers() {
  static auto& made = *new Buffers;
  return made;
}

// Makes buffers for `callers` callers at a time. The mutex of buffers() is held.
void make_buffers(void* library, std::size_t callers) {
  auto* const take = symbol<void* (*)(int)>(library, "blas_memory_alloc");
  auto* const give = symbol<void (*)(void*)>(library, "blas_memory_free");
  if (take != nullptr && give != nullptr) {
    require_room(callers, 0);
    std::vector<void*> made(callers);  // all at once, so that they are different ones
    for (void*& at : made) at = take(0);
    for (void* at : made) give(at);
  }
  buffers().ready = callers;
}

Library open_library() {
  const std::size_t cpus = etude::internal::allowed_cpus().size();
  require_room(std::min(cpus, kMostBuffers), kLibraryBytes);
  for (const char* name : kLibraries) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    auto* parallel = symbol<int (*)()>(library, "openblas_get_parallel");
    if (parallel == nullptr) return {library, false};
    constexpr int kAlone = 0, kOwnThreads = 1;
    auto* set = symbol<void (*)(int)>(library, "openblas_set_num_threads");
    if (parallel() == kOwnThreads && set != nullptr) set(1);
    return {library, parallel() == kAlone};
  }
  return {};
}

const Library& library() {
  static const Library once = open_library();  // it stays open
  ETUDE_REQUIRE_CODE(kUnimplemented, once.handle != nullptr,
                     "no library with LAPACK was found. Install libopenblas0-openmp, or another "
                     "that gives libopenblas.so.0 or liblapack.so.3");
  return once;
}

template <class F>
void find(F& routine, const std::string& name) {
  routine = reinterpret_cast<F>(dlsym(library().handle, name.c_str()));
  ETUDE_REQUIRE_CODE(kUnimplemented, routine != nullptr,
                     "the library with LAPACK has no routine {}. Install libopenblas0-openmp",
                     name);
}

template <class T>
Routines<T> find_all(char letter) {
  Routines<T> out{};
  const std::string p(1, letter);
  find(out.potrf, p + "potrf_");
  find(out.getrf, p + "getrf_");
  find(out.getrs, p + "getrs_");
  find(out.trtrs, p + "trtrs_");
  find(out.gelqf, p + "gelqf_");
  find(out.orglq, p + (kIsComplex<T> ? "unglq_" : "orglq_"));
  find(out.gesdd_, p + "gesdd_");
  find(out.syevd_, p + (kIsComplex<T> ? "heevd_" : "syevd_"));
  find(out.geev_, p + "geev_");
  return out;
}

}  // namespace

Turn::Turn() {
  static std::mutex mutex;
  if (library().one_at_a_time) lock_ = std::unique_lock(mutex);
  const std::lock_guard lock(buffers().mutex);
  if (buffers().callers == buffers().ready) make_buffers(library().handle, buffers().callers + 1);
  ++buffers().callers;
}

Turn::~Turn() {
  const std::lock_guard lock(buffers().mutex);
  --buffers().callers;
}

template <>
const Routines<float>& routines<float>() {
  static const Routines<float> all = find_all<float>('s');
  return all;
}
template <>
const Routines<double>& routines<double>() {
  static const Routines<double> all = find_all<double>('d');
  return all;
}
template <>
const Routines<std::complex<float>>& routines<std::complex<float>>() {
  static const Routines<std::complex<float>> all = find_all<std::complex<float>>('c');
  return all;
}
template <>
const Routines<std::complex<double>>& routines<std::complex<double>>() {
  static const Routines<std::complex<double>> all = find_all<std::complex<double>>('z');
  return all;
}

}  // namespace etude::kernels::cpu::lapack
