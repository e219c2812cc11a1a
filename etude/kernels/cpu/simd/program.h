// SPDX-License-Identifier: Apache-2.0
// The functions with which element-wise records are written: scalar_of<N>(lambda), and values_of
// and partials_of for records that write their own derivatives. Include it only in the files of
// such records, since it is expensive to compile.
#pragma once

#include <array>
#include <utility>

#include "etude/base/scalars/differentiate.h"
#include "etude/base/scalars/expression_math.h"
#include "etude/base/scalars/scalar_program.h"
#include "etude/core/op/op.h"
#include "etude/kernels/cpu/elementwise/elementwise.h"
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
template <class F, int kOperands, int kParams, int kWrt>
inline constexpr scalar::Program kDerivedProgram =
    scalar::partial_of(kScalarProgram<F, kOperands, kParams>, kWrt);

// The lambda takes the operands, the result, the tangent, then the numeric attributes.
template <class F, int kOperands, int kParams, int kWrt>
constexpr scalar::Program build_partial() {
  std::array<scalar::Node, scalar::kMaxRawNodes> nodes;
  scalar::Builder builder(nodes.data(), nodes.size());
  scalar::Symbol args[kOperands + 2 + kParams];
  for (int i = 0; i < kOperands + 2; ++i) args[i] = scalar::operand(builder, i);
  for (int i = 0; i < kParams; ++i) args[kOperands + 2 + i] = scalar::param(builder, i);
  const auto run = [&]<std::size_t... I>(std::index_sequence<I...>) { return F{}(args[I]...); };
  const auto all = run(std::make_index_sequence<kOperands + 2 + kParams>{});
  static_assert(std::tuple_size_v<decltype(all)> == kOperands, "one partial per operand");
  return scalar::finish(builder, all[kWrt].node_in(builder), kOperands + 2, kParams, false);
}
template <class F, int kOperands, int kParams, int kWrt>
inline constexpr scalar::Program kPartialProgram = build_partial<F, kOperands, kParams, kWrt>();

template <const scalar::Program& kProgram>
constexpr ScalarDef scalar_def() {
  static_assert(scalar::runs_on_tensors(kProgram),
                "etude: an op is made of the functions of etude::math; another one is called");
  ScalarDef def;
  def.program = &kProgram;
  def.kernels.cpu = kernels::cpu::prepare_elementwise;
  def.by_isa[0] = portable::program_kernel<kProgram>;
#if defined(__x86_64__) && !defined(ETUDE_PORTABLE_PROGRAMS)
  def.by_isa[1] = avx2::program_kernel<kProgram>;
  def.by_isa[2] = avx512::program_kernel<kProgram>;
#endif
  return def;
}

template <class F, int kOperands, int kParams>
constexpr PartialsDef derive() {
  PartialsDef def;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((def.by_operand[I] =
          scalar_def<kDerivedProgram<F, kOperands, kParams, static_cast<int>(I)>>()),
     ...);
  }
  (std::make_index_sequence<kOperands>{});
  return def;
}
template <class F, int kOperands, int kParams>
inline constexpr PartialsDef kDerivedPartials = derive<F, kOperands, kParams>();

}  // namespace internal

namespace math {
// The results of a partials lambda.
template <class... S>
constexpr std::array<scalar::Symbol, sizeof...(S)> list(const S&... s) {
  return {s...};
}
}  // namespace math

// The program of a captureless lambda on kOperands operands, then kParams numeric attributes.
// Derivatives are derived from the lambda.
template <int kOperands, int kParams = 0, class F>
ScalarDef scalar_of(F) {
  ScalarDef def = internal::scalar_def<internal::kScalarProgram<F, kOperands, kParams>>();
  if constexpr (!internal::kScalarProgram<F, kOperands, kParams>.is_bool) {
    def.derived = &internal::kDerivedPartials<F, kOperands, kParams>;
  }
  return def;
}
// The same for an op without a derivative, or with partials of its own.
template <int kOperands, int kParams = 0, class F>
ScalarDef values_of(F) {
  return internal::scalar_def<internal::kScalarProgram<F, kOperands, kParams>>();
}

// The change of the result for a tangent of each operand, for a record whose derived partials lose
// digits. The lambda takes (x..., y, t, params...) and returns a math::list with one expression for
// each operand, linear in t. The cotangent rule uses the same expressions.
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
