// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/linalg/matrices.h"

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/call_estimates.h"
#include "etude/kernels/cpu/scratch.h"

namespace etude::kernels::cpu {
namespace {

constexpr double kChunkUs = 40;
constexpr int64_t kAlign = 64;  // routines may round by where memory begins

std::byte* aligned(std::byte* p) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  return p + (kAlign - static_cast<int64_t>(at) % kAlign) % kAlign;
}

// "matrix 3 of the batch", "matrix [1,2] of the batch", or "the matrix" if there is one alone.
std::string place_of(const Shape& leading, int64_t index) {
  if (leading.rank() == 0) return "the matrix";
  if (leading.rank() == 1) return fmt::format("matrix {} of the batch", index);
  Shape at = leading;
  for (int axis = leading.rank() - 1; axis >= 0; --axis) {
    at.set(axis, index % leading[axis]);
    index /= leading[axis];
  }
  return fmt::format("matrix {} of the batch", at.to_string());
}

}  // namespace

etude::internal::RefPtr<MatrixParams> matrix_params(const PrepareCall& call) {
  auto p = etude::internal::make_ref<MatrixParams>();
  const Shape& x = call.shape(0);
  p->leading = Shape(x.sizes().first(static_cast<std::size_t>(x.rank() - 2)));
  p->count = p->leading.count();
  p->m = x[x.rank() - 2];
  p->n = x[x.rank() - 1];
  p->k = std::min(p->m, p->n);
  return p;
}

etude::internal::RefPtr<MatrixParams> lapack_params(const PrepareCall& call) {
  auto p = matrix_params(call);
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  for (const Type* type : call.types) {
    const Shape& shape = type->shape();
    ETUDE_REQUIRE_CODE(
        kUnimplemented, shape[shape.rank() - 1] <= kMost && p->m <= kMost,
        "matrices of {} have more than {} rows or columns, which LAPACK does not count",
        shape.to_string(), kMost);
  }
  return p;
}

bool estimate_matrices(const Prepared& call, CallTime& time) {
  const auto* p = dynamic_cast<const MatrixParams*>(call.owner.get());
  if (p == nullptr) return false;
  const double us = p->us * static_cast<double>(p->count);
  (p->count > 1 && us > kChunkUs ? time.split : time.alone) += us;
  return true;
}

bool each_matrix(const MatrixParams& p, const MatrixFault& fault, MatrixBody body,
                 AroundMatrices around) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  const auto step = std::max<int64_t>(1, static_cast<int64_t>(kChunkUs / std::max(p.us, 0.01)));
  std::atomic<int64_t> first{kNone};
  std::atomic<bool> fine{true};
  const auto run_chunk = [&](int64_t chunk) {
    Scratch scratch(p.work_bytes + kAlign);
    if (scratch.data() == nullptr) {
      fine = false;
      return;
    }
    around([&] {
      const int64_t end = std::min(p.count, (chunk + 1) * step);
      for (int64_t i = chunk * step; i < end; ++i) {
        if (body(i, aligned(scratch.data())) == 0) continue;
        int64_t seen = first;
        while (i < seen && !first.compare_exchange_weak(seen, i)) {
        }
      }
    });
  };
  parallel_for((p.count + step - 1) / step, p.us * static_cast<double>(p.count), run_chunk);
  if (!fine) return Scratch::report();
  if (first == kNone) return true;
  return report_fault(
      ErrorCode::kInvalidArgument,
      fmt::format("{} in '{}' {}", place_of(p.leading, first), fault.operand, fault.what));
}

}  // namespace etude::kernels::cpu
