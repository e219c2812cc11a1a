// SPDX-License-Identifier: Apache-2.0
#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/call/run.h"
#include "etude/nn/models/models.h"
#include "etude/ops.h"

namespace etude::nn::models {
namespace {

using Sizes = std::vector<int64_t>;

Sizes joined(int64_t first, const IntList& rest, bool ends_with_one) {
  Sizes sizes = {first};
  for (const int64_t size : rest.values()) sizes.push_back(size);
  if (ends_with_one) sizes.push_back(1);
  return sizes;
}

// The inputs of the first Dense of `top`: `dim` numbers, and the products of pairs.
int64_t seen_by_top(std::size_t tables, int64_t dim) {
  const auto count = static_cast<int64_t>(tables);
  return dim + count * (count + 1) / 2;
}

void add_tables(std::vector<Embedding>& tables, const IntList& sizes, int64_t dim, CallSite where) {
  for (const int64_t size : sizes.values())
    tables.emplace_back(size, dim, EmbeddingOptions{}, where);
}

// The rows that x names, one tensor [n, dim] for each table.
std::vector<Tensor> embedded(const std::vector<Embedding>& tables, const Tensor& rows,
                             CallSite where) {
  ETUDE_REQUIRE(rows.rank() == 2 && rows.shape()[1] == static_cast<int64_t>(tables.size()),
                "rows have the shape {}, but the model has {} tables and needs [n, {}]",
                rows.shape().to_string(), tables.size(), tables.size());
  const std::vector<Tensor> columns = unstack(rows, {.axis = 1});
  std::vector<Tensor> found;
  for (std::size_t i = 0; i < tables.size(); ++i) found.push_back(tables[i](columns[i], where));
  return found;
}

}  // namespace

DLRM::DLRM(const IntList& sizes, int64_t dim, const IntList& bottom_sizes, const IntList& top_sizes,
           CallSite where)
    : bottom(bottom_sizes, {.last = relu}, where),
      top(joined(seen_by_top(sizes.values().size(), dim), top_sizes, false), {}, where) {
  etude::internal::located("DLRM", where, [&] {
    ETUDE_REQUIRE(bottom_sizes.values().back() == dim,
                  "the sizes of `bottom` end with {}, but tables have {} numbers a row",
                  bottom_sizes.values().back(), dim);
  });
  add_tables(tables, sizes, dim, where);
}

Tensor DLRM::operator()(const Columns& x, CallSite where) const {
  return internal::run_layer(this, "DLRM", where, 0, [&] {
    std::vector<Tensor> vectors = embedded(tables, x.rows, where);
    const Tensor numbers = bottom(x.numbers, where);
    vectors.insert(vectors.begin(), numbers);
    const Tensor all = stack(vectors, {.axis = 1});  // [n, vectors, dim]
    const auto count = static_cast<int64_t>(vectors.size());
    const Tensor products =
        reshape(matmul(all, all, {.transpose_y = true}), {x.rows.shape()[0], count * count});
    std::vector<int64_t> pairs;
    for (int64_t i = 1; i < count; ++i) {
      for (int64_t j = 0; j < i; ++j) pairs.push_back(i * count + j);
    }
    return top(concat({numbers, take(products, Tensor(pairs), {.axis = 1})}, {.axis = 1}), where);
  });
}

WideAndDeep::WideAndDeep(const IntList& sizes, int64_t dim, int64_t numbers, const IntList& hidden,
                         CallSite where)
    : wide_numbers(numbers, 1, {}, where),
      deep(joined(numbers + dim * static_cast<int64_t>(sizes.values().size()), hidden, true), {},
           where) {
  add_tables(wide, sizes, 1, where);
  add_tables(tables, sizes, dim, where);
}

Tensor WideAndDeep::operator()(const Columns& x, CallSite where) const {
  return internal::run_layer(this, "WideAndDeep", where, 0, [&] {
    Tensor y = wide_numbers(x.numbers, where);
    for (const Tensor& weight : embedded(wide, x.rows, where)) y = y + weight;
    std::vector<Tensor> columns = embedded(tables, x.rows, where);
    columns.push_back(x.numbers);
    return y + deep(concat(columns, {.axis = 1}), where);
  });
}

}  // namespace etude::nn::models
