// SPDX-License-Identifier: Apache-2.0
#include "etude/aot/object_file.h"

#include <charconv>
#include <cstring>
#include <utility>

#include "etude/base/check.h"

namespace etude::aot {
namespace {

constexpr std::string_view kArchiveMagic = "!<arch>\n";

template <class T>
T read_at(const std::string& name, std::string_view bytes, uint64_t at) {
  ETUDE_REQUIRE_CODE(kDataLoss, at <= bytes.size() && sizeof(T) <= bytes.size() - at,
                     "{}: it ends at byte {}, before byte {}. Build Etude again", name,
                     bytes.size(), at + sizeof(T));
  T out;
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

std::string_view part(const std::string& name, std::string_view bytes, uint64_t at, uint64_t size) {
  ETUDE_REQUIRE_CODE(kDataLoss, at <= bytes.size() && size <= bytes.size() - at,
                     "{}: it has {} bytes, of which {} from byte {} on are needed. Build Etude "
                     "again",
                     name, bytes.size(), size, at);
  return bytes.substr(at, size);
}

std::string_view text_at(std::string_view texts, uint64_t at) {
  if (at >= texts.size()) return {};
  return texts.substr(at, texts.find('\0', at) - at);
}

}  // namespace

ObjectFile::ObjectFile(std::string name, std::string_view bytes) : name_(std::move(name)) {
  const auto head = read_at<Elf64_Ehdr>(name_, bytes, 0);
  ETUDE_REQUIRE_CODE(kDataLoss,
                     std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
                         head.e_ident[EI_CLASS] == ELFCLASS64 &&
                         head.e_ident[EI_DATA] == ELFDATA2LSB && head.e_type == ET_REL,
                     "{}: it is no relocatable ELF file of 64 bits. Build Etude again, without "
                     "link-time optimisation",
                     name_);
  machine_ = head.e_machine;
  flags_ = head.e_flags;
  for (uint64_t i = 0; i < head.e_shnum; ++i) {
    const auto section = read_at<Elf64_Shdr>(name_, bytes, head.e_shoff + i * sizeof(Elf64_Shdr));
    const bool is_empty = section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL;
    sections_.push_back(
        {section, {}, is_empty ? "" : part(name_, bytes, section.sh_offset, section.sh_size), {}});
  }
  ETUDE_REQUIRE_CODE(kDataLoss, head.e_shstrndx < sections_.size(),
                     "{}: its sections have no names. Build Etude again", name_);
  for (Section& section : sections_) {
    section.name = text_at(sections_[head.e_shstrndx].bytes, section.head.sh_name);
  }
  for (const Section& section : sections_) {
    const Elf64_Shdr& s = section.head;
    if (s.sh_type == SHT_RELA && s.sh_info < sections_.size()) {
      auto& to = sections_[s.sh_info].relocations;
      for (uint64_t at = 0; at < section.bytes.size(); at += sizeof(Elf64_Rela)) {
        to.push_back(read_at<Elf64_Rela>(name_, section.bytes, at));
      }
    } else if (s.sh_type == SHT_SYMTAB && s.sh_link < sections_.size()) {
      for (uint64_t at = 0; at < section.bytes.size(); at += sizeof(Elf64_Sym)) {
        const auto symbol = read_at<Elf64_Sym>(name_, section.bytes, at);
        symbols_.push_back({symbol, text_at(sections_[s.sh_link].bytes, symbol.st_name)});
      }
    }
  }
}

std::vector<ObjectFile> read_archive(const std::string& file, std::string_view bytes) {
  struct Head {  // of ar(5): texts padded with spaces
    char name[16], date[12], user[6], group[6], mode[8], size[10], end[2];
  };
  ETUDE_REQUIRE_CODE(kDataLoss, bytes.substr(0, kArchiveMagic.size()) == kArchiveMagic,
                     "{}: it is no archive. Build Etude again", file);
  std::vector<ObjectFile> out;
  std::string_view long_names;
  for (uint64_t at = kArchiveMagic.size(); at + sizeof(Head) <= bytes.size();) {
    const auto head = read_at<Head>(file, bytes, at);
    uint64_t size = 0;
    std::from_chars(head.size, head.size + sizeof head.size, size);
    const std::string_view content = part(file, bytes, at + sizeof(Head), size);
    at += sizeof(Head) + size + size % 2;
    std::string_view name(head.name, sizeof head.name);
    if (name.starts_with("// ")) {
      long_names = content;
      continue;
    }
    if (name.starts_with("/ ") || name.starts_with("/SYM64/")) continue;  // of symbols
    if (name[0] == '/') {
      uint64_t place = 0;
      std::from_chars(name.data() + 1, name.data() + name.size(), place);
      name = place < long_names.size() ? long_names.substr(place) : "";
    }
    name = name.substr(0, name.find('/'));
    if (content.starts_with(ELFMAG)) out.emplace_back(std::string(name), content);
  }
  return out;
}

}  // namespace etude::aot
