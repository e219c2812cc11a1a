// SPDX-License-Identifier: Apache-2.0
// Orthogonal factors, eigenvalues, singular values and functions of them. The rules are from Giles,
// "Collected matrix derivative results", 2008, with conjugates for complex matrices.
#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/linalg/linalg.h"
#include "etude/ops.h"
#include "etude/ops/families.h"
#include "etude/ops/linalg/matrices.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

constexpr std::string_view kPhases =
    "complex vectors have phases that a decomposition chooses, and the rule is that of functions "
    "that do not depend on them";

// A function, since a global object may be initialised after the ops are registered.
std::vector<ErrorCase> matrix_errors() {
  return {{{"float32[3]"}, "a matrix needs two axes: [.., rows, columns]"},
          {{"bfloat16[2,2]"}, "operand 'x' is bfloat16, but must be one of"}};
}

std::vector<ErrorCase> with_square_error(std::vector<ErrorCase> errors) {
  errors.push_back({{"float32[2,3]"}, "2 rows and 3 columns, but it must be square"});
  return errors;
}

int64_t rows_of(const Shape& x) { return x[x.rank() - 2]; }
int64_t columns_of(const Shape& x) { return x[x.rank() - 1]; }

// --- qr ---

Types tall_qr_type(const TypeCall& call) {
  const Shape& x = call.shape(0);
  require_matrix(x, "x");
  const int64_t n = columns_of(x);
  ETUDE_REQUIRE(rows_of(x) >= n, "operand 'x' has shape {}, but needs as many rows as columns",
                x.to_string());
  return {call.types[0], call.make(call.dtype(0), with_last(x, 2, {n, n}))};
}

Types complete_qr_type(const TypeCall& call) {
  const Shape& x = call.shape(0);
  require_matrix(x, "x");
  const int64_t m = rows_of(x);
  return {call.make(call.dtype(0), with_last(x, 2, {m, m})), call.types[0]};
}

// x moves by (gq + q sym(gr r^H - q^H gq)) r^-H, where sym takes the upper half and its adjoint.
Values tall_qr_vjp(const VjpCall& call) {
  const Tensor &q = call.out[0], &r = call.out[1];
  Tensor inner;
  if (call.cotangents.has(1)) inner = product(triu(call.cotangents[1]), adjoint(r));
  if (call.cotangents.has(0)) {
    const Tensor part = product(adjoint(q), call.cotangents[0]);
    inner = inner.has_value() ? inner - part : -part;
  }
  const Tensor upper = 0.5 * (triu(inner) + triu(inner, {.k = 1}));
  Tensor left = product(q, upper + adjoint(upper));
  if (call.cotangents.has(0)) left = left + call.cotangents[0];
  return {adjoint(triangular(r, adjoint(left), false, false))};
}

// A wide x = [a, b] has the q of its square part a, and r = [r of a, q^H b].
Values lower_qr(Operands in, const Attrs& attrs) {
  const Tensor& x = in[0];
  const std::string& mode = attrs.text("mode");
  ETUDE_REQUIRE(mode == "reduced" || mode == "complete",
                "mode is \"{}\", but must be reduced or complete", mode);
  require_matrix(x.shape(), "x");
  const int64_t m = rows_of(x.shape()), n = columns_of(x.shape());
  if (m > n && mode == "complete") return run_all(op<"complete_qr">(), {&x});
  if (m >= n) return run_all(op<"tall_qr">(), {&x});
  const auto axis = static_cast<std::size_t>(x.rank() - 1);
  std::vector<int64_t> start(axis + 1, 0), stop = x.shape().to_vector();
  stop[axis] = m;
  const Tensor square = slice(x, start, stop);
  start[axis] = m;
  stop[axis] = n;
  const Tensor rest = slice(x, start, stop);
  const Values factors = run_all(op<"tall_qr">(), {&square});
  return {factors[0], concat({factors[1], product(adjoint(factors[0]), rest)}, {.axis = -1})};
}

// --- eigenvalues ---

