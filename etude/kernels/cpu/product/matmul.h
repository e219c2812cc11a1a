// SPDX-License-Identifier: Apache-2.0
// Batched matrix products for every numeric dtype. Used by ops/linalg/product.cc. The algorithm of
// a product depends only on its shape and dtype.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// The sizes of one matrix product, and the positions of its batches in elements.
struct MatmulPlan {
  int64_t m = 0, n = 0, k = 0;
  WordOf<bool> transpose_x = false, transpose_y = false;  // stored as [k, m], [n, k]
  WordOf<bool> swapped = false;  // the product of y and x, in this order, is computed
  int64_t batches = 1;
  WordOf<int> rank = 0;  // of the leading axes
  std::array<int64_t, kMaxRank> sizes{}, x_steps{}, y_steps{};

  int64_t x_offset(int64_t batch) const { return offset(batch, x_steps); }
  int64_t y_offset(int64_t batch) const { return offset(batch, y_steps); }

 private:
  int64_t offset(int64_t batch, const std::array<int64_t, kMaxRank>& steps) const {
    int64_t at = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const auto i = static_cast<std::size_t>(axis);
      at += batch % sizes[i] * steps[i];
      batch /= sizes[i];
    }
    return at;
  }
};
static_assert(std::has_unique_object_representations_v<MatmulPlan>);  // see KernelParams

// shapes: x [.., m, k] or [k]; y [.., k, n] or [k]; already checked.
MatmulPlan plan_matmul(const Shape& x, const Shape& y, bool transpose_x, bool transpose_y);

// The kernel of op matmul.
void prepare_matmul(const PrepareCall& call);

// All batches of a product of float32 values, split over threads.
void matmul_float32(const MatmulPlan& plan, float* out, const float* x, const float* y);
// The same for the other dtypes, by templates. Half types use matmul_float32.
void matmul_generic(const MatmulPlan& plan, DType dtype, void* out, const void* x, const void* y);

}  // namespace etude::kernels::cpu
