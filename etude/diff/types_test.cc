// SPDX-License-Identifier: Apache-2.0
// Other types than numbers and plain structs: erased, frozen, curved types, and tangents as
// vectors.
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <numbers>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "etude/diff.h"

namespace etude {

// A turn of the plane, by the angle of its tangent.
template <class T>
struct Turn {
  T c, s;
  std::pair<T, T> operator()(const T& x, const T& y) const {
    return {c * x - s * y, s * x + c * y};
  }
};
template <class T>
struct DifferentiableTraits<Turn<T>> {
  using Tangent = T;
  static T zero(const Turn<T>&) { return T(0); }
  static void move(Turn<T>& x, const T& by) {
    using std::cos, std::sin;
    x = {x.c * cos(by) - x.s * sin(by), x.s * cos(by) + x.c * sin(by)};
  }
};

namespace {

using Doubles = std::vector<double>;

struct Line {
  Doubles w;
  double b;
  bool flag = false;
  NoDerivative<double> k{2};
};
struct Pair {
  double x, y;
  friend bool operator==(const Pair&, const Pair&) = default;
};

// spec: D11
TEST(Types, ErasedValuesAndTangents) {
  AnyDifferentiable x(3.0);
  AnyDifferentiable copy = x;
  move(x, AnyTangent(2.0));
  EXPECT_EQ(x.get<double>(), 5);
  EXPECT_EQ(copy.get<double>(), 3);
  const AnyTangent two(2.0);
  EXPECT_EQ((two + AnyTangent()).get<double>(), 2);
  EXPECT_EQ((AnyTangent() + two + two).get<double>(), 4);
  EXPECT_EQ((3.0 * two).get<double>(), 6);
  EXPECT_EQ(two.get<double>(), 2);
  EXPECT_TRUE(zero_tangent(x).is_zero());
  try {
    AnyTangent sum = two + AnyTangent(Pair{1, 2});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the types 'double' and 'etude::"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(move(x, AnyTangent(1.0f)), Error);
  EXPECT_THROW(x.get<float>(), Error);
}

// spec: D12
TEST(Types, AModelIsAPointOfItsTangentSpace) {
  const Line line{{1, 2}, 3};
  const tangent_t<Line> view = vector_view(line);
  EXPECT_EQ(view[&Line::w], (Doubles{1, 2}));
  EXPECT_EQ(view[&Line::b], 3);
  EXPECT_EQ(vector_view(Pair{1, 2}), (Pair{1, 2}));
}

// spec: D13
TEST(Types, TangentsAreVectors) {
  Pair t{1, 2};
  EXPECT_EQ(scaled(t, 3), (Pair{3, 6}));
  EXPECT_EQ(t + 1, (Pair{2, 3}));
  EXPECT_EQ(t - 1, (Pair{0, 1}));
  t *= 3;
  t -= Pair{1, 1};
  EXPECT_EQ(t, (Pair{2, 5}));
  EXPECT_EQ(dot(Pair{1, 2}, Pair{3, 4}), 11);
  EXPECT_EQ(norm(Pair{3, 4}), 5);
  const tangent_t<Line> g = vector_view(Line{{2, 3}, 6});
  EXPECT_EQ(dot(g, g), 49);
  EXPECT_EQ(norm(g), 7);
  EXPECT_EQ(global_norm(Pair{1, 2}, Doubles{2, 4}), 5);
  EXPECT_THROW(static_cast<void>(dot(Doubles{1}, Doubles{1, 2})), Error);
}

// (3 s, 4 s), 12 s| is 13 s, even if squares overflow or underflow; its slopes equal the slopes at
// s = 1.
TEST(Types, NormsWhereSquaresLeaveTheRange) {
  const auto length = [](const auto& v) { return norm(v); };
  for (const double s : {1e-300, 1e-170, 1.0, 1e170, 1e300}) {
    const Doubles t{3 * s, 4 * s};
    EXPECT_NEAR(global_norm(t, Doubles{12 * s}) / s, 13, 1e-13) << s;
    const Doubles slopes = gradient(length, t);
    EXPECT_NEAR(slopes[0], .6, 1e-14) << s;
    EXPECT_NEAR(slopes[1], .8, 1e-14) << s;
  }
  for (const float s : {1e-30F, 1.0F, 1e19F, 1e37F}) {
    EXPECT_NEAR(norm(std::vector<float>{3 * s, 4 * s}) / s, 5, 1e-6) << s;
  }
  EXPECT_EQ(norm(Doubles{0, 0}), 0);
}

template <class T>
struct Corner {
  T x, y;
};
template <class T>
struct Spring {
  T stiffness, length;
  std::string name;
};

// spec: D2.a, D13
TEST(Types, OneSpellingForEveryTangent) {
  const auto descended = [](auto x, const auto& f) {
    const auto g = gradient(f, x);
    move(x, -0.5 * g);
    move(x, (g * 0.5 - g / 2) + 2 * (g - g));
    return x;
  };
  const auto by_index = [](const auto& v) { return v[0] * v[1]; };
  EXPECT_EQ(descended(Doubles{2, 3}, by_index), (Doubles{0.5, 2}));
  EXPECT_EQ(descended(std::array{2.0, 3.0}, by_index), (std::array{0.5, 2.0}));
  EXPECT_EQ(descended(std::deque{2.0, 3.0}, by_index), (std::deque{0.5, 2.0}));
  const auto by_place = [](const auto& t) { return std::get<0>(t) * std::get<1>(t); };
  EXPECT_EQ(descended(std::tuple(2.0, 3.0), by_place), std::tuple(0.5, 2.0));
  EXPECT_EQ(descended(std::pair(2.0, 3.0), by_place), std::pair(0.5, 2.0));
  const auto by_key = [](const auto& m) { return m.at("a") * m.at("b"); };
  const std::map<std::string, double> map = {{"a", 2}, {"b", 3}};
  EXPECT_EQ(descended(map, by_key), (std::map<std::string, double>{{"a", 0.5}, {"b", 2}}));
  const auto of_point = [](const auto& p) { return p.x * p.y; };
  EXPECT_EQ(descended(Corner<double>{2, 3}, of_point).x, 0.5);
  const auto of_spring = [](const auto& s) { return s.stiffness * s.length; };
  EXPECT_EQ(descended(Spring<double>{2, 3, ""}, of_spring).length, 2);
  EXPECT_EQ(get<&Corner<double>::x>(gradient(of_point, Corner<double>{2, 3})), 3);
  EXPECT_EQ(get<&Spring<double>::length>(gradient(of_spring, Spring<double>{2, 3, ""})), 2);

  double x = 2, y = 3;
  move(std::tie(x, y), -0.5 * gradient([](auto a, auto b) { return a * b; }, x, y));
  EXPECT_EQ(std::pair(x, y), std::pair(0.5, 2.0));
  Doubles sum = {1, 2};
  sum += Doubles{1, 1};
  sum -= Doubles{0, 1};
  sum *= 2;
  EXPECT_EQ(sum, (Doubles{4, 4}));
  sum *= sum[1];
  EXPECT_EQ(sum, (Doubles{16, 16}));
  EXPECT_THROW(sum += Doubles{1}, Error);
}

// A rate of descent that a derivative is taken by multiplies tangents that belong to it.
TEST(Types, TangentsTimesANumberOfAnOuterDerivative) {
  const auto after_a_step = [](auto rate) {
    const auto loss = [](const auto& w) { return w[0] * w[0] * w[1]; };
    std::vector<decltype(rate)> w = {2, 3};
    move(w, -rate * gradient(loss, w));
    return loss(w);
  };
  // (2 - 12 r)^2 (3 - 4 r), at 0.1.
  const double wanted = -24 * 0.8 * 2.6 - 4 * 0.64;
  EXPECT_NEAR(derivative(after_a_step, 0.1), wanted, 1e-12);
  EXPECT_NEAR(pullback(after_a_step, 0.1)(1), wanted, 1e-12);
}

// spec: D14.a
TEST(Types, FunctionsOfTangentsGoLeafByLeaf) {
  EXPECT_EQ(leafwise::sqrt(Pair{4, 9}), (Pair{2, 3}));
  EXPECT_EQ(leafwise::reciprocal(Pair{2, 4}), (Pair{.5, .25}));
  EXPECT_EQ(leafwise::abs(Pair{-2, 4}), (Pair{2, 4}));
  EXPECT_EQ(map_leaves(Pair{2, 4}, [](double v) { return v * v; }), (Pair{4, 16}));
  EXPECT_EQ(map_leaves(vector_view(Line{{2, 3}, 6}), [](double v) { return -v; })[&Line::w],
            (Doubles{-2, -3}));
}

template <class T>
struct Encoder {
  Freezable<T> scale;
  std::vector<Freezable<T>> more;
};
template <class T>
struct Model {
  Encoder<T> encoder;
  Freezable<T> head;
};

// spec: D16
TEST(Types, FrozenValuesDoNotMove) {
  Freezable<double> w{1};
  w.frozen = true;
  move(w, 5.0);
  EXPECT_EQ(w, 1);
  w.frozen = false;
  move(w, 5.0);
  EXPECT_EQ(w, 6);

  Model<double> model{{{2}, {{3}, {4}}}, {5}};
  EXPECT_EQ(freeze(model, "encoder/"), 3U);
  EXPECT_TRUE(model.encoder.more[1].frozen);
  EXPECT_FALSE(model.head.frozen);
  const auto f = [](const auto& m) {
    return m.encoder.scale * m.encoder.more[0] * m.encoder.more[1] * m.head;
  };
  const auto at = [&](const auto& m) {
    const auto g = gradient(f, m);
    using M = Model<double>;
    using E = Encoder<double>;
    return std::tuple(g[&M::encoder][&E::scale], g[&M::encoder][&E::more], g[&M::head]);
  };
  EXPECT_EQ(at(model), std::tuple(0.0, (Doubles{0, 0}), 24.0));
  EXPECT_EQ(unfreeze(model, "encoder/more"), 2U);
  EXPECT_EQ(at(model), std::tuple(0.0, (Doubles{40, 30}), 24.0));
  EXPECT_EQ(unfreeze(model), 4U);
  EXPECT_EQ(freeze(model, "decoder/"), 0U);
  EXPECT_EQ(at(model), std::tuple(60.0, (Doubles{40, 30}), 24.0));
}

// spec: D17.a
TEST(Types, AManifoldMovesAlongItsOwnTangent) {
  Turn<double> turn{1, 0};
  move(turn, std::numbers::pi / 2);
  const auto [x, y] = turn(1, 0);
  EXPECT_NEAR(x, 0, 1e-15);
  EXPECT_NEAR(y, 1, 1e-15);

  // The angle from (1, 0) to (3, 4), by steps down a gradient; it stays a turn.
  const auto distance = [](const auto& at) {
    const auto [u, v] = at(1.0, 0.0);
    return (u - 0.6) * (u - 0.6) + (v - 0.8) * (v - 0.8);
  };
  static_assert(std::is_same_v<decltype(gradient(distance, turn)), double>);
  for (int i = 0; i < 60; ++i) move(turn, -0.4 * gradient(distance, turn));
  EXPECT_NEAR(turn.c, 0.6, 1e-12);
  EXPECT_NEAR(turn.s, 0.8, 1e-12);
  EXPECT_NEAR(turn.c * turn.c + turn.s * turn.s, 1, 1e-14);
  EXPECT_EQ(pullback(distance, turn)(1.0), gradient(distance, turn));

  struct Robot {
    std::vector<Turn<double>> joints;
  };
  const auto reach = [](const auto& joints) {
    auto [u, v] = joints[0](1.0, 0.0);
    std::tie(u, v) = joints[1](u + 1.0, v);
    return v;
  };
  const std::vector<Turn<double>> joints = {{1, 0}, {0.6, 0.8}};
  const Doubles g = gradient(reach, joints);
  EXPECT_NEAR(g[0], 0.6, 1e-15);
  EXPECT_NEAR(g[1], 1.2, 1e-15);
}

// spec: D68.a, D19, G6
TEST(Types, VariantsAndOptionalsAsArguments) {
  const auto f = [](const auto& v, const auto& x) {
    using A = std::decay_t<decltype(x)>;
    if (v.index() == 0) return x * std::get<0>(v);
    const auto& pair = std::get<1>(v);
    return A(x * pair.first * pair.second);
  };
  using W = std::variant<double, std::pair<double, double>>;
  const auto [dv, dx] = gradient(f, W(10.0), 2.0);
  EXPECT_EQ(std::get<0>(dv), 2);
  EXPECT_EQ(dx, 10);
  const auto [dw, dy] = gradient(f, W(std::pair(4.0, 5.0)), 2.0);
  EXPECT_EQ(std::get<1>(dw), (std::pair(10.0, 8.0)));
  EXPECT_EQ(dy, 20);
  EXPECT_EQ(gradient(f, W(10.0), no_derivative(2.0)), W(2.0));
}

// spec: D20, D9.a
TEST(Types, MapsAsArguments) {
  using Map = std::map<std::string, double>;
  const auto f = [](const auto& m) { return m.at("a") * m.at("b"); };
  EXPECT_EQ(gradient(f, Map{{"a", 2}, {"b", 3}}), (Map{{"a", 3}, {"b", 2}}));
}

// spec: D28
TEST(Types, StopGradientTakesStructures) {
  const auto f = [](const auto& v) {
    const auto fixed = stop_gradient(v);
    return v[0] * fixed[1] + v[5];
  };
  EXPECT_EQ(gradient(f, Doubles{2, 3, 0, 0, 0, 7}), (Doubles{3, 0, 0, 0, 0, 1}));
}

}  // namespace
}  // namespace etude
