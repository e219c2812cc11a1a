// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/attention/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/attention/attention_dropout.h"
#include "etude/kernels/cpu/call_estimates.h"
#include "etude/kernels/cpu/product/tile_product.h"
#include "etude/kernels/cpu/reduce/rows.h"
#include "etude/kernels/cpu/thread_scratch.h"

namespace etude::kernels::cpu {
namespace {

constexpr int64_t kQueries = 64,
                  kKeys = 64;   // of a block: scores of 16 KiB stay in the first cache
constexpr int64_t kBlocks = 8;  // of queries that share a transposed copy of the keys
constexpr int kPurpose = 60;

// Where an operand that broadcasts to [.., tq, tk] has its elements.
struct BroadcastView {
  std::array<int64_t, kMaxRank> leading{};
  int64_t row = 0, column = 0;
};

struct AttentionParams : KernelParams {
  Shape leading;
  int64_t items = 1, tq = 0, tk = 0, d = 0, e = 0;
  AttentionOptions options;
  BroadcastView mask, bias;
  DropKeys keys;
  std::size_t key_operand = 0;  // 0: none

  int64_t offset(const BroadcastView& view, int64_t item) const {
    int64_t at = 0;
    for (int axis = leading.rank() - 1; axis >= 0; --axis) {
      at += item % leading[axis] * view.leading[static_cast<std::size_t>(axis)];
      item /= leading[axis];
    }
    return at;
  }
};

BroadcastView view_of(const Shape& shape, int rank) {
  BroadcastView view;
  int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    const int at = axis + rank - shape.rank();
    const int64_t own = shape[axis] == 1 ? 0 : step;
    if (at == rank - 1)
      view.column = own;
    else if (at == rank - 2)
      view.row = own;
    else
      view.leading[static_cast<std::size_t>(at)] = own;
    step *= shape[axis];
  }
  return view;
}

// out [rows, columns] = or += a b, where element (i, k) of a lies at i a_row + k a_depth.
template <class T>
struct Factors {
  int64_t rows, columns, depth;
  const T* a;
  int64_t a_row, a_depth;
  const T* b;
  int64_t b_depth;
};

template <class T>
void multiply(const Factors<T>& f, T* out, int64_t out_row, bool adds) {
  if constexpr (std::is_same_v<T, float>) {
    TileProduct p{.rows = f.rows,
                  .columns = f.columns,
                  .depth = f.depth,
                  .a_row = f.a_row,
                  .a_depth = f.a_depth,
                  .b_depth = f.b_depth,
                  .out_row = out_row};
    if (adds) p.start = out, p.start_row = out_row;
    tile_product(p, out, f.a, f.b);
  } else {
    for (int64_t i = 0; i < f.rows; ++i) {
      T* to = out + i * out_row;
      if (!adds) std::fill(to, to + f.columns, T(0));
      for (int64_t k = 0; k < f.depth; ++k) {
        const T factor = f.a[i * f.a_row + k * f.a_depth];
        const T* from = f.b + k * f.b_depth;
        for (int64_t j = 0; j < f.columns; ++j) to[j] += factor * from[j];
      }
    }
  }
}

template <class T>
void transpose_rows(T* to, int64_t to_row, const T* from, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t end = std::min(rows, r0 + kTile);
      for (int64_t r = r0; r < end; ++r) to[c * to_row + r] = from[r * columns + c];
    }
  }
}

// One item of the leading axes.
template <class T>
struct Item {
  Item(const AttentionParams& params, const KernelCall& call, int64_t i)
      : p(params),
        q(static_cast<const T*>(call.in[0]) + i * p.tq * p.d),
        k(static_cast<const T*>(call.in[1]) + i * p.tk * p.d),
        v(static_cast<const T*>(call.in[2]) + i * p.tk * p.e) {
    if (call.in[3] != nullptr) mask = static_cast<const uint8_t*>(call.in[3]) + p.offset(p.mask, i);
    if (call.in[4] != nullptr) bias = static_cast<const T*>(call.in[4]) + p.offset(p.bias, i);
    if (p.key_operand == 0) return;
    drop.emplace(p.keys.at(call.in[p.key_operand], i), p.options.dropout);
    first_place = p.keys.matrix(i) * p.tq * p.tk;
  }

  // Whether a block of keys from `key` on is beyond all of `rows` queries from `query` on.
  bool is_beyond(int64_t query, int64_t rows, int64_t key) const {
    return p.options.causal && key > query + rows - 1;
  }

