// SPDX-License-Identifier: Apache-2.0
// Calls on batches of examples: as the calls for each example, and so are their gradients.
// spec: D38
#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "etude/autodiff/batch.h"
#include "etude/base/warning.h"
#include "tests/ops/checks.h"

namespace etude::matrix {
namespace {

constexpr int kExamples = 3;

Tensor joined(const std::vector<Tensor>& rows) {
  std::vector<int64_t> sizes = rows[0].shape().to_vector();
  sizes.insert(sizes.begin(), static_cast<int64_t>(rows.size()));
  Tensor out = internal::make_tensor(intern_type(rows[0].dtype(), Shape(sizes)));
  char* to = static_cast<char*>(TensorAccess::writable(out));
  for (const Tensor& row : rows) {
    const auto bytes = static_cast<std::size_t>(row.nbytes());
    if (bytes > 0) std::memcpy(to, TensorAccess::data(row), bytes);
    to += bytes;
  }
  return out;
}

// Example e of a batch.
Tensor part(const Tensor& batch, int e) {
  const auto sizes = batch.shape().sizes().subspan(1);
  Tensor out = internal::make_tensor(intern_type(batch.dtype(), Shape(sizes)));
  const auto bytes = static_cast<std::size_t>(out.nbytes());
  if (bytes > 0) {
    std::memcpy(
        TensorAccess::writable(out),
        static_cast<const char*>(TensorAccess::data(batch)) + bytes * static_cast<std::size_t>(e),
        bytes);
  }
  return out;
}

// Rules may add in another order, never compute with fewer bits.
double tolerance(DType dtype) {
  switch (dtype) {
    case kFloat64:
    case kComplex128:
      return 1e-12;
    case kFloat16:
      return 4e-3;
    case kBFloat16:
      return 3e-2;
    default:
      return is_differentiable(dtype) ? 2e-5 : 0;
  }
}

bool is_near(const Tensor& got, const Tensor& want) {
  if (!got.has_value() || !want.has_value()) return got.has_value() == want.has_value();
  if (same_bits(got, want)) return true;
  if (got.type() != want.type()) return false;
  const auto a = numbers(got), b = numbers(want);
  double largest = 1;
  for (const auto& value : b) {
    if (std::isfinite(std::abs(value))) largest = std::max(largest, std::abs(value));
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool is_same = a[i] == b[i] || (std::isnan(std::abs(a[i])) && std::isnan(std::abs(b[i])));
    if (!is_same && !(std::abs(a[i] - b[i]) <= tolerance(got.dtype()) * largest)) return false;
  }
  return true;
}

// The same call for several examples. The operands in `mask` differ by example.
struct Examples {
  std::vector<Call> calls;
  uint64_t mask;

  Examples(const Call& call, uint64_t m) : mask(m) {
    for (int e = 0; e < kExamples; ++e) {
      calls.push_back(call_of_seed(call, e));
      for (std::size_t i = 0; i < call.operands.size(); ++i) {
        if (((mask >> i) & 1) == 0)
          calls[static_cast<std::size_t>(e)].operands[i] = call.operands[i];
      }
    }
  }
  // The call inside a batch.
  Call inside(BatchContext& context) const {
    Call out = calls[0];
    for (std::size_t i = 0; i < out.operands.size(); ++i) {
      if (((mask >> i) & 1) == 0 || !out.operands[i].has_value()) continue;
      std::vector<Tensor> rows;
      for (const Call& call : calls) rows.push_back(call.operands[i]);
      out.operands[i] = context.example_of(joined(rows));
    }
    return out;
  }
};

void compare(const Call& call, std::string_view mode, uint64_t mask, std::span<const Tensor> got,
             const std::vector<std::vector<Tensor>>& want) {
  const std::string label = call.label(mode) + fmt::format(" operands {:b}", mask);
  expect(got.size() == want[0].size(), label,
         [&] { return fmt::format("got {} results, want {}", got.size(), want[0].size()); });
  for (std::size_t r = 0; r < std::min(got.size(), want[0].size()); ++r) {
    for (int e = 0; e < kExamples; ++e) {
      const Tensor& one = want[static_cast<std::size_t>(e)][r];
      const Tensor mine = got[r].has_value() ? part(got[r], e) : Tensor();
      expect(is_near(mine, one), label, [&] {
        return fmt::format("result {} of example {}: got {}, want {}", r, e, show(mine), show(one));
      });
    }
  }
}

void check_values(const Call& call, uint64_t mask) {
  const Examples examples(call, mask);
  std::vector<std::vector<Tensor>> want;
  for (const Call& each : examples.calls) {
    const Values y = run(each);
    want.emplace_back(y.begin(), y.end());
    for (std::size_t r = 0; r < y.size(); ++r) {
      if (y[r].type() != want[0][r].type()) return;  // shapes that depend on data
    }
  }
  std::vector<Tensor> got;
  {
    BatchContext context(kExamples);
    const Values y = run(examples.inside(context));
    for (const Tensor& r : y) got.push_back(context.batch_of(r));
  }
  compare(call, "batch", mask, got, want);
}

void check_gradients(const Call& call, uint64_t mask) {
  const Examples examples(call, mask);
  std::vector<std::vector<Tensor>> want;
  const std::vector<Tensor> seeds = cotangents(call, run(call));
  for (const Call& each : examples.calls) want.push_back(gradients(each, seeds));
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    // Some examples may have no gradient for an operand that all share.
    for (auto& each : want) {
      if (each[i].has_value() != want[0][i].has_value()) return;
    }
  }
  std::vector<Tensor> got;
  {
    BatchContext context(kExamples);
    for (const Tensor& g : gradients(examples.inside(context), seeds)) {
      got.push_back(context.batch_of(g));
    }
  }
  compare(call, "gradient in a batch", mask, got, want);
}

}  // namespace

void check_batch(const Call& call) {
  if (call.operands.empty() || call.operands.size() > 63 || call.is_same_tensor) return;
  std::vector<uint64_t> masks = {(uint64_t{1} << call.operands.size()) - 1};
  for (std::size_t i = 0; call.operands.size() > 1 && i < call.operands.size(); ++i) {
    if (call.operands[i].has_value()) masks.push_back(uint64_t{1} << i);
  }
  const bool has_gradient = call.op->is_differentiable() && call.op->def().data == nullptr &&
                            is_differentiable(call.dtype);
  for (const uint64_t mask : masks) {
    check_values(call, mask);
    if (has_gradient) check_gradients(call, mask);
  }
}

}  // namespace etude::matrix
