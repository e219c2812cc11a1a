// SPDX-License-Identifier: Apache-2.0
// Names and numbers follow the ELF specification and the x86-64 psABI.
#include "etude/codegen/load_object.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <elf.h>
#include <sys/mman.h>

#include "etude/base/check.h"
#include "etude/codegen/code_names.h"
#include "etude/codegen/request.h"

namespace etude::codegen {
namespace {

constexpr std::size_t kMostMemory = std::size_t{64} << 20;  // of one object file
constexpr std::size_t kMostAlignment = 4096;
// A jump to an address that is stored after it: functions of the library may be further away than
// the reach of a call.
constexpr unsigned char kJump[8] = {0xff, 0x25, 0x02, 0, 0, 0, 0x0f, 0x0b};  // jmp [rip+2]; ud2
constexpr std::size_t kJumpBytes = sizeof kJump + sizeof(uint64_t);

#define ETUDE_OBJECT_REQUIRE(condition, ...) \
  ETUDE_REQUIRE_CODE(kDataLoss, condition, "generated code is damaged: " __VA_ARGS__)

// All that generated code may call. A fused product has no instruction on machines without FMA.
struct Import {
  std::string name;
  uint64_t address;
};
const std::vector<Import>& imports() {
  static const auto* const all = [] {
    const auto address_of = [](auto* f) { return std::bit_cast<uint64_t>(f); };
    auto* const out = new std::vector<Import>;
    out->push_back({"fmaf", address_of(static_cast<float (*)(float, float, float)>(&::fmaf))});
    for (int k = 0; k <= static_cast<int>(internal::best_isa()); ++k) {
      const auto isa = static_cast<internal::Isa>(k);
      const internal::LargeAngles& angles = internal::large_angles(isa);
      out->push_back({sin_large_name(isa), address_of(angles.sin)});
      out->push_back({tan_large_name(isa), address_of(angles.tan)});
    }
    return out;
  }();
  return *all;
}

// A part of a file, or of memory. Reads outside of it are refused.
class ObjectReader {
 public:
  explicit ObjectReader(std::string_view bytes) : bytes_(bytes) {}

  std::size_t size() const { return bytes_.size(); }
  template <class T>
  T at(uint64_t offset) const {
    ETUDE_OBJECT_REQUIRE(offset <= size() && sizeof(T) <= size() - offset,
                         "it ends at byte {}, before byte {}", size(), offset + sizeof(T));
    T out;
    std::memcpy(&out, bytes_.data() + offset, sizeof out);
    return out;
  }
  ObjectReader part(uint64_t offset, uint64_t count) const {
    ETUDE_OBJECT_REQUIRE(offset <= size() && count <= size() - offset,
                         "it has {} bytes, of which {} from byte {} on are needed", size(), count,
                         offset);
    return ObjectReader(bytes_.substr(offset, count));
  }
  std::string_view text(uint64_t offset) const {
    const std::size_t end = offset < size() ? bytes_.find('\0', offset) : std::string_view::npos;
    ETUDE_OBJECT_REQUIRE(end != std::string_view::npos, "a name at byte {} has no end", offset);
    return bytes_.substr(offset, end - offset);
  }
  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
};

constexpr std::size_t kNotLoaded = std::numeric_limits<std::size_t>::max();

struct Section {
  Elf64_Shdr head;
  std::size_t place = kNotLoaded;  // in memory
  bool is_code() const { return (head.sh_flags & SHF_EXECINSTR) != 0; }
};

// The content of a file, and the places of its parts in memory: sections, then jumps.
class Object {
 public:
  explicit Object(std::string_view bytes) : file_(bytes) {
    read_sections();
    read_symbols();
    place_sections();
    for (const Section& section : sections_) {
      if (section.head.sh_type == SHT_RELA) read_relocations(section);
    }
    find_entry();
  }

  std::size_t memory() const { return jumps_place_ + jumps_.size() * kJumpBytes; }
  std::size_t entry() const { return entry_; }

