// SPDX-License-Identifier: Apache-2.0
// Calls that are recorded and run later: the same bits as at once, by a program and call by call,
// and the same errors; so have their gradients.

// spec: Z22.a
#include <fmt/format.h>

#include "etude/core/call/builtin.h"
#include "etude/core/context/pending.h"
#include "etude/lazy/lazy.h"
#include "etude/lazy/metrics.h"
#include "tests/ops/checks.h"

namespace etude::matrix {
namespace {

// The call on operands that are pending themselves.
Call with_pending_operands(const Call& call) {
  Call out = call;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    if (call.is_same_tensor && i > 0 && call.operands[i].ref() == call.operands[0].ref()) {
      out.operands[i] = out.operands[0];
    } else if (call.operands[i].has_value() && !TensorAccess::is_sparse(call.operands[i])) {
      out.operands[i] = internal::identity(call.operands[i], CallSite::here());
    }
  }
  return out;
}

void expect_no_fallback(const Call& call, const LazyMetrics& metrics) {
  expect(metrics.counts().fallbacks == 0, call.label("lazy"),
         [] { return std::string("the program failed, and its calls ran one by one"); });
}

// "no error", or the error of the call or of an observation of its results.
std::string fault_of(const Op& op, const Call& call) {
  try {
    const Values out = execute(op, call.list().view(), call.attrs, CallSite::here());
    for (const Tensor& y : out) {
      if (y.has_value()) internal::observe(y);
    }
  } catch (const Error& error) {
    return fmt::format("{} ({})", error.what(), to_string(error.code()));
  }
  return "no error";
}

}  // namespace

void check_lazy(const Call& call) {
  // All calls of the matrix are programs of one line, and each is to run as its program.
  static const bool is_set = [] {
    LazyOptions options = lazy_options();
    options.max_compiles = 0;
    options.background = false;
    set_lazy_options(options);
    return true;
  }();
  static_cast<void>(is_set);
  const Values want = dense_results(call);
  const LazyMetrics metrics;
  {
    const LazyScope lazy;
    const Values found = dense_results(with_pending_operands(call));
    lazy_barrier();
    compare_lists(call, "lazy", found, {want.data(), want.size()});
    const Values direct = dense_results(call);
    compare_lists(call, "lazy direct", direct, {want.data(), want.size()});
  }
  if (!call.op->is_differentiable() || has_data_sizes(call))
    return expect_no_fallback(call, metrics);
  const std::vector<Tensor> seeds = cotangents(call, want);
  const std::vector<Tensor> all = gradients(call, seeds);
  {
    const LazyScope lazy;
    compare_lists(call, "lazy gradient", gradients(call, seeds), all);
  }
  expect_no_fallback(call, metrics);
}

void check_lazy_error(const Op& op, std::size_t index) {
  const ErrorCase& c = op.def().errors[index];
  for (const Fill fill : {Fill::kDrawn, Fill::kZeros, Fill::kHundreds}) {
    Call call;
    try {
      call = error_call(op, c, fill);
    } catch (const Error&) {
      continue;  // the attributes are refused, in all modes
    }
    const std::string want = fault_of(op, call);
    const LazyScope lazy;
    const std::string found = fault_of(op, call);
    expect(found == want, fmt::format("{} lazy error {}", op.name(), index),
           [&] { return fmt::format("got '{}', want '{}'", found, want); });
  }
}

}  // namespace etude::matrix
