// SPDX-License-Identifier: Apache-2.0
// vmap on tensors: one batched program for all examples, with gradients inside and outside. The
// rules of ops are checked by the op matrix.
// spec: D38
#include <gtest/gtest.h>

#include "etude/autodiff/batch.h"
#include "etude/core/call/graph_calls.h"
#include "etude/etude.h"
#include "tests/expect_error.h"
#include "tests/recording.h"

namespace etude {
namespace {

using Floats = std::vector<float>;

Tensor square(const Tensor& x) { return x * x; }
Tensor matrix(const Floats& values, int64_t rows) {
  const auto columns = static_cast<int64_t>(values.size()) / rows;
  return Tensor(values, Shape{rows, columns});
}
std::vector<int64_t> sizes(const Tensor& x) { return x.shape().to_vector(); }

TEST(Vmap, OfTheGradientOfASquare) {
  const Tensor x(Floats{1, 2, 3});
  const Tensor g = vmap([](const Tensor& a) { return gradient(square, a); })(x);
  EXPECT_EQ(g.to_vector<float>(), (Floats{2, 4, 6}));
  EXPECT_EQ(sizes(g), (std::vector<int64_t>{3}));
  EXPECT_EQ(vmap(gradient(square))(x).to_vector<float>(), (Floats{2, 4, 6}));
  EXPECT_EQ(vmap(gradient(gradient(square)))(x).to_vector<float>(), (Floats{2, 2, 2}));
}

// An operand that is the same for all examples is not copied for each.
TEST(Vmap, LeavesWhatIsTheSameForAllExamples) {
  const Tensor w = ones({2000});
  BatchContext batch(4);
  const Tensor x = batch.example_of(ones({4, 3}));
  const Tensor held = internal::after(w, {&x, 1});
  EXPECT_FALSE(batch.is_example(held));
  EXPECT_EQ(held.data<float>().data(), w.data<float>().data());
  EXPECT_TRUE(batch.is_example(internal::after(x, {&w, 1})));
  EXPECT_TRUE(batch.is_example(held * sum(x)));
}

// One batched program: as many calls for a thousand examples as for two.
TEST(Vmap, RunsTheFunctionOnce) {
  const auto calls = [](int64_t n) {
    const Tensor x = ones({n, 4});
    int runs = 0;
    tests::RecordingContext context({&x, 1});
    const Tensor g = vmap([&](const Tensor& a) {
      ++runs;
      return gradient([](const Tensor& b) { return sum(tanh(b) * b); }, a);
    })(x);
    EXPECT_EQ(runs, 1);
    return context.finish({&g, 1}).size();
  };
  EXPECT_EQ(calls(1000), calls(2));
}

struct Dense {
  Tensor weight, bias;
};

TEST(Vmap, GivesGradientsForEachExample) {
  const Dense layer{matrix({1, -2, 3, 0.5F, 2, -1}, 3), Tensor(Floats{0.25F, -0.5F})};
  const Tensor x = matrix({1, 2, 3, -1, 0.5F, 2}, 2), y(Floats{1, -2});
  const auto loss = [](const Dense& m, const Tensor& one, const Tensor& want) {
    const Tensor error = sum(tanh(matmul(one, m.weight) + m.bias)) - want;
    return error * error;
  };
  const auto each = vmap([&](const Tensor& one, const Tensor& want) {
    return gradient([&](const Dense& m) { return loss(m, one, want); }, layer);
  })(x, y);
  EXPECT_EQ(sizes(each.weight), (std::vector<int64_t>{2, 3, 2}));
  for (int i = 0; i < 2; ++i) {
    const auto alone = gradient([&](const Dense& m) { return loss(m, x.at(i), y.at(i)); }, layer);
    EXPECT_TRUE(allclose(each.weight.at(i), alone.weight).item<bool>());
    EXPECT_TRUE(allclose(each.bias.at(i), alone.bias).item<bool>());
  }
}

TEST(Vmap, IsDifferentiatedItself) {
  const Tensor x = matrix({1, 2, 3, 4}, 2), w(Floats{2, -1});
  const auto f = [](const Tensor& points, const Tensor& weights) {
    return sum(vmap([&](const Tensor& p) { return sum(p * p * weights); })(points));
  };
  const auto [dx, dw] = gradient(f, x, w);
  EXPECT_EQ(dx.to_vector<float>(), (Floats{4, -4, 12, -8}));
  EXPECT_EQ(dw.to_vector<float>(), (Floats{10, 20}));
  const auto [value, moved] = jvp([&](const Tensor& p) { return f(p, w); }, x, ones({2, 2}));
  EXPECT_EQ(value.item<float>(), 0);
  EXPECT_EQ(moved.item<float>(), 4);
}

TEST(Vmap, CarriesForwardModeInside) {
  const Tensor x(Floats{0.5F, 1});
  const auto f = vmap(
      [](const Tensor& a) { return derivative([](const Tensor& b) { return b * sin(b); }, a); });
  const Floats got = f(x).to_vector<float>();
  EXPECT_NEAR(got[0], std::sin(0.5) + 0.5 * std::cos(0.5), 1e-6);
  EXPECT_NEAR(got[1], std::sin(1.0) + std::cos(1.0), 1e-6);
}

TEST(Vmap, Nests) {
  const Tensor x(Floats{1, 2, 3}), y(Floats{10, 20});
  const Tensor table =
      vmap([&](const Tensor& a) { return vmap([&](const Tensor& b) { return a * b; })(y); })(x);
  EXPECT_EQ(sizes(table), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(table.to_vector<float>(), (Floats{10, 20, 20, 40, 30, 60}));
  // The hessian of each example: the gradient of each element of the gradient.
  const Tensor points = matrix({1, 2, 3, 4}, 2);
  const Tensor h = vmap([](const Tensor& p) {
    const auto cube = [](const Tensor& a) { return sum(a * a * a); };
    const auto back = pullback([&](const Tensor& a) { return gradient(cube, a); }, p);
    return vmap([&](const Tensor& unit) { return back(unit); })(eye(2));
  })(points);
  EXPECT_EQ(h.to_vector<float>(), (Floats{6, 0, 0, 12, 18, 0, 0, 24}));
}

// x^2 + x by a staged function that is given x and captures it, also in a branch.
Tensor by_captured_example(const Tensor& x) {
  const auto f = function([&](const Tensor& y) {
    return x * y + cond(
                       sum(x) > 0.0F, [&] { return x; }, [&] { return x * 1.0F; });
  });
  const Tensor doubled = f(2.0F * x);  // 2x^2 + x
  const Tensor out = f(x);
  EXPECT_EQ(f.trace_count(), 1U);
  return out + 0.0F * doubled;
}

TEST(Vmap, FunctionsInsideCaptureExamples) {
  const Tensor x(Floats{1, 2, -3});
  const auto expect_right = [&](const char* mode) {
    SCOPED_TRACE(mode);
    EXPECT_EQ(vmap(by_captured_example)(x).to_vector<float>(), (Floats{2, 6, 6}));
    const auto slope = [](const auto& g, const Tensor& at) {
      return gradient([&](const Tensor& t) { return sum(g(t)); }, at);
    };
    EXPECT_EQ(slope(vmap(by_captured_example), x).to_vector<float>(), (Floats{3, 5, -5}));
    EXPECT_EQ(vmap(gradient(by_captured_example))(x).to_vector<float>(), (Floats{3, 5, -5}));
    EXPECT_EQ(vmap(gradient(gradient(by_captured_example)))(x).to_vector<float>(),
              (Floats{2, 2, 2}));
    EXPECT_EQ(jvp(vmap(by_captured_example), x, ones({3})).second.to_vector<float>(),
              (Floats{3, 5, -5}));
    const auto nested =
        vmap([](const Tensor& row) { return vmap(by_captured_example)(row) * row.at(0); });
    EXPECT_EQ(nested(matrix({1, 2, 2, 3}, 2)).to_vector<float>(), (Floats{2, 6, 12, 24}));
    const auto inner =
        [](const Tensor& e) {  // the inner function captures a value around the outer one
          return function([&](const Tensor& y) {
            return function([&](const Tensor& z) { return z * e; })(y) + e;
          })(e);
        };
    EXPECT_EQ(vmap(inner)(x).to_vector<float>(), (Floats{2, 6, 6}));
    const auto in_out = [](const Tensor& e) {
      Tensor own = e * 1.0F;
      const Tensor y = function([&](Tensor& a) {
        a += a * e;
        return a * 0.5F;
      })(own);
      return y + own;
    };
    EXPECT_EQ(vmap(in_out)(x).to_vector<float>(), (Floats{3, 9, 9}));
  };
  expect_right("eagerly");
  {
    const LazyScope lazy;
    expect_right("lazily");
  }
  const auto whole = function([](const Tensor& t) { return vmap(by_captured_example)(t); });
  EXPECT_EQ(whole(x).to_vector<float>(), (Floats{2, 6, 6}));
  EXPECT_EQ(gradient([&](const Tensor& t) { return sum(whole(t)); }, x).to_vector<float>(),
            (Floats{3, 5, -5}));
}

// A graph that captures an example is for its vmap alone.
TEST(Vmap, AFunctionFromOutsideCapturesTheExampleOfEachVmap) {
  const Tensor* seen = nullptr;
  const auto f = function([&](const Tensor& y) { return *seen * y; });
  const auto squares = vmap([&](const Tensor& e) {
    seen = &e;
    const Tensor y = f(e);
    EXPECT_EQ(f.trace_count(), 1U);
    return y;
  });
  EXPECT_EQ(squares(Tensor(Floats{1, 2})).to_vector<float>(), (Floats{1, 4}));
  EXPECT_EQ(f.trace_count(), 0U);
  EXPECT_EQ(squares(Tensor(Floats{3, 4})).to_vector<float>(), (Floats{9, 16}));
  const auto staged = function([&](const Tensor& x) { return squares(x); });
  EXPECT_EQ(staged(Tensor(Floats{5, 6})).to_vector<float>(), (Floats{25, 36}));
  const Tensor three(3.0F);
  seen = &three;
  EXPECT_EQ(f(Tensor(2.0F)).item<float>(), 6);

  Tensor escaped;
  vmap([&](const Tensor& e) { return escaped = e; })(Tensor(Floats{1, 2}));
  seen = &escaped;
  const auto g = function([&](const Tensor& y) { return *seen * y; });
  tests::expect_error([&] { g(Tensor(2.0F)); }, ErrorCode::kFailedPrecondition,
                      {"it stands for one example of a vmap"});
}

TEST(Vmap, ExamplesAreAssignedToNoVariable) {
  const Variable v(Tensor(1.0F));
  const auto refused =
      "a value that belongs to one example of a vmap cannot be assigned to a Variable";
  const auto expect_refused = [&](const auto& assign) {
    tests::expect_error([&] { vmap([&](const Tensor& e) { return assign(e), e; })(ones({2})); },
                        ErrorCode::kInvalidArgument, {refused, "Assign after the vmap"});
    EXPECT_EQ(v.read().item<float>(), 1);
  };
  const auto expect_all_refused = [&] {
    expect_refused([&](const Tensor& e) { v.assign(e); });
    expect_refused([&](const Tensor& e) { v.assign_add(e); });
    expect_refused([&](const Tensor& e) { v.assign_sub(e); });
    expect_refused([&](const Tensor& e) {
      function([&](const Tensor& y) { return v.assign_add(e * y); })(e);
    });
  };
  expect_all_refused();
  const LazyScope lazy;
  expect_all_refused();
}

TEST(Vmap, OfStructures) {
  const std::pair<Tensor, Tensor> both{matrix({1, 2, 3, 4}, 2), Tensor(Floats{10, 20})};
  const auto [total, same] = vmap([](const std::pair<Tensor, Tensor>& p) {
    return std::pair{sum(p.first) + p.second, Tensor(7.0F)};
  })(both);
  EXPECT_EQ(total.to_vector<float>(), (Floats{13, 27}));
  EXPECT_EQ(same.to_vector<float>(), (Floats{7, 7}));  // does not depend on the example
}

TEST(Vmap, WritesAndReadsByIndexPerExample) {
  const Tensor x = matrix({1, 2, 3, 4, 5, 6}, 2);
  const Tensor which(std::vector<int64_t>{2, 0});
  const auto f = [](const Tensor& row, const Tensor& i) {
    Tensor y = row;
    y.at(i) = 0.0;
    y.at(0) += 100.0;
    return std::pair{y, take(row, i)};
  };
  const auto [written, picked] = vmap(f)(x, which);
  EXPECT_EQ(written.to_vector<float>(), (Floats{101, 2, 0, 100, 5, 6}));
  EXPECT_EQ(picked.to_vector<float>(), (Floats{3, 4}));
  // Sparse gradients become dense, example by example.
  const auto g = vmap([](const Tensor& row, const Tensor& i) {
    return gradient([&](const Tensor& a) { return sum(square(take(a, i))); }, row);
  })(x, which);
  EXPECT_EQ(g.to_vector<float>(), (Floats{0, 0, 6, 8, 0, 0}));
}

TEST(Vmap, OfCallsWithManyOperands) {
  const Tensor x(Floats{1, 2, 3}), fixed(7.0F);
  const auto f = [&](const Tensor& a) {
    std::vector<Tensor> parts;
    for (int i = 0; i < 100; ++i) parts.push_back(i % 3 == 0 ? fixed : a * static_cast<float>(i));
    return stack(parts).at(Slice(64, 68));
  };
  EXPECT_EQ(vmap(f)(x).to_vector<float>(),
            (Floats{64, 65, 7, 67, 128, 130, 7, 134, 192, 195, 7, 201}));
}

TEST(Vmap, NamesWhatIsWrong) {
  using tests::expect_error;
  constexpr ErrorCode kInvalid = ErrorCode::kInvalidArgument;
  const auto f = [](const Tensor& a, const Tensor& b) { return a * b; };
  expect_error([&] { vmap(f)(ones({2}), ones({3})); }, kInvalid,
               {"vmap: ", "2 examples along axis 0", "another has 3"});
  expect_error([&] { vmap(f)(ones({2}), Tensor(1.0F)); }, kInvalid,
               {"vmap: ", "a scalar", "capture"});
  expect_error([&] { vmap(f)(ones({0}), ones({0})); }, kInvalid, {"vmap: ", "no examples"});
  expect_error(
      [&] {
        vmap([](const Tensor& a) { return a + ones({3}); })(ones({5, 2}));
      },
      kInvalid, {"add: ", "[2] and [3] do not broadcast", "vmap_test.cc"});
  expect_error(
      [] { vmap([](const Tensor& a) { return a.item<float>() > 0 ? a : -a; })(ones({5})); },
      ErrorCode::kFailedPrecondition, {"one example of a vmap", "where("});
  const auto positive = [](const Tensor& a) { return boolean_mask(a, a > 0.0F); };
  expect_error(
      [&] {
        vmap(positive)(matrix({1, 2, 3, -4}, 2));
      },
      kInvalid, {"the result has shape [2] for example 0 and [1] for example 1"});
}

}  // namespace
}  // namespace etude
