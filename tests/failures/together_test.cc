// SPDX-License-Identifier: Apache-2.0
// Calls that happen together: nothing runs before run(), and a call that is refused leaves all
// operands as they were.
#include "etude/core/call/together.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/call/run.h"
#include "etude/etude.h"
#include "tests/expect_error.h"

namespace etude::internal {
namespace {

using Floats = std::vector<float>;

constexpr uint64_t kFirst = 1;  // operand 0 expires

std::size_t add(CallsTogether& calls, const Tensor& x, const Tensor& y, uint64_t expiring = 0) {
  const OperandList list({&x, &y});
  const Op& op = internal::op<"add">();
  return calls.add(op, list.view(expiring), op.default_attrs());
}

TEST(CallsTogether, NothingRunsBeforeTheEnd) {
  Tensor x = {1.0, 2.0}, y = {3.0, 4.0};
  const Tensor one = {1.0, 1.0};
  const void *const at_x = TensorAccess::data(x), *const at_y = TensorAccess::data(y);
  CallsTogether calls;
  const std::size_t a = add(calls, x, one, kFirst), b = add(calls, y, one, kFirst);
  EXPECT_EQ(x.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(y.to_vector<float>(), (Floats{3, 4}));
  calls.run();
  x = calls.take(a, 0);
  y = calls.take(b, 0);
  EXPECT_EQ(x.to_vector<float>(), (Floats{2, 3}));
  EXPECT_EQ(y.to_vector<float>(), (Floats{4, 5}));
  EXPECT_EQ(TensorAccess::data(x), at_x);
  EXPECT_EQ(TensorAccess::data(y), at_y);
}

TEST(CallsTogether, ARefusedCallLeavesTheOthersUndone) {
  Tensor x = {1.0, 2.0};
  const Tensor wrong = {1.0, 1.0, 1.0};
  {
    CallsTogether calls;
    add(calls, x, x);
    add(calls, x, Tensor({1.0, 1.0}), kFirst);
    tests::expect_error([&] { add(calls, x, wrong); }, ErrorCode::kInvalidArgument,
                        {"add: ", "[2]", "[3]"});
    tests::expect_error([&] { add(calls, x, Tensor()); }, ErrorCode::kInvalidArgument,
                        {"add: operand 'x2' is absent"});
  }
  EXPECT_EQ(x.to_vector<float>(), (Floats{1, 2}));
}

TEST(CallsTogether, WithoutMemoryTheOperandsStay) {
  constexpr int64_t kMany = 1 << 20;
  Tensor x = full({kMany}, 1.0);
  const Tensor y = full({kMany}, 2.0), shared = y;
  CallsTogether calls;
  add(calls, x, y, kFirst);
  set_memory_limit(memory_stats().live_bytes + kMany);
  tests::expect_error([&] { add(calls, y, x, kFirst); }, ErrorCode::kResourceExhausted, {"add: "});
  set_memory_limit(0);
  EXPECT_EQ(x.to_vector<float>()[0], 1);
  EXPECT_EQ(shared.to_vector<float>()[0], 2);
}

TEST(CallsTogether, ASharedOperandIsNotOverwritten) {
  Tensor x = {1.0, 2.0};
  const Tensor copy = x;
  CallsTogether calls;
  const std::size_t a = add(calls, x, x, kFirst);
  calls.run();
  x = calls.take(a, 0);
  EXPECT_EQ(x.to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(copy.to_vector<float>(), (Floats{1, 2}));
}

TEST(CallsTogether, ALaterCallTakesTheResultOfAnEarlierOne) {
  Tensor x = {1.0, 2.0};
  const Tensor one = {1.0, 1.0}, copy = {10.0, 20.0}, shared = copy;
  CallsTogether calls;
  const std::size_t a = add(calls, x, one, kFirst);                    // over x
  const std::size_t b = add(calls, copy, calls.result(a, 0), kFirst);  // a new tensor
  const std::size_t c = add(calls, one, calls.result(b, 0));
  calls.run();
  x = calls.take(a, 0);
  EXPECT_EQ(x.to_vector<float>(), (Floats{2, 3}));
  EXPECT_EQ(calls.take(b, 0).to_vector<float>(), (Floats{12, 23}));
  EXPECT_EQ(calls.take(c, 0).to_vector<float>(), (Floats{13, 24}));
  EXPECT_EQ(shared.to_vector<float>(), (Floats{10, 20}));
}

// Casts and kernels that may fail do not wait, so that run() cannot fail.
TEST(CallsTogether, OtherCallsRunAtOnce) {
  Tensor x = {1.0, 2.0};
  const Tensor whole(std::vector<int32_t>{1, 2});
  const Tensor indices(std::vector<int64_t>{1, 0}), outside(std::vector<int64_t>{7});
  CallsTogether calls;
  const std::size_t a = add(calls, x, whole, kFirst);
  EXPECT_EQ(calls.result(a, 0).to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(x.to_vector<float>(), (Floats{1, 2}));
  const Op& take = internal::op<"take">();
  const OperandList good({&x, &indices}), bad({&x, &outside});
  const std::size_t b = calls.add(take, good.view(kFirst), take.default_attrs());
  EXPECT_EQ(calls.result(b, 0).to_vector<float>(), (Floats{2, 1}));
  tests::expect_error([&] { calls.add(take, bad.view(kFirst), take.default_attrs()); },
                      ErrorCode::kOutOfRange, {"take: "});
  calls.run();
  EXPECT_EQ(calls.take(a, 0).to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(calls.take(b, 0).to_vector<float>(), (Floats{2, 1}));
}

TEST(CallsTogether, ATapeRecordsThem) {
  Tensor x = {1.0, 2.0};
  GradientTape tape;
  tape.watch(x);
  CallsTogether calls;
  const std::size_t a = add(calls, x, x);
  calls.run();
  const Tensor y = calls.take(a, 0);
  EXPECT_EQ(tape.gradient(sum(y), x).to_vector<float>(), (Floats{2, 2}));
}

TEST(CallsTogether, ACancelledCallIsRefused) {
  Tensor x = {1.0, 2.0};
  const Cancellation enough;
  const CancelScope scope(enough);
  CallsTogether calls;
  add(calls, x, x);
  enough.cancel();
  tests::expect_error([&] { add(calls, x, x, kFirst); }, ErrorCode::kCancelled, {"add: "});
}

TEST(CallsTogether, AProfileCountsThem) {
  Tensor x = {1.0, 2.0};
  const ProfileScope scope;
  CallsTogether calls;
  add(calls, x, x);
  add(calls, x, x);
  calls.run();
  ASSERT_EQ(scope.profile().entries().size(), 1U);
  EXPECT_EQ(scope.profile().entries()[0].op, "add");
  EXPECT_EQ(scope.profile().entries()[0].calls, 2);
  EXPECT_EQ(scope.profile().entries()[0].bytes, 48);
}

}  // namespace
}  // namespace etude::internal
