// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/reduce/norm_root.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <new>

#include "etude/core/dtype_functions.h"
#include "etude/kernels/cpu/floating.h"
#include "etude/kernels/cpu/scratch.h"

namespace etude::kernels::cpu {
namespace {

struct NormRootParams : KernelParams {
  int64_t rank = 0;
  std::array<int64_t, kMaxRank> sizes{};    // of x
  std::array<int64_t, kMaxRank> strides{};  // of the result, by axis of x; 0 where it is reduced
  int64_t count = 0;                        // of results
  double least = 0;  // sums from here on have lost no digit to squares that vanished
};

// f(result, element) for all elements of x, in the order of memory.
template <class T, class F>
void each_element(const NormRootParams& p, const T* x, const F& f) {
  const auto last = static_cast<std::size_t>(p.rank - 1);
  std::array<int64_t, kMaxRank> index{};
  int64_t result = 0;
  for (bool more = true; more; x += p.sizes[last]) {
    for (int64_t i = 0; i < p.sizes[last]; ++i) {
      f(static_cast<std::size_t>(result + i * p.strides[last]), static_cast<double>(x[i]));
    }
    more = false;
    for (std::size_t axis = last; axis-- > 0 && !more;) {
      result += p.strides[axis];
      more = ++index[axis] < p.sizes[axis];
      if (more) break;
      result -= p.sizes[axis] * p.strides[axis];
      index[axis] = 0;
    }
  }
}

// The elements of one result.
struct Group {
  double largest;
  double scale;    // a power of two near the largest
  double squares;  // the sum of (x / scale)^2
};

// Far from the ends of the range of double: squares of elements over it stay inside.
double power_of_two_near(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, std::clamp(exponent, -1000, 1000));
}

// NaN stays.
bool is_right(double sum, double least) {
  return sum != sum || (sum >= least && sum <= std::numeric_limits<double>::max());
}

template <class T, class C>
bool run_norm_root(const KernelCall& call) {
  const auto& p = *static_cast<const NormRootParams*>(call.params);
  const T* x = static_cast<const T*>(call.in[0]);
  const T* sums = static_cast<const T*>(call.in[1]);
  T* y = static_cast<T*>(call.out[0]);
  const auto count = static_cast<std::size_t>(p.count);
  bool are_right = true;
  for (std::size_t i = 0; i < count; ++i) {
    y[i] = T(std::sqrt(static_cast<C>(sums[i])));
    are_right &= is_right(static_cast<double>(sums[i]), p.least);
  }
  if (are_right) return true;
  Scratch scratch(p.count * static_cast<int64_t>(sizeof(Group)));
  if (scratch.data() == nullptr) return Scratch::report();
  Group* groups = new (scratch.data()) Group[count]();
  each_element(p, x, [&](std::size_t i, double element) {
    groups[i].largest = std::max(groups[i].largest, std::abs(element));
  });
  for (std::size_t i = 0; i < count; ++i) groups[i].scale = power_of_two_near(groups[i].largest);
  each_element(p, x, [&](std::size_t i, double element) {
    const double unit = element / groups[i].scale;
    groups[i].squares += unit * unit;
  });
  for (std::size_t i = 0; i < count; ++i) {
    if (is_right(static_cast<double>(sums[i]), p.least)) continue;
    y[i] = static_cast<T>(std::sqrt(groups[i].squares) * groups[i].scale);
  }
  return true;
}

}  // namespace

void prepare_norm_root(const PrepareCall& call, std::span<const int> axes) {
  auto p = etude::internal::make_ref<NormRootParams>();
  const Shape& shape = call.shape(0);
  p->rank = std::max(shape.rank(), 1);
  p->sizes[0] = 1;
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    const auto a = static_cast<std::size_t>(axis);
    const bool is_reduced = std::ranges::find(axes, axis) != axes.end();
    p->sizes[a] = shape[axis];
    p->strides[a] = is_reduced ? 0 : stride;
    if (!is_reduced) stride *= shape[axis];
  }
  p->count = call.out.results[0]->count();
  const double elements = p->count == 0 ? 0.0 : static_cast<double>(shape.count() / p->count);
  p->least = elements * finfo(call.dtype(0)).smallest_normal;
  visit_floating(call.dtype(0), [&]<class T, class C>() { call.set(run_norm_root<T, C>, p); });
}

}  // namespace etude::kernels::cpu
