// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/elementwise/broadcast.h"

#include <algorithm>
#include <cstring>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/elementwise/small_calls.h"

namespace etude::kernels::cpu {
namespace {

// `n` copies of one element.
template <class Word>
void fill_words(void* out, const void* in, int64_t n) {
  Word word;
  std::memcpy(&word, in, sizeof(Word));
  Word* p = static_cast<Word*>(out);
  std::fill_n(p, n, word);
}

struct Wide {
  uint64_t low, high;
};

void fill_any(void* out, const void* in, int64_t bytes, int64_t n) {
  switch (bytes) {
    case 1:
      return fill_words<uint8_t>(out, in, n);
    case 2:
      return fill_words<uint16_t>(out, in, n);
    case 4:
      return fill_words<uint32_t>(out, in, n);
    case 8:
      return fill_words<uint64_t>(out, in, n);
    default:
      return fill_words<Wide>(out, in, n);
  }
}

// Elements [begin, begin + n) of `period` elements that repeat: doubles the written part until all
// is written.
void repeat_period(char* out, const char* in, int64_t bytes, int64_t period, int64_t begin,
                   int64_t n) {
  const int64_t phase = begin % period, head = std::min(n, period - phase);
  std::memcpy(out, in + phase * bytes, static_cast<std::size_t>(head * bytes));
  int64_t done = std::min(n, period);
  if (done > head) {
    std::memcpy(out + head * bytes, in, static_cast<std::size_t>((done - head) * bytes));
  }
  while (done < n) {
    const int64_t more = std::min(done, n - done);
    std::memcpy(out + done * bytes, out, static_cast<std::size_t>(more * bytes));
    done += more;
  }
}

// Elements [begin, begin + n) of a list that repeats each number `run` times.
void repeat_each(uint32_t* out, const uint32_t* in, int64_t run, int64_t begin, int64_t n) {
  in += begin / run;
  int64_t left = run - begin % run;  // repetitions of the current number
  for (; n > 0; left = run, ++in) {
    const int64_t count = std::min(n, left);
    for (int64_t j = 0; j < count; ++j) *out++ = *in;
    n -= count;
  }
}

struct BroadcastParams : KernelParams {
  BroadcastPlan plan;
  int64_t count = 0, bytes = 0;  // of the result; of one element
};

bool run_broadcast(const KernelCall& call) {
  const auto& p = *static_cast<const BroadcastParams*>(call.params);
  expand_all(p.plan, call.out[0], call.in[0], p.bytes, p.count);
  return true;
}

bool run_fill(const KernelCall& call) {
  const auto& p = *static_cast<const BroadcastParams*>(call.params);
  fill(call.out[0], call.in[0], p.bytes, p.count);
  return true;
}

etude::internal::RefPtr<BroadcastParams> params_of(const PrepareCall& call) {
  auto p = etude::internal::make_ref<BroadcastParams>();
  p->count = call.out.results[0]->count();
  p->bytes = itemsize(call.dtype(0));
  return p;
}

}  // namespace

BroadcastPlan plan_broadcast(const Shape& from, const Shape& to) {
  BroadcastPlan plan;
  plan.is_dense = from.count() == to.count();
  if (plan.is_dense) return plan;
  const int lead = to.rank() - from.rank();
  int64_t stride = 1;
  // From the innermost axis outwards; neighbours of one kind merge.
  std::array<int64_t, kMaxRank> sizes{}, strides{};
  int rank = 0;
  for (int axis = to.rank() - 1; axis >= 0; --axis) {
    const int64_t size = to[axis];
    const bool full = axis >= lead && from[axis - lead] == size && size != 1;
    if (size == 1) continue;
    const bool merges = rank > 0 && (strides[static_cast<std::size_t>(rank - 1)] != 0) == full;
    if (merges) {
      sizes[static_cast<std::size_t>(rank - 1)] *= size;
    } else {
      sizes[static_cast<std::size_t>(rank)] = size;
      strides[static_cast<std::size_t>(rank++)] = full ? stride : 0;
    }
    if (full) stride *= size;
  }
  plan.rank = rank;
  std::reverse_copy(sizes.begin(), sizes.begin() + rank, plan.sizes.begin());
  std::reverse_copy(strides.begin(), strides.begin() + rank, plan.strides.begin());
  if (rank == 1) plan.period = 1;
  if (rank == 2 && plan.strides[0] == 0) plan.period = plan.sizes[1];
  return plan;
}

void expand(const BroadcastPlan& plan, void* out, const void* in, int64_t bytes, int64_t begin,
            int64_t n) {
  if (plan.period > 1) {
    return repeat_period(static_cast<char*>(out), static_cast<const char*>(in), bytes, plan.period,
                         begin, n);
  }
  constexpr int64_t kShortRun = 32;  // less than a call of fill_any() is worth
  if (plan.rank == 2 && plan.strides[1] == 0 && plan.sizes[1] < kShortRun && bytes == 4) {
    return repeat_each(static_cast<uint32_t*>(out), static_cast<const uint32_t*>(in), plan.sizes[1],
                       begin, n);
  }
  const auto inner = static_cast<std::size_t>(plan.rank - 1);
  std::array<int64_t, kMaxRank> index{};
  int64_t rest = begin, from = 0;
  for (int axis = plan.rank - 1; axis >= 0; --axis) {
    const auto a = static_cast<std::size_t>(axis);
    index[a] = rest % plan.sizes[a];
    rest /= plan.sizes[a];
    from += index[a] * plan.strides[a];
  }
  char* to = static_cast<char*>(out);
  const char* base = static_cast<const char*>(in);
  while (n > 0) {
    const int64_t run = std::min(n, plan.sizes[inner] - index[inner]);
    if (plan.strides[inner] == 0) {
      fill_any(to, base + from * bytes, bytes, run);
    } else {
      std::memcpy(to, base + from * bytes, static_cast<std::size_t>(run * bytes));
    }
    to += run * bytes;
    n -= run;
    from -= index[inner] * plan.strides[inner];
    index[inner] = 0;
    for (int axis = plan.rank - 2; axis >= 0; --axis) {
      const auto a = static_cast<std::size_t>(axis);
      from += plan.strides[a];
      if (++index[a] < plan.sizes[a]) break;
      from -= index[a] * plan.strides[a];
      index[a] = 0;
    }
  }
}

void expand_all(const BroadcastPlan& plan, void* out, const void* in, int64_t bytes,
                int64_t count) {
  if (count == 0) return;
  const int64_t per_chunk = (int64_t{128} << 10) / bytes;
  const double cost_us = static_cast<double>(count * bytes) / 6000;
  parallel_for((count + per_chunk - 1) / per_chunk, cost_us, [&](int64_t c) {
    const int64_t begin = c * per_chunk, n = std::min(per_chunk, count - begin);
    expand(plan, static_cast<char*>(out) + begin * bytes, in, bytes, begin, n);
  });
}

void fill(void* out, const void* element, int64_t bytes, int64_t count) {
  BroadcastPlan plan;
  plan.rank = 1;
  plan.sizes[0] = count;
  expand_all(plan, out, element, bytes, count);
}

bool is_broadcast(KernelFn run) { return run == run_broadcast || run == run_fill; }

void prepare_broadcast(const PrepareCall& call) {
  auto p = params_of(call);
  p->plan = plan_broadcast(call.shape(0), call.out.results[0]->shape());
  if (p->plan.is_dense) return call.view(0);
  call.set(run_broadcast, p);
}

void prepare_fill(const PrepareCall& call) { call.set(run_fill, params_of(call)); }

}  // namespace etude::kernels::cpu