Types eigh_type(const TypeCall& call) {
  const Shape& x = call.shape(0);
  require_square(x, "x");
  return {call.make(real_dtype(call.dtype(0)), leading(x, 1)), call.types[0]};
}

// x moves by v (diag(gw) + (v^H gv) / (w_j - w_i)) v^H.
Values eigh_vjp(const VjpCall& call) {
  const Tensor &w = call.out[0], &v = call.out[1];
  const DType dtype = v.dtype();
  Tensor inner, gaps;
  if (call.cotangents.has(1)) {
    gaps = as_row(w) - as_column(w);
    gaps = gaps + identity_like(gaps);
    inner = off_diagonal(product(adjoint(v), call.cotangents[1])) /
            internal::cast(without_zeros(gaps), dtype);
  }
  if (call.cotangents.has(0)) {
    add_to(inner, diagonal_matrix(internal::cast(call.cotangents[0], dtype)));
  }
  Tensor moved = product(product(v, inner), adjoint(v));
  if (gaps.has_value()) {
    moved = infinite_at_equal_values(moved, gaps, arrives(call.cotangents[1]));
  }
  return {to_lower_half(moved)};
}

bool is_complex_operand(Operands in) { return is_complex(in[0].dtype()); }

Values lower_eigh(Operands in, const Attrs&) {
  require_square(in[0].shape(), "x");
  return run_all(is_complex_operand(in) ? op<"complex_eigh">() : op<"real_eigh">(), {&in[0]});
}

Values eigvalsh_vjp(const VjpCall& call) {
  const Tensor v = lower_eigh(call.in, {})[1];
  const Tensor scaled = v * as_row(internal::cast(call.ct(), v.dtype()));
  return {to_lower_half(product(scaled, adjoint(v)))};
}

OpDef eigh(std::string_view name, DTypeSet dtypes) {
  OpDef def{
      .name = name,
      .space = "internal",
      .doc = "The eigenvalues of hermitian x, ascending, and its eigenvectors as columns.",
      .operands = {"x"},
      .results = {"values", "vectors"},
      .dtypes = dtypes,
      .type = eigh_type,
      .kernels = {.cpu = [](const PrepareCall& call) { kernels::cpu::prepare_eigh(call, true); }},
      .vjp = eigh_vjp,
      .batch = batching::same,
      .samples = {.calls = {{{"[3,3]"}}, {{"[2,4,4]"}}, {{"[0,2,2]"}}, {{"[0,0]"}}}, .ulp = 64},
  };
  def.errors = {{{dtypes == kComplex ? "complex64[2,3]" : "float32[2,3]"},
                 "2 rows and 3 columns, but it must be square"}};
  if (dtypes == kComplex) def.samples.no_gradient_check = kPhases;
  return def;
}

// --- singular values ---

Types svd_type(const TypeCall& call, bool full) {
  const Shape& x = call.shape(0);
  require_matrix(x, "x");
  const int64_t m = rows_of(x), n = columns_of(x), k = std::min(m, n);
  const DType dtype = call.dtype(0);
  return {call.make(dtype, with_last(x, 2, {m, full ? m : k})),
          call.make(real_dtype(dtype), with_last(x, 2, {k})),
          call.make(dtype, with_last(x, 2, {full ? n : k, n}))};
}

Tensor skew(const Tensor& x) { return x - adjoint(x); }

// The change of x = u s vh within the spaces of u and v.
Tensor inner_svd(const VjpCall& call, const Tensor& s, const Tensor& gaps) {
  const Tensor &u = call.out[0], &vh = call.out[2];
  Tensor inner;
  if (call.cotangents.has(1)) {
    inner = diagonal_matrix(internal::cast(call.cotangents[1], u.dtype()));
  }
  if (call.cotangents.has(0)) {
    const Tensor turn = skew(product(adjoint(u), call.cotangents[0]));
    add_to(inner, off_diagonal(turn) / gaps * as_row(s));
    if (is_complex(u.dtype())) {
      add_to(inner, diagonal_matrix(diagonal_of(turn) / (2.0 * without_zeros(s))));
    }
  }
  if (call.cotangents.has(2)) {
    const Tensor turn = skew(product(vh, adjoint(call.cotangents[2])));
    add_to(inner, as_column(s) * (off_diagonal(turn) / gaps));
  }
  return inner;
}

