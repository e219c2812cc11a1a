// SPDX-License-Identifier: Apache-2.0
// Attribute values, sets of them, and how sets are numbered for the dispatch cache.
#include "etude/core/op/attrs.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/op/op.h"
#include "etude/core/op/registry.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;

// An op with an attribute of each kind that callers pass. Never destroyed, since caches remember
// ops.
const Op& op_with_attrs(const char* name) {
  static Registry& registry = *new Registry;
  if (const Op* known = registry.find(name)) return *known;
  OpDef def;
  def.name = name;
  def.doc = "Takes attributes.";
  def.operands = {"x"};
  def.attrs = {{"flag", false},
               {"count", 3},
               {"scale", 0.5},
               {"mode", "same"},
               {"axes", AttrKind::kInts, none},
               {"kind", kFloat32},
               {"weights", AttrKind::kReals, none}};
  def.lower = [](Operands in, const Attrs&) { return Values{in[0]}; };
  def.kind = Kind::kComposition;
  return registry.define(std::move(def));
}
const Op& the_op() { return op_with_attrs("the_op"); }

// Values that all differ, of every kind.
std::vector<AttrValue> different_values() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return {std::monostate(),
          false,
          true,
          int64_t{0},
          int64_t{1},
          int64_t{-1},
          0.0,
          -0.0,
          1.0,
          nan,
          -nan,
          kBool,
          kInt8,
          kFloat32,
          std::vector<int64_t>{},
          std::vector<int64_t>{0},
          std::vector<int64_t>{0, 0},
          std::vector<int64_t>{0, 1},
          std::string(),
          std::string("a"),
          std::string("ab"),
          std::string("a\0", 2),
          std::vector<double>{},
          std::vector<double>{0.0},
          std::vector<double>{-0.0},
          std::vector<double>{nan, 1}};
}

TEST(AttrView, IsItsOwnValueAndNoOther) {
  const std::vector<AttrValue> values = different_values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const AttrView view(values[i]);
    for (std::size_t k = 0; k < values.size(); ++k) {
      EXPECT_EQ(view.is(values[k]), i == k)
          << to_string(values[i]) << " and " << to_string(values[k]);
    }
  }
}

TEST(AttrView, ACopyIsEqualAndHashesAlike) {
  for (const AttrValue& value : different_values()) {
    const AttrView view(value);
    const AttrValue copy = view.own();
    EXPECT_EQ(copy.index(), value.index());
    EXPECT_TRUE(view.is(copy)) << to_string(value);
    EXPECT_EQ(AttrView(copy).hash(), view.hash());
  }
}

// Tables compare after a hit, so that a clash costs time alone; but lists and numbers as calls have
// them must not all meet.
TEST(AttrView, HashesAreSpread) {
  std::set<uint64_t> hashes;
  for (int64_t i = 0; i < 100; ++i) {
    for (int64_t k = 0; k < 100; ++k) hashes.insert(AttrView(std::vector<int64_t>{i, k}).hash());
  }
  EXPECT_EQ(hashes.size(), 10000U);
  for (int64_t i = 1; i <= 1000; ++i) hashes.insert(AttrView(static_cast<double>(i) / 8).hash());
  EXPECT_EQ(hashes.size(), 11000U);
}

TEST(AttrView, ParametersOfFunctionsBecomeTheirKinds) {
  EXPECT_TRUE(AttrView(true).is(AttrValue(true)));
  EXPECT_TRUE(AttrView(3).is(AttrValue(int64_t{3})));
  EXPECT_TRUE(AttrView(0.5).is(AttrValue(0.5)));
  EXPECT_TRUE(AttrView("same").is(AttrValue(std::string("same"))));
  EXPECT_TRUE(AttrView(IntList()).is(AttrValue()));
  EXPECT_TRUE(AttrView(IntList({1, 2})).is(AttrValue(std::vector<int64_t>{1, 2})));
  EXPECT_TRUE(AttrView(std::optional<int64_t>()).is(AttrValue()));
  EXPECT_TRUE(AttrView(std::optional<int64_t>(4)).is(AttrValue(int64_t{4})));
}

