// SPDX-License-Identifier: Apache-2.0
// Lists of tensors for control flow: counted, split and joined, and given ids of their own.
#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/internal/mode.h"
#include "etude/stage/control_flow.h"
#include "etude/stage/trace.h"

namespace etude::internal {

std::vector<Tensor> present_tensors(const Arguments& arguments) {
  std::vector<Tensor> out;
  for (const Tensor* x : arguments.tensors) {
    if (x->has_value()) out.push_back(*x);
  }
  return out;
}

std::vector<std::string> present_names(const Arguments& arguments, const ArgumentNames& names) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < arguments.tensors.size(); ++i) {
    if (arguments.tensors[i]->has_value()) out.push_back(names.tensors[i]);
  }
  return out;
}

int64_t count_rows(std::string_view op, std::span<const Tensor> xs,
                   std::span<const std::string> names, CallSite where) {
  return located(op, where, [&] {
    ETUDE_REQUIRE(!xs.empty(), "xs has no tensor, so that there are no rows");
    for (std::size_t i = 0; i < xs.size(); ++i) {
      ETUDE_REQUIRE(xs[i].rank() > 0, "'{}' is a scalar, but its rows are along axis 0", names[i]);
      ETUDE_REQUIRE(xs[i].shape()[0] == xs[0].shape()[0],
                    "'{}' has {} rows along axis 0, and '{}' has {}", names[0], xs[0].shape()[0],
                    names[i], xs[i].shape()[0]);
    }
    return xs[0].shape()[0];
  });
}

std::vector<Values> split_rows(std::span<const Tensor> xs) {
  std::vector<Values> out;
  for (const Tensor& x : xs) out.push_back(unstack(x));
  return out;
}

std::vector<Tensor> take_row(std::vector<Values>& rows, int64_t i) {
  std::vector<Tensor> out;
  for (Values& of_one : rows) out.push_back(std::move(of_one[static_cast<std::size_t>(i)]));
  return out;
}

StackedRows::StackedRows() = default;
StackedRows::~StackedRows() = default;

void StackedRows::add(const std::vector<Tensor>& row) {
  rows_.resize(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) rows_[i].push_back(row[i]);
}

std::vector<Tensor> StackedRows::stack(CallSite where) const {
  std::vector<Tensor> out;
  for (const std::vector<Tensor>& of_one : rows_) out.push_back(internal::stack(of_one, 0, where));
  return out;
}

std::vector<Tensor> joined(std::span<const Tensor> a, std::span<const Tensor> b) {
  std::vector<Tensor> out(a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

bool follows_values() noexcept { return mode_word != 0 && !is_tracing(); }

void OwnValues::own(std::vector<Tensor>& xs) {
  ids_.resize(xs.size());
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (!is_differentiable(xs[i].dtype()) || TensorAccess::id(xs[i]) == ids_[i]) continue;
    xs[i] = identity(xs[i], where_);
    ids_[i] = TensorAccess::id(xs[i]);
  }
}

}  // namespace etude::internal
