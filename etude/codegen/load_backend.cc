// SPDX-License-Identifier: Apache-2.0
// Finds and opens the library that holds LLVM, libetude_codegen.so.
#include <filesystem>
#include <system_error>
#include <vector>

#include <dlfcn.h>

#include "etude/base/check.h"
#include "etude/codegen/backend.h"

namespace etude::codegen::backend {
namespace {

namespace fs = std::filesystem;

constexpr char kFile[] = "libetude_codegen.so";

// LLVM registers destructors of its statics at the end of the process, also while it compiles on
// its own thread, and they would run before anything of ours could stop that. So it is bound to
// functions of its own library first, where one takes such registrations and forgets them
// (backend.cc). Sanitizers refuse that.
#ifdef ETUDE_PORTABLE_PROGRAMS
constexpr int kBinding = 0;
#else
constexpr int kBinding = RTLD_DEEPBIND;
#endif

// Beside the library or the program that this function is part of, and in lib/ beside its bin/.
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
  if (dladdr(reinterpret_cast<const void*>(&build_text), &info) != 0 && info.dli_fname != nullptr) {
    add(info.dli_fname);
  }
  add("/proc/self/exe");
  return out;
}

Host host() {
  Host out;
  out.best = internal::best_isa();
  for (int k = 0; k <= static_cast<int>(out.best); ++k) {
    out.large_angles[static_cast<std::size_t>(k)] =
        internal::large_angles(static_cast<internal::Isa>(k));
  }
  return out;
}

struct Loaded {
  const Table* table = nullptr;
  std::string why;
};

void* open_library(std::string& why) {
#ifdef ETUDE_HAS_LLVM
  for (const fs::path& place : places()) {
    std::error_code failed;
    if (!fs::exists(place, failed)) continue;
    void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL | kBinding);
    if (library != nullptr) return library;
    why = fmt::format("{} could not be opened: {}", place.string(), dlerror());
    return nullptr;
  }
  why = fmt::format("{} was not found beside libetude.so, where it is installed with it", kFile);
#else
  why =
      "this build of Etude generates no code. Configure it with -DETUDE_CODEGEN=ON, which needs "
      "LLVM 22.1";
#endif
  return nullptr;
}

Loaded load() {
  Loaded out;
  void* library = open_library(out.why);
  if (library == nullptr) return out;
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kEntryName));
  static const Host kHost = host();
  if (entry != nullptr) out.table = entry(kHost, build_text().c_str());
  if (out.table == nullptr) {
    out.why = fmt::format(
        "{} is of another build than the library that opened it. Install both "
        "together",
        kFile);
  }
  return out;
}

const Loaded& loaded() {
  static const Loaded* const once =
      new Loaded(load());  // it stays open: its code may run to the end
  return *once;
}

const Table& table() {
  const Loaded& it = loaded();
  ETUDE_REQUIRE_CODE(kUnimplemented, it.table != nullptr, "no code is generated: {}", it.why);
  return *it.table;
}

void set_text(std::string* to, const char* bytes, std::size_t size) { to->assign(bytes, size); }

// What call(out, why) leaves in `out`.
template <class F>
std::string text_of(F&& call) {
  std::string out, error;
  Failure why{{&error, set_text}};
  if (!call(Text{&out, set_text}, why)) throw Error(why.code, error);
  return out;
}

}  // namespace

bool is_available() { return loaded().table != nullptr; }
const std::string& why_absent() { return loaded().why; }

std::string object(const scalar::Program& program, const CompileOptions& options) {
  return text_of(
      [&](Text out, Failure& why) { return table().object(program, options, out, why); });
}

std::shared_ptr<const Code> link(const std::string& object) {
  std::string error;
  Failure why{{&error, set_text}};
  std::shared_ptr<const Code> code = table().link(object, why);
  if (code == nullptr) throw Error(why.code, error);
  return code;
}

std::string maker() { return build_text() + " " + table().maker; }

std::string ir_text(const scalar::Program& program, const CompileOptions& options, bool optimized) {
  return text_of([&](Text out, Failure& why) {
    return table().ir_text(program, options, optimized, out, why);
  });
}

std::string assembly_text(const scalar::Program& program, const CompileOptions& options) {
  return text_of(
      [&](Text out, Failure& why) { return table().assembly_text(program, options, out, why); });
}

}  // namespace etude::codegen::backend
