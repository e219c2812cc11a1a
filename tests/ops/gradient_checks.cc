// SPDX-License-Identifier: Apache-2.0
// Derivatives of single calls. Tangents are held against central differences, cotangents against
// tangents by the inner product, second derivatives against differences of first ones.
// spec: CG-15.a, TP-24.b, T12.d
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "etude/core/call/builtin.h"
#include "tests/ops/checks.h"

namespace etude::matrix {
namespace {

constexpr double kStep = 1e-3;

std::vector<Tensor> directions(const Call& call, std::string_view purpose) {
  Draw draw(call.label(purpose));
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    out.push_back(may_move(call, i) ? draw_like(draw, call.operands[i].type()) : Tensor());
  }
  return out;
}

Call moved_call(const Call& call, double h, const std::vector<Tensor>& v) {
  Call out = call;
  for (std::size_t i = 0; i < v.size(); ++i) out.operands[i] = moved(call.operands[i], h, v[i]);
  return out;
}

// Tangents of the results when only the operands with a direction move.
std::vector<Tensor> tangents(const Call& call, const std::vector<Tensor>& v) {
  JvpContext context;
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (v[i].has_value()) context.set_tangent(call.operands[i], v[i]);
  }
  const Values y = run(call);
  std::vector<Tensor> out;
  for (const Tensor& r : y) out.push_back(context.tangent(r));
  return out;
}

using Numbers = std::vector<std::complex<double>>;

Numbers difference(const std::function<Numbers(double)>& f, double step) {
  const Numbers a = f(step), b = f(-step), c = f(2 * step), d = f(-2 * step);
  Numbers out;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool fits = i < b.size() && i < c.size() && i < d.size();
    out.push_back(fits ? (8.0 * (a[i] - b[i]) - (c[i] - d[i])) / (12 * step) : std::nan(""));
  }
  return out;
}

// The derivative of f(h) at 0 by central differences of fourth order; NaN if two steps disagree,
// since then the point is too near to a kink.
Numbers difference(const std::function<Numbers(double)>& f) {
  Numbers out = difference(f, kStep);
  const Numbers finer = difference(f, kStep / 8);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!(std::abs(out[i] - finer[i]) <= 1e-4 * (1 + std::abs(finer[i])))) out[i] = std::nan("");
  }
  return out;
}

std::string text(std::complex<double> v) {
  return v.imag() == 0 ? fmt::format("{:.7g}", v.real())
                       : fmt::format("{:.7g}{:+.7g}i", v.real(), v.imag());
}

void compare_numbers(const std::string& label, const Tensor& got, const Numbers& want, double eps) {
  const Numbers g = got.has_value() ? numbers(got) : Numbers(want.size());
  expect(g.size() == want.size(), label,
         [&] { return fmt::format("got {} numbers, want {}", g.size(), want.size()); });
  std::size_t kinks = 0;
  for (std::size_t k = 0; k < std::min(g.size(), want.size()); ++k) {
    if (std::isnan(want[k].real())) {
      ++kinks;
      continue;
    }
    const bool close = std::abs(g[k] - want[k]) <= eps * (1 + std::abs(want[k]));
    expect(close, label, [&] {
      return fmt::format("element {}: got {}, want {}", k, text(g[k]), text(want[k]));
    });
    if (!close) return;  // one line per operand is enough
  }
  expect(kinks * 4 <= want.size(), label, [&] {
    return fmt::format("{} of {} elements are near a kink; give .ranges or .avoid", kinks,
                       want.size());
  });
}

double product_tolerance(DType dtype) { return real_dtype(dtype) == kFloat64 ? 1e-9 : 2e-4; }

}  // namespace

void check_jvp(const Call& call) {
  if (!is_checked_numerically(call) || real_dtype(call.dtype) != kFloat64) return;
  const std::vector<Tensor> v = directions(call, "direction");
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (!v[i].has_value()) continue;
    std::vector<Tensor> one(v.size());
    one[i] = v[i];
    const std::vector<Tensor> t = tangents(call, one);
    for (std::size_t r = 0; r < t.size(); ++r) {
      const auto f = [&](double h) {
        const Values y = run(moved_call(call, h, one));
        return is_smooth(y[r]) ? numbers(y[r]) : Numbers{};
      };
      const std::string label =
          fmt::format("{} operand {}", call.label("jvp"), operand_label(call, i));
      compare_numbers(label, t[r], difference(f), 1e-6);
    }
  }
}

void check_vjp(const Call& call) {
  if (!is_checked_numerically(call) || real_dtype(call.dtype) == kFloat16 ||
      call.dtype == kBFloat16)
    return;
  const std::vector<Tensor> v = directions(call, "direction");
  const std::vector<Tensor> u = cotangents(call, run(call));
  const std::vector<Tensor> g = gradients(call, u);
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (!v[i].has_value()) continue;
    std::vector<Tensor> one(v.size());
    one[i] = v[i];
    const std::vector<Tensor> t = tangents(call, one);
    double want = 0, scale = 1;
    for (std::size_t r = 0; r < t.size(); ++r) {
      want += inner_product(u[r], t[r]);
      if (t[r].has_value())
        scale += std::sqrt(inner_product(u[r], u[r]) * inner_product(t[r], t[r]));
    }
    const double got = inner_product(g[i], v[i]);
    expect(std::abs(got - want) <= product_tolerance(call.dtype) * scale,
           fmt::format("{} operand {}", call.label("vjp"), operand_label(call, i)),
           [&] { return fmt::format("got {:.7g}, want {:.7g}", got, want); });
  }
}

