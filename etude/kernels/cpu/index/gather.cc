// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/index/gather.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/halves.h"
#include "etude/kernels/cpu/scratch.h"

namespace etude::kernels::cpu {
namespace {

constexpr int64_t kChunkBytes = int64_t{128} << 10;
constexpr int64_t kBuckets = 16;
constexpr int64_t kDropped = INT64_MIN;

std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

bool outside(const IndexArray& array, int64_t index) {
  return report_fault(ErrorCode::kOutOfRange,
                      fmt::format("index {} is out of range for axis {} of size {}", index,
                                  array.axis, array.size));
}

// The array as int64, counted from the front; outside ones become kDropped or a fault.
bool normalize(const IndexArray& array, const void* data, bool drops, int64_t* out) {
  return visit_dtype(array.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      const T* in = static_cast<const T*>(data);
      for (int64_t i = 0; i < array.count; ++i) {
        const bool huge = std::is_same_v<T, uint64_t> && in[i] > static_cast<T>(INT64_MAX);
        const auto index = static_cast<int64_t>(in[i]);
        const bool inside = !huge && index < array.size && index >= (drops ? 0 : -array.size);
        if (!inside && !drops) return outside(array, index);
        out[i] = !inside ? kDropped : index < 0 ? index + array.size : index;
      }
    }
    return true;
  });
}

// Byte offsets into x of all points.
bool point_offsets(const IndexWalk& walk, const void* const* indices, std::vector<int64_t>& out) {
  out.assign(at(walk.points), walk.base);
  std::vector<int64_t> own, spread;
  for (std::size_t k = 0; k < walk.arrays.size(); ++k) {
    const IndexArray& array = walk.arrays[k];
    own.resize(at(array.count));
    if (!normalize(array, indices[k], walk.drops_outside, own.data())) return false;
    const int64_t* values = own.data();
    if (!array.points.is_dense && walk.points > 0) {
      spread.resize(at(walk.points));
      expand(array.points, spread.data(), own.data(), 8, 0, walk.points);
      values = spread.data();
    }
    for (std::size_t b = 0; b < out.size(); ++b) {
      out[b] = values[b] == kDropped || out[b] == kDropped ? kDropped
                                                           : out[b] + values[b] * array.stride;
    }
  }
  return true;
}

// Byte offsets into v of all points; empty if they are equally spaced by `step`.
std::vector<int64_t> value_offsets(const IndexWalk& walk, int64_t& step) {
  const CopyPlan& p = walk.points_in_v;
  step = p.rank == 1 ? p.to[0] : 0;
  if (p.rank <= 1) return {};
  std::vector<int64_t> out;
  out.reserve(at(walk.points));
  Odometer place(p, p.rank, 0);
  for (int64_t b = 0; b < walk.points; ++b, place.next()) out.push_back(place.to);
  return out;
}

struct Places {
  std::vector<int64_t> in_x, in_v;
  int64_t step = 0;
  int64_t value(int64_t b) const { return in_v.empty() ? b * step : in_v[at(b)]; }
};

// All places of `after` at one point. f(x, v, n, x stride, v stride) handles a line of runs.
template <class F>
void block(const CopyPlan& after, char* x, char* v, const F& f) {
  if (after.rank == 0) return f(x, v, 1, 0, 0);
  const int last = after.rank - 1;
  const int64_t n = after.sizes[at(last)], from = after.from[at(last)], to = after.to[at(last)];
  const int64_t lines = outer_count(after, last);
  if (lines == 1) return f(x, v, n, from, to);
  Odometer line(after, last, 0);
  for (int64_t i = 0; i < lines; ++i, line.next()) f(x + line.from, v + line.to, n, from, to);
}

int64_t block_bytes(const CopyPlan& after) { return outer_count(after, after.rank) * after.run; }

double cost_us(int64_t bytes, int64_t points) {
  return static_cast<double>(bytes) / 4000 + static_cast<double>(points) / 200;
}

