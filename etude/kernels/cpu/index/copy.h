// SPDX-License-Identifier: Apache-2.0
// Copies between two strided layouts of the same logical sizes: transposes, reversed and strided
// slices, parts of a larger array. Used by records of shape ops. For broadcasting that repeats runs
// see broadcast.h.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

using Strides = std::array<int64_t, kMaxRank>;

// Strides in elements of a row-major array.
Strides dense_strides(const Shape& shape);

// Axes are merged if both layouts allow it. A range that is contiguous in both layouts is one run.
struct CopyPlan {
  int64_t run = 0;       // bytes copied at once; 0: nothing to do
  WordOf<int> rank = 0;  // axes around the run, outermost first
  Strides sizes{};
  Strides from{};  // strides in bytes
  Strides to{};
};
static_assert(std::has_unique_object_representations_v<CopyPlan>);  // see KernelParams

// `sizes` are the logical sizes. `from` and `to` are strides in elements of `item` bytes; they may
// be negative.
CopyPlan plan_copy(std::span<const int64_t> sizes, std::span<const int64_t> from,
                   std::span<const int64_t> to, int64_t item);

// The same, but contiguous axes remain axes: `run` is `item`.
CopyPlan merge_axes(std::span<const int64_t> sizes, std::span<const int64_t> from,
                    std::span<const int64_t> to, int64_t item);

// Iterates over the first `rank` axes of a plan from a linear position on, in row-major order.
class Odometer {
 public:
  Odometer(const CopyPlan& plan, int rank, int64_t position);
  void next() {
    for (int axis = rank_ - 1; axis >= 0; --axis) {
      const auto a = static_cast<std::size_t>(axis);
      from += plan_.from[a];
      to += plan_.to[a];
      if (++index_[a] < plan_.sizes[a]) return;
      from -= index_[a] * plan_.from[a];
      to -= index_[a] * plan_.to[a];
      index_[a] = 0;
    }
  }

  int64_t from = 0, to = 0;  // bytes from the first element

 private:
  const CopyPlan& plan_;
  int rank_;
  Strides index_{};
};

// The number of positions of the first `rank` axes.
int64_t outer_count(const CopyPlan& plan, int rank);

// Copies `n` runs of `run` bytes, with strides in bytes; kRun is the run, or 0 if unknown.
template <std::size_t kRun>
inline void copy_line(char* out, const char* in, int64_t n, int64_t to, int64_t from, int64_t run) {
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(out, in, kRun != 0 ? kRun : static_cast<std::size_t>(run));
    out += to;
    in += from;
  }
}

// Calls f with the run as a compile-time constant if it is a power of two up to 64, else 0.
template <class F>
void with_run(int64_t run, F&& f) {
  switch (run) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 4:
      return f.template operator()<4>();
    case 8:
      return f.template operator()<8>();
    case 16:
      return f.template operator()<16>();
    case 32:
      return f.template operator()<32>();
    case 64:
      return f.template operator()<64>();
    default:
      return f.template operator()<0>();
  }
}

// `in` and `out` point at the element of index 0 and must not overlap.
// cost: copies in blocks if the contiguous axes of the two layouts differ; uses several threads
// beyond 256 KB.
void copy(const CopyPlan& plan, void* out, const void* in);

// The result is the plan's copy of operand 0, whose index 0 is at `offset` bytes.
void prepare_copy(const PrepareCall& call, const CopyPlan& plan, int64_t offset);
// The result is `value`, into which the plan copies operand 0 at `offset` bytes.
void prepare_copy_into(const PrepareCall& call, const CopyPlan& plan, int64_t offset, double value);
// Converts operand 0 to the dtype of the result.
void prepare_convert(const PrepareCall& call);

}  // namespace etude::kernels::cpu
