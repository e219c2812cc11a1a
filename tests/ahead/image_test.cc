// SPDX-License-Identifier: Apache-2.0
// Objects of this process as data of a file, and the refused ones; the files from which models are
// linked.
#include "etude/aot/image.h"

#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/aot/blocks.h"
#include "etude/aot/object_file.h"
#include "etude/core/op/rules.h"
#include "tests/expect_error.h"

namespace etude::aot {
namespace {

bool some_function(const KernelCall& /*call*/) { return true; }

struct Params : KernelParams {
  int64_t size = 5;
  std::vector<float> numbers = {1, 2, 3};
  bool (*run)(const KernelCall&) = some_function;
  uint64_t left = 0;
  std::array<uint64_t, 64> flags{};
};

class ImageTest : public ::testing::Test {
 protected:
  // Two that were made in the same way, as plans do it.
  LinkTarget add() { return image.add(own.get(), twin.get()); }
  // Where a member of `own` lies in the section that it was added to.
  std::size_t place_of(const LinkTarget& at, const void* member) const {
    return at.offset + static_cast<std::size_t>(static_cast<const char*>(member) -
                                                reinterpret_cast<const char*>(own.get()));
  }

  static std::unique_ptr<Params> make_twin() {
    const TwinScope scope;
    return std::make_unique<Params>();
  }

  std::unique_ptr<Params> own = std::make_unique<Params>(), twin = make_twin();

