// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>

#include "etude/base/check.h"
#include "etude/base/environment.h"
#include "etude/kernels/cpu/onednn/one_thread.h"
#include "etude/kernels/cpu/onednn/onednn.h"
#include "etude/kernels/cpu/product/packed_product.h"

namespace etude::kernels::cpu::onednn {
namespace {

// While alive, signals of this thread wait, except signals of faults: oneDNN's kernels of 2.6 move
// the stack pointer into a buffer on the heap, where a handler would overwrite the memory before
// the buffer. cost: two system calls, some tenths of a microsecond.
class SignalsWait {
 public:
  SignalsWait() {
    sigset_t most;
    sigfillset(&most);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
      sigdelset(&most, fault);
    }
    pthread_sigmask(SIG_SETMASK, &most, &before_);
  }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;
  ~SignalsWait() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// ETUDE_ONEDNN=off: our own kernels compute its products. They are slower, and add the terms of an
// element from the first to the last, as in models compiled ahead of time (etude/aot).
bool is_off() {
  static const bool out = [] {
    constexpr std::array<std::string_view, 1> kWords{"off"};
    return etude::internal::environment_choice("ETUDE_ONEDNN", kWords) == 0;
  }();
  return out;
}

using Sgemm = decltype(&dnnl_sgemm);

Sgemm load_sgemm() {
  const std::string name = fmt::format("libdnnl.so.{}", DNNL_VERSION_MAJOR);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);  // it stays open
  ETUDE_REQUIRE_CODE(kUnimplemented, library != nullptr,
                     "oneDNN, which computes large products of float32, was not loaded: {}. "
                     "Install libdnnl{}, or set ETUDE_ONEDNN=off for Etude's own, slower kernels",
                     dlerror(), DNNL_VERSION_MAJOR);
  auto* sgemm = reinterpret_cast<Sgemm>(dlsym(library, "dnnl_sgemm"));
  ETUDE_REQUIRE_CODE(kUnimplemented, sgemm != nullptr, "{} has no function dnnl_sgemm", name);
  return sgemm;
}

// The only check of a status of oneDNN.
// throws: kResourceExhausted without memory for oneDNN; kInternal for any other failure.
void require_success(dnnl_status_t status, const Gemm& g) {
  if (status == dnnl_success) [[likely]]
    return;
  ETUDE_REQUIRE_CODE(
      kResourceExhausted, status != dnnl_out_of_memory,
      "the host has no memory left for oneDNN, which computes this product of [{},{}] "
      "and [{},{}] float32",
      g.m, g.k, g.k, g.n);
  ETUDE_THROW(kInternal, "oneDNN did not compute the product of [{},{}] and [{},{}]: status {}",
              g.m, g.k, g.k, g.n, static_cast<int>(status));
}

// At the end of the process oneDNN frees the code of its kernels, and destructors of static objects
// may still multiply: then our own kernels compute. Called after a product, so that oneDNN has made
// its static objects: the handlers of the end run in reverse order.
std::atomic<bool> is_ending{false};

void watch_for_the_end() {
  static const bool is_watched = std::atexit([] { is_ending.store(true); }) == 0;
  static_cast<void>(is_watched);
}

// The first large product loads oneDNN. A library that links it takes 0.7 ms more to start: oneDNN
// has 36,000 relocations.
Sgemm sgemm() {
  static const Sgemm once = load_sgemm();
  return once;
}

}  // namespace

void gemm(const Gemm& g, float* out, const float* a, const float* b) {
  if (is_off() || is_ending.load(std::memory_order_relaxed)) return own_gemm(g, out, a, b);
  const Sgemm multiply = sgemm();
  dnnl_status_t status = dnnl_success;
  {
    const OneThread one_thread;
    const SignalsWait signals_wait;
    status = multiply(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, 1.0f, a,
                      g.a_row, b, g.b_row, 0.0f, out, g.out_row);
  }
  watch_for_the_end();
  require_success(status, g);
}

}  // namespace etude::kernels::cpu::onednn
