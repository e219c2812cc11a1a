// SPDX-License-Identifier: Apache-2.0
// Every operator on Parts has the bits that it has on the struct.
#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"
#include "tests/parts/parts_models.h"

namespace etude::parts_test {
namespace {

using etude::tests::expect_error;

struct Line {
  Tensor w, b;
  int64_t power = 2;
  std::vector<Tensor> more;
};
Line line() {
  set_seed(3);
  return {random::normal({3, 2}), random::normal({2}), 2, {random::normal({2})}};
}
Tensor applied(const Line& l, const Tensor& x) {
  Tensor y = tanh(matmul(x, l.w) + l.b) * l.more[0];
  for (int64_t i = 1; i < l.power; ++i) y = y * y;
  return y;
}
Tensor applied(const Parts& p, const Tensor& x) {
  Tensor y = tanh(matmul(x, p.tensor("w")) + p.tensor("b")) * p.tensor("more/0");
  for (int64_t i = 1; i < p.host("power").get<int64_t>(); ++i) y = y * y;
  return y;
}
const auto kLoss = [](const auto& model) -> Tensor { return sum(applied(model, rows())); };

void expect_same(const Tangent<Line>& a, const Parts& b, const char* what) {
  EXPECT_TRUE(same_value(a[&Line::w], b.tensor("w"))) << what;
  EXPECT_TRUE(same_value(a[&Line::b], b.tensor("b"))) << what;
  EXPECT_TRUE(same_value(a[&Line::more][0], b.tensor("more/0"))) << what;
  EXPECT_FALSE(b.form()->to_string().empty());
}

TEST(PartsOperators, HaveTheBitsOfStructs) {
  const Line at = line();
  const Parts parts = parts_of(at);
  EXPECT_EQ(parts.form()->to_string(), "{w: tensor, b: tensor, power: host value, more: [tensor]}");
  EXPECT_EQ(parts.form()->tangent()->to_string(),
            "{w: tensor, b: tensor, power: nothing, more: [tensor]}");
  const Tangent<Line> slope = gradient(kLoss, at);
  const Parts slopes = gradient(kLoss, parts);
  expect_same(slope, slopes, "gradient");

  const auto f = [](const auto& m) -> Tensor { return applied(m, rows()); };
  const auto [y, pull] = value_with_pullback(f, at);
  const auto [y_of_parts, pull_of_parts] = value_with_pullback(f, parts);
  EXPECT_TRUE(same_value(y, y_of_parts));
  expect_same(pull(y), pull_of_parts(y), "pullback");
  EXPECT_TRUE(same_value(jvp(f, at, slope).second, jvp(f, parts, slopes).second));
  expect_same(hvp(kLoss, at, slope), hvp(kLoss, parts, slopes), "hvp");

  GradientTape tape({.persistent = true});
  tape.watch(at);
  tape.watch(parts);
  const Tensor a = kLoss(at), b = kLoss(parts);
  expect_same(tape.gradient(a, at), tape.gradient(b, parts), "tape");

  const auto again =
      recompute_grad([](const auto& m) -> Tensor { return sum(applied(m, rows())); });
  expect_same(gradient([&](const Line& m) -> Tensor { return again(m); }, at),
              gradient([&](const Parts& m) -> Tensor { return again(m); }, parts), "recompute");

  EXPECT_TRUE(same_value(dot(slope, slope), dot(slopes, slopes)));
  EXPECT_TRUE(same_value(global_norm(slope), global_norm(slopes)));
  expect_same(slope + slope, slopes + slopes, "sum");
  expect_same(0.3 * slope, 0.3 * slopes, "product");
  expect_same(slope / 3, slopes / 3, "quotient");
  expect_same(slope - 0.3 * slope, slopes - 0.3 * slopes, "difference");
  expect_same(-slope, -slopes, "negative");
}

TEST(PartsOperators, CustomGradientsTakeThem) {
  const auto rule = custom_gradient([](const auto& m) {
    return std::pair{sum(m.tensor("w") * m.tensor("w")), [like = m](const Tensor& dy) {
                       Parts out = zero_tangent(like);
                       out.tensor("w") = 5 * dy * like.tensor("w");
                       return out;
                     }};
  });
  const Parts at = Parts::fields({{"w", Tensor(std::vector<float>{1, 2})}});
  const Parts slopes = gradient([&](const Parts& p) -> Tensor { return rule(p); }, at);
  EXPECT_TRUE(same_value(slopes.tensor("w"), Tensor(std::vector<float>{5, 10})));
}

TEST(PartsOperators, VmapTakesExamplesOfThem) {
  const Parts batch = Parts::fields({{"w", rows()}, {"power", Described(3)}});
  const auto f = [](const Parts& p) {
    return Parts::map({{"out", sum(p.tensor("w") * p.host("power").get<int>())}});
  };
  const Parts out = vmap(f)(batch);
  EXPECT_TRUE(same_value(out.tensor("out"), sum(rows() * 3, {.axis = {1}})));
  const auto slope = [](const Parts& p) {
    return gradient([](const Parts& q) -> Tensor { return sum(square(q.tensor("w"))); }, p);
  };
  EXPECT_TRUE(same_value(vmap(slope)(batch).tensor("w"), 2 * rows()));
  const Parts with_variable =
      Parts::fields({{"w", rows()}, {"v", Variable(rows(), {.name = "v"})}});
  expect_error([&] { vmap(f)(with_variable); }, ErrorCode::kInvalidArgument,
               {"Variable 'v' is among the arguments"});
  expect_error([&] { jvp(f, with_variable, zero_tangent(with_variable)); },
               ErrorCode::kInvalidArgument,
               {"part 'v': jvp: Variable 'v' is among the arguments, but forward mode"});
}

TEST(PartsOperators, FunctionsTakeReturnAndChangeThem) {
  int traces = 0;
  const auto f = function(
      [&traces](Parts& p, const Tensor& x) {
        ++traces;
        p.tensor("w") += x;
        return Parts::list({Parts(p.tensor("w") * 2), Parts(Described("kept"))});
      },
      {.name = "f", .arg_names = {"p", "x"}});
  Parts p = Parts::fields({{"w", ones({2})}, {"rate", Described(0.5)}});
  const Parts out = f(p, ones({2}));
  EXPECT_TRUE(same_value(p.tensor("w"), full({2}, 2.0F)));
  EXPECT_TRUE(same_value(out.tensor("0"), full({2}, 4.0F)));
  EXPECT_EQ(out.host("1").get<std::string>(), "kept");
  f(p, ones({2}));
  EXPECT_EQ(traces, 1);
  p.put("rate", Parts(Described(0.25)));  // host values and forms are keys
  f(p, ones({2}));
  EXPECT_EQ(traces, 2);
  freeze(p, "w");
  f(p, ones({2}));
  EXPECT_EQ(traces, 3);
  Parts named = Parts::fields({{"w", ones({2})}, {"speed", Described(0.25)}});
  f(named, ones({2}));
  EXPECT_EQ(traces, 4);
  EXPECT_NE(f.explain().find("p/rate"), std::string::npos) << f.explain();

  const auto grows = function([](Parts& q) { q.put("", Parts::list({q, q})); });
  Parts one(ones({2}));
  grows(one);
  EXPECT_EQ(one.form()->to_string(), "[tensor, tensor]");

  const auto leaks = function(
      [](const Tensor& x) {
        return Parts::fields({{"v", Variable(ones({2}))}, {"x", x}});
      },
      {.name = "leaks"});
  expect_error([&] { leaks(ones({2})); }, ErrorCode::kInvalidArgument,
               {"part 'v' of the result is a Variable"});
}

TEST(PartsOperators, ControlFlowCarriesThem) {
  const auto run = [](const Tensor& x) {
    const Parts start = Parts::fields({{"sum", zeros({3})}, {"n", Tensor(0.0F)}});
    const auto add = [](const Parts& s, const Tensor& row) {
      Parts next = s;
      next.tensor("sum") = s.tensor("sum") + row * row;
      next.tensor("n") = s.tensor("n") + 1;
      return next;
    };
    const Parts folded = fold(add, start, x);
    const auto scanned = scan(
        [&](const Parts& s, const Tensor& row) {
          const Parts next = add(s, row);
          return std::pair(next, next.part("sum"));
        },
        start, x);
    const Parts looped =
        while_loop([](const Parts& s) { return s.tensor("n") < 5; },
                   [&](const Parts& s) { return add(s, s.tensor("n") + ones({3})); }, folded);
    const Parts chosen = cond(
        sum(x) > 0, [&] { return scanned.first; }, [&] { return looped; });
    const auto first = [&] { return Parts(sum(chosen.tensor("sum"))); };
    const auto second = [&] {
      return Parts(sum(chosen.tensor("sum")) + sum(scanned.second.tensor("")));
    };
    return switch_case(astype(sum(x) > 0, kInt32), std::tuple{first, second}).tensor("");
  };
  const Tensor x = rows(), eager = run(x);
  EXPECT_TRUE(same_value(function(run)(x), eager));
  EXPECT_TRUE(same_value(gradient([&](const Tensor& at) -> Tensor { return run(at); }, x),
                         function([&](const Tensor& at) {
                           return gradient([&](const Tensor& z) -> Tensor { return run(z); }, at);
                         })(x)));
  const Parts bad = Parts::fields({{"v", Variable(ones({2}), {.name = "v"})}, {"x", ones({2})}});
  expect_error([&] { fold([](const Parts& s, const Tensor&) { return s; }, bad, x); },
               ErrorCode::kInvalidArgument, {"the state holds Variable 'v'"});
  const auto renames = [](const Parts& s, const Tensor&) {
    return Parts::fields({{"other", s.tensor("x")}});
  };
  expect_error(
      [&] {
        fold(renames, Parts::fields({{"x", ones({2})}}), x);
      },
      ErrorCode::kInvalidArgument, {"fold: ", "state"});
}

// The update of layer state reaches Parts through whatever runs the layer.
TEST(PartsOperators, LayerStateReachesThemThroughEveryOperator) {
  const PhaseScope training(Phase::kTraining);
  const nn::BatchNorm norm(3, {.momentum = 0.5});
  const Parts parts = parts_of(norm);
  const Tensor x = rows();
  const auto loss = [&](const Parts& p) -> Tensor { return sum(struct_of(norm, p)(x)); };
  const auto twice = [&](const Parts& p) -> Tensor { return loss(p) + loss(p); };
  const auto expect = [&](const Parts& slopes, const auto& of_struct, const char* what) {
    ASSERT_TRUE(slopes.new_state("running/mean").value.has_value()) << what;
    EXPECT_TRUE(same_value(*slopes.new_state("running/mean").value, of_struct.running.value->mean))
        << what;
    EXPECT_TRUE(
        same_value(*slopes.new_state("running/variance").value, of_struct.running.value->variance))
        << what;
  };
  const auto plain = [&](const nn::BatchNorm& n) -> Tensor { return sum(n(x)); };
  const auto slope = gradient(plain, norm);
  expect(gradient(loss, parts), slope, "gradient");
  expect(gradient(twice, parts),
         gradient([&](const nn::BatchNorm& n) -> Tensor { return plain(n) + plain(n); }, norm),
         "twice");
  expect(pullback(loss, parts)(Tensor(1.0F)), slope, "pullback");
  expect(gradient([&](const Parts& p) -> Tensor { return recompute_grad(loss)(p); }, parts), slope,
         "recompute_grad");
  expect(
      gradient(
          [&](const Parts& p) -> Tensor {
            return value_with_gradient([&](const Parts& q) -> Tensor { return loss(q); }, p).first;
          },
          parts),
      slope, "an inner gradient");
  GradientTape tape;
  tape.watch(parts);
  const Tensor y = loss(parts);
  expect(tape.gradient(y, parts), slope, "a tape");
  expect(function([&](const Parts& p) { return gradient(loss, p); })(parts), slope, "function");
}

TEST(PartsOperators, OfTheLibraryServeAnyFunction) {
  const Parts at = parts_of(line());
  const auto f = [](const Parts& p) { return Parts(applied(p, rows())); };
  const auto same = [](const Parts& a, const Parts& b) {
    EXPECT_EQ(a.form(), b.form());
    expect_same_tensors(a, b, "library");
  };
  const Parts slopes = gradient(kLoss, at);
  same(parts::value_with_gradient(kLoss, at).second, slopes);
  const auto [value, pull] = parts::value_with_pullback(f, at);
  same(pull(value), pullback(f, at)(value));
  same(parts::jvp(f, at, slopes).second, jvp(f, at, slopes).second);
  same(parts::hvp(kLoss, at, slopes), hvp(kLoss, at, slopes));
  same(parts::recompute_grad(f)(at), f(at));
  const Parts batch = Parts::fields({{"w", rows()}});
  const auto sums = [](const Parts& p) { return Parts(sum(p.tensor("w"))); };
  same(parts::vmap(sums)(batch), vmap(sums)(batch));
  const parts::Staged staged = parts::function([](Parts& p) {
    p.tensor("w") *= 2;
    return p;
  });
  Parts changed = batch;
  same(staged(changed), changed);
  EXPECT_TRUE(same_value(changed.tensor("w"), 2 * rows()));
  const auto row_sum = [](const Parts& s, const Parts& row) {
    return Parts(s.tensor("") + row.tensor("w"));
  };
  same(parts::fold(row_sum, Parts(zeros({3})), batch), fold(row_sum, Parts(zeros({3})), batch));
  const auto [last, all] =
      parts::scan([&](const Parts& s, const Parts& row) { return std::pair(row_sum(s, row), s); },
                  Parts(zeros({3})), batch);
  EXPECT_EQ(all.tensor("").shape(), Shape({12, 3}));
  same(parts::while_loop([](const Parts& s) { return s.tensor("") < 7; },
                         [](const Parts& s) { return Parts(s.tensor("") + 2); }, Parts(Tensor(0))),
       Parts(Tensor(8)));
  const auto first = [](const Parts& p) { return p.part("w"); };
  const auto second = [](const Parts& p) { return Parts(-p.tensor("w")); };
  same(parts::switch_case(Tensor(1), {first, second}, batch), Parts(-rows()));
  EXPECT_TRUE(same_value(
      parts::function([&](Parts& p) {
        return parts::switch_case(sum(p.tensor("w")) > 0, {first, second}, p);
      })(changed)
          .tensor(""),
      parts::switch_case(sum(changed.tensor("w")) > 0, {first, second}, changed).tensor("")));
}

}  // namespace
}  // namespace etude::parts_test