  // Applies bias, mask and causal order to scores [rows, columns] of queries and keys from here on.
  void adjust(T* scores, int64_t query, int64_t rows, int64_t key, int64_t columns) const {
    constexpr T kNever = -std::numeric_limits<T>::infinity();
    const bool crosses = p.options.causal && key + columns - 1 > query;
    if (bias == nullptr && mask == nullptr && !crosses) return;
    for (int64_t r = 0; r < rows; ++r) {
      T* row = scores + r * kKeys;
      if (bias != nullptr) {
        const T* b = bias + (query + r) * p.bias.row + key * p.bias.column;
        for (int64_t c = 0; c < columns; ++c) row[c] += b[c * p.bias.column];
      }
      if (mask != nullptr) {
        const uint8_t* m = mask + (query + r) * p.mask.row + key * p.mask.column;
        for (int64_t c = 0; c < columns; ++c) row[c] = m[c * p.mask.column] != 0 ? row[c] : kNever;
      }
      if (!crosses) continue;
      for (int64_t c = std::max<int64_t>(0, query + r + 1 - key); c < columns; ++c) row[c] = kNever;
    }
  }

  // Whether a query may not see a key.
  bool hides() const { return mask != nullptr || p.options.causal; }

  // The factors of the weights of one query for `columns` keys from `key` on.
  void write_factors(T* factors, int64_t query, int64_t key, int64_t columns) const {
    drop->write(factors, first_place + query * p.tk + key, columns);
  }

  const AttentionParams& p;
  const T* q;
  const T* k;
  const T* v;
  const uint8_t* mask = nullptr;
  const T* bias = nullptr;
  std::optional<DropFactors> drop = {};
  int64_t first_place = 0;  // of the weights of this item
};

template <class T>
void multiply_into(T* to, const T* factors, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] *= factors[i];
}

template <class T>
void scale_into(T* to, const T* from, int64_t count, T factor) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] * factor;
}

// Infinities and NaN are 0 in the copy.
template <class T>
void copy_finite(T* to, const T* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = std::isfinite(from[i]) ? from[i] : T(0);
}

// The rows of one block of queries against all keys; `keys`: [d, kKeys] of each block of keys.
template <class T>
void attend(const Item<T>& it, const T* keys, int64_t query, int64_t rows, T* work, T* y,
            T* log_sum) {
  const AttentionParams& p = it.p;
  const RowMath<T>& math = row_math<T>();
  T *q = work, *scores = q + kQueries * p.d;
  std::array<T, kQueries> largest, total;
  std::array<T, kKeys> factors;
  largest.fill(-std::numeric_limits<T>::infinity());
  total.fill(0);
  scale_into(q, it.q + query * p.d, rows * p.d, static_cast<T>(p.options.scale));
  std::fill(y, y + rows * p.e, T(0));
  for (int64_t key = 0; key < p.tk && !it.is_beyond(query, rows, key); key += kKeys) {
    const int64_t columns = std::min(kKeys, p.tk - key);
    multiply<T>({rows, columns, p.d, q, p.d, 1, keys + key * p.d, kKeys}, scores, kKeys, false);
    it.adjust(scores, query, rows, key, columns);
    for (int64_t r = 0; r < rows; ++r) {
      const auto at = static_cast<std::size_t>(r);
      T* row = scores + r * kKeys;
      const T before = largest[at], block = math.max(row, columns);
      const T now = block > before || block != block ? block : before;
      const bool sees = now != -std::numeric_limits<T>::infinity();
      const T sum = math.exp_sum(row, row, columns, sees ? now : T(0));
      if (now != before && total[at] != 0) {
        const T shrink = std::exp(before - now);
        total[at] *= shrink;
        math.scale(y + r * p.e, y + r * p.e, p.e, shrink);
      }
      total[at] += sum;
      largest[at] = now;
      if (!it.drop) continue;
      it.write_factors(factors.data(), query + r, key, columns);
      multiply_into(row, factors.data(), columns);
    }
    multiply<T>({rows, p.e, columns, scores, kKeys, 1, it.v + key * p.e, p.e}, y, p.e, true);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const auto at = static_cast<std::size_t>(r);
    const bool sees = total[at] != 0;
    log_sum[r] = sees ? largest[at] + std::log(total[at]) : -std::numeric_limits<T>::infinity();
    if (sees) math.scale(y + r * p.e, y + r * p.e, p.e, T(1) / total[at]);
  }
}

