// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include <gtest/gtest.h>

#include "etude/autodiff/tangent.h"
#include "etude/core/create.h"
#include "etude/ops.h"
#include "etude/parts/parts.h"
#include "tests/expect_error.h"

namespace etude::parts_unit_test {
namespace {

using etude::tests::error_of;
using etude::tests::expect_error;

enum class Padding { kSame, kValid };
struct Pair {
  int a, b;
  bool operator==(const Pair&) const = default;
};

TEST(Described, HasTextEqualityAndHash) {
  EXPECT_EQ(Described(3).text(), "3");
  EXPECT_EQ(Described(true).text(), "true");
  EXPECT_EQ(Described(0.5).text(), "0.5");
  EXPECT_EQ(Described("relu").text(), "'relu'");
  EXPECT_EQ(Described(uint64_t{1} << 63).text(), "9223372036854775808");
  EXPECT_NE(Described(Padding::kValid).text().find("Padding(1)"), std::string::npos);
  EXPECT_EQ(Described(3), Described(3));
  EXPECT_NE(Described(3), Described(4));
  EXPECT_NE(Described(3), Described(int64_t{3}));  // of one type only
  EXPECT_NE(Described(1), Described(Padding::kValid));
  EXPECT_NE(Described(0.0), Described(-0.0));
  EXPECT_EQ(Described(std::string("a")), Described("a"));
  EXPECT_EQ(Described(Pair{1, 2}), Described(Pair{1, 2}));
  EXPECT_NE(Described(Pair{1, 2}), Described(Pair{1, 3}));
  EXPECT_EQ(Described(3).hash(), Described(3).hash());
  EXPECT_NE(Described(3).hash(), Described(4).hash());
  EXPECT_EQ(Described("a").hash(), Described(std::string("a")).hash());
}

TEST(Described, ConvertsNumbersThatFit) {
  EXPECT_EQ(Described(200).get<uint8_t>(), 200);
  EXPECT_EQ(Described(int64_t{3}).get<int>(), 3);
  EXPECT_EQ(Described(3).get<double>(), 3);
  EXPECT_EQ(Described(0.5).get<float>(), 0.5F);
  EXPECT_EQ(Described(Padding::kValid).get<Padding>(), Padding::kValid);
  EXPECT_EQ(Described("a").get<std::string>(), "a");
  EXPECT_EQ(Described(Pair{1, 2}).get<Pair>().b, 2);
  expect_error([] { static_cast<void>(Described(300).get<uint8_t>()); },
               ErrorCode::kInvalidArgument,
               {"the host value is 300 of type 'int', but 'unsigned char' is needed"});
  expect_error([] { static_cast<void>(Described(-1).get<uint64_t>()); },
               ErrorCode::kInvalidArgument, {"the host value is -1"});
  expect_error([] { static_cast<void>(Described(0.5).get<int>()); }, ErrorCode::kInvalidArgument,
               {"the host value is 0.5 of type 'double', but 'int' is needed"});
  expect_error([] { static_cast<void>(Described("a").get<bool>()); }, ErrorCode::kInvalidArgument,
               {"the host value is 'a' of type 'text', but 'bool' is needed"});
  expect_error([] { static_cast<void>(Described(1).get<Padding>()); }, ErrorCode::kInvalidArgument,
               {"the host value is 1"});
}

TEST(Form, IsInternedAcrossThreads) {
  const auto make = [] {
    return Parts::fields(
        {{"a", ones({2})}, {"b", Parts::list({Parts(ones({1})), Parts(Described(1))})}});
  };
  const Form* here = make().form();
  const Form* there = nullptr;
  std::thread([&] { there = make().form(); }).join();
  EXPECT_EQ(here, there);
  EXPECT_EQ(here->to_string(), "{a: tensor, b: [tensor, host value]}");
  EXPECT_EQ(here->leaves()[2].path, "b/1");
  EXPECT_EQ(here->tangent()->to_string(), "{a: tensor, b: [tensor, nothing]}");
  EXPECT_EQ(here->tangent()->tangent(), here->tangent());
  EXPECT_EQ(here->find("b"), here->parts()[1]);
  EXPECT_EQ(here->find("b/2"), nullptr);
  EXPECT_NE(Parts::map({{"a", ones({2})}}).form(), Parts::fields({{"a", ones({2})}}).form());
  expect_error(
      [] {
        Parts::fields({{"a", ones({2})}, {"a", ones({2})}});
      },
      ErrorCode::kInvalidArgument, {"a part is named 'a' twice"});
  expect_error(
      [] {
        Parts::fields({{"", ones({2})}});
      },
      ErrorCode::kInvalidArgument, {"a part has an empty name"});
}

TEST(Parts, AreReadAndReplacedByPath) {
  Parts p = Parts::fields({{"w", ones({2})},
                           {"inner", Parts::map({{"z", Described(1)}, {"a", ones({3})}})},
                           {"gone", Parts::optional(std::nullopt)},
                           {"v", Variable(ones({2}), {.name = "v"})}});
  EXPECT_EQ(p.size(), 4u);
  EXPECT_EQ(p.leaf(1).path, "inner/a");  // maps are sorted
  EXPECT_EQ(p.host("inner/z").get<int>(), 1);
  EXPECT_EQ(p.variable("v").name(), "v");
  EXPECT_TRUE(p.has("inner"));
  EXPECT_FALSE(p.has("inner/q"));
  EXPECT_EQ(p.part("inner").leaf(0).path, "a");
  p.put("inner/z", Parts(zeros({5})));
  EXPECT_EQ(p.tensor("inner/z").shape(), Shape({5}));
  EXPECT_TRUE(same_value(p.tensor("w"), ones({2})));
  EXPECT_EQ(p.variable("v").name(), "v");
  EXPECT_EQ(p.to_string(),
            "w: float32[2]\ninner/a: float32[3]\ninner/z: float32[5]\nv: Variable 'v'");
  expect_error([&] { p.tensor("x"); }, ErrorCode::kNotFound,
               {"there is no part 'x'; the leaves are 'w', 'inner/a', 'inner/z', 'v'"});
  expect_error([&] { p.tensor("v"); }, ErrorCode::kInvalidArgument,
               {"part 'v' is a Variable, not a tensor"});
  expect_error([&] { p.tensor("inner"); }, ErrorCode::kInvalidArgument,
               {"part 'inner' is {'a': tensor, 'z': tensor}, not a tensor"});
}

TEST(Parts, MoveAlongTangents) {
  const auto make = [](float x) {
    return Parts::fields({{"w", Tensor(std::vector<float>{x, x})},
                          {"n", Described(3)},
                          {"fixed", Parts(Tensor(x)).constant()},
                          {"map", Parts::map({{"a", Tensor(x)}, {"b", Tensor(x)}})},
                          {"maybe", Parts::optional(Parts(Tensor(x)))}});
  };
  Parts p = make(1);
  const Parts zero = zero_tangent(p);
  EXPECT_EQ(zero.form(), p.form()->tangent());
  EXPECT_TRUE(same_value(zero.tensor("w"), zeros({2})));
  EXPECT_FALSE(zero.has("n") && zero.size() != 4);
  Parts t = zero;
  t.tensor("w") += Tensor(2.0F);
  t.tensor("map/b") += Tensor(3.0F);
  move(p, t + t);
  EXPECT_TRUE(same_value(p.tensor("w"), full({2}, 5.0F)));
  EXPECT_TRUE(same_value(p.tensor("map/a"), Tensor(1.0F)));
  EXPECT_TRUE(same_value(p.tensor("map/b"), Tensor(7.0F)));
  EXPECT_TRUE(same_value(p.tensor("fixed"), Tensor(1.0F)));
  EXPECT_EQ(freeze(p, "map/"), 2u);
  move(p, t);
  EXPECT_TRUE(same_value(p.tensor("map/b"), Tensor(7.0F)));
  EXPECT_TRUE(same_value(p.tensor("w"), full({2}, 7.0F)));
  // A tangent may lack keys and optionals; those do not move.
  Parts less = zero_tangent(Parts::fields({{"w", ones({2})},
                                           {"n", Described(1)},
                                           {"fixed", Parts(Tensor(1.0F)).constant()},
                                           {"map", Parts::map({{"b", Tensor(1.0F)}})},
                                           {"maybe", Parts::optional(std::nullopt)}}));
  less.tensor("map/b") += Tensor(1.0F);
  EXPECT_EQ(unfreeze(p, ""), 5u);
  move(p, less);
  EXPECT_TRUE(same_value(p.tensor("map/b"), Tensor(8.0F)));
  EXPECT_TRUE(same_value(p.tensor("maybe"), Tensor(1.0F)));
  Parts longer = zero;
  longer.put("map", Parts::map({{"c", Tensor(1.0F)}}));
  expect_error([&] { move(p, longer); }, ErrorCode::kInvalidArgument,
               {"part 'map': the value has no part 'c', which its tangent has"});
  longer = zero;
  longer.put("w", Parts::list({Parts(Tensor(1.0F))}));
  expect_error([&] { move(p, longer); }, ErrorCode::kInvalidArgument,
               {"part 'w': the value has a tangent of the form tensor, and this is [tensor]"});
  longer = zero;
  longer.tensor("map/a") = ones({4});
  longer.tensor("w") = ones({3});
  EXPECT_NE(error_of(ErrorCode::kInvalidArgument, [&] { move(p, longer); }).find("part 'w': "),
            std::string::npos);
}

}  // namespace
}  // namespace etude::parts_unit_test
