// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/optimizer/optimizer.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/optimizer/optimizer_rules.h"
#include "etude/kernels/cpu/optimizer/schedules.h"
#include "etude/kernels/cpu/simd/math_table.h"

#define ISA_NAMESPACE etude::kernels::cpu
#define ISA_PRELUDE "etude/kernels/cpu/simd/vec.inc"
#define ISA_SOURCE "etude/kernels/cpu/optimizer/optimizer_loop.inc"
#include "etude/kernels/cpu/simd/each_isa.inc"

namespace etude::kernels::cpu {
namespace {

constexpr int64_t kChunk = 1 << 14;  // elements per parallel chunk

struct UpdateParams : KernelParams {
  int64_t count = 0;
};

template <class T, class Rule>
using Steps = void (*)(T* const* out, const T* const* in, const T* g, int64_t n,
                       const optimizer::Rates<Rule, T>& rates);

template <class T, class Rule>
Steps<T, Rule> best_steps() {
  return ETUDE_OF_BEST_ISA(cpu, run_steps<T, Rule>);
}

// The rule's arrays are the parameter, then the states, which the results follow.
template <class T, class Rule>
bool run_rule(const KernelCall& call) {
  static const Steps<T, Rule> steps = best_steps<T, Rule>();
  constexpr std::size_t kStates = optimizer::kStates<Rule>;
  std::array<const T*, kStates + 1> in{static_cast<const T*>(call.in[0])};
  std::array<T*, kStates + 1> out{static_cast<T*>(call.out[0])};
  for (std::size_t k = 1; k <= kStates; ++k) {
    in[k] = static_cast<const T*>(call.in[2 + k]);
    out[k] = static_cast<T*>(call.out[k]);
  }
  const auto* g = static_cast<const T*>(call.in[1]);
  const auto rates = optimizer::from_list<optimizer::Rates<Rule, T>>(
      [&](std::size_t i) { return static_cast<T>(static_cast<const double*>(call.in[2])[i]); });
  const int64_t count = static_cast<const UpdateParams*>(call.params)->count;
  const double us = static_cast<double>(count) * static_cast<double>(kStates + 1) * 0.0005;
  parallel_for((count + kChunk - 1) / kChunk, us, [&](int64_t chunk) {
    const int64_t at = chunk * kChunk;
    auto from = in;
    auto to = out;
    for (std::size_t k = 0; k <= kStates; ++k) from[k] += at, to[k] += at;
    steps(to.data(), from.data(), g + at, std::min(kChunk, count - at), rates);
  });
  return true;
}

struct RateParams : KernelParams {
  decltype(optimizer::RateFormula::write) write = nullptr;
  std::vector<double> options;
  double decay = 0;
  bool is_scaled = false;
  optimizer::ScheduleTree schedule;
};

bool run_rates(const KernelCall& call) {
  const auto& p = *static_cast<const RateParams*>(call.params);
  const int64_t done = *static_cast<const int64_t*>(call.in[0]);
  const double scale = p.is_scaled ? *static_cast<const double*>(call.in[1]) : 1;
  const double lr = optimizer::value_at(p.schedule, done) * scale;
  if (!(lr >= 0)) {
    return report_fault(ErrorCode::kInvalidArgument,
                        fmt::format("lr is {} at update {}, but must be at least 0", lr, done));
  }
  p.write(p.options.data(), static_cast<double>(done + 1),
          optimizer::decayed(lr, p.decay, done + 1), static_cast<double*>(call.out[0]));
  *static_cast<int64_t*>(call.out[1]) = done + 1;
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
