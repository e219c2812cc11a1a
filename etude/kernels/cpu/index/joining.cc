// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/index/joining.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/elementwise/small_calls.h"

namespace etude::kernels::cpu {
namespace {

// The joined array is `outer` rows; each row is one block per part, in order.
struct BlockParams : KernelParams {
  int64_t outer = 1;
  int64_t row = 0;              // bytes
  std::vector<int64_t> blocks;  // bytes of one row of each part
  std::vector<int64_t> offsets;
};

etude::internal::RefPtr<BlockParams> plan_blocks(const Shape& whole, int axis, int64_t item,
                                                 std::span<const int64_t> sizes) {
  auto p = etude::internal::make_ref<BlockParams>();
  int64_t inner = item;
  for (int a = 0; a < axis; ++a) p->outer *= whole[a];
  for (int a = axis + 1; a < whole.rank(); ++a) inner *= whole[a];
  for (const int64_t size : sizes) {
    p->offsets.push_back(p->row);
    p->blocks.push_back(size * inner);
    p->row += size * inner;
  }
  return p;
}

// f(byte offset in the whole, part, byte offset in the part, bytes) for pieces that fit a chunk.
template <class F>
void each_block(const BlockParams& p, const F& f) {
  constexpr int64_t kChunk = int64_t{256} << 10;
  const int64_t total = p.outer * p.row;
  if (total == 0) return;
  const double cost_us = static_cast<double>(total) / 6000;
  if (p.row >= kChunk) {  // few large rows: cut them
    const int64_t pieces = (p.row + kChunk - 1) / kChunk;
    parallel_for(p.outer * pieces, cost_us, [&](int64_t c) {
      const int64_t row = c / pieces, begin = c % pieces * kChunk,
                    end = std::min(p.row, begin + kChunk);
      for (std::size_t i = 0; i < p.blocks.size(); ++i) {
        const int64_t from = std::max(begin, p.offsets[i]),
                      to = std::min(end, p.offsets[i] + p.blocks[i]);
        if (from < to) f(row * p.row + from, i, row * p.blocks[i] + from - p.offsets[i], to - from);
      }
    });
    return;
  }
  const int64_t rows = std::max<int64_t>(1, kChunk / p.row);
  parallel_for((p.outer + rows - 1) / rows, cost_us, [&](int64_t c) {
    const int64_t end = std::min(p.outer, (c + 1) * rows);
    for (int64_t row = c * rows; row < end; ++row) {
      for (std::size_t i = 0; i < p.blocks.size(); ++i) {
        if (p.blocks[i] > 0) f(row * p.row + p.offsets[i], i, row * p.blocks[i], p.blocks[i]);
      }
    }
  });
}

bool run_join(const KernelCall& k) {
  const auto& p = *static_cast<const BlockParams*>(k.params);
  each_block(p, [&](int64_t at, std::size_t part, int64_t from, int64_t bytes) {
    std::memcpy(static_cast<char*>(k.out[0]) + at, static_cast<const char*>(k.in[part]) + from,
                static_cast<std::size_t>(bytes));
  });
  return true;
}

bool run_split(const KernelCall& k) {
  const auto& p = *static_cast<const BlockParams*>(k.params);
  each_block(p, [&](int64_t at, std::size_t part, int64_t to, int64_t bytes) {
    std::memcpy(static_cast<char*>(k.out[part]) + to, static_cast<const char*>(k.in[0]) + at,
                static_cast<std::size_t>(bytes));
  });
  return true;
}

}  // namespace

bool is_join(KernelFn run) { return run == run_join; }

void prepare_join(const PrepareCall& call, int axis, std::span<const int64_t> sizes) {
  const Shape& whole = call.out.results[0]->shape();
  call.set(run_join, plan_blocks(whole, axis, itemsize(call.dtype(0)), sizes));
}

void prepare_split(const PrepareCall& call, int axis, std::span<const int64_t> sizes) {
  call.set(run_split, plan_blocks(call.shape(0), axis, itemsize(call.dtype(0)), sizes));
}

}  // namespace etude::kernels::cpu
