// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/reduce/reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <complex>
#include <cstring>
#include <optional>

#include "etude/base/check.h"
#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/elementwise/small_calls.h"
#include "etude/kernels/cpu/scratch.h"

namespace etude::kernels::cpu {
namespace {

using internal::kReduceBlock;
using internal::kReduceRows;
using internal::ReduceLoops;

constexpr int64_t kStrip = 1024;            // columns of one task: accumulators stay in L1
constexpr int64_t kTaskElements = 1 << 15;  // below, several rows make a task

// One group of neighbouring axes: [outer, size, inner] to [outer, inner].
struct Pass {
  int64_t outer = 1, size = 1, inner = 1;
};

struct ReduceParams : KernelParams {
  std::array<Pass, kMaxRank> passes;
  std::size_t pass_count = 0;
  ReduceLoops first, later;
  int64_t out_count = 0;
  int64_t out_bytes = 0;
  bool is_empty = false;
  // Accumulators to results where these differ: half types and means.
  void (*finish)(void* out, const void* acc, int64_t n, double divisor) = nullptr;
  double divisor = 1;
  std::optional<SmallCall::Combine> float_combine;  // of float32 to float32
};

const std::byte* at(const void* p, int64_t bytes) {
  return static_cast<const std::byte*>(p) + bytes;
}
std::byte* at(void* p, int64_t bytes) { return static_cast<std::byte*>(p) + bytes; }

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Blocks [count][width] to one by pairs, into `out`.
void combine_blocks(const ReduceLoops& loops, std::byte* blocks, int64_t count, int64_t width,
                    void* out) {
  const int64_t bytes = width * loops.acc_bytes;
  for (; count > 1; count = ceil_div(count, 2)) {
    for (int64_t i = 0; i < count / 2; ++i) {
      if (i > 0)
        std::memcpy(blocks + i * bytes, blocks + 2 * i * bytes, static_cast<std::size_t>(bytes));
      loops.combine(blocks + i * bytes, blocks + (2 * i + 1) * bytes, width);
    }
    if (count % 2 == 1) {
      std::memmove(blocks + (count / 2) * bytes, blocks + (count - 1) * bytes,
                   static_cast<std::size_t>(bytes));
    }
  }
  std::memcpy(out, blocks, static_cast<std::size_t>(bytes));
}

double estimated_us(int64_t elements, int64_t bytes) {
  return static_cast<double>(elements * bytes) * 1e-4;
}

bool reduce_contiguous(const Pass& pass, const ReduceLoops& loops, void* acc, const void* in) {
  const int64_t blocks = ceil_div(pass.size, kReduceBlock);
  const double us = estimated_us(pass.outer * pass.size, loops.in_bytes);
  if (blocks == 1) {
    const int64_t rows = std::max<int64_t>(1, kTaskElements / pass.size);
    parallel_for(ceil_div(pass.outer, rows), us, [&](int64_t chunk) {
      const int64_t begin = chunk * rows, end = std::min(pass.outer, begin + rows);
      if (loops.short_rows != nullptr && pass.size <= internal::kShortRow) {
        loops.short_rows(at(acc, begin * loops.acc_bytes),
                         at(in, begin * pass.size * loops.in_bytes), end - begin, pass.size);
        return;
      }
      for (int64_t row = begin; row < end; ++row) {
        loops.block(at(acc, row * loops.acc_bytes), at(in, row * pass.size * loops.in_bytes),
                    pass.size);
      }
    });
    return true;
  }
  Scratch scratch(pass.outer * blocks * loops.acc_bytes);
  std::byte* partial = scratch.data();
  if (partial == nullptr) return Scratch::report();
  constexpr int64_t kBlocks = kTaskElements / kReduceBlock;  // of one task
  const int64_t tasks = ceil_div(blocks, kBlocks);
  parallel_for(pass.outer * tasks, us, [&](int64_t chunk) {
    const int64_t row = chunk / tasks, begin = chunk % tasks * kBlocks;
    for (int64_t b = begin; b < std::min(blocks, begin + kBlocks); ++b) {
      const int64_t from = b * kReduceBlock, n = std::min(kReduceBlock, pass.size - from);
      loops.block(at(partial, (row * blocks + b) * loops.acc_bytes),
                  at(in, (row * pass.size + from) * loops.in_bytes), n);
    }
  });
  for (int64_t row = 0; row < pass.outer; ++row) {
    combine_blocks(loops, partial + row * blocks * loops.acc_bytes, blocks, 1,
                   at(acc, row * loops.acc_bytes));
  }
  return true;
}

// Rows of few columns are taken `group` at a time, so that vectors are full: [size, inner] is
// [size / group, group * inner], whose result folds by halves.
int64_t rows_per_group(const Pass& pass) {
  if (pass.inner >= 32 || pass.size < 128) return 1;
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(64 / pass.inner)));
}