// Places that are all different: chunks of (before, point) pairs.
template <class F>
void walk_disjoint(const IndexWalk& walk, const Places& places, char* x, char* v, const F& f) {
  const int64_t units = outer_count(walk.before, walk.before.rank) * walk.points;
  const int64_t bytes = block_bytes(walk.after);
  const int64_t per_chunk = std::max<int64_t>(1, kChunkBytes / (bytes + 16));
  parallel_for((units + per_chunk - 1) / per_chunk, cost_us(units * bytes, units), [&](int64_t c) {
    const int64_t begin = c * per_chunk, end = std::min(units, begin + per_chunk);
    Odometer outer(walk.before, walk.before.rank, begin / walk.points);
    int64_t b = begin % walk.points;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t offset = places.in_x[at(b)];
      if (offset != kDropped) {
        block(walk.after, x + outer.from + offset, v + outer.to + places.value(b), f);
      }
      if (++b == walk.points) {
        b = 0;
        outer.next();
      }
    }
  });
}

// Points may repeat: equal ones fall to one thread, which handles them in order.
template <class F>
void walk_repeated(const IndexWalk& walk, const Places& places, char* x, char* v, const F& f) {
  const int64_t outer = outer_count(walk.before, walk.before.rank);
  const int64_t bytes = block_bytes(walk.after), total = outer * walk.points * bytes;
  const int64_t parts = std::clamp<int64_t>(total / kChunkBytes, 1, kBuckets);
  const bool by_outer = outer >= parts;
  parallel_for(parts, cost_us(total, outer * walk.points), [&](int64_t part) {
    const int64_t begin = by_outer ? outer * part / parts : 0;
    const int64_t end = by_outer ? outer * (part + 1) / parts : outer;
    Odometer place(walk.before, walk.before.rank, begin);
    for (int64_t o = begin; o < end; ++o, place.next()) {
      for (int64_t b = 0; b < walk.points; ++b) {
        const int64_t offset = places.in_x[at(b)];
        if (offset == kDropped) continue;
        const auto hash = (static_cast<uint64_t>(offset) * 0x9E3779B97F4A7C15ull) >> 32;
        if (!by_outer && static_cast<int64_t>(hash % static_cast<uint64_t>(parts)) != part)
          continue;
        block(walk.after, x + place.from + offset, v + place.to + places.value(b), f);
      }
    }
  });
}

template <class F>
void walk_all(const IndexWalk& walk, const Places& places, char* x, char* v, const F& f) {
  if (walk.arrays.empty()) return walk_disjoint(walk, places, x, v, f);
  walk_repeated(walk, places, x, v, f);
}

template <class T>
using Wide =
    std::conditional_t<std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>, float, T>;

using etude::internal::kIsComplex;

// Integers wrap: the arithmetic is done without sign.
template <Update kMode, class T>
T combine(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return kMode == Update::kAdd || kMode == Update::kMax ? a || b : a && b;
  } else if constexpr (std::is_integral_v<T>) {
    using U = std::common_type_t<std::make_unsigned_t<T>, uint32_t>;
    if constexpr (kMode == Update::kAdd)
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    if constexpr (kMode == Update::kMultiply)
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    if constexpr (kMode == Update::kMin) return std::min(a, b);
    return std::max(a, b);
  } else {
    const Wide<T> p = a, q = b;
    if constexpr (kMode == Update::kAdd) return T(p + q);
    if constexpr (kMode == Update::kMultiply) return T(p * q);
    if constexpr (!kIsComplex<T>) {  // a NaN stays
      if (std::isnan(p)) return a;
      if (std::isnan(q)) return b;
      return (kMode == Update::kMin ? q < p : q > p) ? b : a;
    }
    return a;
  }
}

template <Update kMode, class T>
void update_typed(const IndexWalk& walk, const Places& places, char* x, char* v) {
  const int64_t items = walk.after.run / static_cast<int64_t>(sizeof(T));
  walk_all(walk, places, x, v, [items](char* to, char* from, int64_t n, int64_t sx, int64_t sv) {
    for (int64_t i = 0; i < n; ++i) {
      T* a = reinterpret_cast<T*>(to + i * sx);
      const T* b = reinterpret_cast<const T*>(from + i * sv);
      for (int64_t k = 0; k < items; ++k) a[k] = combine<kMode, T>(a[k], b[k]);
    }
  });
}

