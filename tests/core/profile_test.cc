// SPDX-License-Identifier: Apache-2.0
// ProfileScope: ops of both passes with the user's lines, its cost, and the state after it.
#include "etude/eager/profile.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "etude/autodiff/gradient.h"
#include "etude/core/internal/mode.h"
#include "etude/ops.h"
#include "etude/stage/function.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude {
namespace {

const ProfileEntry* entry_of(const std::vector<ProfileEntry>& all, std::string_view op, int line) {
  for (const ProfileEntry& e : all) {
    if (e.op == op && e.where.line == line) return &e;
  }
  return nullptr;
}
const ProfileEntry* entry_of(std::vector<ProfileEntry>&& all, std::string_view op,
                             int line) = delete;

TEST(Profile, CountsCallsByOpAndLine) {
  const Tensor x = ones({100, 100}), y = ones({100, 100});
  ProfileScope scope;
  for (int i = 0; i < 3; ++i) static_cast<void>(matmul(x, y));
  const int line = __LINE__ - 1;
  static_cast<void>(x + y);
  const std::vector<ProfileEntry> all = scope.profile().entries();
  const ProfileEntry* product = entry_of(all, "matmul", line);
  ASSERT_NE(product, nullptr) << scope.profile().table();
  EXPECT_EQ(product->calls, 3);
  EXPECT_EQ(product->bytes, 3 * 3 * 40000);
  EXPECT_GE(product->allocations, 3);
  EXPECT_GT(product->own_seconds, 0);
  EXPECT_NE(std::string(product->where.file).find("profile_test.cc"), std::string::npos);
  const ProfileEntry* sum = entry_of(all, "add", line + 2);
  ASSERT_NE(sum, nullptr);
  EXPECT_EQ(sum->calls, 1);
}

TEST(Profile, RulesHaveTheLineOfTheirCall) {
  const Tensor x = ones({4, 4});
  ProfileScope scope;
  static_cast<void>(gradient(
      [](const Tensor& v) {
        return sum(matmul(v, v));  // two products in the rule
      },
      x));
  const std::vector<ProfileEntry> all = scope.profile().entries();
  const ProfileEntry* products = entry_of(all, "matmul", __LINE__ - 4);
  ASSERT_NE(products, nullptr) << scope.profile().table();
  EXPECT_EQ(products->calls, 3);
}

TEST(Profile, OwnTimeLeavesOutWhatACallIsMadeOf) {
  const Tensor x = ones({64, 64});
  ProfileScope scope;
  static_cast<void>(var(x));
  const int line = __LINE__ - 1;
  const std::vector<ProfileEntry> all = scope.profile().entries();
  double own = 0, longest = 0;
  for (const ProfileEntry& e : all) {
    own += e.own_seconds;
    longest = std::max(longest, e.seconds);
  }
  const ProfileEntry* whole = entry_of(all, "var", line);
  ASSERT_NE(whole, nullptr) << scope.profile().table();
  EXPECT_EQ(whole->seconds, longest);
  EXPECT_LT(whole->own_seconds, whole->seconds);
  EXPECT_NEAR(own, whole->seconds, 1e-9);
}

// A staged call shows its steps, at the lines of the function; its own time leaves them out.
TEST(Profile, ShowsTheStepsOfAStagedFunction) {
  const auto f = function([](const Tensor& v) {
    const Tensor product = matmul(v, v);
    return tanh(product);
  });
  const int line = __LINE__ - 3;
  const Tensor x = ones({64, 64});
  static_cast<void>(f(x));
  ProfileScope scope;
  for (int i = 0; i < 3; ++i) static_cast<void>(f(x));
  const int call_line = __LINE__ - 1;
  const std::vector<ProfileEntry> all = scope.profile().entries();
  const ProfileEntry* product = entry_of(all, "matmul", line);
  const ProfileEntry* whole = entry_of(all, "call", call_line);
  ASSERT_TRUE(product != nullptr && whole != nullptr) << scope.profile().table();
  ASSERT_NE(entry_of(all, "tanh", line + 1), nullptr) << scope.profile().table();
  EXPECT_EQ(product->calls, 3);
  EXPECT_EQ(product->bytes, 3 * 3 * 4 * 64 * 64);
  EXPECT_EQ(whole->calls, 3);
  EXPECT_LT(whole->own_seconds + product->own_seconds, whole->seconds);
}

TEST(Profile, InnermostScopeRecords) {
  const Tensor x = ones({2});
  ProfileScope outer;
  {
    ProfileScope inner;
    static_cast<void>(x + x);
    EXPECT_EQ(inner.profile().entries().size(), 1u);
  }
  static_cast<void>(x * x);
  ASSERT_EQ(outer.profile().entries().size(), 1u);
  EXPECT_EQ(outer.profile().entries()[0].op, "multiply");
}

TEST(Profile, NothingIsMeasuredWithoutAScope) {
  { const ProfileScope scope; }
  EXPECT_EQ(internal::mode_word & internal::kModeProfile, 0u);
}

TEST(Profile, FailedCallsAreSeenToo) {
  const Tensor x = ones({2, 3});
  ProfileScope scope;
  EXPECT_THROW(static_cast<void>(matmul(x, x)), Error);
  ASSERT_EQ(scope.profile().entries().size(), 1u);
  EXPECT_EQ(scope.profile().entries()[0].calls, 1);
}

TEST(Profile, TableAndTrace) {
  const internal::TempFolder folder;
  const Tensor x = ones({10});
  ProfileScope scope;
  static_cast<void>(exp(x));
  const std::string table = scope.profile().table();
  for (const char* part : {"op ", "calls", "own time", "exp", "80 B", "profile_test.cc:", "all"}) {
    EXPECT_NE(table.find(part), std::string::npos) << table;
  }
  const std::string path = (folder.path() / "trace.json").string();
  scope.profile().write_trace(path);
  std::ifstream file(path);
  const nlohmann::json trace = nlohmann::json::parse(file);
  ASSERT_EQ(trace["traceEvents"].size(), 1u);
  const auto& event = trace["traceEvents"][0];
  EXPECT_EQ(event["name"], "exp");
  EXPECT_EQ(event["ph"], "X");
  EXPECT_EQ(event["args"]["bytes"], 80);
  EXPECT_NE(event["args"]["line"].get<std::string>().find("profile_test.cc:"), std::string::npos);
  EXPECT_EQ(trace["otherData"]["left_out"], 0);
  const std::string text = etude::tests::error_of(
      ErrorCode::kNotFound, [&] { scope.profile().write_trace("/nonexistent/trace.json"); });
  EXPECT_NE(text.find("next to '/nonexistent/trace.json': No such file or directory"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace etude
