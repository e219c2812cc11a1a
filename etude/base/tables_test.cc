// SPDX-License-Identifier: Apache-2.0
// The two kinds of tables: of a thread, where entries drive each other out, and of the process,
// where nothing is lost; and objects of a thread.
#include <atomic>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/base/intern_table.h"
#include "etude/base/internal/hash.h"
#include "etude/base/thread_object.h"
#include "etude/base/thread_table.h"

namespace etude::internal {
namespace {

struct Counted {
  static inline std::atomic<int> tables{0};
  static void table_was_made() { ++tables; }
  int value = 0;
};
using CountedTable = ThreadTable<Counted, 8>;

TEST(ThreadTable, AHashHasOnePlaceByItsHighestBits) {
  struct Entry {
    int value = 0;
  };
  using Table = ThreadTable<Entry, 8>;
  std::set<Entry*> places;
  for (uint64_t top = 0; top < 8; ++top) {
    Entry& entry = Table::latest(top << 61);
    EXPECT_EQ(entry.value, 0);
    EXPECT_EQ(&entry, &Table::latest((top << 61) + 12345));
    entry.value = static_cast<int>(top) + 1;
    places.insert(&entry);
  }
  EXPECT_EQ(places.size(), 8U);
  for (uint64_t top = 0; top < 8; ++top) {
    EXPECT_EQ(Table::latest(top << 61).value, static_cast<int>(top) + 1);
  }
}

// Keys 1, 2, 3, ... with one hash: find() returns the key's entry, or the entry with the oldest
// request.
TEST(ThreadTable, KeepsTheTwoThatWereAskedForLast) {
  struct Entry {
    int key = 0;
  };
  using Table = ThreadTable<Entry, 4>;
  const auto ask = [](int key) {
    const auto [entry, is_known] = Table::find(0, [&](const Entry& e) { return e.key == key; });
    EXPECT_EQ(is_known, entry.key == key);
    return std::exchange(entry.key, key);
  };
  EXPECT_EQ(ask(1), 0);
  EXPECT_EQ(ask(2), 0);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ask(1), 1);
    EXPECT_EQ(ask(2), 2);
  }
  EXPECT_EQ(ask(2), 2);
  EXPECT_EQ(ask(3), 1);
  EXPECT_EQ(ask(2), 2);
  EXPECT_EQ(ask(3), 3);
  EXPECT_EQ(ask(1), 2);
  EXPECT_EQ(Table::latest(0).key, 1);
  EXPECT_EQ(Table::latest(uint64_t{1} << 62).key, 0) << "the neighbour's place";
}

TEST(ThreadTable, EachThreadMakesOneAtItsFirstUse) {
  const int before = Counted::tables;
  CountedTable::latest(0).value = 7;
  CountedTable::latest(~uint64_t{0}).value = 8;
  EXPECT_EQ(Counted::tables, before + 1);
  int theirs = -1;
  std::thread([&] { theirs = CountedTable::latest(0).value; }).join();
  EXPECT_EQ(theirs, 0);
  EXPECT_EQ(Counted::tables, before + 2);
  EXPECT_EQ(CountedTable::latest(0).value, 7);
}

// Looks at the table when it is destroyed, and was made before it.
struct Late {
  int* found;
  ~Late() {
    if (found != nullptr) *found = CountedTable::latest(0).value;
  }
};

TEST(ThreadTable, OutlivesThreadLocalObjects) {
  int found = -1;
  std::thread([&] {
    thread_local Late late{nullptr};
    late.found = &found;
    CountedTable::latest(0).value = 7;
  }).join();
  EXPECT_EQ(found, 7);
}

struct Alive {
  static inline std::atomic<int> count{0};
  Alive() { ++count; }
  ~Alive() { --count; }
  Alive(Alive&&) noexcept { ++count; }
  Alive& operator=(Alive&&) noexcept = default;
};

TEST(ThreadTable, GoesWithItsThread) {
  std::thread([] {
    ThreadTable<Alive, 8>::latest(0);
    EXPECT_EQ(Alive::count, 16);
  }).join();
  EXPECT_EQ(Alive::count, 0);
}

TEST(ThreadObject, EachThreadHasItsOwn) {
  struct Number {
    int value = 3;
  };
  using Numbers = ThreadObject<Number>;
  Numbers::get().value = 7;
  std::thread([] {
    EXPECT_EQ(Numbers::find(), nullptr) << "none before the first use";
    EXPECT_EQ(Numbers::get().value, 3);
    EXPECT_EQ(Numbers::find(), &Numbers::get());
  }).join();
  EXPECT_EQ(Numbers::get().value, 7);
}

TEST(ThreadObject, GoesWithItsThread) {
  std::thread([] {
    ThreadObject<Alive>::get();
    EXPECT_EQ(Alive::count, 1);
  }).join();
  EXPECT_EQ(Alive::count, 0);
}

struct Ending {
  ~Ending() { ThreadObject<Alive>::get(); }  // whichever of the two is destroyed first
};

TEST(ThreadObject, WhatAnEndMakesAnewGoesAsWell) {
  std::thread([] {
    ThreadObject<Ending>::get();
    ThreadObject<Alive>::get();
  }).join();
  std::thread([] {
    ThreadObject<Alive>::get();
    ThreadObject<Ending>::get();
  }).join();
  EXPECT_EQ(Alive::count, 0);
}

// Asks when it is destroyed, and was made before the object.
struct LateUser {
  int* found = nullptr;
  ~LateUser() {
    struct Number {
      int value = 3;
    };
    if (found != nullptr) *found = ThreadObject<Number>::get().value;
  }
};

TEST(ThreadObject, OutlivesThreadLocalObjects) {
  int found = -1;
  std::thread([&] {
    thread_local LateUser late;
    late.found = &found;
  }).join();
  EXPECT_EQ(found, 3);
}

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};
using Texts = InternTable<std::string, TextHash, std::equal_to<>>;

TEST(InternTable, EqualKeysHaveOneItem) {
  Texts texts;
  int made = 0;
  const auto intern = [&](std::string_view key) {
    return texts.find_or_make(key, [&] {
      ++made;
      return std::optional(std::string(key));
    });
  };
  const std::string* a = intern("a");
  std::vector<const std::string*> many;
  for (int i = 0; i < 1000; ++i) many.push_back(intern(std::to_string(i)));
  EXPECT_EQ(intern("a"), a);
  EXPECT_EQ(*a, "a");
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(intern(std::to_string(i)), many[std::size_t(i)]);
  EXPECT_EQ(made, 1001);
}

TEST(InternTable, NoRoomLeavesNothingBehind) {
  Texts texts;
  const auto none = [] { return std::optional<std::string>(); };
  const auto some = [] { return std::optional(std::string("x")); };
  EXPECT_EQ(texts.find_or_make(std::string_view("x"), none), nullptr);
  ASSERT_NE(texts.find_or_make(std::string_view("x"), some), nullptr);
  EXPECT_EQ(*texts.find_or_make(std::string_view("x"), none), "x");
}

TEST(InternTable, ThreadsAgree) {
  Texts texts;
  std::atomic<int> made{0};
  std::vector<std::vector<const std::string*>> found(8);
  std::vector<std::thread> threads;
  for (auto& mine : found) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const std::string key = std::to_string(i);
        mine.push_back(texts.find_or_make(std::string_view(key), [&] {
          ++made;
          return std::optional(key);
        }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 500);
  for (const auto& theirs : found) EXPECT_EQ(theirs, found[0]);
}

}  // namespace
}  // namespace etude::internal
