// SPDX-License-Identifier: Apache-2.0
// In-out arguments of staged calls on other devices than cpu:0: they are updated in their own
// memory as on cpu:0, with the same number of allocations and without copies.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/devices/on_device.h"
#include "tests/expect_error.h"

namespace etude::device_donation_test {

using tests::expect_error;
using Floats = std::vector<float>;

constexpr int64_t kLarge = 5000;  // too large for storage in the header's block

const void* address(const Tensor& x) { return TensorAccess::data(x); }

class DeviceDonation : public OnDevice {
 protected:
  static int64_t allocations(const Device& on) { return memory_stats(on).allocations; }
  // Calls that have run on the simulated device, copies and frees among them.
  static uint64_t jobs() {
    sim::queue_of(device()).wait_for({});
    return sim::queue_of(device()).done();
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, DeviceDonation, testing::Values(Other::kCpu, Other::kQueue),
                         name_of_other);

// spec: V45.b
TEST_P(DeviceDonation, UpdatesInPlaceWhatNobodyElseHolds) {
  const auto f = function([](Tensor& x, const Tensor& y) { x += y; });
  Tensor x = there(ones({kLarge}));
  const Tensor y = there(ones({kLarge}));
  f(x, y);
  const void* const before = address(x);
  const int64_t made = allocations(device()), live = memory_stats(device()).live_bytes;
  reset_peak_memory(device());
  const uint64_t ran = is_queued() ? jobs() : 0;
  for (int i = 0; i < 3; ++i) f(x, y);
  if (is_queued()) {
    EXPECT_EQ(jobs(), ran + 3);  // the sums, no copy and no release
  }
  EXPECT_EQ(address(x), before);
  EXPECT_EQ(allocations(device()), made);
  EXPECT_EQ(memory_stats(device()).peak_bytes, live);
  EXPECT_TRUE(same_value(x.to("cpu:0"), full({kLarge}, 5.0F)));
  EXPECT_EQ(f.trace_count(), 1U);
}

// spec: V45.b
TEST_P(DeviceDonation, AlsoInAScope) {
  const auto f = function([](Tensor& x) { x = tanh(x) * 2.0F; });
  Tensor x = there(ones({kLarge})), home = ones({kLarge});
  f(home);
  const DeviceScope on(device());
  f(x);
  const void* const before = address(x);
  f(x);
  EXPECT_EQ(address(x), before);
  Tensor copied = ones({kLarge}, {.device = "cpu:0"});
  f(copied);  // only the copy on the device is overwritten
  EXPECT_EQ(copied.device(), device());
  EXPECT_TRUE(same_value(copied.to("cpu:0"), home));
}

// spec: V45.c
TEST_P(DeviceDonation, ASecondHandleKeepsItsValue) {
  const auto f = function([](Tensor& x) { x += 1.0F; });
  Tensor x = there(zeros({kLarge}));
  f(x);
  const Tensor copy = x;
  f(x);
  EXPECT_TRUE(same_value(copy.to("cpu:0"), ones({kLarge})));
  EXPECT_TRUE(same_value(x.to("cpu:0"), full({kLarge}, 2.0F)));
  Tensor rows = there(zeros({2, kLarge}));
  const Tensor view = reshape(rows, {2 * kLarge});
  f(rows);
  EXPECT_TRUE(same_value(view.to("cpu:0"), zeros({2 * kLarge})));
  const auto both = function([](Tensor& a, const Tensor& b) {
    a += 1.0F;
    return a + b;
  });
  const Tensor alias = x;
  EXPECT_TRUE(same_value(both(x, alias).to("cpu:0"), full({kLarge}, 5.0F)));
  EXPECT_TRUE(same_value(alias.to("cpu:0"), full({kLarge}, 2.0F)));
}

// A queue runs a failing step after the host has enqueued later steps, so that the call waits
// before it writes over an argument.
// spec: IM-12.b
TEST_P(DeviceDonation, AFaultLeavesArgumentsAsTheyWere) {
  const auto f = function([](Tensor& x, const Tensor& i) {
    const Tensor picked = take(ones({4}), i);
    x = x * 2.0F + 1.0F;
    return picked;
  });
  const auto g =
      function([](Tensor& x, const Tensor& i) { x = x * 2.0F + sum(take(ones({4}), i)); });
  const Tensor good = there(Tensor({1})), bad = there(Tensor({9}));
  const auto check = [&](const auto& call) {
    Tensor x = there(ones({kLarge}));
    call(x, good);
    const void* const before = address(x);
    call(x, good);
    // A plan that runs in sections, as on some machines, takes no argument if a step can fail late.
    const void* const last = address(x);
    if (last != before) std::puts("left out: the plan has sections, and updates nothing in place");
    expect_error([&] { call(x, bad); }, ErrorCode::kOutOfRange,
                 {"take", "device_donation_test.cc", "in function '"});
    EXPECT_TRUE(same_value(x.to("cpu:0"), full({kLarge}, 7.0F)));
    EXPECT_EQ(address(x), last);
    call(x, good);
    EXPECT_TRUE(same_value(x.to("cpu:0"), full({kLarge}, 15.0F)));
  };
  check(f);
  check(g);
}

// An argument that waits for a failing call is not written over either.
TEST_P(DeviceDonation, AFaultOfAnArgumentLeavesTheOthers) {
  if (!is_queued()) return;
  const auto f = function([](Tensor& x, const Tensor& by, const Tensor& i) {
    x = x + by;
    return take(ones({4}), i);
  });
  Tensor x = there(ones({kLarge}));
  const Tensor good = there(Tensor({1})), sound = there(ones({kLarge}));
  f(x, sound, good);
  const Tensor lost = sound * take(there(ones({4})), there(Tensor({9})));
  expect_error([&] { f(x, lost, good); }, ErrorCode::kOutOfRange, {"take"});
  EXPECT_TRUE(same_value(x.to("cpu:0"), full({kLarge}, 2.0F)));
}

struct Net {
  nn::Dense hidden{20, 90, {.activation = nn::relu}};
  nn::Dense output{90, 2};
  Tensor operator()(const Tensor& x) const { return output(hidden(x)); }
};

// spec: V23.b, V45.b
TEST_P(DeviceDonation, AModelAndItsOptimiserAreOnce) {
  const auto step = function([](Net& net, optim::Adam& adam, const Tensor& x) {
    adam.update(net, gradient([&](const Net& n) { return mean(square(n(x))); }, net));
  });
  const DeviceScope on(device());
  Net net;
  optim::Adam adam;
  const Tensor x = ones({4, 20});
  for (int i = 0; i < 3; ++i) step(net, adam, x);  // makes the state, then the graph with it
  ASSERT_EQ(net.hidden.weight.device(), device());
  const void* const weight = address(net.hidden.weight);
  const int64_t live = memory_stats(device()).live_bytes;
  reset_peak_memory(device());
  const int64_t weights = net.hidden.weight.nbytes();
  for (int i = 0; i < 3; ++i) step(net, adam, x);
  EXPECT_EQ(address(net.hidden.weight), weight);
  EXPECT_LT(memory_stats(device()).peak_bytes, live + weights);  // no second model
}

// As on cpu:0, a staged assignment replaces the value by a new tensor, since it may fail; an update
// by a plain call is in place.
TEST_P(DeviceDonation, VariablesAreAssignedWithoutCopies) {
  const Variable v(there(ones({kLarge})));
  const Tensor x = there(ones({kLarge}));
  const auto step = function([&](const Tensor& by) { v.assign_add(by); });
  step(x);
  const int64_t made = allocations(device()), live = memory_stats(device()).live_bytes;
  const uint64_t ran = is_queued() ? jobs() : 0;
  for (int i = 0; i < 3; ++i) step(x);
  EXPECT_EQ(allocations(device()), made + 3);
  EXPECT_EQ(memory_stats(device()).live_bytes, live);
  if (is_queued()) {
    EXPECT_EQ(jobs(), ran + 3 * 2);  // the sum, and the release of the old value
  }
  const void* const before = address(v.read());
  v.assign_add(x);
  EXPECT_EQ(address(v.read()), before);
  EXPECT_EQ(allocations(device()), made + 3);
  EXPECT_EQ(v.read().at(7).item<float>(), 6);
}

}  // namespace etude::device_donation_test
