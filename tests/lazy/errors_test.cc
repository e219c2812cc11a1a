// SPDX-License-Identifier: Apache-2.0
// Errors of lazy calls: the call throws errors of types, an observation throws errors of elements.
#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;
using tests::message_of;

// spec: Z22.b
TEST(LazyErrors, TypesAreCheckedByTheCall) {
  const Tensor x = ones({4, 2}), y = ones({5, 2}), n = zeros({4, 2}, {.dtype = kInt32});
  const auto faults = [&] {
    return std::vector<std::string>{message_of([&] { matmul(x, y); }),
                                    message_of([&] { bitwise_and(x, n); }),
                                    message_of([&] { x + y; }),
                                    message_of([&] {
                                      reshape(x, {3, 3});
                                    }),
                                    message_of([&] { sum(x, {.axis = {2}}); }),
                                    message_of([&] { nn::relu(Tensor()); })};
  };
  const std::vector<std::string> eager = faults();
  const LazyScope lazy;
  const std::vector<std::string> found = faults();
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_NE(eager[i], "no error");
    EXPECT_EQ(found[i], eager[i]);
  }
  const Tensor a = x + 1.0F;
  EXPECT_EQ(message_of([&] { matmul(a, y); }).substr(0, 40), eager[0].substr(0, 40));
  EXPECT_TRUE(is_pending(a));
}

// spec: Z45
TEST(LazyErrors, AFailureNamesItsOwnLine) {
  const LazyScope lazy;
  const Tensor x = ones({3, 2}), index = Tensor({0, 7}) + 0;
  const Tensor fine = x * 2.0F;
  const Tensor rows = take(x, index, {.axis = 0});
  const int line = __LINE__ - 1;
  const Tensor after = rows + 1.0F, beside = fine + 3.0F;
  const std::string where = "errors_test.cc:" + std::to_string(line);
  expect_error([&] { after.to_vector<float>(); }, ErrorCode::kOutOfRange, {"take: ", "7", where});
  expect_error([&] { rows.to_vector<float>(); }, ErrorCode::kOutOfRange, {"take: ", where});
  EXPECT_EQ(beside.to_vector<float>()[0], 5.0F);
  // A later result of it fails in the same way, at each observation.
  const Tensor later = after * 2.0F;
  expect_error([&] { later.to_vector<float>(); }, ErrorCode::kOutOfRange, {"take: ", where});
  expect_error([&] { later.to_vector<float>(); }, ErrorCode::kOutOfRange, {"take: ", where});
}

// spec: Z45
TEST(LazyErrors, ABarrierTellsTheFirstFailure) {
  const LazyMetrics metrics;
  const LazyScope lazy;
  const Tensor x = ones({3}), index = Tensor({5}) + 0;
  const Tensor bad = take(x, index, {.axis = 0});
  const Tensor good = x + 1.0F;
  expect_error([&] { lazy_barrier(); }, ErrorCode::kOutOfRange, {"take: ", "errors_test.cc"});
  EXPECT_FALSE(is_pending(good));
  EXPECT_EQ(good.to_vector<float>()[1], 2.0F);
  lazy_barrier();
  EXPECT_EQ(metrics.counts().fallbacks, 1);
  const Tensor text = bad + 1.0F;
  EXPECT_NE(text.to_string().find("<not computed: take: "), std::string::npos) << text;
}

// spec: Z45
TEST(LazyErrors, InputsStayWhereARunFails) {
  const LazyScope lazy;
  Tensor w = ones({64, 64});
  lazy_barrier();
  const Tensor bad = take(w, Tensor({99}) + 0, {.axis = 0});
  w = w * 2.0F;
  expect_error([&] { lazy_barrier(); }, ErrorCode::kOutOfRange, {"take: "});
  EXPECT_EQ(w.to_vector<float>()[0], 2.0F);
}

// spec: Z46.a, Z45
TEST(LazyErrors, WithoutMemoryTheCallIsNamed) {
  const Tensor x = ones({256, 1024});  // 1 MiB
  const LazyMetrics metrics;
  const LazyScope lazy;
  const Tensor y = x * 2.0F, z = sum(x);
  set_memory_limit(memory_stats().live_bytes + (1 << 16));
  const auto look = [&] { y.to_vector<float>(); };
  expect_error(look, ErrorCode::kResourceExhausted, {"multiply: ", "errors_test.cc"});
  EXPECT_EQ(z.item<float>(), 256.0F * 1024.0F);
  set_memory_limit(0);
  EXPECT_EQ(metrics.counts().fallbacks, 1);
  expect_error(look, ErrorCode::kResourceExhausted, {"multiply: "});
}

}  // namespace
}  // namespace etude