  // All of it, for memory of zeros.
  void write(char* to) const {
    for (const Section& section : sections_) {
      if (section.place == kNotLoaded) continue;
      const auto bytes = file_.part(section.head.sh_offset, section.head.sh_size).bytes();
      std::copy(bytes.begin(), bytes.end(), to + section.place);
    }
    for (std::size_t k = 0; k < jumps_.size(); ++k) {
      char* const at = to + jumps_place_ + k * kJumpBytes;
      std::memcpy(at, kJump, sizeof kJump);
      std::memcpy(at + sizeof kJump, &jumps_[k], sizeof jumps_[k]);
    }
    for (const Patch& patch : patches_) std::memcpy(to + patch.place, &patch.distance, 4);
  }

  // The file with the addresses that its sections have in memory.
  std::string placed_at(const char* memory) const {
    std::string out(file_.bytes());
    const auto first = file_.at<Elf64_Ehdr>(0).e_shoff;
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      if (sections_[i].place == kNotLoaded) continue;
      const auto address = reinterpret_cast<uint64_t>(memory + sections_[i].place);
      const std::size_t at = first + i * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_addr);
      std::memcpy(out.data() + at, &address, sizeof address);
    }
    return out;
  }

 private:
  struct Patch {
    std::size_t place;
    int32_t distance;
  };

  void read_sections() {
    const auto head = file_.at<Elf64_Ehdr>(0);
    ETUDE_OBJECT_REQUIRE(std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0, "it is no ELF file");
    ETUDE_OBJECT_REQUIRE(
        head.e_ident[EI_CLASS] == ELFCLASS64 && head.e_ident[EI_DATA] == ELFDATA2LSB &&
            head.e_ident[EI_VERSION] == EV_CURRENT && head.e_ident[EI_OSABI] == ELFOSABI_NONE,
        "it is an ELF file of class {}, byte order {} and system {}, but must be of class 2, byte "
        "order 1 and system 0",
        head.e_ident[EI_CLASS], head.e_ident[EI_DATA], head.e_ident[EI_OSABI]);
    ETUDE_OBJECT_REQUIRE(head.e_type == ET_REL && head.e_machine == EM_X86_64,
                         "it is an ELF file of type {} for machine {}, but must be relocatable, of "
                         "type 1, for x86-64, machine 62",
                         head.e_type, head.e_machine);
    ETUDE_OBJECT_REQUIRE(head.e_shentsize == sizeof(Elf64_Shdr) && head.e_shnum > 0,
                         "it has {} sections, described by {} bytes each", head.e_shnum,
                         head.e_shentsize);
    const ObjectReader table =
        file_.part(head.e_shoff, uint64_t{head.e_shnum} * sizeof(Elf64_Shdr));
    for (uint64_t k = 0; k < head.e_shnum; ++k) {
      sections_.push_back({table.at<Elf64_Shdr>(k * sizeof(Elf64_Shdr))});
      check_section(k);
    }
  }

  void check_section(std::size_t k) const {
    const Elf64_Shdr& head = sections_[k].head;
    constexpr uint64_t kKnown = SHF_ALLOC | SHF_EXECINSTR | SHF_MERGE | SHF_STRINGS | SHF_INFO_LINK;
    if (head.sh_type != SHT_NULL && head.sh_type != SHT_NOBITS) {
      file_.part(head.sh_offset, head.sh_size);
    }
    if ((head.sh_flags & SHF_ALLOC) == 0) return;
    ETUDE_OBJECT_REQUIRE(head.sh_type == SHT_PROGBITS && (head.sh_flags & ~kKnown) == 0,
                         "section {} is of type {} with flags {:x}; code and constants alone are "
                         "linked",
                         k, head.sh_type, head.sh_flags);
    ETUDE_OBJECT_REQUIRE(
        head.sh_addralign <= kMostAlignment && (head.sh_addralign & (head.sh_addralign - 1)) == 0,
        "section {} is aligned to {} bytes", k, head.sh_addralign);
  }

