// SPDX-License-Identifier: Apache-2.0
#include "etude/aot/program_symbols.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include "etude/base/check.h"

namespace etude::aot {
namespace {

// The file that lies in this part of memory.
struct Module {
  std::string file;
  uintptr_t base = 0, begin = 0, end = 0;
};

std::string own_file() {
  constexpr const char* kLink = "/proc/self/exe";
  std::error_code failed;
  const std::filesystem::path file = std::filesystem::read_symlink(kLink, failed);
  return failed ? kLink : file.string();
}

std::vector<Module> modules() {
  std::vector<Module> out;
  const auto add = [](dl_phdr_info* info, std::size_t, void* to) {
    Module m{info->dlpi_name, info->dlpi_addr, ~uintptr_t{0}, 0};
    if (m.file.empty()) m.file = own_file();
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& part = info->dlpi_phdr[i];
      if (part.p_type != PT_LOAD) continue;
      m.begin = std::min<uintptr_t>(m.begin, m.base + part.p_vaddr);
      m.end = std::max<uintptr_t>(m.end, m.base + part.p_vaddr + part.p_memsz);
    }
    static_cast<std::vector<Module>*>(to)->push_back(std::move(m));
    return 0;
  };
  ::dl_iterate_phdr(add, &out);
  return out;
}

// Symbols of one file by address, counted from its base.
class SymbolTable {
 public:
  explicit SymbolTable(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    if (bytes_.size() < sizeof(Elf64_Ehdr)) return;
    const auto& head = at<Elf64_Ehdr>(0);
    for (unsigned i = 0; i < head.e_shnum; ++i) {
      const auto& section = at<Elf64_Shdr>(head.e_shoff + i * sizeof(Elf64_Shdr));
      if (section.sh_type == SHT_SYMTAB) {
        read(section, at<Elf64_Shdr>(head.e_shoff + section.sh_link * sizeof(Elf64_Shdr)));
      }
    }
    bytes_ = {};
  }

  bool is_empty() const { return symbols_.empty(); }

  ProgramSymbol find(uintptr_t offset) const {
    auto after = symbols_.upper_bound(offset);
    // A symbol that begins there, else one around it.
    while (after != symbols_.begin()) {
      --after;
      const ProgramSymbol& symbol = after->second;
      if (offset < symbol.begin + std::max<uint64_t>(symbol.bytes, 1)) return symbol;
      if (offset - symbol.begin > (uint64_t{1} << 24)) break;
    }
    return {};
  }

 private:
  template <class T>
  const T& at(uint64_t offset) const {
    ETUDE_CHECK(offset + sizeof(T) <= bytes_.size(), "the program's file ends too early");
    return *reinterpret_cast<const T*>(bytes_.data() + offset);
  }

  void read(const Elf64_Shdr& table, const Elf64_Shdr& names) {
    std::string source;
    for (uint64_t i = 0; i < table.sh_size / sizeof(Elf64_Sym); ++i) {
      const auto& symbol = at<Elf64_Sym>(table.sh_offset + i * sizeof(Elf64_Sym));
      const char* const name = &at<char>(names.sh_offset + symbol.st_name);
      const unsigned type = ELF64_ST_TYPE(symbol.st_info);
      const bool is_local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL;
      if (type == STT_FILE) source = name;
      if (symbol.st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_OBJECT)) continue;
      const auto [at, is_new] = symbols_.try_emplace(symbol.st_value);
      // Of two names of one function the open one is found more easily.
      if (!is_new && (is_local || !at->second.source.empty())) {
        if (is_local) continue;
      }
      at->second = {name, is_local ? source : "", symbol.st_value, symbol.st_size,
                    type == STT_FUNC};
    }
  }

  std::string bytes_;
  std::map<uint64_t, ProgramSymbol> symbols_;
};

// A symbol of another library: only exported symbols.
ProgramSymbol other_symbol(uintptr_t address) {
  Dl_info info{};
  const bool is_known = ::dladdr(reinterpret_cast<const void*>(address), &info) != 0 &&
                        reinterpret_cast<uintptr_t>(info.dli_saddr) == address;
  if (!is_known || info.dli_sname == nullptr) return {};
  const std::string file = info.dli_fname == nullptr ? "" : info.dli_fname;
  return {info.dli_sname, file.substr(file.rfind('/') + 1), address, 1, true};
}

const SymbolTable& table_of(const std::string& file) {
  static std::mutex mutex;
  static auto& tables = *new std::map<std::string, std::unique_ptr<const SymbolTable>>;
  const std::lock_guard lock(mutex);
  auto& out = tables[file];
  if (out == nullptr) out = std::make_unique<const SymbolTable>(file);
  return *out;
}

}  // namespace

ProgramSymbol symbol_at(uintptr_t address) {
  for (const Module& module : modules()) {
    if (address < module.begin || address >= module.end) continue;
    if (const auto own = reinterpret_cast<uintptr_t>(&symbol_at);
        own < module.begin || own >= module.end) {
      return other_symbol(address);
    }
    const SymbolTable& table = table_of(module.file);
    ETUDE_REQUIRE_CODE(kFailedPrecondition, !table.is_empty(),
                       "compiling ahead of time reads the names of kernels in {}, which was "
                       "stripped. Install it with its symbols: cmake --install without --strip",
                       module.file);
    ProgramSymbol out = table.find(address - module.base);
    if (!out.name.empty()) out.begin += module.base;
    return out;
  }
  return {};
}

}  // namespace etude::aot
