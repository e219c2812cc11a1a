// SPDX-License-Identifier: Apache-2.0
#include "etude/base/structure.h"

#include <list>
#include <memory>
#include <set>
#include <valarray>

#include <gtest/gtest.h>

namespace etude {
namespace {

struct Leaf {
  int id = 0;
  bool operator==(const Leaf&) const = default;
};

enum class Mode { kA, kB };

struct Conv {
  Leaf filter, bias;
  int stride = 1;
  Mode mode = Mode::kA;
};

struct Model {
  Conv conv1;
  std::vector<Conv> layers;
  std::optional<Leaf> head;
  std::array<Leaf, 2> pair;
  std::map<std::string, Leaf> named;
  std::tuple<int, Leaf, Conv> tuple;
  std::pair<std::string, Leaf> keyed;
  std::variant<int, Leaf, Conv> choice;
  NoDerivative<Leaf> count;
  std::string name;
  std::shared_ptr<int> handle;
  std::vector<bool> flags;
};

struct Tree {
  Leaf value;
  std::vector<Tree> children;
};
struct BareTree {
  std::vector<BareTree> children;
  int depth;
};

class Hidden {
 public:
  explicit Hidden(Leaf leaf) : leaf_(leaf) {}

 private:
  Leaf leaf_;
  ETUDE_FIELDS(Hidden, leaf_);
};

Model make_model() {
  Model m;
  m.conv1 = {{1}, {2}};
  m.layers = {{{3}, {4}}, {{5}, {6}}};
  m.head = Leaf{7};
  m.pair = {Leaf{8}, Leaf{9}};
  m.named = {{"x", {11}}, {"a", {10}}};
  m.tuple = {0, Leaf{12}, Conv{{13}, {14}}};
  m.keyed = {"k", {15}};
  m.choice = Conv{{16}, {17}};
  m.count.value = {18};
  return m;
}

template <Marked marked = Marked::kSkip, class X>
std::vector<std::pair<std::string, int>> leaves_of(const X& x) {
  std::vector<std::pair<std::string, int>> found;
  for_each_leaf<Leaf, marked>(
      x, [&](const std::string& path, const Leaf& leaf) { found.emplace_back(path, leaf.id); });
  return found;
}

static_assert(HasLeaf<Leaf, Leaf>::value && HasLeaf<Model, Leaf>::value);
static_assert(HasLeaf<const Model&, Leaf>::value && HasLeaf<Hidden, Leaf>::value);
static_assert(HasLeaf<std::vector<std::optional<Leaf>>, Leaf>::value);
static_assert(!HasLeaf<Conv, std::string>::value && !HasLeaf<std::string, Leaf>::value);
static_assert(!HasLeaf<NoDerivative<Leaf>, Leaf>::value);
static_assert(HasLeaf<NoDerivative<Leaf>, Leaf, Marked::kVisit>::value);
static_assert(HasLeaf<Tree, Leaf>::value && !HasLeaf<BareTree, Leaf>::value);
static_assert(!HasLeaf<std::vector<bool>, Leaf>::value && !HasLeaf<std::tuple<>, Leaf>::value);
static_assert(!HasLeaf<std::shared_ptr<Leaf>, Leaf>::value);

TEST(Structure, WalksEveryContainerInOrder) {
  const std::vector<std::pair<std::string, int>> want = {{"conv1/filter", 1},
                                                         {"conv1/bias", 2},
                                                         {"layers/0/filter", 3},
                                                         {"layers/0/bias", 4},
                                                         {"layers/1/filter", 5},
                                                         {"layers/1/bias", 6},
                                                         {"head", 7},
                                                         {"pair/0", 8},
                                                         {"pair/1", 9},
                                                         {"named/a", 10},
                                                         {"named/x", 11},
                                                         {"tuple/1", 12},
                                                         {"tuple/2/filter", 13},
                                                         {"tuple/2/bias", 14},
                                                         {"keyed/1", 15},
                                                         {"choice/filter", 16},
                                                         {"choice/bias", 17}};
  EXPECT_EQ(leaves_of(make_model()), want);
}

TEST(Structure, WalksListsValarraysAndCArrays) {
  struct Rows {
    std::list<Leaf> list;
    std::valarray<Leaf> line;
    Leaf grid[2][2];
    std::set<int> keys;
  };
  static_assert(HasLeaf<Rows, Leaf>::value && !HasLeaf<std::list<int>, Leaf>::value);
  const Rows rows{{{1}, {2}}, {{3}, {4}}, {{{5}, {6}}, {{7}, {8}}}, {9}};
  const std::vector<std::pair<std::string, int>> want = {
      {"list/0", 1},   {"list/1", 2},   {"line/0", 3},   {"line/1", 4},
      {"grid/0/0", 5}, {"grid/0/1", 6}, {"grid/1/0", 7}, {"grid/1/1", 8}};
  EXPECT_EQ(leaves_of(rows), want);
}

TEST(Structure, WalksMarkedFieldsWhenAsked) {
  const auto found = leaves_of<Marked::kVisit>(make_model());
  ASSERT_EQ(found.size(), 18u);
  EXPECT_EQ(found.back(), std::make_pair(std::string("count"), 18));
}

TEST(Structure, PassesOverWhatIsAbsent) {
  Model m = make_model();
  m.head.reset();
  m.layers.clear();
  m.named.clear();
  m.choice = 3;
  EXPECT_EQ(leaves_of(m).size(), 8u);
  m.choice = Leaf{20};
  EXPECT_EQ(leaves_of(m).back(), std::make_pair(std::string("choice"), 20));
}

TEST(Structure, GivesALoneLeafAnEmptyPath) {
  EXPECT_EQ(leaves_of(Leaf{5}), (std::vector<std::pair<std::string, int>>{{"", 5}}));
  EXPECT_EQ(leaves_of(std::vector<Leaf>{{6}}),
            (std::vector<std::pair<std::string, int>>{{"0", 6}}));
  EXPECT_EQ(leaves_of(Hidden(Leaf{7})), (std::vector<std::pair<std::string, int>>{{"leaf", 7}}));
}

TEST(Structure, WalksATypeThatHoldsItself) {
  const Tree tree{{1}, {Tree{{2}, {Tree{{3}, {}}}}, Tree{{4}, {}}}};
  const std::vector<std::pair<std::string, int>> want = {{"value", 1},
                                                         {"children/0/value", 2},
                                                         {"children/0/children/0/value", 3},
                                                         {"children/1/value", 4}};
  EXPECT_EQ(leaves_of(tree), want);
}

TEST(Structure, ChangesLeavesInPlace) {
  Model m = make_model();
  for_each_leaf<Leaf>(m, [](Leaf& leaf) { leaf.id *= 2; });
  EXPECT_EQ(m.layers[1].bias.id, 12);
  EXPECT_EQ(std::get<Conv>(m.choice).bias.id, 34);
  EXPECT_EQ(m.count.value.id, 18);
}

TEST(Structure, KeepsNoPathForAFunctionOfLeaves) {
  int sum = 0;
  auto add = [&](const Leaf& leaf) { sum += leaf.id; };
  using LeafVisitor = internal::LeafVisitor<Leaf, Marked::kSkip, internal::NoPath, decltype(add)>;
  static_assert(sizeof(LeafVisitor) == sizeof(void*));  // nothing but the function
  const Model m = make_model();
  for_each_leaf<Leaf>(m, add);
  EXPECT_EQ(sum, 17 * 18 / 2);
}

TEST(Structure, WorksInConstantExpressions) {
  constexpr int kSum = [] {
    int sum = 0;
    const std::tuple<int, std::array<Conv, 2>> x{0, {Conv{{1}, {2}}, Conv{{3}, {4}}}};
    for_each_leaf<Leaf>(x, [&](const Leaf& leaf) { sum += leaf.id; });
    return sum;
  }();
  static_assert(kSum == 10);
}

TEST(Structure, MapsLeavesAndKeepsTheRest) {
  Model m = make_model();
  m.conv1.stride = 3;
  m.name = "net";
  const Model mapped = map_leaves<Leaf>(m, [](const Leaf& leaf) { return Leaf{-leaf.id}; });
  EXPECT_EQ(mapped.conv1.filter.id, -1);
  EXPECT_EQ(std::get<1>(mapped.tuple).id, -12);
  EXPECT_EQ(mapped.count.value.id, 18);
  EXPECT_EQ(mapped.conv1.stride, 3);
  EXPECT_EQ(mapped.name, "net");
  EXPECT_EQ(m.conv1.filter.id, 1);
  const Model named =
      map_leaves<Leaf, Marked::kVisit>(std::move(m), [](const std::string& path, Leaf leaf) {
        return path == "count" || path == "pair/1" ? Leaf{100} : leaf;
      });
  EXPECT_EQ(named.count.value.id, 100);
  EXPECT_EQ(named.pair[1].id, 100);
  EXPECT_EQ(named.pair[0].id, 8);
}

}  // namespace
}  // namespace etude