Values svd_vjp(const VjpCall& call) {
  const Tensor &u = call.out[0], &vh = call.out[2];
  const Shape& x = call.in[0].shape();
  const bool of_u = call.cotangents.has(0), of_v = call.cotangents.has(2);
  const bool by_u = rows_of(x) > columns_of(x) && of_u, by_v = rows_of(x) < columns_of(x) && of_v;
  const Tensor s = internal::cast(call.out[1], u.dtype());
  Tensor gaps;
  if (of_u || of_v) {
    const Tensor squares = call.out[1] * call.out[1];
    gaps = as_row(squares) - as_column(squares);
    // A division by the values themselves needs nonzero values.
    const bool by_values = by_u || by_v || (of_u && is_complex(u.dtype()));
    gaps = gaps + (by_values ? diagonal_matrix(call.out[1]) : identity_like(gaps));
  }
  const Tensor safe = gaps.has_value() ? internal::cast(without_zeros(gaps), u.dtype()) : gaps;
  Tensor left = product(u, inner_svd(call, s, safe));
  if (by_u) {  // the part outside the space of u
    const Tensor away = call.cotangents[0] / as_row(without_zeros(s));
    left = left + away - product(u, product(adjoint(u), away));
  }
  Tensor out = product(left, vh);
  if (by_v) {
    const Tensor away = call.cotangents[2] / as_column(without_zeros(s));
    out = out + product(u, away - product(product(away, adjoint(vh)), vh));
  }
  if (of_u) out = infinite_at_equal_values(out, gaps, arrives(call.cotangents[0]));
  if (of_v) out = infinite_at_equal_values(out, gaps, arrives(call.cotangents[2]));
  return {out};
}

Values lower_svd(Operands in, const Attrs& attrs) {
  const Shape& x = in[0].shape();
  require_matrix(x, "x");
  if (attrs.flag("full_matrices") && rows_of(x) != columns_of(x)) {
    return run_all(op<"full_svd">(), {&in[0]});
  }
  return run_all(is_complex_operand(in) ? op<"complex_svd">() : op<"real_svd">(), {&in[0]});
}

Values svdvals_vjp(const VjpCall& call) {
  const Values parts =
      run_all(is_complex_operand(call.in) ? op<"complex_svd">() : op<"real_svd">(), {&call.in[0]});
  const Tensor ct = internal::cast(call.ct(), call.in[0].dtype());
  return {product(parts[0] * as_row(ct), parts[2])};
}

OpDef thin_svd(std::string_view name, DTypeSet dtypes) {
  OpDef def{
      .name = name,
      .space = "internal",
      .doc = "u, s and vh of min(rows, columns) vectors each.",
      .operands = {"x"},
      .results = {"u", "s", "vh"},
      .dtypes = dtypes,
      .type = [](const TypeCall& call) { return svd_type(call, false); },
      .kernels = {.cpu =
                      [](const PrepareCall& call) {
                        kernels::cpu::prepare_svd(call, kernels::cpu::SvdResults::kThin);
                      }},
      .vjp = svd_vjp,
      .batch = batching::same,
      .samples = {.calls = {{{"[3,3]"}}, {{"[70,2]"}}, {{"[2,70]"}}, {{"[2,3,3]"}}, {{"[0,3]"}}},
                  .ulp = 64},
  };
  def.errors = {{{dtypes == kComplex ? "complex64[3]" : "float32[3]"}, "a matrix needs two axes"}};
  if (dtypes == kComplex) def.samples.no_gradient_check = kPhases;
  return def;
}

// --- functions of singular values ---

double rtol_of(const Attrs& attrs) { return attrs.has("rtol") ? attrs.real("rtol") : -1; }