void check_second_order(const Call& call) {
  if (!is_checked_numerically(call) || call.dtype != kFloat64) return;
  const std::vector<Tensor> v = directions(call, "second direction"),
                            w = directions(call, "third direction");
  const std::vector<Tensor> u = cotangents(call, run(call));
  const auto slope = [&](double h) {
    const std::vector<Tensor> g = gradients(moved_call(call, h, w), u);
    double sum = 0;
    for (std::size_t i = 0; i < g.size(); ++i) sum += inner_product(g[i], v[i]);
    return Numbers{sum};
  };
  std::vector<Tensor> second(v.size());
  {
    Tape outer;
    TapeContext context(outer);
    for (std::size_t i = 0; i < v.size(); ++i) {
      if (v[i].has_value()) outer.watch(call.operands[i]);
    }
    std::vector<Tensor> targets, seeds;
    const std::vector<Tensor> g = gradients(call, u);
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (!g[i].has_value() || !v[i].has_value()) continue;
      targets.push_back(g[i]);
      seeds.push_back(v[i]);
    }
    second = outer.gradient(targets, call.operands, seeds);
  }
  double got = 0;
  for (std::size_t i = 0; i < second.size(); ++i) got += inner_product(second[i], w[i]);
  const double want = difference(slope)[0].real();
  if (std::isnan(want)) return note_kink();
  expect(std::abs(got - want) <= 1e-5 * (1 + std::abs(want)), call.label("second order"),
         [&] { return fmt::format("got {:.7g}, want {:.7g}", got, want); });
}

void check_tape(const Call& call) {
  const Values plain = run(call);
  Tape tape({.persistent = true});
  Values y;
  {
    TapeContext context(tape);
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      if (may_move(call, i)) tape.watch(call.operands[i]);
    }
    y = run(call);
  }
  for (std::size_t r = 0; r < y.size(); ++r) {
    expect(same_bits(y[r], plain[r]), call.label("tape"), [&] {
      return fmt::format("result {}: got {}, want {}", r, show(y[r]), show(plain[r]));
    });
  }
  if (!call.op->is_differentiable()) return;
  const std::vector<Tensor> g =
      tape.gradient({y.data(), y.size()}, call.operands, cotangents(call, y));
  for (std::size_t i = 0; i < g.size(); ++i) {
    const std::string label =
        fmt::format("{} operand {}", call.label("gradient"), operand_label(call, i));
    expect(may_move(call, i) || !g[i].has_value(), label,
           [&] { return "got " + show(g[i]) + ", want nothing"; });
    if (!g[i].has_value() || !may_move(call, i)) continue;
    const Tensor dense = to_dense(g[i]);
    expect(dense.type() == call.operands[i].type(), label, [&] {
      return fmt::format("is {}, want {}", dense.type()->to_string(),
                         call.operands[i].type()->to_string());
    });
  }
}

// spec: V40.a
void check_snapshot(const Call& call) {
  if (!call.op->is_differentiable() || call.is_same_tensor) return;
  const std::vector<Tensor> u = cotangents(call, run(call));
  const auto gradient = [&](bool write) {
    Tape tape;
    Values y;
    {
      TapeContext context(tape);
      Call inside = call;
      for (std::size_t i = 0; i < call.operands.size(); ++i) {
        if (!may_move(call, i)) {
          inside.operands[i] = deep_copy(call.operands[i]);
          continue;
        }
        tape.watch(call.operands[i]);
        // A value of its own, so that writing it leaves the source alone.
        const Tensor zero = internal::full(call.operands[i].type(), 0);
        inside.operands[i] = internal::add(Tensor(call.operands[i]), zero);
      }
      y = run(inside);
      for (Tensor& x : inside.operands) {
        if (!write || !x.has_value() || x.nbytes() == 0) continue;
        std::memset(TensorAccess::writable(x), 0x3B, static_cast<std::size_t>(x.nbytes()));
      }
    }
    return tape.gradient({y.data(), y.size()}, call.operands, u);
  };
  const std::vector<Tensor> want = gradient(false), got = gradient(true);
  for (std::size_t i = 0; i < got.size(); ++i) {
    expect(same_bits(got[i], want[i]),
           fmt::format("{} operand {}", call.label("written later"), operand_label(call, i)),
           [&] { return fmt::format("got {}, want {}", show(got[i]), show(want[i])); });
  }
}

// spec: TP-23.a, TP-23.b, CG-03.a
void check_undifferentiable(const Call& call) {
  if (call.op->is_differentiable()) return;
  bool moves = false, smooth = false;
  for (std::size_t i = 0; i < call.operands.size(); ++i) moves = moves || may_move(call, i);
  const Values y = run(call);
  for (const Tensor& r : y) smooth = smooth || is_smooth(r);
  if (!moves || !smooth) return;
  if (!call.op->def().no_derivative.empty()) {
    for (const Tensor& g : gradients(call, {})) {
      expect(!g.has_value(), call.label("gradient"),
             [&] { return "got " + show(g) + ", want nothing"; });
    }
    return;
  }
  std::string seen = "no error";
  try {
    gradients(call, {});
  } catch (const Error& error) {
    seen = error.what();
  }
  expect(seen.find(call.op->name()) != std::string::npos &&
             seen.find("no derivative") != std::string::npos,
         call.label("gradient"),
         [&] { return "got '" + seen + "', want an error that names the op"; });
}

}  // namespace etude::matrix