  void read_symbols() {
    for (const Section& section : sections_) {
      const Elf64_Shdr& head = section.head;
      if (head.sh_type != SHT_SYMTAB) continue;
      ETUDE_OBJECT_REQUIRE(symbol_table_ == 0, "it has two tables of symbols");
      ETUDE_OBJECT_REQUIRE(
          head.sh_entsize == sizeof(Elf64_Sym) && head.sh_link < sections_.size() &&
              sections_[head.sh_link].head.sh_type == SHT_STRTAB,
          "its symbols are of {} bytes, with names in section {}", head.sh_entsize, head.sh_link);
      symbol_table_ = static_cast<std::size_t>(&section - sections_.data());
      const Elf64_Shdr& names = sections_[head.sh_link].head;
      names_ = file_.part(names.sh_offset, names.sh_size);
      const ObjectReader table = file_.part(head.sh_offset, head.sh_size);
      for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.size(); at += sizeof(Elf64_Sym)) {
        symbols_.push_back(table.at<Elf64_Sym>(at));
      }
    }
  }

  void place_sections() {
    // clang's check of calls through pointers (-fsanitize=function) reads before a function.
    std::size_t end = 16;
    for (Section& section : sections_) {
      const Elf64_Shdr& head = section.head;
      if ((head.sh_flags & SHF_ALLOC) == 0) continue;
      const std::size_t align = std::max<std::size_t>(head.sh_addralign, 1);
      end = (end + align - 1) / align * align;
      section.place = end;
      end += head.sh_size;  // part of the file, so that no sum of them goes over 64 bits
      ETUDE_OBJECT_REQUIRE(end <= kMostMemory, "it needs {} bytes, but {} are taken", end,
                           kMostMemory);
    }
    jumps_place_ = (end + kJumpBytes - 1) / kJumpBytes * kJumpBytes;
  }

  void read_relocations(const Section& section) {
    const Elf64_Shdr& head = section.head;
    ETUDE_OBJECT_REQUIRE(head.sh_info < sections_.size(), "it relocates section {} of {}",
                         head.sh_info, sections_.size());
    const Section& target = sections_[head.sh_info];
    if (target.place == kNotLoaded) return;
    ETUDE_OBJECT_REQUIRE(head.sh_entsize == sizeof(Elf64_Rela) && symbol_table_ != 0 &&
                             head.sh_link == symbol_table_,
                         "its relocations are of {} bytes, of symbols in section {}",
                         head.sh_entsize, head.sh_link);
    const ObjectReader table = file_.part(head.sh_offset, head.sh_size);
    for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= table.size(); at += sizeof(Elf64_Rela)) {
      relocate(table.at<Elf64_Rela>(at), target);
    }
  }

  void relocate(const Elf64_Rela& item, const Section& section) {
    const uint64_t type = ELF64_R_TYPE(item.r_info), number = ELF64_R_SYM(item.r_info);
    ETUDE_OBJECT_REQUIRE(
        type == R_X86_64_PC32 || type == R_X86_64_PLT32,
        "it has a relocation of type {}; distances of 32 bits, 2 and 4, are linked", type);
    const uint64_t size = section.head.sh_size;
    ETUDE_OBJECT_REQUIRE(size >= 4 && item.r_offset <= size - 4,
                         "it relocates byte {} of a section of {}", item.r_offset, size);
    ETUDE_OBJECT_REQUIRE(number < symbols_.size(), "it names symbol {} of {}", number,
                         symbols_.size());
    const Elf64_Sym& symbol = symbols_[number];
    const bool is_outside = symbol.st_shndx == SHN_UNDEF;
    const std::size_t to = is_outside ? jump_to(symbol, type) : place_of(symbol);
    // It counts from the end of an instruction, which has at most 8 bytes after the distance.
    constexpr auto kFar = static_cast<int64_t>(kMostMemory);
    ETUDE_OBJECT_REQUIRE(
        is_outside ? item.r_addend == -4 : item.r_addend >= -kFar && item.r_addend <= kFar,
        "it adds {} to the place of a symbol", item.r_addend);
    const int64_t aim = static_cast<int64_t>(to) + item.r_addend;
    ETUDE_OBJECT_REQUIRE(is_outside || (aim >= -12 && aim <= static_cast<int64_t>(jumps_place_)),
                         "it reaches byte {} of {}", aim, jumps_place_);
    const std::size_t place = section.place + item.r_offset;
    patches_.push_back({place, static_cast<int32_t>(aim - static_cast<int64_t>(place))});
  }

  // The place of a symbol of this file.
  std::size_t place_of(const Elf64_Sym& symbol) const {
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    ETUDE_OBJECT_REQUIRE(type <= STT_SECTION, "it uses a symbol of type {}", type);
    ETUDE_OBJECT_REQUIRE(
        symbol.st_shndx < sections_.size() && sections_[symbol.st_shndx].place != kNotLoaded,
        "it uses a symbol of section {}, which is not loaded", symbol.st_shndx);
    const Section& section = sections_[symbol.st_shndx];
    ETUDE_OBJECT_REQUIRE(symbol.st_value <= section.head.sh_size,
                         "a symbol is byte {} of a section of {}", symbol.st_value,
                         section.head.sh_size);
    return section.place + symbol.st_value;
  }

  // The place of the jump to a function of the library.
  std::size_t jump_to(const Elf64_Sym& symbol, uint64_t type) {
    const std::string_view name = names_.text(symbol.st_name);
    const auto known = std::ranges::find(imports(), name, &Import::name);
    ETUDE_OBJECT_REQUIRE(known != imports().end() && type == R_X86_64_PLT32,
                         "it needs '{}', which code may not call", name);
    auto jump = std::ranges::find(jumps_, known->address);
    if (jump == jumps_.end()) jump = jumps_.insert(jumps_.end(), known->address);
    return jumps_place_ + static_cast<std::size_t>(jump - jumps_.begin()) * kJumpBytes;
  }

  void find_entry() {
    std::optional<std::size_t> found;
    for (const Elf64_Sym& symbol : symbols_) {
      if (ELF64_ST_BIND(symbol.st_info) != STB_GLOBAL || symbol.st_shndx == SHN_UNDEF) continue;
      ETUDE_OBJECT_REQUIRE(!found.has_value() && names_.text(symbol.st_name) == kKernelName &&
                               ELF64_ST_TYPE(symbol.st_info) == STT_FUNC,
                           "it shows '{}'; a function {} alone is needed",
                           names_.text(symbol.st_name), kKernelName);
      found = place_of(symbol);
      const Section& section = sections_[symbol.st_shndx];
      ETUDE_OBJECT_REQUIRE(section.is_code() && symbol.st_value < section.head.sh_size,
                           "{} is no code", kKernelName);
    }
    ETUDE_OBJECT_REQUIRE(found.has_value(), "it has no function {}", kKernelName);
    entry_ = *found;
  }

  ObjectReader file_;
  std::vector<Section> sections_;
  std::size_t symbol_table_ = 0;
  ObjectReader names_{""};
  std::vector<Elf64_Sym> symbols_;
  std::vector<uint64_t> jumps_;  // addresses
  std::size_t jumps_place_ = 0;
  std::vector<Patch> patches_;
  std::size_t entry_ = 0;
};

