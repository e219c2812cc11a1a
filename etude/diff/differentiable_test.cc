// SPDX-License-Identifier: Apache-2.0
#include "etude/diff/differentiable.h"

#include <cstdio>

#include <gtest/gtest.h>

#include "etude/base/structure.h"

namespace etude {
namespace {

enum class Mode { kA, kB };
struct Point {
  double x, y;
  bool operator==(const Point&) const = default;
};
struct Dense {
  std::vector<double> weight;
  double bias = 0;
  bool flag = false;
  Mode mode = Mode::kA;
  std::string name = {};
};
struct Net {
  Dense a, b;
  NoDerivative<double> k;
  std::optional<double> o;
  std::map<std::string, double> m;
  std::tuple<int, double> t;
  std::pair<std::string, std::array<double, 2>> p;
};
class Private {
 public:
  explicit Private(double v) : value_(v) {}
  double value() const { return value_; }

 private:
  double value_;
  int count_ = 1;
  ETUDE_FIELDS(Private, value_, count_);
};
struct Unfit {
  double x;
  std::FILE* file;
};
struct Rotation {
  double angle = 0;
};

}  // namespace

template <>
struct DifferentiableTraits<Rotation> {
  using Tangent = double;
  static constexpr double zero(const Rotation&) { return 0; }
  static constexpr void move(Rotation& x, double by) { x.angle += 2 * by; }
};

namespace {

// spec: D1.a
template <class T>
constexpr bool kIsStable = std::is_same_v<tangent_t<tangent_t<T>>, tangent_t<T>>;
static_assert(std::is_same_v<tangent_t<double>, double> &&
              std::is_same_v<tangent_t<Float16>, Float16>);
static_assert(kIsStable<float> && kIsStable<Point> && kIsStable<Dense> && kIsStable<Net>);
static_assert(kIsStable<Private> && kIsStable<std::vector<Net>> && kIsStable<std::complex<float>>);
static_assert(!Differentiable<int> && !Differentiable<Mode> && !Differentiable<std::string>);
static_assert(!Differentiable<std::vector<int>> && !Differentiable<NoDerivative<double>>);
static_assert(Differentiable<Net> && !Differentiable<Unfit> && !Differentiable<std::FILE*>);

// spec: D1.b
static_assert(kIsStable<BFloat16> && kIsStable<long double> && kIsStable<std::complex<double>>);
static_assert(std::is_same_v<tangent_t<BFloat16>, BFloat16> &&
              std::is_same_v<tangent_t<std::complex<double>>, std::complex<double>> &&
              std::is_same_v<tangent_t<long double>, long double>);

// spec: D2.a, D3, D6
constexpr bool moves_at_compile_time() {
  Dense d{{1, 2}, 3, true};
  const tangent_t<Dense> zero = zero_tangent(d);
  tangent_t<Dense> by = zero;
  std::get<0>(by.slots) = {10, 20};
  std::get<1>(by.slots) = 1;
  move(d, by);
  return d.weight[0] == 11 && d.weight[1] == 22 && d.bias == 4 &&
         std::get<0>(zero.slots).size() == 2;
}
#if !defined(__clang__)  // which makes no std::string of GNU libstdc++ 12 at compile time
static_assert(moves_at_compile_time());
#endif
TEST(Differentiable, MovesAtRunTime) { EXPECT_TRUE(moves_at_compile_time()); }

// spec: D4
static_assert(std::is_same_v<tangent_t<Point>, Point>);

Net make_net() {
  return {{{1, 2}, 3}, {{4}, 5}, {2}, 6.0, {{"u", 7.0}}, {1, 8.0}, {"n", {9.0, 10.0}}};
}

TEST(Differentiable, SlotsAreAddressedByField) {  // spec: D3, G14
  const Net net = make_net();
  tangent_t<Net> g = zero_tangent(net);
  g[&Net::a][&Dense::bias] = 7;
  get<&Net::t>(g) = {NoTangent{}, 4.0};
  EXPECT_EQ(get<&Dense::bias>(get<&Net::a>(g)), 7);
  EXPECT_EQ(std::get<1>(g[&Net::t]), 4);
  EXPECT_EQ(g[&Net::b][&Dense::weight], std::vector<double>{0});
  Point p{1, 2};
  EXPECT_EQ(get<&Point::y>(p), 2);
}

TEST(Differentiable, WalksNameTheFieldsOfATangent) {  // spec: D15
  const tangent_t<Net> g = zero_tangent(make_net());
  std::vector<std::string> paths;
  for_each_leaf<double>(g, [&](const std::string& path, const double&) { paths.push_back(path); });
  const std::vector<std::string> want = {"a/weight/0", "a/weight/1", "a/bias", "b/weight/0",
                                         "b/bias",     "o",          "m/u",    "t/1",
                                         "p/1/0",      "p/1/1"};
  EXPECT_EQ(paths, want);
}

TEST(Differentiable, TangentsFormAVectorSpace) {  // spec: D1.c, D13
  Net net = make_net();
  tangent_t<Net> g = zero_tangent(net);
  g[&Net::a][&Dense::weight] = {1, 2};
  g[&Net::m]["u"] = 3;
  g[&Net::o] = 4;
  tangent_t<Net> h = 2.0 * (g + g) - g;
  h += -g;
  move(net, h);
  EXPECT_EQ(net.a.weight, (std::vector<double>{3, 6}));
  EXPECT_EQ(net.m["u"], 13);
  EXPECT_EQ(net.o, 14);
  EXPECT_EQ(net.k.value, 2);
  EXPECT_EQ((3.0 * Point{1, 2}), (Point{3, 6}));
  EXPECT_EQ(scaled(std::vector<double>{1, 2}, 3), (std::vector<double>{3, 6}));
}

TEST(Differentiable, MovingAllocatesNothingNew) {  // spec: D2.b
  Dense d{{1, 2}, 3};
  const double* address = d.weight.data();
  move(d, zero_tangent(d));
  EXPECT_EQ(d.weight.data(), address);
}

TEST(Differentiable, LengthsMustAgree) {  // spec: D7.a
  std::vector<double> v = {1, 2, 3};
  try {
    move(v, {1, 2});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_STREQ(error.what(),
                 "a tangent of length 2 does not fit a value of length 3. Make both equally long");
  }
}

TEST(Differentiable, DequesAndHashMaps) {  // spec: D7.b, D9.c
  struct Stack {
    std::deque<double> rows;
    std::unordered_map<std::string, double> named;
  };
  Stack s{{1, 2, 3}, {}};
  for (int i = 0; i < 40; ++i) s.named["k" + std::to_string(i)] = i;
  static_assert(std::is_same_v<tangent_t<std::deque<Dense>>, std::deque<Tangent<Dense>>>);
  tangent_t<Stack> g = zero_tangent(s);
  EXPECT_EQ(g.rows.size(), 3U);
  EXPECT_EQ(g.named.size(), 40U);
  g.rows = {10, 20, 30};
  g.named.clear();  // values of missing keys do not move
  g.named.rehash(7);
  for (int i = 39; i > 20; --i) g.named["k" + std::to_string(i)] = 100;
  move(s, g + g);
  EXPECT_EQ(s.rows, (std::deque<double>{21, 42, 63}));
  EXPECT_EQ(s.named["k20"], 20);
  EXPECT_EQ(s.named["k21"], 221);
  std::vector<std::string> paths;
  for_each_leaf<double>(s, [&](const std::string& path, double&) { paths.push_back(path); });
  EXPECT_EQ(paths[2], "rows/2");
  EXPECT_EQ(paths[3], "named/k0");
  EXPECT_TRUE(std::is_sorted(paths.begin() + 3, paths.end())) << "not the order of hashes";
  EXPECT_THROW(move(s.rows, {1.0}), Error);
  EXPECT_THROW(move(s.named, {{"none", 1.0}}), Error);
}

TEST(Differentiable, OptionalsAndMaps) {  // spec: D8.a, D9.c
  std::optional<double> none, some = 3.0;
  EXPECT_EQ(zero_tangent(none), std::nullopt);
  EXPECT_EQ(zero_tangent(some), 0.0);
  move(some, std::nullopt);
  EXPECT_EQ(some, 3.0);
  EXPECT_THROW(move(none, std::optional<double>(1.0)), Error);
  std::map<std::string, double> m = {{"a", 2.0}, {"b", 3.0}};
  move(m, {{"b", 1.0}});
  EXPECT_EQ(m, (std::map<std::string, double>{{"a", 2.0}, {"b", 4.0}}));
  try {
    move(m, {{"c", 1.0}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no key 'c'"), std::string::npos) << error.what();
  }
}

TEST(Differentiable, ClassesListTheirFieldsOrTheirTraits) {  // spec: D17.a, D18
  Private p(1);
  move(p, {{2.0, {}}});
  EXPECT_EQ(p.value(), 3);
  std::vector<Rotation> turns(2);
  move(turns, {1.0, 2.0});
  EXPECT_EQ(turns[1].angle, 4);
}

TEST(Differentiable, TangentsOfListedClassesHaveTheirNames) {  // spec: D18
  tangent_t<Private> t = zero_tangent(Private(1));
  t.value_ = 2;
  Private p(1);
  move(p, 2.0 * t + t);
  EXPECT_EQ(p.value(), 7);
  EXPECT_EQ(get<0>(t.etude_slots()), 2);
}

struct WithConstant {
  const double gravity = 9.81;
  std::vector<double> mass = {1, 2};
};

TEST(Differentiable, ConstFieldsAreListedAsNotWritable) {  // spec: D15
  WithConstant x;
  std::vector<std::string> seen;
  for_each_leaf<double>(x, [&](const std::string& path, auto& leaf) {
    constexpr bool is_const = std::is_const_v<std::remove_reference_t<decltype(leaf)>>;
    seen.push_back(path + (is_const ? " not writable" : ""));
  });
  EXPECT_EQ(seen, (std::vector<std::string>{"gravity not writable", "mass/0", "mass/1"}));
}

TEST(Differentiable, VariantsHoldTheSameAlternative) {  // spec: D19
  std::variant<double, Point> v = Point{1, 2};
  auto t = zero_tangent(v);
  EXPECT_EQ(t.index(), 1U);
  std::get<1>(t).x = 5;
  move(v, t);
  EXPECT_EQ(std::get<1>(v).x, 6);
  EXPECT_THROW(move(v, std::variant<double, Point>(1.0)), Error);
}

TEST(Differentiable, NumbersOfEveryKindMove) {  // spec: D1.b
  std::complex<double> z(1, 2);
  move(z, {3, -1});
  EXPECT_EQ(z, std::complex<double>(4, 1));
  EXPECT_EQ(zero_tangent(z), std::complex<double>(0, 0));
  long double wide = 1;
  move(wide, 0.5L);
  EXPECT_EQ(wide, 1.5L);
  BFloat16 narrow(1.0F);
  move(narrow, BFloat16(0.5F));
  EXPECT_EQ(static_cast<float>(narrow), 1.5F);
}

}  // namespace
}  // namespace etude
