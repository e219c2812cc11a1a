// SPDX-License-Identifier: Apache-2.0
// Opens a library with LAPACK and finds its routines.
#include <string>

#include <dlfcn.h>

#include "etude/base/check.h"
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

Library open_library() {
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
  return out;
}

}  // namespace

Turn::Turn() {
  static std::mutex mutex;
  if (library().one_at_a_time) lock_ = std::unique_lock(mutex);
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
