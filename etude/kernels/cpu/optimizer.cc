// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/optimizer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/optimizer_steps.h"

namespace etude::kernels::cpu {
namespace {

constexpr int64_t kBlock = 256;      // elements worked on at a time, in arrays that cannot overlap
constexpr int64_t kChunk = 1 << 14;  // elements per parallel chunk

struct UpdateParams : KernelParams {
  int64_t count = 0;
  std::size_t rates = 0;
};

// Runs step(block, g, n, rates) over blocks of the state arrays, which are copied in and out: the
// results may lie over the operands, and the compiler need not prove that they do not.
// state[k] is operand in[k] and result out[k].
template <class T, std::size_t n_state, class Step>
void update(const UpdateParams& p, const std::array<const void*, n_state>& in,
            const std::array<void*, n_state>& out, const void* gradient, const void* rates,
            const Step& step) {
  std::array<T, 16> rate{};
  for (std::size_t i = 0; i < p.rates; ++i) {
    rate[i] = static_cast<T>(static_cast<const double*>(rates)[i]);
  }
  const auto* g = static_cast<const T*>(gradient);
  const int64_t chunks = (p.count + kChunk - 1) / kChunk;
  const double us = static_cast<double>(p.count) * static_cast<double>(n_state) * 0.0005;
  parallel_for(chunks, us, [&](int64_t chunk) {
    const int64_t end = std::min(p.count, (chunk + 1) * kChunk);
    T block[n_state][kBlock];
    for (int64_t at = chunk * kChunk; at < end; at += kBlock) {
      const int64_t n = std::min(kBlock, end - at);
      const auto bytes = static_cast<std::size_t>(n) * sizeof(T);
      for (std::size_t k = 0; k < n_state; ++k) {
        std::memcpy(block[k], static_cast<const T*>(in[k]) + at, bytes);
      }
      step(block, g + at, n, rate.data());
      for (std::size_t k = 0; k < n_state; ++k) {
        std::memcpy(static_cast<T*>(out[k]) + at, block[k], bytes);
      }
    }
  });
}

const UpdateParams& params_of(const KernelCall& call) {
  return *static_cast<const UpdateParams*>(call.params);
}

template <class T>
bool run_sgd(const KernelCall& call) {
  update<T, 1>(params_of(call), {call.in[0]}, {call.out[0]}, call.in[1], call.in[2],
               [](auto& block, const T* g, int64_t n, const T* rate) {
                 for (int64_t i = 0; i < n; ++i) optimizer::sgd(block[0][i], g[i], rate);
               });
  return true;
}

template <class T, bool nesterov>
bool run_momentum(const KernelCall& call) {
  update<T, 2>(params_of(call), {call.in[0], call.in[3]}, {call.out[0], call.out[1]}, call.in[1],
               call.in[2], [](auto& block, const T* g, int64_t n, const T* rate) {
                 for (int64_t i = 0; i < n; ++i) {
                   optimizer::momentum<nesterov>(block[0][i], g[i], block[1][i], rate);
                 }
               });
  return true;
}

template <class T, bool decoupled, bool amsgrad>
bool run_adam(const KernelCall& call) {
  const auto step = [](auto& block, const T* g, int64_t n, const T* rate) {
    for (int64_t i = 0; i < n; ++i) {
      T* highest = nullptr;
      if constexpr (amsgrad) highest = &block[3][i];
      optimizer::adam<decoupled, amsgrad>(block[0][i], g[i], block[1][i], block[2][i], highest,
                                          rate);
    }
  };
  if constexpr (amsgrad) {
    update<T, 4>(params_of(call), {call.in[0], call.in[3], call.in[4], call.in[5]},
                 {call.out[0], call.out[1], call.out[2], call.out[3]}, call.in[1], call.in[2],
                 step);
  } else {
    update<T, 3>(params_of(call), {call.in[0], call.in[3], call.in[4]},
                 {call.out[0], call.out[1], call.out[2]}, call.in[1], call.in[2], step);
  }
  return true;
}

template <class T>
KernelFn adam_kernel(bool decoupled, bool amsgrad) {
  if (decoupled) return amsgrad ? run_adam<T, true, true> : run_adam<T, true, false>;
  return amsgrad ? run_adam<T, false, true> : run_adam<T, false, false>;
}

template <class T, class Rule>
bool run_rule(const KernelCall& call) {
  constexpr std::size_t n_state = Rule::kStates + 1;
  std::array<const void*, n_state> in{call.in[0]};
  std::array<void*, n_state> out{call.out[0]};
  for (std::size_t k = 1; k < n_state; ++k) {
    in[k] = call.in[2 + k];
    out[k] = call.out[k];
  }
  update<T, n_state>(params_of(call), in, out, call.in[1], call.in[2],
                     [](auto& block, const T* g, int64_t n, const T* rate) {
                       for (int64_t i = 0; i < n; ++i) {
                         T state[Rule::kStates];
                         for (std::size_t k = 1; k < n_state; ++k) state[k - 1] = block[k][i];
                         Rule::step(block[0][i], g[i], state, rate);
                         for (std::size_t k = 1; k < n_state; ++k) block[k][i] = state[k - 1];
                       }
                     });
  return true;
}

// Parameter and state may be overwritten; `first_state` is the first operand that is state.
void prepare(const PrepareCall& call, KernelFn run, std::size_t rates) {
  constexpr int8_t kFirstState = 3;
  auto p = internal::make_ref<UpdateParams>();
  p->count = call.shape(0).count();
  p->rates = rates;
  call.out.in_place = call.out.results.size() == 1 ? 1 : 0;
  call.out.results_over.push_back(0);
  for (std::size_t r = 1; r < call.out.results.size(); ++r) {
    call.out.results_over.push_back(static_cast<int8_t>(kFirstState + static_cast<int8_t>(r) - 1));
  }
  call.set(run, p);
}

}  // namespace

void prepare_sgd_update(const PrepareCall& call) {
  const bool doubles = call.dtype(0) == kFloat64;
  KernelFn run = doubles ? run_sgd<double> : run_sgd<float>;
  if (call.has(3)) {
    const bool nesterov = call.attrs.flag("nesterov");
    if (doubles) {
      run = nesterov ? run_momentum<double, true> : run_momentum<double, false>;
    } else {
      run = nesterov ? run_momentum<float, true> : run_momentum<float, false>;
    }
  }
  prepare(call, run, optimizer::kSgdRates);
}

void prepare_adam_update(const PrepareCall& call) {
  const bool decoupled = call.attrs.flag("decoupled"), amsgrad = call.has(5);
  const KernelFn run = call.dtype(0) == kFloat64 ? adam_kernel<double>(decoupled, amsgrad)
                                                 : adam_kernel<float>(decoupled, amsgrad);
  prepare(call, run, optimizer::kAdamRates);
}

void prepare_rule_update(const PrepareCall& call) {
  KernelFn run = nullptr;
  optimizer::with_rule(call.attrs.text("rule"), [&](auto rule) {
    run = call.dtype(0) == kFloat64 ? run_rule<double, decltype(rule)>
                                    : run_rule<float, decltype(rule)>;
  });
  prepare(call, run, optimizer::kRuleRates);
}

}  // namespace etude::kernels::cpu