// A block of grouped rows; the rows that fill no group are added column by column.
void reduce_groups(const Pass& pass, const ReduceLoops& loops, int64_t group, void* acc,
                   const void* in, int64_t rows) {
  alignas(64) std::byte wide[128 * 16], rest[32 * 16];
  const int64_t width = group * pass.inner, whole = rows / group;
  loops.columns(wide, in, whole, width, width);
  for (int64_t half = group / 2; half >= 1; half /= 2) {
    loops.combine(wide, wide + half * pass.inner * loops.acc_bytes, half * pass.inner);
  }
  if (rows % group != 0) {
    loops.columns(rest, at(in, whole * width * loops.in_bytes), rows % group, pass.inner,
                  pass.inner);
    loops.combine(wide, rest, pass.inner);
  }
  std::memcpy(acc, wide, static_cast<std::size_t>(pass.inner * loops.acc_bytes));
}

bool reduce_columns(const Pass& pass, const ReduceLoops& loops, void* acc, const void* in) {
  const int64_t group = rows_per_group(pass);
  const int64_t block = kReduceRows * group;
  const int64_t blocks = ceil_div(pass.size, block);
  const int64_t strips = ceil_div(pass.inner, kStrip);
  Scratch scratch(blocks == 1 ? 0 : pass.outer * blocks * pass.inner * loops.acc_bytes);
  void* partial = blocks == 1 ? acc : scratch.data();
  if (partial == nullptr) return Scratch::report();
  const int64_t tasks = pass.outer * blocks * strips;
  const int64_t elements = std::min(pass.size, block) * std::min(pass.inner, kStrip);
  const int64_t per_chunk = std::max<int64_t>(1, kTaskElements / elements);
  const double us = estimated_us(pass.outer * pass.size * pass.inner, loops.in_bytes);
  parallel_for(ceil_div(tasks, per_chunk), us, [&](int64_t chunk) {
    for (int64_t task = chunk * per_chunk; task < std::min(tasks, (chunk + 1) * per_chunk);
         ++task) {
      const int64_t strip = task % strips, row = task / strips;  // row: of the partial results
      const int64_t from = row % blocks * block, rows = std::min(block, pass.size - from);
      const int64_t column = strip * kStrip, width = std::min(kStrip, pass.inner - column);
      const void* p =
          at(in, ((row / blocks * pass.size + from) * pass.inner + column) * loops.in_bytes);
      void* to = at(partial, (row * pass.inner + column) * loops.acc_bytes);
      if (group > 1)
        reduce_groups(pass, loops, group, to, p, rows);
      else
        loops.columns(to, p, rows, pass.inner, width);
    }
  });
  if (blocks == 1) return true;
  const int64_t bytes = pass.inner * loops.acc_bytes;
  for (int64_t o = 0; o < pass.outer; ++o) {
    combine_blocks(loops, at(partial, o * blocks * bytes), blocks, pass.inner, at(acc, o * bytes));
  }
  return true;
}

