// SPDX-License-Identifier: Apache-2.0
// Systems of equations, triangles and determinants; each with a derivative in public ops, so that
// derivatives of every order exist. Gradients are adjoints: a transpose is also conjugated.
#include "etude/kernels/cpu/linalg/linalg.h"

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/op/batching.h"
#include "etude/ops.h"
#include "etude/ops/families.h"
#include "etude/ops/linalg/matrices.h"
#include "etude/ops/records.h"

namespace etude::ops {
namespace {

// --- cholesky ---

// x = l l^H moves by l half(l^-1 dx l^-H): Murray, "Differentiation of the Cholesky decomposition",
// 2016.
Values cholesky_vjp(const VjpCall& call) {
  const Tensor& l = call.out[0];
  const Tensor conjugate = internal::conj(l);
  const Tensor inner = half_lower(product(adjoint(l), tril(call.ct())));
  const Tensor left = triangular(conjugate, inner, true, true);
  return {to_lower_half(adjoint(triangular(conjugate, adjoint(left), true, true)))};
}

Types square_type(const TypeCall& call) {
  require_square(call.shape(0), "x");
  return {call.types[0]};
}

Values lower_cholesky(Operands in, const Attrs& attrs) {
  require_square(in[0].shape(), "x");
  const Tensor l = run(op<"cholesky_factor">(), {&in[0]});
  return {attrs.flag("upper") ? adjoint(l) : l};
}

// --- systems ---

Types system_type(const TypeCall& call) {
  require_system(call);
  return {call.types[1]};
}

// a x = b: x moves by a^-1 (db - da x), and with `transpose` a is a^T.
Tensor to_matrix(const Tensor& to_b, const Tensor& x, bool transpose) {
  return transpose ? -matmul(internal::conj(x), matrix_transpose(to_b)) : -matmul(to_b, adjoint(x));
}

Values solve_vjp(const VjpCall& call) {
  Values out(2);
  const bool transpose = call.attrs.flag("transpose");
  const Tensor conjugate = internal::conj(call.in[0]);
  const Tensor to_b =
      run(op<"solve_matrices">(), {&conjugate, &call.ct()}, {!transpose, call.attrs.text("of")});
  if (call.wants(1)) out[1] = to_b;
  if (call.wants(0)) out[0] = to_matrix(to_b, call.out[0], transpose);
  return out;
}

Values triangular_vjp(const VjpCall& call) {
  Values out(2);
  const bool lower = call.attrs.flag("lower"), unit = call.attrs.flag("unit");
  const bool transpose = call.attrs.flag("transpose");
  const Tensor to_b = triangular(internal::conj(call.in[0]), call.ct(), lower, !transpose, unit);
  if (call.wants(1)) out[1] = to_b;
  if (!call.wants(0)) return out;
  const Tensor whole = to_matrix(to_b, call.out[0], transpose);
  out[0] = lower ? tril(whole, {.k = unit ? -1 : 0}) : triu(whole, {.k = unit ? 1 : 0});
  return out;
}

// Operands of a system with the same leading axes; a vector b as a column.
struct System {
  System(const Tensor& a_in, const Tensor& b_in) : a(a_in), b(b_in) {
    require_square(a.shape(), "a");
    ETUDE_REQUIRE(b.rank() >= 1, "operand 'b' is a scalar, but must have at least one axis");
    const int64_t n = a.shape()[a.rank() - 1];
    const bool fits = b.rank() >= 2 && b.shape()[b.rank() - 2] == n;
    is_vector = b.rank() == 1 || (!fits && b.shape() == leading(a.shape(), 1));
    if (is_vector) b = expand_dims(b, -1);
    ETUDE_REQUIRE(b.shape()[b.rank() - 2] == n,
                  "operand 'a' has shape {} and operand 'b' has shape {}: b must be [.., {}] or "
                  "[.., {}, k]",
                  a.shape().to_string(), b_in.shape().to_string(), n, n);
    const Shape ahead = broadcast(leading(a.shape(), 2), leading(b.shape(), 2));
    a = broadcasted(a, with_last(Shape(behind(ahead)), 2, {n, n}));
    b = broadcasted(b, with_last(Shape(behind(ahead)), 2, {n, b.shape()[b.rank() - 1]}));
  }
  Tensor result(const Tensor& x) const { return is_vector ? squeeze(x, -1) : x; }

