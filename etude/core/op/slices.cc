// SPDX-License-Identifier: Apache-2.0
#include "etude/core/op/slices.h"

#include "etude/base/check.h"
#include "etude/base/warning.h"
#include "etude/core/call/builtin.h"

namespace etude {
namespace {

constexpr int64_t kHugeBytes = int64_t{64} << 20;

// Warns about implicit zeros if they are many, and most of the result.
void warn_if_huge(const IndexedSlices& rows) {
  const Type* dense = intern_type(rows.values.dtype(), rows.dense_shape, rows.values.device());
  if (dense->bytes() < kHugeBytes || dense->bytes() / 4 < rows.values.nbytes()) return;
  const std::string made =
      rows.from.known() ? fmt::format("of take at {}:{} ", rows.from.file, rows.from.line) : "";
  internal::warn_once(
      fmt::format("dense rows {}:{}", rows.from.file, rows.from.line),
      fmt::format(
          "the sparse gradient {}holds {} rows and is made dense: {}, {} MiB. Ops other than "
          "negation and scaling do so; use slices() to work on the rows",
          made, rows.indices.size(), dense->to_string(), dense->bytes() >> 20));
}

}  // namespace

Tensor to_dense(const Tensor& x) {
  if (!x.has_value() || !TensorAccess::is_sparse(x)) return x;
  const IndexedSlices s = *x.slices();
  for (int axis = 0; axis < s.dense_shape.rank(); ++axis) {
    ETUDE_REQUIRE_CODE(kFailedPrecondition, s.dense_shape[axis] != kAny,
                       "sparse rows cannot be made dense: size of axis {} of {} is not known. Give "
                       "the full dense_shape, or use slices()",
                       axis, s.dense_shape.to_string());
  }
  warn_if_huge(s);
  return internal::segment_sum(s.values, s.indices, s.dense_shape[0]);
}

namespace internal {

int slices_operand(Operands in) noexcept {
  int found = -1;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in[i].has_value()) return -1;
    if (TensorAccess::is_sparse(in[i])) {
      if (found >= 0) return -1;
      found = static_cast<int>(i);
    }
  }
  if (found < 0) return -1;
  const int rank = in[static_cast<std::size_t>(found)].rank();
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool is_number = in[i].type()->count() == 1 && in[i].rank() <= rank;
    if (static_cast<int>(i) != found && !is_number) return -1;
  }
  return found;
}

Tensor with_rows(const Tensor& like, Tensor values) {
  IndexedSlices rows = *like.slices();
  rows.values = std::move(values);
  return make_slices(std::move(rows));
}

Values execute_on_slices(const Op& op, Operands in, int i, const Attrs& attrs, CallSite where) {
  const Tensor& sparse = in[static_cast<std::size_t>(i)];
  const Tensor values = sparse.slices()->values;
  OperandList list;
  for (std::size_t k = 0; k < in.size(); ++k) list.add(static_cast<int>(k) == i ? values : in[k]);
  Values out = execute(op, list.view(), attrs, where);
  out[0] = with_rows(sparse, std::move(out[0]));
  return out;
}

}  // namespace internal
}  // namespace etude