void require_rtol(const Attrs& attrs) {
  ETUDE_REQUIRE(!attrs.has("rtol") || attrs.real("rtol") >= 0, "rtol is {}, but must be 0 or more",
                rtol_of(attrs));
}

Types pinv_type(const TypeCall& call) {
  const Shape& x = call.shape(0);
  require_matrix(x, "x");
  require_rtol(call.attrs);
  return {call.make(call.dtype(0), with_last(x, 2, {columns_of(x), rows_of(x)}))};
}

// Golub and Pereyra, 1973: -p dx p + p p^H dx^H (1 - x p) + (1 - p x) dx^H p^H p.
Values pinv_vjp(const VjpCall& call) {
  const Tensor &x = call.in[0], &p = call.out[0];
  const Tensor ph = adjoint(p), gh = adjoint(call.ct());
  const Tensor a = product(product(gh, p), ph), b = product(product(ph, p), gh);
  return {-product(product(ph, call.ct()), ph) + (a - product(x, product(p, a))) +
          (b - product(product(b, p), x))};
}

Values lower_lstsq(Operands in, const Attrs& attrs) {
  require_matrix(in[0].shape(), "a");
  const Shape &a = in[0].shape(), &b = in[1].shape();
  ETUDE_REQUIRE(
      b.rank() >= 1 && b[b.rank() == 1 ? 0 : b.rank() - 2] == rows_of(a),
      "operand 'a' has shape {} and operand 'b' has shape {}: b must be [{}] or [.., {}, k]",
      a.to_string(), b.to_string(), rows_of(a), rows_of(a));
  const Tensor p = run(op<"pinv">(), {&in[0]}, {attrs.value("rtol")});
  return {matmul(p, in[1])};
}

void define_qr(Registry& r) {
  r.define({
      .name = "tall_qr",
      .space = "internal",
      .doc = "q with orthonormal columns and the upper triangle r whose product is x.",
      .operands = {"x"},
      .results = {"q", "r"},
      .dtypes = kMatrixDTypes,
      .type = tall_qr_type,
      .kernels = {.cpu = [](const PrepareCall& call) { kernels::cpu::prepare_qr(call, false); }},
      .vjp = tall_qr_vjp,
      .batch = batching::same,
      .samples = {.calls = {{{"[3,3]"}}, {{"[2,4,2]"}}, {{"[0,2,2]"}}, {{"[2,0]"}}}, .ulp = 64},
      .errors = {{{"float32[2,3]"}, "needs as many rows as columns"}},
  });
  r.define({
      .name = "complete_qr",
      .space = "internal",
      .doc = "As tall_qr, with a square q; its further columns are any, so that nothing can be "
             "derived from it.",
      .operands = {"x"},
      .results = {"q", "r"},
      .dtypes = kMatrixDTypes,
      .type = complete_qr_type,
      .kernels = {.cpu = [](const PrepareCall& call) { kernels::cpu::prepare_qr(call, true); }},
      .batch = batching::same,
      .samples = {.calls = {{{"[4,2]"}}, {{"[2,2,3]"}}, {{"[2,0]"}}}, .ulp = 64},
      .errors = matrix_errors(),
  });
  std::vector<ErrorCase> errors = matrix_errors();
  errors.push_back({{"float32[3,2]"},
                    "mode is \"full\", but must be reduced or complete",
                    {{"mode", std::string("full")}}});
  r.define({
      .name = "qr",
      .space = kLinalgSpace,
      .kind = Kind::kComposition,
      .doc = "x = q r for each matrix of x [.., m, n]. q [.., m, k] has orthonormal columns, with "
             "k = min(m, n), and r is an upper triangle. With mode \"complete\", q is square and "
             "has no derivative for m > n.",
      .operands = {"x"},
      .attrs = {{"mode", "reduced"}},
      .results = {"q", "r"},
      .dtypes = kMatrixDTypes,
      .lower = lower_qr,
      .samples = {.calls = {{{"[3,3]"}},
                            {{"[2,4,2]"}},
                            {{"[2,70]"}},
                            {{"[2,3,3]"}, {{"mode", std::string("complete")}}}},
                  .ulp = 64},
      .errors = errors,
  });
}

