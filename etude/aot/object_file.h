// SPDX-License-Identifier: Apache-2.0
// Relocatable ELF files (64 bits, little-endian, any machine) and archives of them, as compilers
// and ar write them. Used by link_model.cc for files of Etude's own build: it reports faults, but
// does not detect all of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <elf.h>

namespace etude::aot {

// Members have the names of the ELF specification. Parts are read in place, so the bytes must
// outlive the object.
class ObjectFile {
 public:
  struct Section {
    Elf64_Shdr head;
    std::string_view name;
    std::string_view bytes;  // empty for a section of zeros
    std::vector<Elf64_Rela> relocations;
  };
  struct Symbol {
    Elf64_Sym entry;
    std::string_view name;
    bool is_defined() const { return entry.st_shndx != SHN_UNDEF; }
    unsigned type() const { return ELF64_ST_TYPE(entry.st_info); }
    unsigned binding() const { return ELF64_ST_BIND(entry.st_info); }
  };

  // throws: kDataLoss, naming the file, for bytes that are not such a file.
  ObjectFile(std::string name, std::string_view bytes);

  const std::string& name() const { return name_; }
  uint16_t machine() const { return machine_; }
  uint32_t flags() const { return flags_; }
  const std::vector<Section>& sections() const { return sections_; }
  const std::vector<Symbol>& symbols() const { return symbols_; }

 private:
  std::string name_;
  uint16_t machine_ = 0;
  uint32_t flags_ = 0;
  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;
};

// The relocatable files in an archive, in its order.
//
// throws: kDataLoss, naming `file`, for bytes that are not an archive.
std::vector<ObjectFile> read_archive(const std::string& file, std::string_view bytes);

}  // namespace etude::aot