template <Update kMode>
void update_mode(const IndexWalk& walk, DType dtype, const Places& places, char* x, char* v) {
  visit_dtype(dtype, [&]<class T>() { update_typed<kMode, T>(walk, places, x, v); });
}

// v = the chosen elements of x; places of skipped indices are left as they are. indices: one
// pointer per array. False after report_fault.
bool gather(const IndexWalk& walk, void* v, const void* x, const void* const* indices) {
  Places places;
  if (!point_offsets(walk, indices, places.in_x)) return false;
  if (walk.after.run == 0 || walk.before.run == 0 || walk.points == 0) return true;
  places.in_v = value_offsets(walk, places.step);
  char* from = const_cast<char*>(static_cast<const char*>(x));
  with_run(walk.after.run, [&]<std::size_t kRun>() {
    const int64_t run = walk.after.run;
    walk_disjoint(walk, places, from, static_cast<char*>(v),
                  [run](char* a, char* b, int64_t n, int64_t sx, int64_t sv) {
                    copy_line<kRun>(b, a, n, sv, sx, run);
                  });
  });
  return true;
}

// x at the chosen places, updated by v.
bool update(const IndexWalk& walk, Update mode, DType dtype, void* x, const void* v,
            const void* const* indices) {
  Places places;
  if (!point_offsets(walk, indices, places.in_x)) return false;
  if (walk.after.run == 0 || walk.before.run == 0 || walk.points == 0) return true;
  places.in_v = value_offsets(walk, places.step);
  char* to = static_cast<char*>(x);
  char* from = const_cast<char*>(static_cast<const char*>(v));
  switch (mode) {
    case Update::kAdd:
      update_mode<Update::kAdd>(walk, dtype, places, to, from);
      return true;
    case Update::kMultiply:
      update_mode<Update::kMultiply>(walk, dtype, places, to, from);
      return true;
    case Update::kMin:
      update_mode<Update::kMin>(walk, dtype, places, to, from);
      return true;
    case Update::kMax:
      update_mode<Update::kMax>(walk, dtype, places, to, from);
      return true;
    case Update::kSet:
      break;
  }
  with_run(walk.after.run, [&]<std::size_t kRun>() {
    const int64_t run = walk.after.run;
    walk_all(walk, places, to, from, [run](char* a, char* b, int64_t n, int64_t sx, int64_t sv) {
      copy_line<kRun>(a, b, n, sx, sv, run);
    });
  });
  return true;
}

struct WalkParams : KernelParams {
  IndexWalk walk;
  Update mode = Update::kSet;
  DType dtype = DType::kFloat32;
  int64_t bytes = 0;  // of the result
};

etude::internal::RefPtr<WalkParams> walk_params(const PrepareCall& call, IndexWalk&& walk,
                                                Update mode) {
  auto p = etude::internal::make_ref<WalkParams>();
  p->walk = std::move(walk);
  p->mode = mode;
  p->dtype = call.dtype(0);
  p->bytes = call.out.results[0]->bytes();
  return p;
}

bool run_gather(const KernelCall& call) {
  const auto& p = *static_cast<const WalkParams*>(call.params);
  if (p.walk.drops_outside) std::memset(call.out[0], 0, at(p.bytes));
  return gather(p.walk, call.out[0], call.in[0], call.in + 1);
}

bool run_update(const KernelCall& call) {
  const auto& p = *static_cast<const WalkParams*>(call.params);
  if (call.out[0] != call.in[0]) std::memcpy(call.out[0], call.in[0], at(p.bytes));
  return update(p.walk, p.mode, p.dtype, call.out[0], call.in[1], call.in + 2);
}

bool run_spread(const KernelCall& call) {
  const auto& p = *static_cast<const WalkParams*>(call.params);
  std::memset(call.out[0], 0, at(p.bytes));
  return update(p.walk, p.mode, p.dtype, call.out[0], call.in[0], call.in + 1);
}

// A region that is one run of elements, as a row or an element is.
struct RunParams : KernelParams {
  int64_t offset = 0, run = 0, bytes = 0;  // of x, of the run, of the result
};

