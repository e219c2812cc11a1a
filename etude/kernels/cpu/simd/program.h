// SPDX-License-Identifier: Apache-2.0
// scalar<N>(lambda) and partials<N>(lambda): what op records of element-wise ops are written with.
// Heavy: include it in the files of element-wise records only.
#pragma once

#include <array>
#include <utility>

#include "etude/core/math.h"
#include "etude/core/op.h"
#include "etude/kernels/cpu/elementwise.h"
#include "etude/version.h"

#define ISA_LANES 4
#include "etude/kernels/cpu/simd/isa.inc"
namespace ETUDE_API etude {
namespace internal::ISA_NAME {
#include "etude/kernels/cpu/simd/math.inc"
#include "etude/kernels/cpu/simd/program.inc"
}  // namespace internal::ISA_NAME
}  // namespace etude
#undef ISA_LANES
#if defined(__x86_64__)
#define ISA_LANES 8
#include "etude/kernels/cpu/simd/isa.inc"
namespace ETUDE_API etude {
namespace internal::ISA_NAME {
#include "etude/kernels/cpu/simd/math.inc"
#include "etude/kernels/cpu/simd/program.inc"
}  // namespace internal::ISA_NAME
}  // namespace etude
#undef ISA_LANES
#define ISA_LANES 16
#include "etude/kernels/cpu/simd/isa.inc"
namespace ETUDE_API etude {
namespace internal::ISA_NAME {
#include "etude/kernels/cpu/simd/math.inc"
#include "etude/kernels/cpu/simd/program.inc"
}  // namespace internal::ISA_NAME
}  // namespace etude
#undef ISA_LANES
#endif

namespace ETUDE_API etude {
namespace internal {

template <class F, int kOperands, int kParams>
inline constexpr scalar::Program kScalarProgram = scalar::build<F, kOperands, kParams>();

// The lambda gets the operands, the result, the tangent, then the numeric attributes.
template <class F, int kOperands, int kParams, int kWrt>
constexpr scalar::Program build_partial() {
  scalar::Builder builder;
  scalar::Sym args[kOperands + 2 + kParams]{};
  for (int i = 0; i < kOperands + 2; ++i) {
    args[i] = {&builder, builder.add({scalar::Fn::kOperand, {static_cast<uint8_t>(i)}, 0})};
  }
  for (int i = 0; i < kParams; ++i) {
    args[kOperands + 2 + i] = {&builder,
                               builder.add({scalar::Fn::kParam, {static_cast<uint8_t>(i)}, 0})};
  }
  const auto run = [&]<std::size_t... I>(std::index_sequence<I...>) { return F{}(args[I]...); };
  const auto all = run(std::make_index_sequence<kOperands + 2 + kParams>{});
  static_assert(std::tuple_size_v<decltype(all)> == kOperands, "one partial per operand");
  return scalar::finish(builder.program, all[kWrt].node, kOperands + 2, kParams, false);
}
template <class F, int kOperands, int kParams, int kWrt>
inline constexpr scalar::Program kPartialProgram = build_partial<F, kOperands, kParams, kWrt>();

template <const scalar::Program& kProgram>
ScalarDef scalar_def() {
  ScalarDef def;
  def.program = &kProgram;
  def.prepare = kernels::cpu::prepare_elementwise;
  def.kernels[0] = portable::program_kernel<kProgram>;
#if defined(__x86_64__)
  def.kernels[1] = avx2::program_kernel<kProgram>;
  def.kernels[2] = avx512::program_kernel<kProgram>;
#endif
  return def;
}

}  // namespace internal

namespace math {
// The results of a partials lambda.
template <class... S>
constexpr std::array<scalar::Sym, sizeof...(S)> list(S... s) {
  return {s...};
}
}  // namespace math

// The program of a captureless lambda on kOperands operands and then kParams numeric attributes.
template <int kOperands, int kParams = 0, class F>
ScalarDef scalar_of(F) {
  return internal::scalar_def<internal::kScalarProgram<F, kOperands, kParams>>();
}

// How a tangent of each operand moves the result: a lambda on (x..., y, t, params...) that returns
// math::list of one expression per operand, linear in t. The cotangent rule is the same expression.
template <int kOperands, int kParams = 0, class F>
PartialsDef partials_of(F) {
  PartialsDef def;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((def.by_operand[I] = internal::scalar_def<
          internal::kPartialProgram<F, kOperands, kParams, static_cast<int>(I)>>()),
     ...);
  }
  (std::make_index_sequence<kOperands>{});
  return def;
}

}  // namespace etude