// Constants and code are in one piece of memory, which the kernel of the system joins to its
// neighbours: a process may have only 65,530 pieces.
class LoadedCode : public Code {
 public:
  LoadedCode(std::string_view bytes, std::string_view name) : object_bytes_(bytes.size()) {
    const Object object(bytes);
    size_ = object.memory();
    void* const memory =
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ETUDE_REQUIRE_CODE(kResourceExhausted, memory != MAP_FAILED,
                       "the host has no {} bytes of memory left for code", size_);
    memory_ = static_cast<char*>(memory);
    object.write(memory_);
    if (::mprotect(memory_, size_, PROT_READ | PROT_EXEC) != 0) {
      ::munmap(memory_, size_);
      ETUDE_THROW(kResourceExhausted, "the host lets no memory be run as code");
    }
    entry_ = memory_ + object.entry();
    shown_ = show_code(memory_, size_, name, shows_code_to_gdb() ? object.placed_at(memory_) : "");
  }
  ~LoadedCode() override {
    shown_.reset();
    ::munmap(memory_, size_);
  }
  void* entry() const override { return entry_; }
  std::size_t object_bytes() const override { return object_bytes_; }

 private:
  std::size_t object_bytes_;
  std::size_t size_ = 0;
  char* memory_ = nullptr;
  void* entry_ = nullptr;
  std::unique_ptr<ShownCode> shown_;
};

}  // namespace

std::shared_ptr<const Code> load_object(std::string_view object, std::string_view name) {
  return std::make_shared<LoadedCode>(object, fmt::format("{} {}", kKernelName, name));
}

const void* imported_function(std::string_view name) {
  const auto known = std::ranges::find(imports(), name, &Import::name);
  return known == imports().end() ? nullptr : std::bit_cast<const void*>(known->address);
}

}  // namespace etude::codegen