bool is_one_run(const IndexWalk& walk) {
  return walk.arrays.empty() && walk.before.rank == 0 && walk.after.rank == 0 &&
         walk.before.run != 0 && walk.after.run != 0;
}

template <class T>
bool run_add_to_run(const KernelCall& call) {
  const auto& p = *static_cast<const RunParams*>(call.params);
  if (call.out[0] != call.in[0]) std::memcpy(call.out[0], call.in[0], at(p.bytes));
  T* a = reinterpret_cast<T*>(static_cast<char*>(call.out[0]) + p.offset);
  const T* b = static_cast<const T*>(call.in[1]);
  const int64_t n = p.run / static_cast<int64_t>(sizeof(T));
  for (int64_t k = 0; k < n; ++k) a[k] = combine<Update::kAdd, T>(a[k], b[k]);
  return true;
}

bool run_set_run(const KernelCall& call) {
  const auto& p = *static_cast<const RunParams*>(call.params);
  if (call.out[0] != call.in[0]) std::memcpy(call.out[0], call.in[0], at(p.bytes));
  std::memcpy(static_cast<char*>(call.out[0]) + p.offset, call.in[1], at(p.run));
  return true;
}

// Zeros around the run, which is added to 0, so that -0 becomes 0.
template <class T>
bool run_spread_run(const KernelCall& call) {
  const auto& p = *static_cast<const RunParams*>(call.params);
  char* out = static_cast<char*>(call.out[0]);
  const char* in = static_cast<const char*>(call.in[0]);
  const auto chunk = [&](int64_t c) {
    const int64_t begin = c * kChunkBytes, end = std::min(p.bytes, begin + kChunkBytes);
    const int64_t first = std::clamp(p.offset, begin, end);
    const int64_t last = std::clamp(p.offset + p.run, begin, end);
    std::memset(out + begin, 0, at(first - begin));
    T* to = reinterpret_cast<T*>(out + first);
    const T* from = reinterpret_cast<const T*>(in + (first - p.offset));
    const int64_t n = (last - first) / static_cast<int64_t>(sizeof(T));
    for (int64_t k = 0; k < n; ++k) to[k] = combine<Update::kAdd, T>(T(0), from[k]);
    std::memset(out + last, 0, at(end - last));
  };
  parallel_for((p.bytes + kChunkBytes - 1) / kChunkBytes, cost_us(p.bytes, 0), chunk);
  return true;
}

etude::internal::RefPtr<RunParams> run_params(const PrepareCall& call, const IndexWalk& walk) {
  auto p = etude::internal::make_ref<RunParams>();
  p->offset = walk.base;
  p->run = walk.after.run;
  p->bytes = call.out.results[0]->bytes();
  return p;
}

void prepare_update_of_run(const PrepareCall& call, const IndexWalk& walk, Update mode) {
  const auto p = run_params(call, walk);
  if (mode == Update::kSet) return call.set(run_set_run, p);
  visit_dtype(call.dtype(0), [&]<class T>() { call.set(run_add_to_run<T>, p); });
}

struct SegmentParams : KernelParams {
  IndexWalk walk;
  Update mode = Update::kAdd;
  int64_t count = 0, values = 0;                            // elements of the result and of x
  DType stored = DType::kFloat32, dtype = DType::kFloat32;  // of the operands; of the arithmetic
  alignas(16) char identity[16] = {};
};

template <class T>
T identity_of(Update mode) {
  using Limits = std::numeric_limits<T>;
  if (mode == Update::kMultiply) return T(1);
  if constexpr (Limits::is_specialized && !std::is_same_v<T, bool>) {
    const bool has_infinity = Limits::has_infinity;
    if (mode == Update::kMin) return has_infinity ? Limits::infinity() : Limits::max();
    if (mode == Update::kMax)
      return has_infinity ? static_cast<T>(-Limits::infinity()) : Limits::lowest();
  }
  return T(0);
}