template <class T>
bool run_attention(const KernelCall& call) {
  const auto& p = *static_cast<const AttentionParams*>(call.params);
  const int64_t groups = (p.tq + kQueries * kBlocks - 1) / (kQueries * kBlocks);
  const double flops = 2.0 * static_cast<double>(p.tq * p.tk) * static_cast<double>(p.d + p.e + 8);
  parallel_for(
      p.items * groups, static_cast<double>(p.items) * flops / kFlopsPerUs, [&](int64_t task) {
        const int64_t item = task / groups, first = task % groups * kQueries * kBlocks;
        const Item<T> it(p, call, item);
        const int64_t padded = (p.tk + kKeys - 1) / kKeys * kKeys;
        T* keys = thread_scratch<T, kPurpose>(p.d * padded + kQueries * p.d + kQueries * kKeys);
        // Block by block: rows of tk elements, often a power of two, would share cache sets.
        for (int64_t key = 0; key < p.tk; key += kKeys)
          transpose_rows(keys + key * p.d, kKeys, it.k + key * p.d, std::min(kKeys, p.tk - key),
                         p.d);
        const int64_t end = std::min(p.tq, first + kQueries * kBlocks);
        for (int64_t query = first; query < end; query += kQueries) {
          const int64_t rows = std::min(kQueries, p.tq - query), row = item * p.tq + query;
          attend(it, keys, query, rows, keys + p.d * padded,
                 static_cast<T*>(call.out[0]) + row * p.e, static_cast<T*>(call.out[1]) + row);
        }
      });
  return true;
}

// The arrays of the reverse pass of an item.
template <class T>
struct Reverse {
  const T *y, *log_sum, *ct;
  const T* ct_log;  // may be null
  T *dq, *dk, *dv, *dbias;
};

// Processes one block of keys with all queries: adds to dq, fills dk and dv. `finite` is `scaled`,
// or its finite part if keys may be hidden: the zeros of hidden pairs must not be multiplied by
// NaN. Visible pairs have the NaN in their weights.
template <class T>
void reverse_keys(const Item<T>& it, const Reverse<T>& g, int64_t key, const T* scaled,
                  const T* finite, const T* along, T* work) {
  const AttentionParams& p = it.p;
  const RowMath<T>& math = row_math<T>();
  const int64_t columns = std::min(kKeys, p.tk - key);
  std::array<T, kKeys> factors;
  T *keys = work, *values = keys + p.d * kKeys, *shares = values + p.e * kKeys,
    *moves = shares + kQueries * kKeys;
  const T* factors_of_dq = it.k + key * p.d;
  if (it.hides()) {
    T* copy = moves + kQueries * kKeys;
    copy_finite(copy, factors_of_dq, columns * p.d);
    factors_of_dq = copy;
  }
  transpose_rows(keys, kKeys, it.k + key * p.d, columns, p.d);
  transpose_rows(values, kKeys, it.v + key * p.e, columns, p.e);
  T *dk = g.dk + key * p.d, *dv = g.dv + key * p.e;
  std::fill(dk, dk + columns * p.d, T(0));
  std::fill(dv, dv + columns * p.e, T(0));
  for (int64_t query = 0; query < p.tq; query += kQueries) {
    const int64_t rows = std::min(kQueries, p.tq - query);
    if (it.is_beyond(query, rows, key)) continue;
    const T* ct = g.ct + query * p.e;
    multiply<T>({rows, columns, p.d, scaled + query * p.d, p.d, 1, keys, kKeys}, shares, kKeys,
                false);
    it.adjust(shares, query, rows, key, columns);
    multiply<T>({rows, columns, p.e, ct, p.e, 1, values, kKeys}, moves, kKeys, false);
    for (int64_t r = 0; r < rows; ++r) {
      T *share = shares + r * kKeys, *move = moves + r * kKeys;
      const T log_sum = g.log_sum[query + r];
      if (log_sum == -std::numeric_limits<T>::infinity())
        std::fill(share, share + columns, T(0));
      else
        math.exp_sum(share, share, columns, log_sum);
      if (it.drop) {
        it.write_factors(factors.data(), query + r, key, columns);
        multiply_into(move, factors.data(), columns);
      }
      math.weigh_difference(move, share, move, columns, along[query + r]);
      if (it.drop) multiply_into(share, factors.data(), columns);
      if (g.dbias != nullptr) std::copy(move, move + columns, g.dbias + (query + r) * p.tk + key);
    }
    multiply<T>({columns, p.e, rows, shares, 1, kKeys, ct, p.e}, dv, p.e, true);
    multiply<T>({columns, p.d, rows, moves, 1, kKeys, finite + query * p.d, p.d}, dk, p.d, true);
    multiply<T>({rows, p.d, columns, moves, kKeys, 1, factors_of_dq, p.d}, g.dq + query * p.d, p.d,
                true);
  }
}

