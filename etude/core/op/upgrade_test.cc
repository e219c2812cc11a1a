// SPDX-License-Identifier: Apache-2.0
#include "etude/core/op/upgrade.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/op/registry.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;

// Attributes of records are permanent, so a registry lives as long as the process.
Registry& lasting_registry() {
  static auto& all = *new std::vector<std::unique_ptr<Registry>>;
  return *all.emplace_back(std::make_unique<Registry>());
}

// A record at `version` whose upgrades begin at `oldest`.
OpDef record(std::string_view name, int version, int oldest) {
  OpDef def{.name = name,
            .kind = Kind::kComposition,
            .doc = "For tests of upgrades.",
            .operands = {"x"},
            .version = version,
            .lower = [](Operands in, const Attrs&) { return Values{in[0]}; }};
  for (int from = oldest; from < version; ++from) {
    def.upgrades.push_back({from, [](StoredCall& call) {
                              const AttrValue* steps = call.find("steps");
                              const int64_t done = steps == nullptr ? 0 : std::get<int64_t>(*steps);
                              call.set("steps", done + 1);
                            }});
  }
  return def;
}

TEST(Upgrades, RunFromTheVersionOfTheCallOnInOrder) {
  Registry& registry = lasting_registry();
  const Op& op = registry.define(record("stepped", 4, 2));
  for (uint32_t version = 2; version <= 4; ++version) {
    StoredCall call;
    internal::upgrade(op, version, call);
    const AttrValue* steps = call.find("steps");
    ASSERT_EQ(steps == nullptr, version == 4);
    EXPECT_EQ(steps == nullptr ? 0 : std::get<int64_t>(*steps), int64_t{4} - version);
  }
}

TEST(Upgrades, RefuseVersionsThatTheyDoNotReach) {
  Registry& registry = lasting_registry();
  const Op& op = registry.define(record("stepped", 4, 2));
  StoredCall call;
  expect_error([&] { internal::upgrade(op, 5, call); }, ErrorCode::kUnimplemented,
               {"version 5 of op 'stepped' is newer than this library, which has version 4. Read "
                "the file with the release that wrote it, or a later one"});
  for (const uint32_t version : {0u, 1u}) {
    expect_error([&] { internal::upgrade(op, version, call); }, ErrorCode::kUnimplemented,
                 {"version " + std::to_string(version) +
                  " of op 'stepped' has no upgrade to version 4: this library reads versions 2 to "
                  "4. Read the file with an older release, and write it again there"});
  }
}

TEST(Upgrades, ExceptionsOfAnUpgradeBecomeErrorsOfTheCall) {
  Registry& registry = lasting_registry();
  const Op& op = registry.define(record("stepped", 2, 1));
  StoredCall call;
  call.set("steps", std::string("many"));
  expect_error([&] { internal::upgrade(op, 1, call); }, ErrorCode::kInvalidArgument,
               {"this is no call of version 1 of op 'stepped': "});
}

TEST(Upgrades, EditAttributesByName) {
  StoredCall call;
  call.set("axis", int64_t{1});
  call.set_missing("axis", int64_t{2});
  call.set_missing("scale", 0.5);
  EXPECT_EQ(std::get<int64_t>(*call.find("axis")), 1);
  EXPECT_EQ(std::get<double>(*call.find("scale")), 0.5);
  call.rename("axis", "axes");
  call.rename("none of this name", "other");
  EXPECT_EQ(call.find("axis"), nullptr);
  EXPECT_EQ(std::get<int64_t>(call.remove("axes")), 1);
  EXPECT_EQ(call.remove("axes").index(), 0u);
  call.set("scale", 2.0);
  ASSERT_EQ(call.attrs.size(), 1u);
  EXPECT_EQ(std::get<double>(call.attrs[0].second), 2.0);
}

TEST(Upgrades, ARecordMustLeadToItsVersion) {
  Registry& registry = lasting_registry();
  const auto refused = [&](OpDef def, const std::string& text) {
    expect_error([&] { registry.define(std::move(def)); }, ErrorCode::kInvalidArgument, {text});
  };
  refused(record("wrong", 0, 0), "the record of op 'wrong' has version 0: versions begin at 1");
  refused(record("wrong", 3, 3), "has version 3 and 0 upgrades. It needs one from version 2");
  OpDef extra = record("wrong", 2, 1);
  extra.version = 1;
  refused(std::move(extra), "has version 1 and 1 upgrades");
  OpDef gap = record("wrong", 4, 1);
  gap.upgrades.erase(gap.upgrades.begin() + 1);
  refused(std::move(gap),
          "has an upgrade from version 1. Here it needs one from version 2: upgrades are sorted "
          "and lead to version 4");
  OpDef empty = record("wrong", 2, 1);
  empty.upgrades[0].run = nullptr;
  refused(std::move(empty), "has an upgrade from version 1 without a function");
}

}  // namespace
}  // namespace etude