bool run_segments(const KernelCall& call) {
  const auto& p = *static_cast<const SegmentParams*>(call.params);
  if (p.dtype == p.stored) {
    fill(call.out[0], p.identity, itemsize(p.dtype), p.count);
    return update(p.walk, p.mode, p.dtype, call.out[0], call.in[0], call.in + 1);
  }
  const int64_t item = itemsize(p.dtype);
  Scratch sums(p.count * item), values(p.values * item);
  if (sums.data() == nullptr || values.data() == nullptr) return Scratch::report();
  fill(sums.data(), p.identity, item, p.count);
  convert_row(values.data(), p.dtype, call.in[0], p.stored, p.values);
  if (!update(p.walk, p.mode, p.dtype, sums.data(), values.data(), call.in + 1)) return false;
  convert_row(call.out[0], p.stored, sums.data(), p.dtype, p.count);
  return true;
}

struct RowParams : KernelParams {
  int64_t count = 0, limit = 0;
};

template <class From, class To>
bool run_row_numbers(const KernelCall& call) {
  const auto& p = *static_cast<const RowParams*>(call.params);
  const From* in = static_cast<const From*>(call.in[0]);
  To* out = static_cast<To*>(call.out[0]);
  for (int64_t i = 0; i < p.count; ++i) {
    const auto index = static_cast<int64_t>(in[i]);
    out[i] = static_cast<To>(index < 0 ? index + p.limit : index);
  }
  return true;
}

}  // namespace

void prepare_gather(const PrepareCall& call, IndexWalk walk) {
  call.set(run_gather, walk_params(call, std::move(walk), Update::kSet));
}

void prepare_update(const PrepareCall& call, IndexWalk walk, Update mode) {
  call.out.in_place = 1;
  call.out.never_faults = walk.arrays.empty();  // no index that may be outside
  if (is_one_run(walk) && (mode == Update::kSet || mode == Update::kAdd)) {
    return prepare_update_of_run(call, walk, mode);
  }
  call.set(run_update, walk_params(call, std::move(walk), mode));
}

void prepare_spread(const PrepareCall& call, IndexWalk walk) {
  if (is_one_run(walk)) {
    const auto p = run_params(call, walk);
    return visit_dtype(call.dtype(0), [&]<class T>() { call.set(run_spread_run<T>, p); });
  }
  call.set(run_spread, walk_params(call, std::move(walk), Update::kAdd));
}

DType segment_dtype(DType dtype) {
  return dtype == kFloat16 || dtype == kBFloat16 ? kFloat32 : dtype;
}

void prepare_segments(const PrepareCall& call, IndexWalk walk, Update mode) {
  auto p = etude::internal::make_ref<SegmentParams>();
  p->walk = std::move(walk);
  p->mode = mode;
  p->stored = call.dtype(0);
  p->dtype = segment_dtype(p->stored);
  p->count = call.out.results[0]->count();
  p->values = call.types[0]->count();
  visit_dtype(p->dtype, [&]<class T>() {
    const T value = identity_of<T>(mode);
    std::memcpy(p->identity, &value, sizeof(T));
  });
  call.set(run_segments, p);
}

void prepare_row_numbers(const PrepareCall& call, int64_t limit) {
  auto p = etude::internal::make_ref<RowParams>();
  p->count = call.types[0]->count();
  p->limit = limit;
  const bool is_narrow = call.out.results[0]->dtype() == kInt32;
  visit_dtype(call.dtype(0), [&]<class From>() {
    if constexpr (std::is_integral_v<From>) {
      call.set(is_narrow ? run_row_numbers<From, int32_t> : run_row_numbers<From, int64_t>, p);
    }
  });
}

std::pair<int64_t, int64_t> integer_range(const Tensor& x) {
  return visit_dtype(x.dtype(), [&]<class T>() -> std::pair<int64_t, int64_t> {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (x.size() == 0) return {0, -1};
      const T* data = static_cast<const T*>(TensorAccess::data(x));
      const auto [least, largest] = std::minmax_element(data, data + x.size());
      const auto number = [](T value) {
        return std::cmp_less(value, INT64_MAX) ? static_cast<int64_t>(value) : INT64_MAX;
      };
      return {number(*least), number(*largest)};
    }
    return {0, -1};
  });
}

}  // namespace etude::kernels::cpu