bool run_pass(const Pass& pass, const ReduceLoops& loops, void* acc, const void* in) {
  if (pass.inner == 1) return reduce_contiguous(pass, loops, acc, in);
  return reduce_columns(pass, loops, acc, in);
}

bool run_reduce(const KernelCall& call) {
  const auto& p = *static_cast<const ReduceParams*>(call.params);
  if (p.out_count == 0) return true;
  const int64_t acc_bytes = p.first.acc_bytes;
  Scratch last(p.finish == nullptr ? 0 : p.out_count * acc_bytes);
  void* acc = p.finish == nullptr ? call.out[0] : last.data();
  if (acc == nullptr) return Scratch::report();
  if (p.is_empty) {
    p.first.clear(acc, p.out_count);
  } else {
    // Passes alternate between two buffers; the first one needs the most room.
    const Pass& top = p.passes[0];
    const bool many = p.pass_count > 1;
    Scratch even(many ? top.outer * top.inner * acc_bytes : 0);
    Scratch odd(p.pass_count > 2 ? p.passes[1].outer * p.passes[1].inner * acc_bytes : 0);
    if (even.data() == nullptr || odd.data() == nullptr) return Scratch::report();
    const void* from = call.in[0];
    for (std::size_t i = 0; i < p.pass_count; ++i) {
      void* to = i + 1 == p.pass_count ? acc : i % 2 == 0 ? even.data() : odd.data();
      if (!run_pass(p.passes[i], i == 0 ? p.first : p.later, to, from)) return false;
      from = to;
    }
  }
  if (p.finish != nullptr) p.finish(call.out[0], acc, p.out_count, p.divisor);
  return true;
}

// Merges neighbouring axes of one kind and lists the passes, innermost first.
void plan_passes(const Shape& shape, std::span<const int> axes, ReduceParams& p) {
  std::array<bool, kMaxRank> reduced{};
  for (const int axis : axes) reduced[static_cast<std::size_t>(axis)] = true;
  int64_t inner = 1, size = 1, outer = shape.count();
  const auto close = [&] {
    if (size > 1) p.passes[p.pass_count++] = {outer, size, inner};
    size = 1;
  };
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    outer /= shape[axis];
    if (reduced[static_cast<std::size_t>(axis)]) {
      size *= shape[axis];
      continue;
    }
    // `outer` of the pass that ends here still counts this axis.
    if (size > 1) p.passes[p.pass_count++] = {outer * shape[axis], size, inner};
    size = 1;
    inner *= shape[axis];
  }
  close();
  if (p.pass_count == 0) p.passes[p.pass_count++] = {1, 1, shape.count()};
}

template <class Out, class Acc>
void finish_as(void* out, const void* acc, int64_t n, double divisor) {
  Out* to = static_cast<Out*>(out);
  const Acc* from = static_cast<const Acc*>(acc);
  if (divisor == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = Out(from[i]);
    return;
  }
  using Real =
      std::conditional_t<std::is_same_v<Acc, double> || std::is_same_v<Acc, std::complex<double>>,
                         double, float>;
  const auto by = static_cast<Real>(divisor);
  for (int64_t i = 0; i < n; ++i) to[i] = Out(from[i] / by);
}

SmallCall::Combine combine_of(Reduce reduce) {
  switch (reduce) {
    case Reduce::kProd:
      return SmallCall::Combine::kProd;
    case Reduce::kMax:
      return SmallCall::Combine::kMax;
    case Reduce::kMin:
      return SmallCall::Combine::kMin;
    default:
      return SmallCall::Combine::kSum;
  }
}