TEST(Attrs, AreReadByName) {
  const Attrs attrs =
      the_op().attrs_by_name({{"count", int64_t{7}}, {"axes", std::vector<int64_t>{1, 2}}});
  EXPECT_FALSE(attrs.flag("flag"));
  EXPECT_EQ(attrs.integer("count"), 7);
  EXPECT_EQ(attrs.real("scale"), 0.5);
  EXPECT_EQ(attrs.text("mode"), "same");
  EXPECT_EQ(attrs.ints("axes"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(attrs.dtype("kind"), kFloat32);
  EXPECT_FALSE(attrs.has("weights"));
  EXPECT_EQ(attrs.to_string(), "count=7, axes=[1, 2]");
  expect_error([&] { attrs.flag("flags"); }, ErrorCode::kInternal, {"'flags'"});
}

TEST(Attrs, NumbersTakeTheKindOfTheirDefinition) {
  const Attrs attrs = the_op().attrs_by_name(
      {{"scale", int64_t{2}}, {"axes", int64_t{1}}, {"weights", std::vector<int64_t>{1, 2}}});
  EXPECT_EQ(attrs.real("scale"), 2.0);
  EXPECT_EQ(attrs.ints("axes"), (std::vector<int64_t>{1}));
  EXPECT_EQ(attrs.reals("weights"), (std::vector<double>{1, 2}));
}

TEST(Attrs, WhatDoesNotFitIsNamed) {
  expect_error(
      [] {
        the_op().attrs_by_name({{"cuont", int64_t{7}}});
      },
      ErrorCode::kInvalidArgument, {"no attribute 'cuont'"});
  expect_error(
      [] {
        the_op().attrs_by_name({{"count", 1.5}});
      },
      ErrorCode::kInvalidArgument, {"attribute 'count' cannot be 1.5"});
}

// ---- numbers of sets

TEST(AttrNumbers, EqualSetsHaveOneNumber) {
  for (int64_t count = 10; count < 60; ++count) {
    const Attrs a = the_op().attrs_by_name({{"count", count}}),
                b = the_op().attrs_by_name({{"count", count}});
    EXPECT_EQ(a.dispatch_id(), b.dispatch_id());
    EXPECT_TRUE(a == b);
    EXPECT_EQ(a.hash(), b.hash());
  }
}

TEST(AttrNumbers, TheDefaultsAreZeroHoweverTheyAreGiven) {
  EXPECT_EQ(the_op().default_attrs().dispatch_id(), 0U);
  EXPECT_EQ(the_op().attrs_by_name({}).dispatch_id(), 0U);
  EXPECT_EQ(
      the_op().attrs_by_name({{"count", int64_t{3}}, {"mode", std::string("same")}}).dispatch_id(),
      0U);
}

TEST(AttrNumbers, DifferentSetsDiffer) {
  std::set<uint32_t> ids = {0, Attrs::kUncached};
  const auto is_new = [&](const std::vector<std::pair<std::string_view, AttrValue>>& values) {
    const Attrs attrs = the_op().attrs_by_name(values);
    EXPECT_FALSE(attrs == the_op().default_attrs());
    return ids.insert(attrs.dispatch_id()).second;
  };
  EXPECT_TRUE(is_new({{"flag", true}}));
  EXPECT_TRUE(is_new({{"count", int64_t{4}}}));
  EXPECT_TRUE(is_new({{"scale", 0.25}}));
  EXPECT_TRUE(is_new({{"scale", 0.0}}));
  EXPECT_TRUE(is_new({{"scale", -0.0}}));
  EXPECT_TRUE(is_new({{"scale", std::nan("")}}));
  EXPECT_FALSE(is_new({{"scale", std::nan("")}}));
  EXPECT_TRUE(is_new({{"mode", std::string("valid")}}));
  EXPECT_TRUE(is_new({{"axes", std::vector<int64_t>{}}}));
  EXPECT_TRUE(is_new({{"axes", std::vector<int64_t>{0}}}));
  EXPECT_TRUE(is_new({{"kind", kFloat64}}));
}

TEST(AttrNumbers, OneNumberBelongsToOneOp) {
  const Attrs a = op_with_attrs("a").attrs_by_name({{"flag", true}});
  const Attrs b = op_with_attrs("b").attrs_by_name({{"flag", true}});
  EXPECT_NE(a.dispatch_id(), b.dispatch_id());
}

// For each op 512 sets are permanent. Further sets are correct too, have their own ids, and keep
// them while they are in use.
TEST(AttrNumbers, AreBoundedPerOp) {
  const Op& op = op_with_attrs("bounded");
  const auto set = [&](int64_t count) { return op.attrs_by_name({{"count", count}}); };
  const Attrs first = set(1000);
  int kept = 0;
  std::set<uint32_t> ids;
  for (int64_t i = 0; i < 2000; ++i) {
    const Attrs attrs = set(1000 + i);
    EXPECT_EQ(attrs.integer("count"), 1000 + i);
    EXPECT_EQ(set(1000 + i).dispatch_id(), attrs.dispatch_id());
    kept += attrs.dispatch_id() < Attrs::kFirstOwn ? 1 : 0;
    ids.insert(attrs.dispatch_id());
  }
  EXPECT_EQ(kept, 512);
  EXPECT_EQ(ids.size(), 2000U);
  EXPECT_EQ(ids.count(Attrs::kUncached), 0U);
  EXPECT_EQ(set(1000).dispatch_id(), first.dispatch_id());
  EXPECT_TRUE(set(2999) == set(2999));
  uint32_t elsewhere = 0;
  std::thread([&] { elsewhere = set(2999).dispatch_id(); }).join();
  EXPECT_NE(elsewhere, set(2999).dispatch_id()) << "what a thread keeps is its own";
  EXPECT_LT(op_with_attrs("unbounded").attrs_by_name({{"count", int64_t{2999}}}).dispatch_id(),
            Attrs::kFirstOwn);
}

// A set that is not permanent is reference-counted: copies and moves keep it, and the last handle
// frees it (checked by the address sanitizer).
TEST(Attrs, UnnumberedSetsLiveAsLongAsTheirHandles) {
  const auto defs = the_op().def().attrs;
  std::vector<AttrValue> values;
  for (const AttrDef& def : defs) values.push_back(def.default_value);
  values[3] = std::string(100, 'x');
  Attrs kept;
  {
    const Attrs made(defs, values);
    ASSERT_EQ(made.dispatch_id(), Attrs::kUncached);
    Attrs copy = made;
    kept = std::move(copy);
    const Attrs& same = kept;
    kept = same;
  }
  EXPECT_EQ(kept.text("mode"), std::string(100, 'x'));
}

TEST(AttrNumbers, ThreadsAgree) {
  constexpr std::size_t kThreads = 4;
  constexpr int64_t kSets = 200;
  const Op& op = op_with_attrs("shared");
  std::vector<std::vector<uint32_t>> ids(kThreads);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < kSets; ++i) {
        const Attrs attrs = op.attrs_by_name({{"count", 100 + i}});
        if (attrs.integer("count") != 100 + i) ++wrong;
        ids[t].push_back(attrs.dispatch_id());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  for (std::size_t t = 1; t < kThreads; ++t) EXPECT_EQ(ids[t], ids[0]);
  EXPECT_EQ(std::set<uint32_t>(ids[0].begin(), ids[0].end()).size(),
            static_cast<std::size_t>(kSets));
}

}  // namespace
}  // namespace etude
