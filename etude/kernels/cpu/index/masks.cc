// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/index/masks.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace etude::kernels::cpu {
namespace {

std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

const bool* bools_of(const Tensor& mask) {
  return static_cast<const bool*>(TensorAccess::data(mask));
}

// f(first place, rows before it that were kept, rows) for runs of places at which the mask holds.
template <class F>
void each_true(const bool* mask, int64_t count, const F& f) {
  int64_t kept = 0;
  for (int64_t i = 0; i < count;) {
    if (!mask[i]) {
      ++i;
      continue;
    }
    int64_t end = i;
    while (end < count && mask[end]) ++end;
    f(i, kept, end - i);
    kept += end - i;
    i = end;
  }
}

int64_t count_true(const bool* mask, int64_t count) { return std::count(mask, mask + count, true); }

struct MaskParams : KernelParams {
  int64_t count = 0, row = 0, values = 0;
};

bool run_unmask(const KernelCall& call) {
  const auto& p = *static_cast<const MaskParams*>(call.params);
  const bool* mask = static_cast<const bool*>(call.in[1]);
  const int64_t kept = count_true(mask, p.count);
  if (kept != p.values) {
    return report_fault(
        ErrorCode::kInvalidArgument,
        fmt::format("the mask holds at {} places, but there are {} rows", kept, p.values));
  }
  char* to = static_cast<char*>(call.out[0]);
  const char* from = static_cast<const char*>(call.in[0]);
  std::memset(to, 0, at(p.count * p.row));
  each_true(mask, p.count, [&](int64_t at_x, int64_t at_y, int64_t n) {
    std::memcpy(to + at_x * p.row, from + at_y * p.row, at(n * p.row));
  });
  return true;
}

}  // namespace

std::vector<int64_t> nonzero_places(const Tensor& x) {
  return visit_dtype(x.dtype(), [&]<class T>() {
    const T* data = static_cast<const T*>(TensorAccess::data(x));
    std::vector<int64_t> out;
    for (int64_t i = 0; i < x.size(); ++i) {
      if (data[i] != T(0)) out.push_back(i);
    }
    return out;
  });
}

void coordinates(std::span<const int64_t> places, int64_t stride, int64_t size, int64_t* out) {
  for (std::size_t i = 0; i < places.size(); ++i) out[i] = places[i] / stride % size;
}

int64_t count_true(const Tensor& mask) { return count_true(bools_of(mask), mask.size()); }

void take_true(const Tensor& mask, const Tensor& x, void* out) {
  const int64_t row = mask.size() == 0 ? 0 : x.nbytes() / mask.size();
  char* to = static_cast<char*>(out);
  const char* from = static_cast<const char*>(TensorAccess::data(x));
  each_true(bools_of(mask), mask.size(), [&](int64_t at_x, int64_t at_y, int64_t n) {
    std::memcpy(to + at_y * row, from + at_x * row, at(n * row));
  });
}

void prepare_unmask(const PrepareCall& call) {
  auto p = etude::internal::make_ref<MaskParams>();
  p->count = call.types[1]->count();
  p->row = p->count == 0 ? 0 : call.out.results[0]->bytes() / p->count;
  p->values = call.shape(0)[0];
  call.set(run_unmask, p);
}

}  // namespace etude::kernels::cpu