void define_eigenvalues(Registry& r) {
  const std::vector<ErrorCase> errors = with_square_error(matrix_errors());
  r.define(eigh("real_eigh", kRealMatrixDTypes));
  r.define(eigh("complex_eigh", kComplex));
  r.define({
      .name = "eigh",
      .space = kLinalgSpace,
      .kind = Kind::kComposition,
      .doc = "The eigenvalues of symmetric or hermitian x in ascending order, and the eigenvectors "
             "as columns. Only the lower half of x is read, and only this half gets cotangents. "
             "Gradients by vectors are infinite if eigenvalues are equal.",
      .operands = {"x"},
      .results = {"values", "vectors"},
      .dtypes = kMatrixDTypes,
      .lower = lower_eigh,
      .samples = {.calls = {{{"[3,3]"}}, {{"[2,4,4]"}}}, .ulp = 64, .no_gradient_check = kPhases},
      .errors = errors,
  });
  r.define({
      .name = "eigvalsh",
      .space = kLinalgSpace,
      .doc = "The eigenvalues of symmetric or hermitian x in ascending order, from its lower half.",
      .operands = {"x"},
      .results = {"values"},
      .dtypes = kMatrixDTypes,
      .type = [](const TypeCall& call) { return Types{eigh_type(call)[0]}; },
      .kernels = {.cpu = [](const PrepareCall& call) { kernels::cpu::prepare_eigh(call, false); }},
      .vjp = eigvalsh_vjp,
      .batch = batching::same,
      .samples = {.calls = {{{"[3,3]"}}, {{"[2,4,4]"}}, {{"[0,0]"}}}, .ulp = 64},
      .errors = errors,
  });
}

void define_singular_values(Registry& r) {
  r.define(thin_svd("real_svd", kRealMatrixDTypes));
  r.define(thin_svd("complex_svd", kComplex));
  r.define({
      .name = "full_svd",
      .space = "internal",
      .doc = "u, s and vh with square u and vh; their further vectors are any, so that nothing can "
             "be derived from it.",
      .operands = {"x"},
      .results = {"u", "s", "vh"},
      .dtypes = kMatrixDTypes,
      .type = [](const TypeCall& call) { return svd_type(call, true); },
      .kernels = {.cpu =
                      [](const PrepareCall& call) {
                        kernels::cpu::prepare_svd(call, kernels::cpu::SvdResults::kFull);
                      }},
      .batch = batching::same,
      .samples = {.calls = {{{"[70,2]"}}, {{"[2,70]"}}, {{"[2,0]"}}}, .ulp = 64},
      .errors = matrix_errors(),
  });
  r.define({
      .name = "svd",
      .space = kLinalgSpace,
      .kind = Kind::kComposition,
      .doc = "x = u diag(s) vh for each matrix of x [.., m, n], with the singular values s in "
             "descending order. u is [.., m, m] and vh is [.., n, n]. Without full_matrices, each "
             "has min(m, n) vectors. Full matrices have no derivative unless m = n. Gradients by "
             "vectors are infinite if singular values are equal, or if m and n differ and a "
             "singular value is 0.",
      .operands = {"x"},
      .attrs = {{"full_matrices", true}},
      .results = {"u", "s", "vh"},
      .dtypes = kMatrixDTypes,
      .lower = lower_svd,
      .samples = {.calls = {{{"[3,3]"}}, {{"[70,2]"}, {{"full_matrices", false}}}},
                  .ulp = 64,
                  .no_gradient_check = kPhases},
      .errors = matrix_errors(),
  });
  r.define({
      .name = "svdvals",
      .space = kLinalgSpace,
      .doc = "The singular values of each matrix of x, in descending order.",
      .operands = {"x"},
      .results = {"s"},
      .dtypes = kMatrixDTypes,
      .type = [](const TypeCall& call) { return Types{svd_type(call, false)[1]}; },
      .kernels = {.cpu =
                      [](const PrepareCall& call) {
                        kernels::cpu::prepare_svd(call, kernels::cpu::SvdResults::kValues);
                      }},
      .vjp = svdvals_vjp,
      .batch = batching::same,
      .samples = {.calls = {{{"[3,3]"}}, {{"[70,2]"}}, {{"[2,70]"}}, {{"[0,3]"}}}, .ulp = 64},
      .errors = matrix_errors(),
  });
}

