// SPDX-License-Identifier: Apache-2.0
// Splits and joins lists of tensors for control flow.
#include "etude/core/call/builtin.h"
#include "etude/stage/control_flow.h"

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

}  // namespace etude::internal
