// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/gradient.h"

#include <complex>
#include <map>
#include <string>
#include <thread>

#include "etude/base/warning.h"
#include "etude/core/buffer.h"
#include "etude/core/context/context.h"
#include "etude/lazy/lazy.h"
#include "etude/ops.h"
#include "etude/stage/function.h"
#include "tests/gradient/expect.h"
#include "tests/live_memory.h"
#include "tests/warnings.h"

namespace etude::gradient_test {
namespace {

using tests::expect_error;
using tests::expect_values;
using tests::message_of;

struct Dense {
  Tensor weight, bias;
  int heads = 1;
};
struct Model {
  Dense first;
  std::vector<Dense> more;
  std::optional<Tensor> scale;
  NoDerivative<Tensor> fixed;
};

Tensor sum_of(const Tensor& x) { return sum(x); }  // a function, not a lambda
Model make_model() { return {{2.0, 1.0}, {{3.0, 4.0}, {5.0, 6.0}}, Tensor(7.0), {Tensor(8.0)}}; }

// spec: D20, D21
TEST(Operators, TheSameNameServesTensorsAndNumbers) {
  const auto square = [](auto x) { return x * x; };
  const auto slope = gradient(square);
  EXPECT_EQ(slope(3.0), 6);
  EXPECT_EQ(slope(Tensor(3.0)).item<double>(), 6);
  EXPECT_EQ(value_with_gradient([](auto x, auto y) { return x * y; }, 3.0, 4.0),
            std::pair(12.0, std::tuple(4.0, 3.0)));
  const auto on_tensors = [](const Tensor& x) { return x * x; };
  EXPECT_EQ(derivative(on_tensors, 3.0).item<double>(), 6);  // a number converts to a tensor
  EXPECT_EQ(derivative(square, 3.0), 6);
  EXPECT_EQ(hvp([](const auto& v) { return v[0] * v[0] * v[1]; }, std::vector{1.0, 2.0}, {1, 0}),
            (std::vector{4.0, 2.0}));
}

TEST(Gradient, OfSeveralArguments) {  // spec: D20, D21, D22
  const auto product = [](const Tensor& x, const Tensor& y) { return x * y; };
  const auto [dx, dy] = gradient(product, Tensor(3.0), Tensor(4.0));
  expect_values(dx, {4});
  expect_values(dy, {3});
  const Tensor x = 3.0;
  const auto [da, db] = gradient(product, x, x);  // one value twice
  expect_values(da, {3});
  expect_values(db, {3});
  expect_values(gradient([](auto t) { return t + t + t; }, x), {3});
  expect_values(gradient([](auto t) { return t * t; })(Tensor(3.0)), {6});
  int runs = 0;
  const auto [v, g] =
      value_with_gradient([&](const Tensor& t) { return ++runs, t * t; }, Tensor(4.0));
  expect_values(v, {16});
  expect_values(g, {8});
  EXPECT_EQ(runs, 1);
}

TEST(Gradient, OfStructs) {  // spec: D3, D5, D6, D8.a
  const Model model = make_model();
  const auto loss = [](const Model& m) {
    return m.first.weight * m.first.weight * m.more[1].weight * m.fixed.value + *m.scale;
  };
  const tangent_t<Model> g = gradient(loss, model);
  expect_values(g[&Model::first][&Dense::weight], {160});
  expect_values(g[&Model::first][&Dense::bias], {0});
  expect_values(g[&Model::more][1][&Dense::weight], {32});
  expect_values(g[&Model::more][0][&Dense::weight], {0});
  expect_values(*get<&Model::scale>(g), {1});
  Model moved = model;
  move(moved, -0.1 * g);
  expect_values(moved.first.weight, {-14});
  expect_values(*moved.scale, {6.9});
  expect_values(model.first.weight, {2});
}

TEST(Gradient, OfHashMapsAndDeques) {  // spec: D7.b, D9.a
  std::unordered_map<std::string, Tensor> named;
  for (int i = 0; i < 20; ++i) named["w" + std::to_string(i)] = Tensor(i * 1.0);
  const std::deque<Tensor> rows = {2.0, 3.0};
  const auto f = [](const auto& n, const auto& r) {
    Tensor y = r[0] * r[1];
    for (const auto& [key, w] : n) y += w * w;
    return y;
  };
  const auto [dn, dr] = gradient(f, named, rows);
  for (int i = 0; i < 20; ++i) expect_values(dn.at("w" + std::to_string(i)), {2.0 * i});
  expect_values(dr[0], {3});
  expect_values(dr[1], {2});
  // Seeds reach the results that they belong to, in whatever order the tables hold them.
  const auto pull = pullback([](const auto& n) { return n; }, named);
  std::unordered_map<std::string, Tensor> seeds(3);
  for (int i = 19; i >= 0; --i) seeds["w" + std::to_string(i)] = Tensor(i * 10.0);
  const auto back = pull(seeds);
  for (int i = 0; i < 20; ++i) expect_values(back.at("w" + std::to_string(i)), {10.0 * i});
}

TEST(Gradient, LeavesTheModelUnshared) {  // spec: V43.a, D2.b
  Dense dense{Tensor(std::vector<float>(5000, 1.0f)), Tensor(1.0)};
  const auto loss = [](const Dense& d) { return sum(d.weight * d.weight) * d.bias; };
  const auto g = gradient(loss, dense);
  const void* address = dense.weight.data<float>().data();
  const MemoryScope scope;
  move(dense, g);
  EXPECT_EQ(scope.stats().deep_copies, 0);
  EXPECT_EQ(dense.weight.data<float>().data(), address);
  EXPECT_EQ(dense.weight.data<float>()[0], 3);
}

TEST(Gradient, CapturedValuesAreConstants) {  // spec: D27.g, D74.a
  const Tensor x = 3.0;
  expect_values(gradient([&](const Tensor& y) { return x * y; }, x), {3});
  const auto inner = [](const Tensor& t) {
    return t * gradient([&](const Tensor& y) { return t + y; }, t);
  };
  expect_values(gradient(inner, Tensor(1.0)), {1});
}

TEST(Gradient, NeedsAScalar) {  // spec: G3
  expect_error(
      [] {
        gradient([](const Tensor& x) { return x * Tensor({1.0, 2.0, 3.0}); }, Tensor(1.0));
      },
      ErrorCode::kInvalidArgument,
      {"gradient needs a scalar result, this one has shape [3]; use pullback or jacobian"});
  expect_error([] { gradient([](const Tensor& x) { return astype(x, kInt32); }, Tensor(1.0)); },
               ErrorCode::kInvalidArgument, {"int32"});
  EXPECT_TRUE(ContextStack::is_eager());
}

std::string at_line(int line) {
  return "\n  at tests/gradient/gradient_test.cc:" + std::to_string(line);
}

TEST(Gradient, ErrorsNameTheUsersLine) {  // spec: G3, G16
  const auto pair = [](const Tensor& x) { return x * Tensor({1.0, 2.0}); };
  const auto whole = [](const Tensor& x) { return astype(x, kInt32); };
  const Tensor x = 1.0, wrong({1.0, 2.0, 3.0});
  const std::string shape =
      "gradient: gradient needs a scalar result, this one has shape [2]; use pullback or jacobian";
  EXPECT_EQ(message_of([&] { gradient(pair, x); }), shape + at_line(__LINE__));
  EXPECT_EQ(message_of([&] { value_with_gradient(pair, x); }), shape + at_line(__LINE__));
  EXPECT_EQ(message_of([&] { hvp(pair, x, x); }), shape + at_line(__LINE__));
  EXPECT_EQ(message_of([&] { hessian(pair, x); }), shape + at_line(__LINE__));
  const auto later = gradient(pair);
  const int line = __LINE__ - 1;
  EXPECT_EQ(message_of([&] { later(x); }), shape + at_line(line));
  const std::string integers =
      "gradient: gradient needs a floating result, this one is int32. Cast it with astype";
  EXPECT_EQ(message_of([&] { gradient(whole, x); }), integers + at_line(__LINE__));
  const auto none = [](const Tensor&) { return Tensor(); };
  const std::string nothing = ": the function returned nothing. Does it return its value?";
  EXPECT_EQ(message_of([&] { gradient(none, x); }), "gradient" + nothing + at_line(__LINE__));

  const std::string cotangent =
      "pullback: cotangent 0 has shape [3], but the result has shape [2]. They must be equal";
  EXPECT_EQ(message_of([&] { pullback(pair, x)(wrong); }), cotangent + at_line(__LINE__));
  EXPECT_EQ(message_of([&] { vjp(pair, x, wrong); }), cotangent + at_line(__LINE__));
  const std::string tangent =
      "jvp: a tangent of type float32[3] does not fit an argument of type float32[]";
  EXPECT_EQ(message_of([&] { jvp(pair, x, wrong); }), tangent + at_line(__LINE__));
  EXPECT_EQ(message_of([&] { differential(pair, x)(wrong); }), tangent + at_line(__LINE__));
  EXPECT_EQ(message_of([&] { hvp(sum_of, x, wrong); }), tangent + at_line(__LINE__));
  EXPECT_EQ(message_of([&] { jacobian(none, x); }), "jacobian" + nothing + at_line(__LINE__));
  // The error of an op keeps the line of the op.
  const auto bad = [&](const Tensor& t) { return matmul(t, wrong); };
  const int op_line = __LINE__ - 1;
  for (const std::string& text :
       {message_of([&] { gradient(bad, x); }), message_of([&] { jvp(bad, x, x); })}) {
    EXPECT_EQ(text.find("matmul: "), 0U) << text;
    EXPECT_NE(text.find(at_line(op_line)), std::string::npos) << text;
  }
  EXPECT_TRUE(ContextStack::is_eager());
}

TEST(Gradient, JacobiansOfComplexNumbers) {
  using C = std::complex<float>;
  const Tensor a(std::vector<C>{{0, 1}, {2, 1}}), x({1.0, 2.0});
  const Tensor j = jacobian([&](const Tensor& r) { return sum(r * a); }, x);
  EXPECT_EQ(j.at(0).item<C>(), C(0, 1));
  EXPECT_EQ(j.at(1).item<C>(), C(2, 1));
  expect_error([&] { jacobian([](const Tensor& z) { return z * z; }, a); },
               ErrorCode::kInvalidArgument, {"jacobian: the argument is complex64, but must be"});
}

TEST(Gradient, WarnsWhereNothingDepends) {  // spec: G4.a
  const tests::Warnings heard;
  const auto constant = [](const Tensor&, const Tensor& y) { return y * 2.0; };
  for (int i = 0; i < 2; ++i) {
    const auto [dx, dy] = gradient(constant, Tensor({1.0, 2.0}), Tensor(1.0));
    expect_values(dx, {0, 0});
    expect_values(dy, {2});
  }
  ASSERT_EQ(heard.told.size(), 1U);
  EXPECT_NE(heard.told[0].find("does not depend on argument 0 (etude::Tensor)"), std::string::npos)
      << heard.told[0];
  EXPECT_EQ(heard.told[0].find("gradient at tests/gradient/gradient_test.cc:"), 0U)
      << heard.told[0];
}

TEST(Gradient, LeavesOutWhatIsNotAskedFor) {  // spec: D34.a
  const auto product = [](const Tensor& x, const Tensor& y, int n) { return x * y * n; };
  expect_values(gradient(product, Tensor(3.0), no_derivative(Tensor(4.0)), 1), {4});
  expect_values(gradient(product, no_derivative(Tensor(3.0)), Tensor(4.0), 2), {6});
}

TEST(Gradient, OfVariables) {  // spec: D20
  Variable v(3.0), still(4.0, {.trainable = false});
  const auto [dv, ds] =
      gradient([](const Variable& a, const Variable& b) { return a * a * b; }, v, still);
  expect_values(dv, {24});
  expect_values(ds, {9});
}

TEST(Pullback, CanBeCalledAgainAndElsewhere) {  // spec: D10.a, D23
  const auto f = [](const Tensor& x, const Tensor& y) { return std::pair{x * y, x + y}; };
  const auto both = value_with_pullback(f, Tensor(2.0), Tensor(3.0));
  expect_values(both.first.first, {6});
  const auto& pull = both.second;
  for (int i = 0; i < 2; ++i) {
    const auto [dx, dy] = pull({Tensor(1.0), Tensor(1.0)});
    expect_values(dx, {4});
    expect_values(dy, {3});
  }
  std::thread([&] {
    const auto [dx, dy] = pull({Tensor(1.0), Tensor(0.0)});
    expect_values(dx, {3});
    expect_values(dy, {2});
  }).join();
}

TEST(Pullback, ChecksCotangents) {  // spec: G16
  const auto pull = pullback([](const Tensor& x) { return x * x; }, Tensor({1.0, 2.0}));
  expect_values(pull(Tensor({1.0, 10.0})), {2, 40});
  expect_error(
      [&] {
        pull(Tensor({1.0, 2.0, 3.0}));
      },
      ErrorCode::kInvalidArgument,
      {"pullback: cotangent 0 has shape [3], but the result has shape [2]"});
}

TEST(Forward, ValuesAndTangents) {  // spec: D24, D25
  const auto f = [](const Tensor& x, const Tensor& y) { return (x + y) * (-y); };
  const auto [v, t] =
      jvp(f, std::tuple{Tensor(4.0), Tensor(5.0)}, std::tuple{Tensor(1.0), Tensor(1.0)});
  expect_values(v, {-45});
  expect_values(t, {-19});
  expect_values(differential([](const Tensor& x) { return x * x; }, Tensor(4.0))(Tensor(2.0)),
                {16});
  expect_values(derivative([](const Tensor& x) { return x * x * x; }, Tensor(2.0)), {12});
}

TEST(SecondOrder, AllWaysAgree) {  // spec: D27.a, D27.b, D27.d
  const auto cube = [](const Tensor& x) { return x * x * x; };
  const auto slope = [&](const Tensor& x) { return gradient(cube, x); };
  expect_values(gradient(slope, Tensor(2.0)), {12});
  expect_values(derivative(slope, Tensor(2.0)), {12});
  expect_values(gradient([&](const Tensor& x) { return derivative(cube, x); }, Tensor(2.0)), {12});
  const auto f = [](const Tensor& x, const Tensor& y) { return x * x * y; };
  const auto [hx, hy] =
      hvp(f, std::tuple{Tensor(1.0), Tensor(2.0)}, std::tuple{Tensor(1.0), Tensor(0.0)});
  expect_values(hx, {4});
  expect_values(hy, {2});
}

TEST(Gradient, KeepsNothingGrowing) {  // spec: D39, V35.a
  const Model model = make_model();
  const auto loss = [](const Model& m) { return exp(m.first.weight) * *m.scale; };
  gradient(loss, model);
  const int64_t before = tests::live_tensors();
  for (int i = 0; i < 1000; ++i) gradient(loss, model);
  EXPECT_EQ(tests::live_tensors(), before);
}

// spec: D24 the linear map beside the value
TEST(Operators, ValuesBesideLinearMaps) {
  const auto f = [](const auto& x, const auto& y) { return x * y; };
  const auto [value, map] = value_with_differential(f, Tensor(4.0), Tensor(5.0));
  EXPECT_EQ(value.item<double>(), 20);
  EXPECT_EQ(map(Tensor(1.0), Tensor(1.0)).item<double>(), 9);
  const auto [number, of_numbers] = value_with_differential(f, 4.0, 5.0);
  EXPECT_EQ(number, 20);
  EXPECT_EQ(of_numbers(1.0, 1.0), 9);
  const auto [y, dy] = value_with_derivative([](const Tensor& x) { return x * x; }, Tensor(3.0));
  EXPECT_EQ(y.item<double>(), 9);
  EXPECT_EQ(dy.item<double>(), 6);
}

// spec: D26
TEST(Operators, TransposesOfLinearFunctions) {
  const auto triple = [](const Tensor& x) { return 3.0 * x; };
  expect_values(transpose(triple, Tensor(0.0))(Tensor(5.0)), {15});
  const auto both = transpose([](const Tensor& x, const Tensor& y) { return x + y; }, Tensor(1.0),
                              Tensor(1.0))(Tensor(2.0));
  expect_values(std::get<0>(both), {2});
  expect_values(std::get<1>(both), {2});
  const Tensor a({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}});
  const auto to_rows = transpose([&](const Tensor& x) { return sum(matmul(a, x), {.axis = 1}); },
                                 Tensor({{0.0}, {0.0}}));
  expect_values(to_rows(Tensor({1.0, 1.0, 1.0})), {9, 12});
  expect_error([] { transpose([](const Tensor& x) { return x * x; }, Tensor(1.0))(Tensor(1.0)); },
               ErrorCode::kInvalidArgument,
               {"transpose: the function is not linear: multiply at ", "gradient_test.cc",
                "is not, of values that depend on the argument. Use pullback"});
  expect_error([] { transpose([](const Tensor& x) { return exp(x); }, Tensor(1.0))(Tensor(1.0)); },
               ErrorCode::kInvalidArgument, {"not linear: exp at "});
  expect_error([] { transpose([](const Tensor& x) { return x + 1.0; }, Tensor(1.0))(Tensor(1.0)); },
               ErrorCode::kInvalidArgument, {"of zeros it is not zero, so it adds a constant"});
}

// spec: D13, D14.a vector-space operations on tangents with tensors
TEST(Operators, TangentsOfTensorsAreVectors) {
  tangent_t<Dense> t = zero_tangent(Dense{{1.0, 2.0}, {1.0}});
  t[&Dense::weight] = Tensor({3.0, 4.0});
  t[&Dense::bias] = Tensor({12.0});
  EXPECT_EQ(dot(t, t).item<double>(), 169);
  EXPECT_EQ(norm(t).item<double>(), 13);
  EXPECT_NEAR(global_norm(t, t).item<double>(), 13 * std::sqrt(2.0), 1e-5);
  expect_values(scaled(t, 3)[&Dense::weight], {9, 12});
  expect_values((t + 1.0)[&Dense::bias], {13});
  expect_values(leafwise::sqrt(t)[&Dense::weight], {std::sqrt(3.0), 2});
  expect_values(leafwise::reciprocal(t)[&Dense::weight], {1 / 3.0, 0.25});
  expect_values(vector_view(Dense{{1.0, 2.0}, {3.0}})[&Dense::weight], {1, 2});
}

// |(3 s, 4 s), 12 s| is 13 s, also where squares overflow or vanish; its slopes do not depend on s.
TEST(Operators, NormsWhereSquaresLeaveTheRange) {
  const auto length = [](const Dense& t) { return global_norm(t, Dense{{}, t.bias * 0.0}); };
  const auto staged = function(length);
  const auto expect_norm = [&](DType dtype, double s, double near) {
    const auto row = [&](const std::vector<double>& x) { return astype(Tensor(x), dtype); };
    const Dense t{row({3 * s, 4 * s}), row({12 * s})};
    EXPECT_EQ(norm(t).dtype(), dtype);
    EXPECT_NEAR(norm(t).item<double>() / s, 13, 13 * near) << s;
    EXPECT_NEAR(staged(t).item<double>() / s, 13, 13 * near) << s;
    const LazyScope lazy;
    EXPECT_NEAR(length(t).item<double>() / s, 13, 13 * near) << s;
    const auto slopes = gradient(length, t);
    EXPECT_NEAR(slopes[&Dense::weight].at(1).item<double>(), 4 / 13.0, near) << s;
    EXPECT_NEAR(slopes[&Dense::bias].at(0).item<double>(), 12 / 13.0, near) << s;
  };
  for (const double s : {1e-37, 1e-25, 1.0, 1e19, 1e37}) expect_norm(kFloat32, s, 1e-4);
  for (const double s : {1e-200, 1.0, 1e200, 1e307}) expect_norm(kFloat64, s, 1e-14);
  expect_norm(kFloat16, 1e3, 1e-3);
  expect_norm(kBFloat16, 1e30, 1e-2);
}

// The derivative of a length at 0 is 0. Lengths of many halves fit where their squares do not.
TEST(Operators, NormsOfZerosAndOfManyHalves) {
  const auto length = [](const Dense& t) { return norm(t); };
  expect_values(gradient(length, Dense{zeros({2}), zeros({1})})[&Dense::weight], {0, 0});
  const Dense half{ones({40'000}, {.dtype = kFloat16}) * 2, {}};
  EXPECT_EQ(norm(half).item<double>(), 400);
  // The norm of (3 x, 4 x) moves by 5 |dx|; its slope does not.
  const auto twice = [&](const Tensor& x) { return norm(Dense{x * 3, x * 4}); };
  EXPECT_NEAR(hessian(twice, Tensor(1e25)).item<double>(), 0, 1e-6);
}

// spec: G4.a, G4.d, G17.a
TEST(Operators, WarningsSayWhereTheChainEnded) {
  const tests::Warnings heard;
  const auto rounded = [](const Tensor& x) { return astype(astype(x, kInt32), kFloat32) * 2.0; };
  expect_values(gradient(rounded, Tensor(2.5)), {0});
  ASSERT_EQ(heard.told.size(), 1);
  EXPECT_NE(heard.told[0].find("its gradient is zero; last dependent value: astype(int32) at "),
            std::string::npos)
      << heard.told[0];
  set_diagnostics({.independent_result = Severity::kError});
  expect_error([&] { gradient(rounded, Tensor(2.5)); }, ErrorCode::kInvalidArgument,
               {"the result does not depend on argument 0 (etude::Tensor)"});
  set_diagnostics({});
}

// Counts the calls that come by.
struct Counting final : Context {
  Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) override {
    ++calls[std::string(op.name())];
    return parent()->execute(op, operands, attrs, where);
  }
  std::map<std::string, int> calls;
};

TEST(Gradient, RunsNoCallTwiceAndNoneThatIsNotAskedFor) {  // spec: D33.b, D34.b
  const Tensor x = ones({2, 3}), v = ones({3, 4}), w = ones({4, 5});
  const auto loss = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return sum(matmul(tanh(matmul(a, b)), c));
  };
  const auto calls = [](const auto& f) {
    Counting counting;
    ContextStack::push(counting);
    f();
    ContextStack::remove(counting);
    return counting.calls;
  };
  auto all = calls([&] { value_with_gradient(loss, x, v, w); });
  EXPECT_EQ(all["matmul"], 2 + 4);
  EXPECT_EQ(all["tanh"], 1);
  auto of_w = calls([&] { value_with_gradient(loss, no_derivative(x), no_derivative(v), w); });
  EXPECT_EQ(of_w["matmul"], 2 + 1);
  auto of_v = calls([&] { value_with_gradient(loss, no_derivative(x), v, no_derivative(w)); });
  EXPECT_EQ(of_v["matmul"], 2 + 2);
}

TEST(Gradient, DoesNotWarnOfAStructThatIsUsedInPart) {  // spec: G4.e
  const tests::Warnings heard;
  const auto g = gradient([](const Model& m) { return m.first.weight * 2.0; }, make_model());
  expect_values(g[&Model::first][&Dense::weight], {2});
  EXPECT_TRUE(heard.told.empty()) << heard.told[0];
}

TEST(Gradient, IntegerLabelsHaveNone) {  // spec: CG-15.b
  const Tensor logits({{1.0, 2.0}, {3.0, 5.0}}), labels({0, 1});
  GradientTape tape;
  tape.watch(std::tie(logits, labels));
  const Tensor loss = nn::softmax_cross_entropy(logits, labels);
  const auto [dx, dy] = tape.gradient(loss, std::tie(logits, labels));
  EXPECT_EQ(dx.shape(), (Shape{2, 2}));
  EXPECT_FALSE(dy.has_value());
}

}  // namespace
}  // namespace etude::gradient_test
