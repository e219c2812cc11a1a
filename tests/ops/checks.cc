// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/checks.h"

#include <atomic>
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/core/internal/convert.h"
#include "etude/plan/plan.h"

namespace etude::matrix {
namespace {

std::atomic<int64_t> checks{0}, kinks{0};

std::string grouped(int64_t n) {
  std::string text;
  for (; n >= 1000; n /= 1000) text = fmt::format(",{:03}{}", n % 1000, text);
  return fmt::format("{}{}", n, text);
}

}  // namespace

void expect(bool holds, const std::string& label, const std::function<std::string()>& message) {
  ++checks;
  if (!holds) ADD_FAILURE() << label << ": " << message();
}

void note_kink() { ++kinks; }

std::string summary(std::size_t ops) {
  return fmt::format("matrix: {} ops, {} checks, {} second derivatives next to a kink",
                     grouped(static_cast<int64_t>(ops)), grouped(checks), grouped(kinks));
}

Tensor deep_copy(const Tensor& x) {
  if (!x.has_value()) return {};
  Tensor copy = internal::make_tensor(x.type());
  if (x.nbytes() > 0)
    std::memcpy(TensorAccess::writable(copy), TensorAccess::data(x),
                static_cast<std::size_t>(x.nbytes()));
  return copy;
}

std::vector<std::complex<double>> numbers(const Tensor& x) {
  return to_dense(x).to_vector<std::complex<double>>();
}

Tensor moved(const Tensor& x, double h, const Tensor& v) {
  if (!v.has_value()) return x;
  std::vector<std::complex<double>> a = numbers(x);
  const std::vector<std::complex<double>> b = numbers(v);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += h * b[i];
  Tensor out = internal::make_tensor(x.type());
  internal::convert_elements(TensorAccess::writable(out), x.dtype(), a.data(), kComplex128,
                             x.size());
  return out;
}

double inner_product(const Tensor& a, const Tensor& b) {
  if (!a.has_value() || !b.has_value()) return 0;
  const auto x = numbers(a), y = numbers(b);
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (std::conj(x[i]) * y[i]).real();
  return sum;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() == b.has_value();
  return same_value(to_dense(a), to_dense(b));
}

std::string show(const Tensor& x) { return x.has_value() ? x.to_string() : "nothing"; }

Values run(const Call& call) {
  return execute(*call.op, call.list().view(), call.attrs, CallSite::here());
}

bool may_move(const Call& call, std::size_t i) {
  return call.operands[i].has_value() && is_differentiable(call.operands[i].dtype());
}
bool is_smooth(const Tensor& y) { return is_differentiable(y.dtype()); }

std::string operand_label(const Call& call, std::size_t i) {
  const OperandDef& def = call.op->operand(i);
  return def.variadic ? fmt::format("{}[{}]", def.name, i + 1 - call.op->arity())
                      : std::string(def.name);
}

std::vector<Tensor> cotangents(const Call& call, const Values& y) {
  Draw draw(call.label("cotangent"));
  std::vector<Tensor> out;
  for (const Tensor& r : y) out.push_back(is_smooth(r) ? draw_like(draw, r.type()) : Tensor());
  return out;
}

std::vector<Tensor> gradients(const Call& call, const std::vector<Tensor>& seeds) {
  Tape tape;
  Values y;
  {
    TapeContext context(tape);
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      if (may_move(call, i)) tape.watch(call.operands[i]);
    }
    y = run(call);
  }
  std::vector<Tensor> out = tape.gradient({y.data(), y.size()}, call.operands, seeds);
  for (Tensor& g : out) {
    if (g.has_value()) g = to_dense(g);
  }
  return out;
}

internal::TracedGraph trace_of(const Call& call, std::span<const Type* const> types) {
  internal::TraceContext trace(std::string(call.op->name()), {});
  Call symbolic = call;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    if (types[i] == nullptr) continue;
    symbolic.operands[i] = trace.add_argument(operand_label(call, i), types[i]);
  }
  const Values out = run(symbolic);
  trace.keep_constants();
  return trace.finish({out.data(), out.size()});
}

GraphRef graph_of(const Call& call) {
  std::vector<const Type*> types;
  for (const Tensor& x : call.operands) types.push_back(x.has_value() ? x.type() : nullptr);
  return trace_of(call, types).graph;
}

bool has_data_sizes(const Call& call) {
  const OpDef& def = call.op->def();
  return def.data != nullptr && def.batch == nullptr;
}

std::vector<Tensor> inputs_of(const Call& call) {
  std::vector<Tensor> out;
  for (const Tensor& x : call.operands) {
    if (x.has_value()) out.push_back(x);
  }
  return out;
}

Values dense_results(const Call& call) {
  Values out = run(call);
  for (Tensor& y : out) {
    if (y.has_value()) y = to_dense(y);
  }
  return out;
}

std::vector<Tensor> run_plan(const Graph& graph, const std::vector<Tensor>& inputs) {
  const OperandList list{std::span<const Tensor>(inputs)};
  const Values out = internal::Plan::of(graph)->run(list.view());
  return {out.begin(), out.end()};
}

internal::Chosen movable_inputs(const Call& call) {
  std::vector<bool> out;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    if (call.operands[i].has_value()) out.push_back(may_move(call, i));
  }
  return internal::Chosen(std::move(out));
}

bool has_graph_derivative(const Call& call, const Graph& graph) {
  try {
    internal::derivative_of(graph, movable_inputs(call));
    return true;
  } catch (const Error& error) {
    const bool is_named =
        std::string_view(error.what()).find("depends on data") != std::string::npos;
    expect(error.code() == ErrorCode::kUnimplemented && is_named, call.label("staged gradient"),
           [&] { return std::string(error.what()); });
    return false;
  }
}

void compare_lists(const Call& call, std::string_view mode, std::span<const Tensor> got,
                   std::span<const Tensor> want) {
  expect(got.size() == want.size(), call.label(mode),
         [&] { return fmt::format("got {} tensors, want {}", got.size(), want.size()); });
  for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    expect(same_bits(got[i], want[i]), call.label(mode), [&] {
      return fmt::format("output {}: got {}, want {}", i, show(got[i]), show(want[i]));
    });
  }
}

bool is_checked_numerically(const Call& call) {
  return call.op->is_differentiable() && call.op->def().samples.no_gradient_check.empty() &&
         !call.is_same_tensor && !call.is_exempt;
}

}  // namespace etude::matrix
