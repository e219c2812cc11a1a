// SPDX-License-Identifier: Apache-2.0
// Kernels prepared once per (op, attributes, operand types), and calls that are not kept.
#include "etude/eager/dispatch.h"

#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/op/registry.h"

namespace etude::internal {
namespace {

int prepared = 0;  // how often the kernel below was made ready

Types type_of_first(const TypeCall& call) { return {call.types[0]}; }

void prepare_counted(const PrepareCall& call) {
  ++prepared;
  if (call.shape(0).rank() == 3) throw Error(ErrorCode::kInvalidArgument, "rank 3 is refused");
  call.out.run = [](const KernelCall&) { return true; };
  call.out.in_place = 1;
}

// Never destroyed, since tables keep addresses of ops.
const Op& counted_op(int index) {
  static Registry& registry = *new Registry;
  static const std::vector<const Op*> ops = [] {
    std::vector<const Op*> made;
    for (const char* name : {"first", "second"}) {
      OpDef def;
      def.name = name;
      def.doc = "Counts how often it is prepared.";
      def.operands = {"xs..."};
      def.attrs = {{"axis", 0}};
      def.type = type_of_first;
      def.kernels.cpu = prepare_counted;
      made.push_back(&registry.define(std::move(def)));
    }
    return made;
  }();
  return *ops[static_cast<std::size_t>(index)];
}

std::vector<const Type*> types(std::size_t n, int64_t size = 5) {
  return std::vector<const Type*>(n, intern_type(kFloat32, {size}));
}

const DispatchEntry& look_up(const Op& op, const Attrs& attrs, const std::vector<const Type*>& of,
                             DispatchEntry& scratch) {
  return dispatch(op, attrs, of.data(), of.size(), scratch);
}

TEST(Dispatch, ACallIsPreparedOnce) {
  const Op& op = counted_op(0);
  DispatchEntry scratch;
  const int before = prepared;
  const DispatchEntry& first = look_up(op, op.default_attrs(), types(2), scratch);
  const DispatchEntry& again = look_up(op, op.default_attrs(), types(2), scratch);
  EXPECT_EQ(prepared, before + 1);
  EXPECT_EQ(&first, &again);
  EXPECT_NE(&first, &scratch);
  ASSERT_NE(first.run, nullptr);
  EXPECT_EQ(first.result, types(1)[0]);
  EXPECT_EQ(first.in_place, 1U);
}

// The returned entry belongs to the call itself, whatever differs, also when two calls share a
// slot: 300 sizes by two ops by two attributes by three numbers of operands.
TEST(Dispatch, AnEntryIsTheOneOfItsCall) {
  DispatchEntry scratch;
  for (int round = 0; round < 2; ++round) {
    for (int64_t size = 0; size < 300; ++size) {
      for (const int which : {0, 1}) {
        const Op& op = counted_op(which);
        for (const int64_t axis : {0, 1}) {
          const Attrs attrs = op.attrs({axis});
          for (const std::size_t n : {std::size_t{1}, std::size_t{2}, kDispatchOperands}) {
            const std::vector<const Type*> of = types(n, size);
            const DispatchEntry& entry = look_up(op, attrs, of, scratch);
            ASSERT_TRUE(entry.holds(op, attrs.dispatch_id(), of.data(), n));
            ASSERT_EQ(entry.result, of[0]);
            ASSERT_EQ(&entry, &latest_entry(op, attrs.dispatch_id(), of.data(), n));
          }
        }
      }
    }
  }
}

TEST(Dispatch, AnEntryHoldsNoOtherCall) {
  const Op& op = counted_op(0);
  DispatchEntry scratch;
  const std::vector<const Type*> of = types(2);
  const DispatchEntry& entry = look_up(op, op.default_attrs(), of, scratch);
  const auto holds = [&](const Op& o, uint32_t attrs, std::vector<const Type*> given) {
    return entry.holds(o, attrs, given.data(), given.size());
  };
  EXPECT_TRUE(holds(op, 0, of));
  EXPECT_FALSE(holds(counted_op(1), 0, of));
  EXPECT_FALSE(holds(op, 1, of));
  EXPECT_FALSE(holds(op, 0, types(1)));
  EXPECT_FALSE(holds(op, 0, types(3)));
  EXPECT_FALSE(holds(op, 0, types(2, 6)));
  EXPECT_FALSE(holds(op, 0, {of[0], nullptr}));
  EXPECT_FALSE(holds(op, 0, {of[0], intern_type(kFloat64, {5})}));
}

TEST(Dispatch, ACallThatCannotBePreparedLeavesNothing) {
  const Op& op = counted_op(0);
  DispatchEntry scratch;
  const std::vector<const Type*> of = {intern_type(kFloat32, {1, 2, 3})};
  for (int i = 0; i < 3; ++i) {
    const int before = prepared;
    EXPECT_THROW(look_up(op, op.default_attrs(), of, scratch), Error);
    EXPECT_EQ(prepared, before + 1);
    const DispatchEntry& slot = latest_entry(op, 0, of.data(), 1);
    EXPECT_FALSE(slot.holds(op, 0, of.data(), 1));
  }
}

TEST(Dispatch, ManyOperandsAndUnnumberedAttributesAreNotKept) {
  const Op& op = counted_op(0);
  DispatchEntry scratch;
  const Attrs unnumbered(op.def().attrs, {int64_t{3}});
  ASSERT_EQ(unnumbered.dispatch_id(), Attrs::kUncached);
  for (int i = 0; i < 2; ++i) {
    const int before = prepared;
    EXPECT_EQ(&look_up(op, op.default_attrs(), types(kDispatchOperands + 1), scratch), &scratch);
    EXPECT_EQ(&look_up(op, unnumbered, types(1), scratch), &scratch);
    EXPECT_EQ(prepared, before + 2);
  }
}

TEST(Dispatch, CallsAreSpreadOverTheTable) {
  std::set<const DispatchEntry*> places;
  for (int64_t size = 0; size < 400; ++size) {
    const std::vector<const Type*> of = types(2, size);
    places.insert(&latest_entry(counted_op(0), 0, of.data(), 2));
  }
  // The expected number is 363 of 2048.
  EXPECT_GT(places.size(), 320U);
}

// Two calls of one place that take turns stay prepared.
TEST(Dispatch, TwoCallsOfOnePlaceDoNotDriveEachOtherOut) {
  const Op& op = counted_op(0);
  DispatchEntry scratch;
  const std::vector<const Type*> a = types(1, 1);
  const auto place = [&](const std::vector<const Type*>& of) {
    return &latest_entry(op, 0, of.data(), of.size());
  };
  std::vector<const Type*> b;
  for (int64_t size = 2; b.empty(); ++size) {
    if (place(types(1, size)) == place(a)) b = types(1, size);
  }
  look_up(op, op.default_attrs(), a, scratch);
  look_up(op, op.default_attrs(), b, scratch);
  const int before = prepared;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(look_up(op, op.default_attrs(), a, scratch).result, a[0]);
    EXPECT_EQ(look_up(op, op.default_attrs(), b, scratch).result, b[0]);
  }
  EXPECT_EQ(prepared, before);
}

TEST(Dispatch, EachThreadHasATableOfItsOwn) {
  const std::vector<const Type*> of = types(1);
  const auto place = [&] { return &latest_entry(counted_op(0), 0, of.data(), 1); };
  const DispatchEntry* mine = place();
  EXPECT_EQ(place(), mine);
  const DispatchEntry* theirs = nullptr;
  std::thread([&] { theirs = place(); }).join();
  EXPECT_NE(theirs, nullptr);
  EXPECT_NE(theirs, mine);
}

}  // namespace
}  // namespace etude::internal
