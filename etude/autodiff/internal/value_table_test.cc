// SPDX-License-Identifier: Apache-2.0
// The table of a tape against a map that is in no hurry.
#include "etude/autodiff/internal/value_table.h"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace etude::internal {
namespace {

using Model = std::map<uint64_t, uint32_t>;  // slot by id

void expect_same(const ValueTable& table, const Model& model, uint64_t largest_id) {
  ASSERT_EQ(table.size(), model.size());
  for (uint64_t id = 0; id <= largest_id; ++id) {
    const KnownValue* found = table.find(id);
    const auto want = model.find(id);
    ASSERT_EQ(found != nullptr, want != model.end()) << "id " << id;
    if (found == nullptr) continue;
    ASSERT_EQ(found->id, id);
    ASSERT_EQ(found->slot, want->second) << "id " << id;
  }
}

// Ids that begin their search at the same place of a table with so many places.
std::vector<uint64_t> with_one_home(std::size_t places, std::size_t home, std::size_t count) {
  std::vector<uint64_t> out;
  for (uint64_t id = 1; out.size() < count; ++id) {
    if ((((id * 0x9E3779B97F4A7C15ull) >> 32) & (places - 1)) == home) out.push_back(id);
  }
  return out;
}

TEST(ValueTable, IsEmptyAtFirst) {
  ValueTable table;
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_EQ(table.find(7), nullptr);
  table.erase(7);
  table.clear();
  EXPECT_EQ(table.size(), 0U);
}

TEST(ValueTable, ANewEntryKnowsNothing) {
  ValueTable table;
  const auto [entry, is_new] = table.insert(42);
  EXPECT_TRUE(is_new);
  EXPECT_EQ(entry->id, 42U);
  EXPECT_EQ(entry->record, KnownValue::kNone);
  EXPECT_EQ(entry->uses, 0U);
  EXPECT_TRUE(entry->is_alive);
}

TEST(ValueTable, InsertingTwiceGivesTheSameEntry) {
  ValueTable table;
  table.insert(42).first->uses = 3;
  const auto [entry, is_new] = table.insert(42);
  EXPECT_FALSE(is_new);
  EXPECT_EQ(entry->uses, 3U);
  EXPECT_EQ(table.size(), 1U);
}

TEST(ValueTable, AnErasedEntryComesBackAsNew) {
  ValueTable table;
  table.insert(42).first->uses = 3;
  table.erase(42);
  EXPECT_EQ(table.find(42), nullptr);
  const auto [entry, is_new] = table.insert(42);
  EXPECT_TRUE(is_new);
  EXPECT_EQ(entry->uses, 0U);
}

TEST(ValueTable, DoesAsAMapDoes) {
  std::mt19937_64 random(1);
  for (const uint64_t largest : {20ull, 300ull, 5000ull}) {
    ValueTable table;
    Model model;
    for (uint32_t step = 0; step < 20000; ++step) {
      const uint64_t id = 1 + random() % largest;
      if (random() % 3 != 0) {
        const auto [entry, is_new] = table.insert(id);
        ASSERT_EQ(is_new, model.count(id) == 0);
        entry->slot = model[id] = step;
      } else {
        table.erase(id);
        model.erase(id);
      }
      if (random() % 4000 == 0) {
        table.clear();
        model.clear();
      }
    }
    expect_same(table, model, largest);
  }
}

// A run of entries that all belong to one place, and others among them: whichever leaves, the rest
// are found. Runs at the end of the table go on at its beginning.
TEST(ValueTable, ErasingKeepsRunsWhole) {
  constexpr std::size_t kPlaces = 128, kRun = 6;
  for (const std::size_t home : {std::size_t{5}, kPlaces - 3, kPlaces - 1}) {
    std::vector<uint64_t> ids = with_one_home(kPlaces, home, kRun);
    const auto next = with_one_home(kPlaces, (home + 2) % kPlaces, kRun);
    for (std::size_t i = 0; i < kRun; ++i)
      ids.insert(ids.begin() + 2 * static_cast<long>(i), next[i]);
    std::mt19937 random(2);
    for (int order = 0; order < 200; ++order) {
      ValueTable table;
      Model model;
      for (const uint64_t id : ids) {
        table.insert(id).first->slot = model[id] = static_cast<uint32_t>(id % 1000);
      }
      std::shuffle(ids.begin(), ids.end(), random);
      for (const uint64_t id : ids) {
        table.erase(id);
        model.erase(id);
        for (const auto& [left, slot] : model) {
          const KnownValue* found = table.find(left);
          ASSERT_NE(found, nullptr) << "id " << left << " was lost with " << id;
          ASSERT_EQ(found->slot, slot);
        }
        ASSERT_EQ(table.size(), model.size());
      }
    }
  }
}

TEST(ValueTable, GrowingKeepsEntries) {
  ValueTable table;
  for (uint64_t id = 1; id <= 100000; ++id) {
    table.insert(id).first->slot = static_cast<uint32_t>(id);
  }
  EXPECT_EQ(table.size(), 100000U);
  for (uint64_t id = 1; id <= 100000; ++id) ASSERT_EQ(table.find(id)->slot, id);
  EXPECT_EQ(table.find(100001), nullptr);
  table.clear();  // frees its memory, and still works
  EXPECT_EQ(table.find(1), nullptr);
  EXPECT_TRUE(table.insert(1).second);
  EXPECT_EQ(table.size(), 1U);
}

}  // namespace
}  // namespace etude::internal
