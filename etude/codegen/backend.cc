// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/backend.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include <dlfcn.h>
#include <sys/stat.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "etude/base/check.h"
#include "etude/codegen/worker.h"

namespace etude::codegen::backend {
namespace {

namespace fs = std::filesystem;

#ifdef ETUDE_HAS_LLVM
constexpr char kFile[] = "etude-codegen";

std::vector<fs::path> places() {
  std::vector<fs::path> out;
  const auto add = [&out](const fs::path& file) {
    std::error_code failed;
    const fs::path whole = fs::canonical(file, failed);
    if (failed) return;
    out.push_back(whole.parent_path() / kFile);
    out.push_back(whole.parent_path().parent_path() / "lib" / kFile);
  };
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&find_compiler), &info) != 0 &&
      info.dli_fname != nullptr) {
    add(info.dli_fname);
  }
  add("/proc/self/exe");
  return out;
}
#endif

// What a processor says of itself: from this LLVM takes its model and what it has.
std::string processor_text() {
  std::string out;
#if defined(__x86_64__)
  struct Leaf {
    unsigned number, part;
    bool has_b;  // that of leaf 1 tells of a core, not of all of them
  };
  constexpr Leaf kLeaves[] = {{0, 0, true},          {1, 0, false},        {7, 0, true},
                              {7, 1, true},          {0xd, 1, false},      {0x14, 0, true},
                              {0x19, 0, true},       {0x1e, 1, true},      {0x24, 0, true},
                              {0x80000001, 0, true}, {0x80000008, 0, true}};
  for (const Leaf& leaf : kLeaves) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    __get_cpuid_count(leaf.number, leaf.part, &a, &b, &c, &d);
    out += fmt::format("{:x}.{:x}.{:x}.{:x} ", a, leaf.has_b ? b : 0, c, d);
  }
#endif
  return out;
}

std::string file_text(const std::string& file) {
  struct stat facts {};
  if (::stat(file.c_str(), &facts) != 0) return "";
  return fmt::format("{} {}.{}", facts.st_size, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
}

}  // namespace

std::string find_compiler(std::string& why) {
#if !defined(ETUDE_HAS_LLVM)
  why =
      "this build of Etude generates no code. Configure it with -DETUDE_CODEGEN=ON, which needs "
      "LLVM 22.1";
#elif !defined(__x86_64__)
  why = "code is generated for x86-64 only";
#else
  for (const fs::path& place : places()) {
    std::error_code failed;
    if (fs::exists(place, failed)) return place;
  }
  why = fmt::format("{} was not found beside libetude.so, where it is installed with it", kFile);
#endif
  return "";
}

bool is_available() { return why_absent().empty(); }
std::string why_absent() { return Worker::of_process().why_absent(); }

std::string make(const Request& request) { return Worker::of_process().make(request); }

std::string maker() {
  static const std::string* const text = [] {
    std::string why;
    const std::string file = find_compiler(why);
    ETUDE_REQUIRE_CODE(kUnimplemented, !file.empty(), "no code is generated: {}", why);
#ifdef ETUDE_HAS_LLVM
    constexpr char kLlvm[] = ETUDE_HAS_LLVM;
#else
    constexpr char kLlvm[] = "";
#endif
    return new std::string(
        fmt::format("{} LLVM {} {} {}", build_text(), kLlvm, file_text(file), processor_text()));
  }();
  return *text;
}

}  // namespace etude::codegen::backend