void define_inverses(Registry& r) {
  const std::vector<AttrDef> attrs = {{"rtol", AttrKind::kReal, none}};
  std::vector<ErrorCase> errors = matrix_errors();
  errors.push_back({{"float32[2,2]"}, "rtol is -1, but must be 0 or more", {{"rtol", -1.0}}});
  r.define({
      .name = "pinv",
      .space = kLinalgSpace,
      .doc = "The pseudo-inverse [.., n, m] of each matrix of x [.., m, n]. Singular values up to "
             "rtol times the largest count as 0. The default of rtol is max(m, n) times the "
             "epsilon of the dtype. The derivative assumes constant rank.",
      .operands = {"x"},
      .attrs = attrs,
      .dtypes = kMatrixDTypes,
      .type = pinv_type,
      .kernels = {.cpu =
                      [](const PrepareCall& call) {
                        kernels::cpu::prepare_pinv(call, rtol_of(call.attrs));
                      }},
      .vjp = pinv_vjp,
      .batch = batching::same,
      .samples = {.calls = {{{"[3,3]"}, {}, dominant()},
                            {{"[2,4,2]"}},
                            {{"[2,3]"}, {{"rtol", 1e-3}}},
                            {{"[0,3]"}}},
                  .ulp = 256},
      .errors = errors,
  });
  r.define({
      .name = "matrix_rank",
      .space = kLinalgSpace,
      .doc =
          "The number of singular values of each matrix of x that are greater than rtol times the "
          "largest, as int64. The default of rtol is max(m, n) times the epsilon of the dtype.",
      .operands = {"x"},
      .attrs = attrs,
      .dtypes = kMatrixDTypes,
      .type =
          [](const TypeCall& call) {
            require_matrix(call.shape(0), "x");
            require_rtol(call.attrs);
            return Types{call.make(kInt64, leading(call.shape(0), 2))};
          },
      .kernels = {.cpu =
                      [](const PrepareCall& call) {
                        kernels::cpu::prepare_rank(call, rtol_of(call.attrs));
                      }},
      .batch = batching::same,
      .no_derivative = "a rank is a whole number",
      .samples = {.calls = {{{"[3,3]"}}, {{"[2,4,2]"}, {{"rtol", 0.5}}}, {{"[0,3]"}}}},
      .errors = errors,
  });
  r.define({
      .name = "lstsq",
      .space = kLinalgSpace,
      .kind = Kind::kComposition,
      .doc = "The x of least norm that minimises |a x - b|, for a [.., m, n] and b [m] or [.., m, "
             "k]: pinv(a, rtol) b.",
      .operands = {"a", "b"},
      .attrs = attrs,
      .dtypes = kMatrixDTypes,
      .lower = lower_lstsq,
      .samples = {.calls = {{{"[4,2]", "[4]"}},
                            {{"[2,3,3]", "[2,3,2]"}, {}, dominant_system()},
                            {{"[2,3]", "[2,1]"}}},
                  .ulp = 256},
      .errors = {{{"float32[3,2]", "float32[2]"}, "b must be [3] or [.., 3, k]"},
                 {{"float32[3]", "float32[3]"}, "a matrix needs two axes"}},
  });
}

}  // namespace

void define_factors(Registry& r) {
  define_qr(r);
  define_eigenvalues(r);
  define_singular_values(r);
  define_inverses(r);
}

}  // namespace etude::ops
