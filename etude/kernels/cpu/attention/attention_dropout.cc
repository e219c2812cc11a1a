// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/attention/attention_dropout.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "etude/device/cpu/parallel.h"

namespace etude::kernels::cpu {
namespace {

constexpr double kNsPerWeight = 2;

struct DropParams : KernelParams {
  DropKeys keys;
  int64_t items = 1, rows = 0, columns = 0;
  double dropout = 0;
};

template <class T>
bool run_dropout(const KernelCall& call) {
  const auto& p = *static_cast<const DropParams*>(call.params);
  const double us = static_cast<double>(p.items * p.rows * p.columns) * kNsPerWeight * 1e-3;
  parallel_for(p.items * p.rows, us, [&](int64_t row) {
    const int64_t item = row / p.rows;
    const int64_t place = p.keys.matrix(item) * p.rows + row % p.rows;
    DropFactors(p.keys.at(call.in[0], item), p.dropout)
        .write(static_cast<T*>(call.out[0]) + row * p.columns, place * p.columns, p.columns);
  });
  return true;
}

}  // namespace

// A draw of bernoulli is a multiple of 2^-24 below the chance, which is a float32 there.
DropFactors::DropFactors(PhiloxKey key, double dropout)
    : key_(key),
      kept_below_(static_cast<uint32_t>(std::ceil(static_cast<float>(1 - dropout) * 0x1p24f))),
      factor_(1 / (1 - dropout)) {}

template <class T>
void DropFactors::write(T* factors, int64_t place, int64_t n) const {
  constexpr int64_t kAtOnce = 64;
  std::array<uint32_t, kAtOnce + 4> words;
  const T kept = static_cast<T>(factor_);
  for (int64_t at = 0; at < n; at += kAtOnce) {
    const int64_t count = std::min(kAtOnce, n - at), before = (place + at) % 4;
    auto block = static_cast<uint64_t>(place + at) / 4;
    for (int64_t i = 0; i < before + count; i += 4, ++block) {
      const std::array<uint32_t, 4> four = philox(key_, block);
      std::copy(four.begin(), four.end(), words.begin() + i);
    }
    const uint32_t* word = words.data() + before;
    for (int64_t i = 0; i < count; ++i) {
      factors[at + i] = (word[i] >> 8) < kept_below_ ? kept : T(0);
    }
  }
}
template void DropFactors::write(float*, int64_t, int64_t) const;
template void DropFactors::write(double*, int64_t, int64_t) const;

DropKeys::DropKeys(const Shape& key, const Shape& leading) {
  const int axes = key.rank() - 1;
  std::array<int64_t, kMaxRank> by_axis{};
  int64_t step = 1;
  for (int axis = axes - 1; axis >= 0; --axis) {
    by_axis[static_cast<std::size_t>(axis)] = key[axis] == 1 ? 0 : step;
    step *= key[axis];
  }
  for (int axis = 0; axis < axes; ++axis) {
    sizes.push_back(leading[axis]);
    steps.push_back(by_axis[static_cast<std::size_t>(axis)]);
  }
  for (int axis = axes; axis < leading.rank(); ++axis) matrices *= leading[axis];
}

PhiloxKey DropKeys::at(const void* keys, int64_t item) const {
  int64_t left = item / matrices, number = 0;
  for (int axis = sizes.rank() - 1; axis >= 0; --axis) {
    number += left % sizes[axis] * steps[axis];
    left /= sizes[axis];
  }
  const uint64_t* key = static_cast<const uint64_t*>(keys) + 2 * number;
  return {key[0], key[1]};
}

void prepare_attention_dropout(const PrepareCall& call) {
  auto p = etude::internal::make_ref<DropParams>();
  const Shape& shape = call.out.results[0]->shape();
  const int rank = shape.rank();
  const Shape leading(shape.sizes().first(static_cast<std::size_t>(rank - 2)));
  p->keys = DropKeys(call.shape(0), leading);
  p->items = leading.count();
  p->rows = shape[rank - 2], p->columns = shape[rank - 1];
  p->dropout = call.attrs.real("dropout");
  const bool is_double = call.out.results[0]->dtype() == kFloat64;
  call.set(is_double ? run_dropout<double> : run_dropout<float>, p);
}

}  // namespace etude::kernels::cpu