void choose_finish(Reduce reduce, DType out, ReduceParams& p) {
  switch (out) {
    case kFloat16:
      p.finish = finish_as<Float16, float>;
      return;
    case kBFloat16:
      p.finish = finish_as<BFloat16, float>;
      return;
    default:
      break;
  }
  if (reduce != Reduce::kMean) return;
  switch (out) {
    case kFloat32:
      p.finish = finish_as<float, float>;
      return;
    case kFloat64:
      p.finish = finish_as<double, double>;
      return;
    case kComplex64:
      p.finish = finish_as<std::complex<float>, std::complex<float>>;
      return;
    default:
      p.finish = finish_as<std::complex<double>, std::complex<double>>;
      return;
  }
}

}  // namespace

DType reduced_dtype(Reduce reduce, DType dtype) {
  if (reduce == Reduce::kAll || reduce == Reduce::kAny) return kBool;
  if (reduce == Reduce::kCountNonzero) return kInt64;
  if (reduce == Reduce::kMax || reduce == Reduce::kMin) return dtype;
  if (dtype == kBool || dtype == kInt8 || dtype == kInt16) return kInt32;
  if (dtype == kUInt8 || dtype == kUInt16) return kUInt32;
  return dtype;
}

bool describe_reduce(const Prepared& call, SmallCall& out) {
  if (call.run != run_reduce) return false;
  const auto& p = *static_cast<const ReduceParams*>(call.state.params);
  if (!p.float_combine || p.is_empty) return false;
  out.kind = SmallCall::Kind::kCombine;
  out.combine = *p.float_combine;
  for (std::size_t i = 0; i < p.pass_count; ++i) {
    const Pass& pass = p.passes[i];
    // Up to here a pass has one block, and its rows are not grouped.
    if (pass.size > 64 || pass.size == 1) return false;
    // Of numbers one by one, compilers take the larger by an instruction that makes 0 of denormals.
    const bool is_extreme =
        out.combine == SmallCall::Combine::kMax || out.combine == SmallCall::Combine::kMin;
    if (is_extreme && (pass.inner > 1 || pass.size > internal::kShortRow)) return false;
    out.passes.push_back({static_cast<uint32_t>(pass.outer), static_cast<uint32_t>(pass.size),
                          static_cast<uint32_t>(pass.inner)});
  }
  out.divisor = static_cast<float>(p.divisor);
  return true;
}

void prepare_reduce(const PrepareCall& call, Reduce reduce, std::span<const int> axes) {
  auto p = etude::internal::make_ref<ReduceParams>();
  const Shape& shape = call.shape(0);
  const Type* result = call.out.results[0];
  const bool is_bool =
      reduce == Reduce::kAll || reduce == Reduce::kAny || reduce == Reduce::kCountNonzero;
  p->first = is_bool ? internal::bool_loops(reduce, call.dtype(0), true)
                     : internal::arithmetic_loops(reduce, call.dtype(0), true);
  p->later = is_bool ? internal::bool_loops(reduce, call.dtype(0), false)
                     : internal::arithmetic_loops(reduce, call.dtype(0), false);
  if (!is_bool && call.dtype(0) == kFloat32) {
    internal::use_vector_loops(reduce, p->first);
    internal::use_vector_loops(reduce, p->later);
    p->float_combine = combine_of(reduce);
  } else if (!is_bool && (call.dtype(0) == kFloat16 || call.dtype(0) == kBFloat16)) {
    internal::use_widening_loops(reduce, call.dtype(0), p->first);
    internal::use_vector_loops(reduce, p->later);
  }
  p->out_count = result->count();
  p->is_empty = shape.count() == 0;
  if (!p->is_empty) plan_passes(shape, axes, *p);
  choose_finish(reduce, result->dtype(), *p);
  if (reduce == Reduce::kMean) {
    for (const int axis : axes) p->divisor *= static_cast<double>(shape[axis]);
  }
  const bool keeps =
      result->count() == shape.count() && result->dtype() == call.dtype(0) && !p->is_empty;
  if (keeps) return call.view(0);
  call.set(run_reduce, p);
}

}  // namespace etude::kernels::cpu
