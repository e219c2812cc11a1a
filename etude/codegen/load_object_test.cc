// SPDX-License-Identifier: Apache-2.0
// Object files, whole and damaged: files of the compiler, and a hand-made file.
#include "etude/codegen/load_object.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/codegen/request.h"
#include "etude/codegen/test_object.h"
#include "etude/codegen/test_programs.h"
#include "etude/codegen/worker.h"
#include "tests/expect_error.h"

namespace etude::codegen {
namespace {

using tests::expect_error;

#if !defined(__x86_64__)
#define SKIP_OTHER_MACHINES() GTEST_SKIP() << "code is made for x86-64 only"
#else
#define SKIP_OTHER_MACHINES()
#endif

TEST(LoadObject, RunsAnObjectFile) {
  SKIP_OTHER_MACHINES();
  const auto code = load_object(TestObject().bytes());
  EXPECT_EQ(code->object_bytes(), TestObject().bytes().size());
  float out = 0;
  reinterpret_cast<DenseKernel>(code->entry())(&out, nullptr, nullptr, 1);
  EXPECT_EQ(out, kTestConstant * kTestConstant + kTestConstant);
}

// Code lives as long as its handle, and many of them do not take many pieces of memory.
TEST(LoadObject, KeepsManyAtOnce) {
  SKIP_OTHER_MACHINES();
  std::vector<std::shared_ptr<const Code>> all;
  for (int i = 0; i < 3000; ++i) all.push_back(load_object(TestObject().bytes()));
  for (std::size_t i = 0; i < all.size(); i += 2) all[i].reset();
  for (std::size_t i = 1; i < all.size(); i += 2) {
    float out = 0;
    reinterpret_cast<DenseKernel>(all[i]->entry())(&out, nullptr, nullptr, 1);
    ASSERT_EQ(out, 3.75F);
  }
}

struct Damage {
  const char* fragment;
  std::function<void(TestObject&)> damage;
};

template <class T>
std::function<void(TestObject&)> change(TestObject::Section section, std::size_t index,
                                        void (*f)(T&)) {
  return [=](TestObject& object) {
    T value = object.part<T>(section, index);
    f(value);
    object.set_part(section, index, value);
  };
}

void expect_refused(std::span<const Damage> damages) {
  for (const Damage& damage : damages) {
    TestObject object;
    damage.damage(object);
    expect_error([&] { load_object(object.bytes()); }, ErrorCode::kDataLoss,
                 {"generated code is damaged: ", damage.fragment});
  }
}

TEST(LoadObject, SaysWhatIsWrongWithTheFile) {
  using O = TestObject;
  const Damage kDamages[] = {
      {"it is no ELF file", [](O& o) { o.head.e_ident[0] = 'E'; }},
      {"of class 1, byte order 1", [](O& o) { o.head.e_ident[EI_CLASS] = ELFCLASS32; }},
      {"of type 1 for machine 183, but must be relocatable, of type 1, for x86-64",
       [](O& o) { o.head.e_machine = EM_AARCH64; }},
      {"of type 3 for machine 62", [](O& o) { o.head.e_type = ET_DYN; }},
      {"it has 0 sections", [](O& o) { o.head.e_shnum = 0; }},
      {"6 sections, described by 63 bytes", [](O& o) { o.head.e_shentsize = 63; }},
      {"of which 384 from byte 18446744073709551615 on",
       [](O& o) { o.head.e_shoff = ~uint64_t{0}; }},
      {"are needed", [](O& o) { o.head.e_shnum = 7; }},
      {"section 1 is of type 1 with flags 7", [](O& o) { o.sections[O::kText].sh_flags |= 1; }},
      {"section 2 is of type 8", [](O& o) { o.sections[O::kConstants].sh_type = SHT_NOBITS; }},
      {"section 1 is aligned to 24 bytes", [](O& o) { o.sections[O::kText].sh_addralign = 24; }},
      {"aligned to 8192", [](O& o) { o.sections[O::kText].sh_addralign = 8192; }},
      {"from byte 64 on are needed", [](O& o) { o.sections[O::kText].sh_size = ~uint64_t{0}; }},
  };
  expect_refused(kDamages);
}

TEST(LoadObject, SaysWhatIsWrongWithSymbolsAndRelocations) {
  using O = TestObject;
  const auto change_symbol = [](O::Symbol symbol, void (*f)(Elf64_Sym&)) {
    return change<Elf64_Sym>(O::kSymbols, symbol, f);
  };
  const auto change_relocation = [](std::size_t k, void (*f)(Elf64_Rela&)) {
    return change<Elf64_Rela>(O::kRelocations, k, f);
  };
  const Damage kDamages[] = {
      {"its symbols are of 23 bytes", [](O& o) { o.sections[O::kSymbols].sh_entsize = 23; }},
      {"with names in section 9", [](O& o) { o.sections[O::kSymbols].sh_link = 9; }},
      {"two tables of symbols",
       [](O& o) {
         o.sections[O::kRelocations].sh_type = SHT_SYMTAB;
         o.sections[O::kRelocations].sh_link = O::kNames;
       }},
      {"it relocates section 6 of 6", [](O& o) { o.sections[O::kRelocations].sh_info = 6; }},
      {"of symbols in section 5", [](O& o) { o.sections[O::kRelocations].sh_link = 5; }},
      {"a relocation of type 1; distances of 32 bits",
       change_relocation(0, [](auto& r) { r.r_info += R_X86_64_64 - R_X86_64_PC32; })},
      {"it relocates byte 23 of a section of 26",
       change_relocation(0, [](auto& r) { r.r_offset = 23; })},
      {"it names symbol 5 of 5",
       change_relocation(0, [](auto& r) { r.r_info = ELF64_R_INFO(uint64_t{5}, R_X86_64_PC32); })},
      {"it adds -9223372036854775808 to the place",
       change_relocation(0, [](auto& r) { r.r_addend = INT64_MIN; })},
      {"it reaches byte 1044 of 48", change_relocation(0, [](auto& r) { r.r_addend = 1000; })},
      {"it adds 0 to the place", change_relocation(1, [](auto& r) { r.r_addend = 0; })},
      {"it needs 'fmaf', which code may not call",  // as data
       change_relocation(1, [](auto& r) { r.r_info -= R_X86_64_PLT32 - R_X86_64_PC32; })},
      {"it needs 'maf', which code may not call",
       change_symbol(O::kImport, [](auto& s) { s.st_name += 1; })},
      {"a name at byte 24 has no end", change_symbol(O::kImport, [](auto& s) { s.st_name = 24; })},
      {"a symbol of type 6", change_symbol(O::kConstant, [](auto& s) { s.st_info = STT_TLS; })},
      {"a symbol of section 65521, which is not loaded",
       change_symbol(O::kConstant, [](auto& s) { s.st_shndx = SHN_ABS; })},
      {"a symbol is byte 5 of a section of 4",
       change_symbol(O::kConstant, [](auto& s) { s.st_value = 5; })},
      {"it has no function etude_kernel",
       change_symbol(O::kEntry, [](auto& s) { s.st_info = STT_FUNC; })},
      {"it shows 'tude_kernel'; a function etude_kernel alone",
       change_symbol(O::kEntry, [](auto& s) { s.st_name += 1; })},
      {"it shows 'file'", change_symbol(O::kFile, [](auto& s) { s.st_info |= STB_GLOBAL << 4; })},
      {"etude_kernel is no code",
       change_symbol(O::kEntry, [](auto& s) { s.st_shndx = O::kConstants; })},
      {"etude_kernel is no code",
       change_symbol(O::kEntry, [](auto& s) { s.st_value = s.st_size; })},
  };
  expect_refused(kDamages);
}

// Each place cut off, and each byte changed: an error, or code that is not run here.
void damage_everywhere(const std::string& whole) {
  int refused = 0;
  const auto try_it = [&refused](const std::string& bytes) {
    try {
      load_object(bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss) << error.what();
      ++refused;
    }
  };
  for (std::size_t i = 0; i < whole.size(); ++i) try_it(whole.substr(0, i));
  EXPECT_EQ(refused, static_cast<int>(whole.size()));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int change : {1, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ change);
      try_it(bytes);
    }
  }
  EXPECT_GT(refused, static_cast<int>(whole.size()) + 100);
}

TEST(LoadObject, AnyDamageIsAnErrorOrHarmless) {
  damage_everywhere(TestObject().bytes());
  if (!is_available()) return;
  damage_everywhere(Worker::of_process().make(
      request_of(Product::kObject, program_of(scalar::Fn::kSin), {.tier = Tier::kBest})));
}

}  // namespace
}  // namespace etude::codegen
