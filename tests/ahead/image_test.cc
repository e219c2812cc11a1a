// SPDX-License-Identifier: Apache-2.0
// What of this process becomes data of a file, and what is refused; the files that models are
// linked from.
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "etude/aot/blocks.h"
#include "etude/aot/image.h"
#include "etude/aot/object_file.h"
#include "tests/expect_error.h"

namespace etude::aot {
namespace {

bool some_function(const KernelCall& /*call*/) { return true; }

struct Params : KernelParams {
  int64_t size = 5;
  std::vector<float> numbers = {1, 2, 3};
  bool (*run)(const KernelCall&) = some_function;
  const void* other = nullptr;
  double looks_like_none = 1e300;
};

class ImageTest : public testing::Test {
 protected:
  LinkTarget add(const Params& params) { return image.add(&params); }

  std::vector<std::string> asked;  // for these functions
  ModelLinker linker{{}};
  Image image{linker,
              [this](uintptr_t /*address*/, const ProgramSymbol& symbol) {
                asked.push_back(symbol.name);
                return function;
              },
              [](uintptr_t) { return LinkTarget{}; }};
  LinkTarget function = linker.add_data(".text", "code", 16, false);
};

// The sections of a file and its relocations: what an independent reader of the file sees.
struct Read {
  explicit Read(std::string all) : bytes(std::move(all)), object("made", bytes) {}
  const ObjectFile::Section& data(std::size_t i) const { return object.sections()[i]; }
  std::string bytes;
  ObjectFile object;
};

TEST_F(ImageTest, CopiesAnObjectWithAllThatItPointsTo) {
  const auto params = std::make_unique<Params>();
  params->numbers.reserve(8);
  const LinkTarget at = add(*params);
  linker.show("params", at, false);
  const Read file(linker.finish());
  const ObjectFile::Section& copy = file.data(at.section);
  ASSERT_EQ(copy.bytes.size(), sizeof(Params));
  int64_t size = 0;
  std::memcpy(&size, copy.bytes.data() + offsetof(Params, size), sizeof size);
  EXPECT_EQ(size, 5);
  // Begin, end and capacity of the vector, and the function; not the table of virtual functions.
  ASSERT_EQ(copy.relocations.size(), 4U);
  EXPECT_EQ(copy.relocations[1].r_addend - copy.relocations[0].r_addend, 12);
  EXPECT_EQ(copy.relocations[2].r_addend - copy.relocations[0].r_addend, 32);
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_NE(asked[0].find("some_function"), std::string::npos) << asked[0];
  const auto symbol = ELF64_R_SYM(copy.relocations[0].r_info);
  const ObjectFile::Section& numbers = file.data(file.object.symbols()[symbol].entry.st_shndx);
  ASSERT_EQ(numbers.bytes.size(), 32U);
  float third = 0;
  std::memcpy(&third, numbers.bytes.data() + 8, sizeof third);
  EXPECT_EQ(third, 3);
}

TEST_F(ImageTest, NoAddressIsLeftInTheBytes) {
  const auto params = std::make_unique<Params>();
  const LinkTarget at = add(*params);
  const Read file(linker.finish());
  for (std::size_t i = 0; i + 8 <= file.data(at.section).bytes.size(); i += 8) {
    uintptr_t word = 0;
    std::memcpy(&word, file.data(at.section).bytes.data() + i, sizeof word);
    EXPECT_FALSE(word >> 47 == 0 && word > 0xffffffff) << i;
  }
}

TEST_F(ImageTest, RefusesWhatItDoesNotKnow) {
  const auto params = std::make_unique<Params>();
  void* const memory =
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  params->other = memory;
  etude::testing::expect_error([&] { add(*params); }, ErrorCode::kUnimplemented, {"it points to memory of this process that has no name and no owner"});
  ::munmap(memory, 4096);
}

TEST_F(ImageTest, RefusesAFunctionThatTheFileLacks) {
  function = {};
  const auto params = std::make_unique<Params>();
  etude::testing::expect_error([&] { add(*params); }, ErrorCode::kUnimplemented, {"which is not in the archive of kernels"});
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
  etude::testing::expect_error([&] { read_archive("x.a", "no archive"); }, ErrorCode::kDataLoss, {"x.a: it is no archive"});
  std::string head(60, ' ');
  head.replace(0, 5, "a.o/ ");
  head.replace(48, 3, "100");
  etude::testing::expect_error([&] { read_archive("x.a", "!<arch>\n" + head + "abc"); }, ErrorCode::kDataLoss, {"x.a: it has 71 bytes, of which 100 from byte 68 on are needed"});
  etude::testing::expect_error([&] { ObjectFile("x.o", std::string(64, 'x')); }, ErrorCode::kDataLoss, {"x.o: it is no relocatable ELF file of 64 bits"});
  etude::testing::expect_error([&] { ObjectFile("x.o", "abc"); }, ErrorCode::kDataLoss, {"x.o: it ends at byte 3, before byte 64"});
}

}  // namespace
}  // namespace etude::aot