template <class T>
void reverse_item(const Item<T>& it, const Reverse<T>& g) {
  const AttentionParams& p = it.p;
  const int64_t block = kKeys * (2 * p.d + p.e) + 2 * kQueries * kKeys, queries = p.tq * p.d;
  T* scaled = thread_scratch<T, kPurpose>(2 * queries + p.tq + block);
  T *along = scaled + 2 * queries, *work = along + p.tq;
  scale_into(scaled, it.q, queries, static_cast<T>(p.options.scale));
  if (it.hides()) copy_finite(scaled + queries, scaled, queries);
  const T* finite = it.hides() ? scaled + queries : scaled;
  for (int64_t r = 0; r < p.tq; ++r)
    along[r] = row_math<T>().dot(g.ct + r * p.e, g.y + r * p.e, p.e) -
               (g.ct_log != nullptr ? g.ct_log[r] : T(0));
  std::fill(g.dq, g.dq + p.tq * p.d, T(0));
  if (g.dbias != nullptr) std::fill(g.dbias, g.dbias + p.tq * p.tk, T(0));
  for (int64_t key = 0; key < p.tk; key += kKeys)
    reverse_keys(it, g, key, scaled, finite, along, work);
  scale_into(g.dq, g.dq, p.tq * p.d, static_cast<T>(p.options.scale));
}

template <class T>
bool run_gradient(const KernelCall& call) {
  const auto& p = *static_cast<const AttentionParams*>(call.params);
  const double flops =
      2.0 * static_cast<double>(p.tq * p.tk) * static_cast<double>(3 * p.d + 2 * p.e + 8);
  parallel_for(p.items, static_cast<double>(p.items) * flops / kFlopsPerUs, [&](int64_t item) {
    const int64_t q = item * p.tq, k = item * p.tk;
    const auto in = [&](std::size_t i) { return static_cast<const T*>(call.in[i]); };
    const auto out = [&](std::size_t i) { return static_cast<T*>(call.out[i]); };
    reverse_item<T>(
        Item<T>(p, call, item),
        {in(5) + q * p.e, in(6) + q, in(7) + q * p.e, call.in[8] != nullptr ? in(8) + q : nullptr,
         out(0) + q * p.d, out(1) + k * p.d, out(2) + k * p.e,
         p.options.bias_gradient ? out(3) + q * p.tk : nullptr});
  });
  return true;
}

etude::internal::RefPtr<AttentionParams> params_of(const PrepareCall& call,
                                                   const AttentionOptions& options,
                                                   std::size_t key_operand) {
  auto p = etude::internal::make_ref<AttentionParams>();
  const Shape &q = call.shape(0), &k = call.shape(1), &v = call.shape(2);
  const int rank = q.rank();
  p->leading = Shape(q.sizes().first(static_cast<std::size_t>(rank - 2)));
  p->items = p->leading.count();
  p->tq = q[rank - 2], p->d = q[rank - 1];
  p->tk = k[rank - 2], p->e = v[rank - 1];
  p->options = options;
  if (call.has(3)) p->mask = view_of(call.shape(3), rank);
  if (call.has(4)) p->bias = view_of(call.shape(4), rank);
  if (options.dropout > 0) {
    p->key_operand = key_operand;
    p->keys = DropKeys(call.shape(key_operand), p->leading);
  }
  return p;
}

}  // namespace

bool estimate_attention(const Prepared& call, CallTime& time) {
  const auto* p = dynamic_cast<const AttentionParams*>(call.owner.get());
  if (p == nullptr) return false;
  const double work =
      2.0 * static_cast<double>(p->items * p->tq * p->tk) * static_cast<double>(p->d + p->e + 8);
  add_flops(time, work, kFlopsPerUs, static_cast<double>(p->items));
  return true;
}

void prepare_attention(const PrepareCall& call, const AttentionOptions& options) {
  const bool is_double = call.dtype(0) == kFloat64;
  call.set(is_double ? run_attention<double> : run_attention<float>, params_of(call, options, 5));
}

void prepare_attention_gradient(const PrepareCall& call, const AttentionOptions& options) {
  const bool is_double = call.dtype(0) == kFloat64;
  call.set(is_double ? run_gradient<double> : run_gradient<float>, params_of(call, options, 9));
}

}  // namespace etude::kernels::cpu
