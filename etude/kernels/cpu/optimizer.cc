// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/optimizer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/optimizer_rates.h"
#include "etude/kernels/cpu/optimizer_steps.h"
#include "etude/kernels/cpu/schedules.h"

namespace etude::kernels::cpu {
namespace {

constexpr int64_t kBlock = 256;      // elements worked on at a time, in arrays that cannot overlap
constexpr int64_t kChunk = 1 << 14;  // elements per parallel chunk

struct UpdateParams : KernelParams {
  int64_t count = 0;
};

// Runs step(block, g, n, rates) over blocks of the state arrays, which are copied in and out: the
// results may lie over the operands, and the compiler need not prove that they do not.
// state[k] is operand in[k] and result out[k].
template <class T, std::size_t n_state, class Step>
void update(const UpdateParams& p, const std::array<const void*, n_state>& in,
            const std::array<void*, n_state>& out, const void* gradient, const void* rates,
            const Step& step) {
  std::array<T, optimizer::kRates> rate{};
  for (std::size_t i = 0; i < rate.size(); ++i) {
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

// In the rule's arrays, first the parameter, then the states, which the results follow.
template <class T, class Rule>
bool run_rule(const KernelCall& call) {
  constexpr std::size_t states = Rule::kState.size();
  std::array<const void*, states + 1> in{call.in[0]};
  std::array<void*, states + 1> out{call.out[0]};
  for (std::size_t k = 1; k <= states; ++k) {
    in[k] = call.in[2 + k];
    out[k] = call.out[k];
  }
  update<T, states + 1>(params_of(call), in, out, call.in[1], call.in[2],
                        [](auto& block, const T* g, int64_t n, const T* rate) {
                          for (int64_t i = 0; i < n; ++i) {
                            std::array<T, states> s;
                            for (std::size_t k = 0; k != states; ++k) s[k] = block[k + 1][i];
                            Rule::step(block[0][i], g[i], s.data(), rate);
                            for (std::size_t k = 0; k != states; ++k) block[k + 1][i] = s[k];
                          }
                        });
  return true;
}

struct RateParams : KernelParams {
  optimizer::RatesFn write = nullptr;
  std::vector<double> options;
  double decay = 0;
  bool is_scaled = false;
  optimizer::ScheduleTree schedule;
};

bool run_rates(const KernelCall& call) {
  const auto& p = *static_cast<const RateParams*>(call.params);
  const std::int64_t done = *static_cast<const std::int64_t*>(call.in[0]);
  const double scale = p.is_scaled ? *static_cast<const double*>(call.in[1]) : 1;
  const double lr = optimizer::value_at(p.schedule, done) * scale;
  if (!(lr >= 0)) {
    return report_fault(ErrorCode::kInvalidArgument,
                        fmt::format("lr is {} at update {}, but must be at least 0", lr, done));
  }
  p.write(p.options.data(), static_cast<double>(done + 1),
          optimizer::decayed(lr, p.decay, done + 1), static_cast<double*>(call.out[0]));
  *static_cast<std::int64_t*>(call.out[1]) = done + 1;
  return true;
}

}  // namespace

void prepare_rule_rates(const PrepareCall& call) {
  auto p = internal::make_ref<RateParams>();
  p->write = optimizer::rate_formula(call.attrs.text("rule")).write;
  p->options = call.attrs.reals("options");
  p->decay = call.attrs.real("decay");
  p->is_scaled = call.has(1);
  p->schedule =
      optimizer::read_schedule(call.attrs.text("schedule"), call.attrs.reals("schedule_numbers"));
  call.set(run_rates, p);
}

void prepare_rule_update(const PrepareCall& call) {
  constexpr int8_t kFirstState = 3;
  KernelFn run = nullptr;
  optimizer::with_rule(call.attrs.text("rule"), [&](auto rule) {
    run = call.dtype(0) == kFloat64 ? run_rule<double, decltype(rule)>
                                    : run_rule<float, decltype(rule)>;
  });
  auto p = internal::make_ref<UpdateParams>();
  p->count = call.shape(0).count();
  call.out.never_faults = true;
  // Parameter and state may be overwritten.
  const std::size_t results = call.out.results.size();
  call.out.in_place = results == 1 ? 1 : 0;
  call.out.results_over.push_back(0);
  for (std::size_t r = 1; r < results; ++r) {
    call.out.results_over.push_back(static_cast<int8_t>(kFirstState + static_cast<int8_t>(r) - 1));
  }
  call.set(run, p);
}

}  // namespace etude::kernels::cpu