  std::vector<std::string> asked;  // for these functions
  ModelLinker linker{{}};
  Image image{linker, [this](uintptr_t /*address*/, const ProgramSymbol& symbol) {
                if (!symbol.name.empty()) asked.push_back(symbol.name);
                return symbol.name.empty() ? LinkTarget{} : function;
              }};
  LinkTarget function = linker.add_data(".text", "code", 16, false);
};

// The sections and relocations of a file, as an independent reader sees them.
struct Read {
  explicit Read(std::string all) : bytes(std::move(all)), object("made", bytes) {}
  std::string bytes;
  ObjectFile object;
};

TEST_F(ImageTest, CopiesAnObjectWithAllThatItPointsTo) {
  own->numbers.reserve(8);
  {
    const TwinScope scope;
    twin->numbers.reserve(8);
  }
  const LinkTarget at = add();
  const Read file(linker.finish());
  const ObjectFile::Section& data = file.object.sections()[at.section];
  int64_t size = 0;
  std::memcpy(&size, data.bytes.data() + place_of(at, &own->size), sizeof size);
  EXPECT_EQ(size, 5);
  // Begin, end and capacity of the vector, and the function; not the table of virtual functions.
  ASSERT_EQ(data.relocations.size(), 4U);
  EXPECT_EQ(data.relocations[0].r_offset, place_of(at, &own->numbers));
  EXPECT_EQ(data.relocations[1].r_addend - data.relocations[0].r_addend, 12);
  EXPECT_EQ(data.relocations[2].r_addend - data.relocations[0].r_addend, 32);
  EXPECT_EQ(data.relocations[3].r_offset, place_of(at, &own->run));
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_NE(asked[0].find("some_function"), std::string::npos) << asked[0];
  float third = 0;
  std::memcpy(&third, data.bytes.data() + data.relocations[0].r_addend + 8, sizeof third);
  EXPECT_EQ(third, 3);
}

// A field of one byte, followed by the rest of an old address: the field keeps its value.
TEST_F(ImageTest, AByteWithAnOldAddressBehindItStaysAByte) {
  const auto word = [](const Params& params) {
    const auto address = reinterpret_cast<uintptr_t>(params.numbers.data());
    return (address & ~uintptr_t{0xff}) | 0x08;
  };
  own->left = word(*own);
  twin->left = word(*twin);
  const LinkTarget at = add();
  const Read file(linker.finish());
  const ObjectFile::Section& data = file.object.sections()[at.section];
  EXPECT_EQ(data.bytes[place_of(at, &own->left)], 0x08);
  EXPECT_EQ(data.relocations.size(), 4U);
}

// A flag, followed by the rest of the address of a block that both have: no block begins there.
TEST_F(ImageTest, AFlagWithAnOldAddressBehindItStaysAFlag) {
  std::vector<std::unique_ptr<int64_t>> shared;
  for (std::size_t i = 0; i < own->flags.size(); ++i) {
    shared.push_back(std::make_unique<int64_t>(i));
    const auto address = reinterpret_cast<uintptr_t>(shared.back().get());
    EXPECT_EQ(address % kBlocksApart, kBlockShift);
    own->flags[i] = twin->flags[i] = address & ~uintptr_t{0xff};
    EXPECT_FALSE(find_block(own->flags[i]).begin == own->flags[i]) << address;
  }
  const LinkTarget at = add();
  const Read file(linker.finish());
  const ObjectFile::Section& data = file.object.sections()[at.section];
  EXPECT_EQ(data.relocations.size(), 4U);
  EXPECT_EQ(std::memcmp(data.bytes.data() + place_of(at, own->flags.data()), own->flags.data(),
                        sizeof own->flags),
            0);
}

// Blocks of every size and alignment lie where they were asked to and end where they begin.
TEST(Blocks, KeepTheirAlignment) {
  for (std::size_t alignment = 16; alignment <= 512; alignment *= 2) {
    for (const bool is_twin : {false, true}) {
      std::optional<TwinScope> twin;
      if (is_twin) twin.emplace();
      void* const block = ::operator new(100, std::align_val_t(alignment));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0U);
      EXPECT_EQ(find_block(reinterpret_cast<uintptr_t>(block) + 99).bytes, 100U);
      ::operator delete(block, std::align_val_t(alignment));
      EXPECT_FALSE(find_block(reinterpret_cast<uintptr_t>(block)).begin ==
                   reinterpret_cast<uintptr_t>(block));
    }
  }
  EXPECT_EQ(::operator new(SIZE_MAX, std::nothrow), nullptr);
}

// A word that was never written may hold the address of a block with another owner.
TEST_F(ImageTest, ABlockWithAnotherTwinIsNone) {
  const auto mine = std::make_unique<std::array<int64_t, 3>>(std::array<int64_t, 3>{1, 2, 3});
  const TwinScope scope;
  const auto other = std::make_unique<std::array<int64_t, 3>>(std::array<int64_t, 3>{1, 5, 3});
  own->left = reinterpret_cast<uintptr_t>(mine.get());
  twin->left = reinterpret_cast<uintptr_t>(other.get());
  const LinkTarget at = add();
  const Read file(linker.finish());
  EXPECT_EQ(file.object.sections()[at.section].relocations.size(), 4U);
}

// A number that is an address of a block in one of the two is none in the other.
TEST_F(ImageTest, ANumberThatLooksLikeAnAddressStaysANumber) {
  own->left = twin->left = reinterpret_cast<uintptr_t>(own->numbers.data()) + 4;
  add();
  const Read file(linker.finish());
  std::size_t pointers = 0;
  for (const auto& section : file.object.sections()) pointers += section.relocations.size();
  EXPECT_EQ(pointers, 4U);
}

TEST_F(ImageTest, RefusesAFunctionThatTheFileLacks) {
  function = {};
  etude::tests::expect_error(
      [&] { add(); }, ErrorCode::kUnimplemented,
      {"some_function", "of image_test.cc", "which is not in the archive of kernels"});
}

TEST_F(ImageTest, RefusesWhatNobodyAllocated) {
  const int local = 1;
  etude::tests::expect_error([&] { image.add(&local, &local); }, ErrorCode::kUnimplemented,
                             {"its prepared parameters are in memory of unknown size"});
}

TEST_F(ImageTest, WhatIsTakenBackLeavesNothing) {
  const ModelLinker::Mark mark = linker.mark();
  add();
  linker.return_to(mark);
  image.forget();
  const LinkTarget again = add();
  EXPECT_FALSE(mark.is_behind(function));
  EXPECT_TRUE(mark.is_behind(again));
  const Read file(linker.finish());
  EXPECT_EQ(file.object.sections()[again.section].relocations.size(), 4U);
}

TEST(Blocks, AreThoseOfOperatorNew) {
  ASSERT_TRUE(are_blocks_recorded());
  auto numbers = std::make_unique<std::vector<double>>(5);
  const auto address = reinterpret_cast<uintptr_t>(numbers->data());
  EXPECT_EQ(find_block(address + 17).begin, address);
  EXPECT_EQ(find_block(address + 40).bytes, 40U);  // at its end
  numbers.reset();
  EXPECT_NE(find_block(address + 17).bytes, 40U);
}

TEST(Archives, DamagedOnesAreRefused) {
  etude::tests::expect_error([&] { read_archive("x.a", "no archive"); }, ErrorCode::kDataLoss,
                             {"x.a: it is no archive"});
  std::string head(60, ' ');
  head.replace(0, 5, "a.o/ ");
  head.replace(48, 3, "100");
  etude::tests::expect_error([&] { read_archive("x.a", "!<arch>\n" + head + "abc"); },
                             ErrorCode::kDataLoss,
                             {"x.a: it has 71 bytes, of which 100 from byte 68 on are needed"});
  etude::tests::expect_error([&] { ObjectFile("x.o", std::string(64, 'x')); }, ErrorCode::kDataLoss,
                             {"x.o: it is no relocatable ELF file of 64 bits"});
  etude::tests::expect_error([&] { ObjectFile("x.o", "abc"); }, ErrorCode::kDataLoss,
                             {"x.o: it ends at byte 3, before byte 64"});
}

}  // namespace
}  // namespace etude::aot
