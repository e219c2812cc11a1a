// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/code_names.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "etude/codegen/load_object.h"
#include "etude/codegen/test_object.h"

// As GDB sees it.
extern "C" struct SeenEntry {
  const SeenEntry* next;
  const SeenEntry* previous;
  const char* file;
  uint64_t bytes;
};
extern "C" struct SeenList {
  uint32_t version, action;
  const SeenEntry* relevant;
  const SeenEntry* first;
};
extern "C" SeenList __jit_debug_descriptor;

namespace etude::codegen {
namespace {

TEST(CodeNames, ALineHasAddressSizeAndName) {
  EXPECT_EQ(perf_map_line(reinterpret_cast<const void*>(0x7f12ab00), 416,
                          "etude_kernel v1 = exp(x1)\nadd(v1, v1)"),
            "7f12ab00 1a0 etude_kernel v1 = exp(x1) add(v1, v1)");
}

bool lists_code_for_perf() {
  setenv("ETUDE_SHOW_CODE", "perf", 1);
  const auto code = load_object(TestObject().bytes(), "add(x1, x2)");
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  unlink(path.c_str());
  std::stringstream line(text.str());
  uintptr_t begin = 0;
  std::size_t bytes = 0;
  std::string name;
  line >> std::hex >> begin >> bytes;
  std::getline(line, name);
  const auto entry = reinterpret_cast<uintptr_t>(code->entry());
  return name == " etude_kernel add(x1, x2)" && begin <= entry && entry < begin + bytes &&
         __jit_debug_descriptor.first == nullptr;
}

// Another user could make a link in /tmp, and a program of the user would write to its target.
bool follows_no_link() {
  setenv("ETUDE_SHOW_CODE", "perf", 1);
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map", target = path + ".to";
  std::ofstream(target) << "as before";
  const bool is_linked = symlink(target.c_str(), path.c_str()) == 0;
  load_object(TestObject().bytes(), "add(x1, x2)");
  std::stringstream text;
  text << std::ifstream(target).rdbuf();
  unlink(path.c_str());
  unlink(target.c_str());
  return is_linked && text.str() == "as before";
}

// Whether a section with code in the file that GDB gets has the address of the code.
bool has_address(const SeenEntry& seen, const void* entry) {
  Elf64_Ehdr head;
  std::memcpy(&head, seen.file, sizeof head);
  for (std::size_t i = 0; i < head.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, seen.file + head.e_shoff + i * sizeof section, sizeof section);
    const auto at = reinterpret_cast<uintptr_t>(entry);
    const bool is_code = (section.sh_flags & SHF_EXECINSTR) != 0;
    if (is_code && section.sh_addr <= at && at < section.sh_addr + section.sh_size) return true;
  }
  return false;
}

bool tells_gdb() {
  setenv("ETUDE_SHOW_CODE", "gdb", 1);
  auto first = load_object(TestObject().bytes(), "");
  auto second = load_object(TestObject().bytes(), "");
  const SeenList& list = __jit_debug_descriptor;
  const SeenEntry* const seen = list.first;
  bool is_right = list.version == 1 && seen != nullptr && seen->next != nullptr &&
                  seen->bytes == TestObject().bytes().size() &&
                  has_address(*seen, second->entry()) && has_address(*seen->next, first->entry());
  first.reset();  // the one in the middle, and then the last
  is_right = is_right && list.first == seen && seen->next == nullptr;
  second.reset();
  return is_right && list.first == nullptr;
}

// In processes of their own, since the environment is read once.
TEST(CodeNames, PerfAndGdbAreTold) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "code is made for x86-64 only";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::_Exit(lists_code_for_perf() ? 0 : 1), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::_Exit(follows_no_link() ? 0 : 1), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::_Exit(tells_gdb() ? 0 : 1), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace etude::codegen