  Tensor a, b;
  bool is_vector = false;

 private:
  // `ahead` followed by two axes of size 1.
  static std::vector<int64_t> behind(const Shape& ahead) {
    std::vector<int64_t> out = ahead.to_vector();
    out.resize(out.size() + 2, 1);
    return out;
  }
};

Values lower_solve(Operands in, const Attrs&) {
  const System s(in[0], in[1]);
  return {s.result(run(op<"solve_matrices">(), {&s.a, &s.b}))};
}

Values lower_triangular(Operands in, const Attrs& attrs) {
  const System s(in[0], in[1]);
  return {s.result(
      triangular(s.a, s.b, attrs.flag("lower"), attrs.flag("transpose"), attrs.flag("unit")))};
}

Values lower_inv(Operands in, const Attrs&) {
  require_square(in[0].shape(), "a");
  return {inverse(in[0], "inv")};
}

// --- determinants ---

// [.., 1, 1] from [..].
Tensor of_matrix(const Tensor& x) { return expand_dims(x, {-2, -1}); }

Values det_vjp(const VjpCall& call) {
  const Tensor cofactor = run(op<"cofactor">(), {&call.in[0]});
  return {of_matrix(call.ct()) * internal::conj(cofactor)};
}

// The derivative of order k + 1 of the determinant is linear and symmetric in its directions; the
// requested element is among them. So the rule along k directions calls it with the cotangent in
// place of one direction, or, for x, as an additional direction.
Tensor cofactor_along(const std::vector<Tensor>& operands) {
  return run(op<"cofactor_along">(), OperandList(std::span<const Tensor>(operands)));
}

Values cofactor_vjp(const VjpCall& call) {
  if (call.in[0].shape()[call.in[0].rank() - 1] < 2) return Values(1);
  return {internal::conj(cofactor_along({call.in[0], internal::conj(call.ct())}))};
}

Values cofactor_along_vjp(const VjpCall& call) {
  const std::size_t count = call.in.size();
  const Tensor ct = internal::conj(call.ct());
  Values out(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!call.wants(i)) continue;
    std::vector<Tensor> operands;
    for (std::size_t j = 0; j < count; ++j) operands.push_back(i > 0 && j == i ? ct : call.in[j]);
    if (i == 0) operands.push_back(ct);
    // A polynomial of degree n has no derivatives beyond.
    const bool constant =
        static_cast<int64_t>(operands.size()) > call.in[0].shape()[call.in[0].rank() - 1];
    if (!constant) out[i] = internal::conj(cofactor_along(operands));
  }
  return out;
}

Types cofactor_along_type(const TypeCall& call) {
  require_square(call.shape(0), "x");
  for (std::size_t i = 1; i < call.types.size(); ++i) {
    ETUDE_REQUIRE(call.types[i] == call.types[0],
                  "direction {} is {}, but must be {} as operand 'x'", i - 1,
                  call.types[i]->to_string(), call.types[0]->to_string());
  }
  return {call.types[0]};
}

Types log_det_type(const TypeCall& call) {
  require_square(call.shape(0), "x");
  const Shape shape = leading(call.shape(0), 2);
  return {call.make(call.dtype(0), shape), call.make(real_dtype(call.dtype(0)), shape)};
}

// With t = tr(x^-1 dx), the logarithm moves by Re t and the sign by i Im t times itself.
Values slogdet_vjp(const VjpCall& call) {
  const DType dtype = call.in[0].dtype();
  Tensor weight;
  if (call.cotangents.has(1)) weight = internal::cast(call.cotangents[1], dtype);
  if (call.cotangents.has(0) && is_complex(dtype)) {
    const Tensor turn = imag(internal::conj(call.cotangents[0]) * call.out[0]);
    const Tensor part = internal::cast(turn, dtype) * Tensor(std::complex<float>(0, -1));
    add_to(weight, part);
  }
  if (!weight.has_value()) return {internal::full(call.in[0].type(), 0)};
  return {of_matrix(weight) * adjoint(inverse(call.in[0], "gradient of slogdet"))};
}

Values lower_logdet(Operands in, const Attrs&) {
  require_square(in[0].shape(), "x");
  return {run_all(op<"slogdet">(), {&in[0]})[1]};
}

std::vector<ErrorCase> square_errors() {
  return {{{"float32[2,3]"},
           "operand 'x' has shape [2,3]: 2 rows and 3 columns, but it must be square"},
          {{"float32[3]"}, "a matrix needs two axes"},
          {{"float16[2,2]"}, "operand 'x' is float16, but must be one of"}};
}

Samples square_samples(bool is_dominant) {
  Samples samples;
  if (is_dominant) {
    samples.calls = {{{"[3,3]"}, {}, dominant()},
                     {{"[2,4,4]"}, {}, dominant()},
                     {{"[2,1,2,2]"}, {}, dominant()},
                     {{"[0,2,2]"}},
                     {{"[0,0]"}}};
  } else {
    samples.calls = {{{"[3,3]"}}, {{"[2,4,4]"}}, {{"[2,1,2,2]"}}, {{"[0,2,2]"}}, {{"[0,0]"}}};
  }
  samples.ulp = 64;
  return samples;
}

void define_cholesky(Registry& r) {
  std::vector<ErrorCase> faults = square_errors();
  faults.push_back({{"float32[3,2,2]"}, "matrix 0 of the batch in 'x' is not positive definite"});
  faults.push_back(
      {{"float32[1,2,2,2]"}, "matrix [0,0] of the batch in 'x' is not positive definite"});
  faults.push_back({{"float32[2,2]"}, "the matrix in 'x' is not positive definite. Add a small"});
  r.define({
      .name = "cholesky_factor",
      .space = "internal",
      .doc = "The lower triangle whose product with its adjoint is the hermitian matrix of which x "
             "has the lower half.",
      .operands = {"x"},
      .dtypes = kMatrixDTypes,
      .type = square_type,
      .kernels = {.cpu = kernels::cpu::prepare_cholesky},
      .vjp = cholesky_vjp,
      .batch = batching::same,
      .samples = square_samples(true),
      .errors = faults,
  });
  Samples samples = square_samples(true);
  samples.calls.push_back({{"[2,3,3]"}, {{"upper", true}}, dominant()});
  r.define({
      .name = "cholesky",
      .space = kLinalgSpace,
      .kind = Kind::kComposition,
      .doc = "The lower triangle l with a positive diagonal for which l l^H = x, or its adjoint "
             "(upper). x is positive definite. Only the lower half of x is read, and only this "
             "half gets cotangents.",
      .operands = {"x"},
      .attrs = {{"upper", false}},
      .dtypes = kMatrixDTypes,
      .lower = lower_cholesky,
      .samples = samples,
      .errors = square_errors(),
  });
}

void define_systems(Registry& r) {
  const std::vector<ErrorCase> inner_errors = {
      {{"float32[2,2]", "float32[3,1]"}, "b needs 2 rows", {{"transpose", false}}},
      {{"float32[2,3]", "float32[3,1]"}, "must be square", {{"transpose", false}}},
      {{"float32[2,2]", "float32[2,1]"}, "`of` is \"x\", but must be", {{"of", std::string("x")}}}};
  r.define({
      .name = "solve_matrices",
      .space = "internal",
      .doc =
          "x with a x = b, or with the transposed a, of equal leading axes. `of` is what it works "
          "for, which errors name: \"solve\", \"inv\", \"matrix_power\" or \"gradient of "
          "slogdet\".",
      .operands = {"a", "b"},
      .attrs = {{"transpose", false}, {"of", "solve"}},
      .dtypes = kMatrixDTypes,
      .type = system_type,
      .kernels = {.cpu =
                      [](const PrepareCall& call) {
                        kernels::cpu::prepare_solve(call, call.attrs.flag("transpose"),
                                                    call.attrs.text("of"));
                      }},
      .vjp = solve_vjp,
      .batch = batching::same,
      .works_for = "of",
      .samples = {.calls = {{{"[3,3]", "[3,2]"}, {}, dominant_system()},
                            {{"[2,4,4]", "[2,4,1]"}, {{"transpose", true}}, dominant_system()},
                            {{"[0,2,2]", "[0,2,3]"}},
                            {{"[2,2]", "[2,0]"}, {}, dominant_system()}},
                  .ulp = 64},
      .errors = inner_errors,
  });
  r.define({
      .name = "solve",
      .space = kLinalgSpace,
      .kind = Kind::kComposition,
      .doc = "The x with a x = b for square a [.., n, n]. b is [n], [.., n, k], or [.., n] with "
             "the leading axes of a if b cannot be read as [.., n, k]. Leading axes broadcast.",
      .operands = {"a", "b"},
      .dtypes = kMatrixDTypes,
      .lower = lower_solve,
      .samples = {.calls = {{{"[3,3]", "[3]"}, {}, dominant_system()},
                            {{"[2,3,3]", "[3,2]"}, {}, dominant_system()},
                            {{"[2,3,3]", "[2,3]"}, {}, dominant_system()},
                            {{"[4,4]", "[3,4,2]"}, {}, dominant_system()}},
                  .ulp = 64},
      .errors = {{{"float32[2,3]", "float32[2]"}, "operand 'a' has shape [2,3]: 2 rows"},
                 {{"float32[2,2]", "float32[3]"}, "b must be [.., 2] or [.., 2, k]"},
                 {{"float32[2,2]", "float32[]"}, "operand 'b' is a scalar"},
                 {{"float32[2,2,2]", "float32[3,2,1]"}, "broadcast"}},
  });
  const std::vector<AttrDef> attrs = {{"lower", true}, {"transpose", false}, {"unit", false}};
  const std::vector<ErrorCase> errors = {
      {{"float32[2,3]", "float32[3,1]"}, "must be square"},
      {{"float32[2,2,2]", "float32[2,2,1]"},
       "matrix 0 of the batch in 'a' is singular: its diagonal has a zero"}};
  r.define({
      .name = "solve_triangles",
      .space = "internal",
      .doc = "As solve_matrices for triangles; the other half of a is not read.",
      .operands = {"a", "b"},
      .attrs = attrs,
      .dtypes = kMatrixDTypes,
      .type = system_type,
      .kernels = {.cpu =
                      [](const PrepareCall& call) {
                        kernels::cpu::prepare_triangular_solve(
                            call, {.lower = call.attrs.flag("lower"),
                                   .transpose = call.attrs.flag("transpose"),
                                   .unit = call.attrs.flag("unit")});
                      }},
      .vjp = triangular_vjp,
      .batch = batching::same,
      .samples = {.calls = {{{"[3,3]", "[3,2]"}, {}, dominant_system()},
                            {{"[2,4,4]", "[2,4,1]"},
                             {{"transpose", true}, {"lower", false}},
                             dominant_system()},
                            {{"[3,3]", "[3,2]"}, {{"unit", true}}, {{-0.5, 0.5}, {-2, 2}}},
                            {{"[0,2,2]", "[0,2,3]"}}},
                  .ulp = 64},
      .errors = errors,
  });
  r.define({
      .name = "triangular_solve",
      .space = kLinalgSpace,
      .kind = Kind::kComposition,
      .doc = "The x with a x = b, or a^T x = b (transpose), for the lower or upper half of a. The "
             "other half of a is not read. With `unit`, the diagonal of a counts as ones. b is as "
             "in solve.",
      .operands = {"a", "b"},
      .attrs = attrs,
      .dtypes = kMatrixDTypes,
      .lower = lower_triangular,
      .samples = {.calls = {{{"[3,3]", "[3]"}, {}, dominant_system()},
                            {{"[2,3,3]", "[3,2]"}, {{"lower", false}}, dominant_system()},
                            {{"[3,3]", "[2,3,1]"}, {{"transpose", true}}, dominant_system()}},
                  .ulp = 64},
      .errors = {errors[0]},
  });
  r.define({
      .name = "inv",
      .space = kLinalgSpace,
      .kind = Kind::kComposition,
      .doc = "The inverse of each matrix of a [.., n, n].",
      .operands = {"a"},
      .dtypes = kMatrixDTypes,
      .lower = lower_inv,
      .samples = square_samples(true),
      .errors = {{{"float32[2,3]"}, "operand 'a' has shape [2,3]: 2 rows and 3 columns"}},
  });
}

void define_determinants(Registry& r) {
  r.define({
      .name = "det",
      .space = kLinalgSpace,
      .doc = "The determinant of each matrix of x [.., n, n], which is 1 for an empty matrix. The "
             "gradient is the matrix of cofactors. No derivative divides by the determinant, so "
             "the determinant may be 0. The derivative of order k costs n^k.",
      .operands = {"x"},
      .dtypes = kMatrixDTypes,
      .type = [](const TypeCall& call) { return Types{log_det_type(call)[0]}; },
      .kernels = {.cpu = kernels::cpu::prepare_determinant},
      .vjp = det_vjp,
      .batch = batching::same,
      .samples = square_samples(false),
      .errors = square_errors(),
  });
  std::vector<ErrorCase> errors = square_errors();
  r.define({
      .name = "cofactor",
      .space = "internal",
      .doc = "The derivative of the determinant of x by each of its elements.",
      .operands = {"x"},
      .dtypes = kMatrixDTypes,
      .type = square_type,
      .kernels = {.cpu = kernels::cpu::prepare_cofactor},
      .vjp = cofactor_vjp,
      .batch = batching::same,
      .samples = square_samples(false),
      .errors = errors,
  });
  r.define({
      .name = "cofactor_along",
      .space = "internal",
      .doc = "The derivative of the matrix of cofactors of x along all directions: the derivative "
             "of the determinant by each element and along them.",
      .operands = {"x", "directions..."},
      .dtypes = kMatrixDTypes,
      .type = cofactor_along_type,
      .kernels = {.cpu = kernels::cpu::prepare_cofactor_along},
      .vjp = cofactor_along_vjp,
      .batch = batching::same,
      .samples = {.calls = {{{"[3,3]", "[3,3]"}},
                            {{"[2,4,4]", "[2,4,4]", "[2,4,4]"}},
                            {{"[2,2]", "[2,2]", "[2,2]"}},
                            {{"[0,2,2]", "[0,2,2]"}},
                            {{"[0,0]", "[0,0]"}}},
                  .ulp = 64},
      .errors = {{{"float32[2,3]", "float32[2,3]"}, "2 rows and 3 columns, but it must be square"},
                 {{"float32[2,2]", "float32[3,3]"}, "direction 0 is float32[3,3], but must be"}},
  });
  r.define({
      .name = "slogdet",
      .space = kLinalgSpace,
      .doc = "The sign of the determinant of each matrix, a number of magnitude 1 if it is "
             "complex, and the logarithm of its absolute value. If the determinant is 0, they are "
             "0 and -infinity.",
      .operands = {"x"},
      .results = {"sign", "logabsdet"},
      .dtypes = kMatrixDTypes,
      .type = log_det_type,
      .kernels = {.cpu = kernels::cpu::prepare_log_determinant},
      .vjp = slogdet_vjp,
      .batch = batching::same,
      .samples = square_samples(true),
      .errors = errors,
  });
  r.define({
      .name = "logdet",
      .space = kLinalgSpace,
      .kind = Kind::kComposition,
      .doc = "The logarithm of the absolute value of the determinant of each matrix.",
      .operands = {"x"},
      .dtypes = kMatrixDTypes,
      .lower = lower_logdet,
      .samples = square_samples(true),
      .errors = errors,
  });
}

}  // namespace

void define_linalg(Registry& r) {
  define_cholesky(r);
  define_systems(r);
  define_determinants(r);
}

}  // namespace etude::ops
