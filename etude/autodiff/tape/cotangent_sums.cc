// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/tape/cotangent_sums.h"

#include <algorithm>
#include <span>
#include <utility>

#include "etude/core/call/arg.h"
#include "etude/core/call/builtin.h"
#include "etude/core/index.h"

namespace etude::internal {
namespace {

// The maximum number of operands of a joining call: a tape around the sweep records such calls
// cheaply.
constexpr std::size_t kMostJoined = 32;

// Tensors joined along axis 0.
Tensor join_all(std::vector<Tensor> parts, CallSite where) {
  while (parts.size() > 1) {
    std::vector<Tensor> joined;
    for (std::size_t first = 0; first < parts.size(); first += kMostJoined) {
      const auto group =
          std::span(parts).subspan(first, std::min(kMostJoined, parts.size() - first));
      joined.push_back(group.size() == 1 ? group[0] : concat(group, where));
    }
    parts = std::move(joined);
  }
  return std::move(parts[0]);
}

}  // namespace

void CotangentSums::join(uint32_t slot) {
  const auto found = rows_.find(slot);
  if (found == rows_.end()) return;
  const std::vector<IndexedSlices> parts = std::move(found->second);
  rows_.erase(found);
  const CallSite where = parts[0].from;
  const DType dtype = parts[0].indices.dtype();
  const bool is_one = std::ranges::all_of(
      parts, [&](const IndexedSlices& p) { return p.indices.dtype() == dtype; });
  std::vector<Tensor> indices, values;
  for (const IndexedSlices& part : parts) {
    indices.push_back(is_one ? part.indices : cast(part.indices, kInt64, where));
    values.push_back(part.values);
  }
  sums_[slot] = make_slices({join_all(std::move(indices), where),
                             join_all(std::move(values), where), parts[0].dense_shape, where});
}

void CotangentSums::prepare_for_part(uint32_t slot, CallSite where) {
  Tensor& sum = at(slot);
  if (!sum.has_value()) return;
  is_without_minus_zero_.resize(sums_.size());
  if (is_without_minus_zero_[slot]) return;
  if (TensorAccess::is_sparse(sum)) sum = to_dense(sum);
  const Tensor zero = full(intern_type(sum.dtype(), {}, sum.device()), 0);
  sum = internal::add(std::move(sum), zero, where);
  is_without_minus_zero_[slot] = true;
}

// Rows are added to a dense sum one by one, in the same order as among themselves: the sum that a
// loop continues is dense, and gets the bits of a sum that stays sparse.
void CotangentSums::add_slices(uint32_t slot, const IndexedSlices& rows, CallSite where) {
  prepare_for_part(slot, where);
  set_index(sums_[slot], {IndexItem(rows.indices)}, Arg(rows.values), ScatterMode::kAdd, where);
}

void CotangentSums::add(uint32_t slot, Tensor&& g, CallSite where) {
  Tensor& sum = sums_[slot];
  if (!sum.has_value()) {
    sum = std::move(g);
    return;
  }
  if (TensorAccess::is_sparse(sum) && TensorAccess::is_sparse(g)) {
    std::vector<IndexedSlices>& parts = rows_[slot];
    if (parts.empty()) parts.push_back(*sum.slices());
    parts.push_back(*g.slices());
    if (sum.dtype() != g.dtype()) join(slot);  // an error has the line of this call
    return;
  }
  at(slot);
  if (TensorAccess::is_sparse(sum)) {
    sum = internal::add(to_dense(sum), g, where);
  } else if (TensorAccess::is_sparse(g) && g.type() == sum.type()) {
    add_slices(slot, *g.slices(), where);
  } else {
    sum = internal::add(std::move(sum), g, where);
  }
}

}  // namespace etude::internal
