// SPDX-License-Identifier: Apache-2.0
// For tests: a small object file of the kind that load_object.h links, made by hand. Its function
// writes fmaf(c, c, c) to its first argument, with a constant c in a section of its own.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <elf.h>

namespace etude::codegen {

inline constexpr float kTestConstant = 1.5F;

class TestObject {
 public:
  enum Section { kNone, kText, kConstants, kRelocations, kSymbols, kNames, kSections };
  enum Symbol { kNull, kFile, kConstant, kEntry, kImport, kSymbolCount };

  TestObject() {
    // push rdi; movss xmm0, c; movaps xmm1, xmm0; movaps xmm2, xmm0; call fmaf; pop rdi;
    // movss [rdi], xmm0; ret
    static constexpr unsigned char kCode[] = {0x57, 0xf3, 0x0f, 0x10, 0x05, 0,    0,    0,   0,
                                              0x0f, 0x28, 0xc8, 0x0f, 0x28, 0xd0, 0xe8, 0,   0,
                                              0,    0,    0x5f, 0xf3, 0x0f, 0x11, 0x07, 0xc3};
    add(kText, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, text(kCode), 16);
    add(kConstants, SHT_PROGBITS, SHF_ALLOC | SHF_MERGE, text(kTestConstant), 4);
    const Elf64_Rela relocations[] = {{5, ELF64_R_INFO(uint64_t{kConstant}, R_X86_64_PC32), -4},
                                      {16, ELF64_R_INFO(uint64_t{kImport}, R_X86_64_PLT32), -4}};
    add(kRelocations, SHT_RELA, SHF_INFO_LINK, text(relocations), 8);
    sections[kRelocations].sh_link = kSymbols;
    sections[kRelocations].sh_info = kText;
    sections[kRelocations].sh_entsize = sizeof(Elf64_Rela);
    Elf64_Sym symbols[kSymbolCount] = {};
    symbols[kFile] = {1, ELF64_ST_INFO(STB_LOCAL, STT_FILE), 0, SHN_ABS, 0, 0};
    symbols[kConstant] = {0, ELF64_ST_INFO(STB_LOCAL, STT_NOTYPE), 0, kConstants, 0, 0};
    symbols[kEntry] = {6, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, kText, 0, sizeof kCode};
    symbols[kImport] = {19, ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE), 0, SHN_UNDEF, 0, 0};
    add(kSymbols, SHT_SYMTAB, 0, text(symbols), 8);
    sections[kSymbols].sh_link = kNames;
    sections[kSymbols].sh_entsize = sizeof(Elf64_Sym);
    add(kNames, SHT_STRTAB, 0, std::string_view("\0file\0etude_kernel\0fmaf\0", 24), 1);
    std::memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_ident[EI_DATA] = ELFDATA2LSB;
    head.e_ident[EI_VERSION] = EV_CURRENT;
    head.e_type = ET_REL;
    head.e_machine = EM_X86_64;
    head.e_version = EV_CURRENT;
    head.e_ehsize = sizeof head;
    head.e_shentsize = sizeof(Elf64_Shdr);
    head.e_shnum = kSections;
    head.e_shoff = sizeof head + body.size();
  }

  // The file, with the changes made to the fields below.
  std::string bytes() const { return std::string(text(head)) + body + std::string(text(sections)); }

  template <class T>
  T part(Section section, std::size_t index) const {
    T out;
    std::memcpy(&out, body.data() + place(section, index * sizeof(T)), sizeof out);
    return out;
  }
  template <class T>
  void set_part(Section section, std::size_t index, const T& value) {
    std::memcpy(body.data() + place(section, index * sizeof(T)), &value, sizeof value);
  }

  Elf64_Ehdr head{};
  Elf64_Shdr sections[kSections] = {};
  std::string body;  // of the sections

 private:
  template <class T>
  static std::string_view text(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }
  std::size_t place(Section section, std::size_t offset) const {
    return sections[section].sh_offset - sizeof head + offset;
  }
  void add(Section section, uint32_t type, uint64_t flags, std::string_view bytes,
           std::size_t align) {
    body.resize((body.size() + 7) / 8 * 8);
    sections[section].sh_type = type;
    sections[section].sh_flags = flags;
    sections[section].sh_offset = sizeof head + body.size();
    sections[section].sh_size = bytes.size();
    sections[section].sh_addralign = align;
    body += bytes;
  }
};

}  // namespace etude::codegen
