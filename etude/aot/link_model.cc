// SPDX-License-Identifier: Apache-2.0
#include "etude/aot/link_model.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <cxxabi.h>
#include <dlfcn.h>

#include "etude/aot/model.h"
#include "etude/base/check.h"

namespace etude::aot {
namespace {

// Whether a program in C has it: of the libraries that the C compiler links anyway, and libm.
bool is_in_c(const std::string& name) {
  // C++ exceptions are not supported, although libgcc has their unwinder.
  if (name.starts_with("_Unwind")) return false;
  if (name == "_GLOBAL_OFFSET_TABLE_" || name == "__dso_handle" || name == "__tls_get_addr" ||
      name.starts_with("__aarch64_") || name.starts_with("__cpu_")) {  // of libgcc.a alone
    return true;
  }
  static void* const libraries[] = {::dlopen("libc.so.6", RTLD_LAZY),
                                    ::dlopen("libm.so.6", RTLD_LAZY),
                                    ::dlopen("libgcc_s.so.1", RTLD_LAZY)};
  return std::ranges::any_of(libraries, [&](void* library) {
    return library != nullptr && ::dlsym(library, name.c_str()) != nullptr;
  });
}

}  // namespace

std::string readable(const std::string& name) {
  int failed = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &failed);
  std::string out = text == nullptr ? name : text;
  std::free(text);
  return out;
}

ModelLinker::ModelLinker(std::vector<const std::vector<ObjectFile>*> archives,
                         std::vector<std::string> left_out)
    : archives_(std::move(archives)), left_out_(std::move(left_out)) {
  imports_.emplace_back();
  sections_.emplace_back();
  symbols_.emplace_back();
  for (const auto* archive : archives_) {
    for (const ObjectFile& object : *archive) {
      machine_ = object.machine();
      flags_ = object.flags();
      for (const ObjectFile::Symbol& symbol : object.symbols()) {
        if (!symbol.is_defined() || symbol.name.empty() || symbol.type() == STT_SECTION ||
            symbol.type() == STT_FILE || symbol.entry.st_shndx >= SHN_LORESERVE) {
          continue;
        }
        by_name_[symbol.name].push_back({&object, &symbol});
      }
    }
  }
}

bool ModelLinker::is_left_out(std::string_view name) const {
  return std::ranges::any_of(left_out_, [&](const std::string& isa) {
    // As a part of a mangled name has its length in front.
    return name.find(fmt::format("{}{}", isa.size(), isa)) != std::string_view::npos;
  });
}

// Of a function of this file alone, which relocations may name by its section.
bool ModelLinker::is_code_left_out(const ObjectFile& object,
                                   const ObjectFile::Symbol& symbol) const {
  if (symbol.entry.st_shndx >= object.sections().size()) return false;
  const ObjectFile::Section& section = object.sections()[symbol.entry.st_shndx];
  return (section.head.sh_flags & SHF_EXECINSTR) != 0 &&
         is_left_out(symbol.type() == STT_SECTION ? section.name : symbol.name);
}

LinkTarget ModelLinker::find(std::string_view name, std::string_view source) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return {};
  const Definition* chosen = nullptr;
  int fitting = 0;
  for (const Definition& each : found->second) {
    const bool is_local = each.symbol->binding() == STB_LOCAL;
    if (is_local && each.object->name() != std::string(source) + ".o") continue;
    if (chosen == nullptr) chosen = &each;
    fitting += is_local ? 1 : 0;
  }
  if (chosen == nullptr || fitting > 1) return {};
  return {take(*chosen->object, chosen->symbol->entry.st_shndx), chosen->symbol->entry.st_value};
}

LinkTarget ModelLinker::add_object(const ObjectFile& object, std::string_view name,
                                   const Imports& imports) {
  imports_.push_back(imports);
  imports_of_[&object] = imports_.size() - 1;
  LinkTarget out;
  for (const ObjectFile::Symbol& symbol : object.symbols()) {
    if (symbol.name != name || symbol.type() != STT_FUNC || !symbol.is_defined()) continue;
    out = {take(object, symbol.entry.st_shndx), symbol.entry.st_value};
  }
  ETUDE_CHECK(out.is_known(), "generated code has no function {}", name);
  return out;
}

LinkTarget ModelLinker::copy(std::string_view function, const Imports& imports) {
  const Definition* const found = definition(function);
  ETUDE_CHECK(found != nullptr, "the archive of kernels has no function {}", function);
  imports_.push_back(imports);
  const std::size_t section = add(*found->object, found->symbol->entry.st_shndx);
  sections_[section].imports = imports_.size() - 1;
  return {section, found->symbol->entry.st_value};
}

const ModelLinker::Definition* ModelLinker::definition(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return nullptr;
  const auto open = std::ranges::find_if(
      found->second, [](const Definition& each) { return each.symbol->binding() != STB_LOCAL; });
  return open == found->second.end() ? nullptr : &*open;
}

std::size_t ModelLinker::take(const ObjectFile& object, std::size_t section) {
  const auto known = taken_.find({&object, section});
  if (known != taken_.end()) return known->second;
  return taken_[{&object, section}] = add(object, section);
}

std::size_t ModelLinker::add(const ObjectFile& object, std::size_t section) {
  const ObjectFile::Section& from = object.sections()[section];
  Section to;
  to.name = from.name;
  to.head = from.head;
  to.head.sh_flags &= ~static_cast<uint64_t>(SHF_GROUP);
  to.bytes = from.bytes;
  to.object = &object;
  to.index = section;
  if (const auto own = imports_of_.find(&object); own != imports_of_.end()) {
    to.imports = own->second;
  }
  sections_.push_back(std::move(to));
  waiting_.push_back(sections_.size() - 1);
  return sections_.size() - 1;
}

void ModelLinker::take_references(std::size_t section) {
  const ObjectFile* const object = sections_[section].object;
  if (object == nullptr) return;
  for (const Elf64_Rela& each : object->sections()[sections_[section].index].relocations) {
    const uint32_t symbol = symbol_of(*object, static_cast<uint32_t>(ELF64_R_SYM(each.r_info)),
                                      sections_[section].imports);
    sections_[section].relocations.push_back(
        {each.r_offset, static_cast<uint32_t>(ELF64_R_TYPE(each.r_info)), each.r_addend, symbol});
  }
}

uint32_t ModelLinker::add_symbol(Symbol symbol) {
  symbols_.push_back(std::move(symbol));
  return static_cast<uint32_t>(symbols_.size() - 1);
}

uint32_t ModelLinker::symbol_of(const ObjectFile& object, uint32_t number, std::size_t imports) {
  if (number == 0) return 0;
  const auto imported = imports_[imports].find(object.symbols()[number].name);
  if (imported != imports_[imports].end()) {
    return add_symbol({imported->first, imported->second, STT_NOTYPE});
  }
  if (const auto known = symbol_numbers_.find({&object, number}); known != symbol_numbers_.end()) {
    return known->second;
  }
  const ObjectFile::Symbol& symbol = object.symbols()[number];
  uint32_t out = 0;
  const bool is_open = symbol.binding() != STB_LOCAL;
  if (is_open && symbol.type() != STT_SECTION) {
    // Also where this file has it: another one may come first, as support.cc does.
    out = resolve(std::string(symbol.name), object, symbol.binding() == STB_WEAK);
  } else if (is_code_left_out(object, symbol)) {
    out = resolve(kLeftOutName, object, false);
  } else {
    out = add_symbol({std::string(symbol.name),
                      {take(object, symbol.entry.st_shndx), symbol.entry.st_value},
                      symbol.type()});
  }
  symbol_numbers_[{&object, number}] = out;
  return out;
}

uint32_t ModelLinker::resolve(const std::string& name, const ObjectFile& from, bool is_weak) {
  if (const auto known = by_resolved_name_.find(name); known != by_resolved_name_.end()) {
    return known->second;
  }
  uint32_t out = 0;
  const Definition* const chosen = definition(name);
  // Of the types of exceptions, which nothing here catches.
  const bool is_about_types = name.starts_with("_ZTI") || name.starts_with("_ZTV");
  if (is_about_types) {
    out = add_symbol({name, add_data(".rodata.types", std::string(64, '\0'), 8, false)});
  } else if (is_left_out(name)) {
    out = resolve(kLeftOutName, from, false);
  } else if (chosen != nullptr) {
    out = add_symbol(
        {name,
         {take(*chosen->object, chosen->symbol->entry.st_shndx), chosen->symbol->entry.st_value},
         chosen->symbol->type()});
  } else {
    ETUDE_REQUIRE_CODE(kUnimplemented, is_weak || is_in_c(name),
                       "'{}' needs '{}', which neither the archive of kernels nor a program in C "
                       "has",
                       from.name(), readable(name));
    out = add_symbol({name, {}, STT_NOTYPE, true, is_weak});
  }
  by_resolved_name_[name] = out;
  return out;
}

LinkTarget ModelLinker::add_data(const std::string& name, std::string_view bytes,
                                 uint64_t alignment, bool is_writable) {
  const auto [known, is_new] = data_.try_emplace(name, sections_.size());
  if (is_new) {
    Section& made = sections_.emplace_back();
    made.name = name;
    made.head.sh_type = SHT_PROGBITS;
    made.head.sh_flags = SHF_ALLOC | (is_writable ? uint64_t{SHF_WRITE} : 0);
  }
  Section& to = sections_[known->second];
  to.head.sh_addralign = std::max(to.head.sh_addralign, alignment);
  const uint64_t at = (to.bytes.size() + alignment - 1) / alignment * alignment;
  to.bytes.resize(at);
  to.bytes += bytes;
  return {known->second, at};
}

void ModelLinker::point(LinkTarget from, LinkTarget to, int64_t addend) {
  clear(from);
  const uint32_t absolute = machine_ == EM_AARCH64 ? R_AARCH64_ABS64 : R_X86_64_64;
  // Of the section: its own symbol is made with the first pointer to it.
  const auto [at, is_new] = by_resolved_name_.try_emplace(fmt::format("section {}", to.section), 0);
  if (is_new) at->second = add_symbol({"", {to.section, 0}, STT_SECTION});
  sections_[from.section].relocations.push_back(
      {from.offset, absolute, static_cast<int64_t>(to.offset) + addend, at->second});
}

void ModelLinker::clear(LinkTarget at) {
  sections_[at.section].bytes.replace(at.offset, sizeof(uint64_t), sizeof(uint64_t), '\0');
}

void ModelLinker::show(const std::string& name, LinkTarget target, bool is_function) {
  add_symbol({name, target, is_function ? unsigned{STT_FUNC} : unsigned{STT_OBJECT}, true});
}

// A variable with a constructor is zeros until the function of its file that makes it has run.
bool ModelLinker::writes_what_is_taken(const ObjectFile& object,
                                       const ObjectFile::Section& list) const {
  const auto is_taken_variable = [&](const Elf64_Rela& each) {
    const ObjectFile::Symbol& symbol = object.symbols()[ELF64_R_SYM(each.r_info)];
    const auto taken = taken_.find({&object, symbol.entry.st_shndx});
    if (taken == taken_.end()) return false;
    const uint64_t flags = sections_[taken->second].head.sh_flags;
    return (flags & SHF_WRITE) != 0 && (flags & SHF_TLS) == 0;
  };
  return std::ranges::any_of(list.relocations, [&](const Elf64_Rela& each) {
    const ObjectFile::Symbol& made_by = object.symbols()[ELF64_R_SYM(each.r_info)];
    if (made_by.entry.st_shndx >= object.sections().size()) return false;
    return std::ranges::any_of(object.sections()[made_by.entry.st_shndx].relocations,
                               is_taken_variable);
  });
}

void ModelLinker::take_initialisers() {
  std::vector<std::pair<const ObjectFile*, std::size_t>> found;
  std::vector<const ObjectFile*> objects;
  for (const auto& [key, section] : taken_) {
    if (objects.empty() || objects.back() != key.first) objects.push_back(key.first);
  }
  for (const ObjectFile* object : objects) {
    for (std::size_t i = 0; i < object->sections().size(); ++i) {
      const ObjectFile::Section& section = object->sections()[i];
      if (section.head.sh_type == SHT_INIT_ARRAY && !taken_.contains({object, i}) &&
          writes_what_is_taken(*object, section)) {
        found.emplace_back(object, i);
      }
    }
  }
  for (const auto& [object, section] : found) take(*object, section);
}

void ModelLinker::take_all() {
  while (!waiting_.empty()) {
    const std::size_t section = waiting_.back();
    waiting_.pop_back();
    take_references(section);
  }
}

bool ModelLinker::Mark::is_behind(LinkTarget target) const {
  const auto at = grown.find(target.section);
  return target.section >= sections || (at != grown.end() && target.offset >= at->second.first);
}

ModelLinker::Mark ModelLinker::mark() const {
  Mark out{sections_.size(), symbols_.size(), {}};
  for (const auto& [name, section] : data_) {
    out.grown[section] = {sections_[section].bytes.size(), sections_[section].relocations.size()};
  }
  return out;
}

void ModelLinker::return_to(const Mark& mark) {
  waiting_.clear();
  for (const auto& [section, sizes] : mark.grown) {
    sections_[section].bytes.resize(sizes.first);
    sections_[section].relocations.resize(sizes.second);
  }
  sections_.resize(mark.sections);
  symbols_.resize(mark.symbols);
  const auto is_gone = [&](const auto& entry) { return entry.second >= mark.symbols; };
  const auto is_section_gone = [&](const auto& entry) { return entry.second >= mark.sections; };
  std::erase_if(data_, is_section_gone);
  std::erase_if(taken_, is_section_gone);
  std::erase_if(symbol_numbers_, is_gone);
  std::erase_if(by_resolved_name_, is_gone);
}

std::string ModelLinker::finish() {
  while (!waiting_.empty()) {
    take_all();
    take_initialisers();
  }
  return write();
}

namespace {

// A string table of ELF: texts in a row, each with a final zero.
class Texts {
 public:
  uint32_t add(const std::string& text) {
    if (text.empty()) return 0;
    const auto [at, is_new] = places_.try_emplace(text, static_cast<uint32_t>(bytes_.size()));
    if (is_new) bytes_.append(text).push_back('\0');
    return at->second;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_ = std::string(1, '\0');
  std::map<std::string, uint32_t> places_;
};

template <class T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Sections at the end of a file that is written, and their heads.
class ElfWriter {
 public:
  ElfWriter() {
    file_.resize(sizeof(Elf64_Ehdr));
    heads_.push_back({});
  }

  std::size_t add(const std::string& name, Elf64_Shdr head, std::string_view bytes) {
    const uint64_t alignment = std::max<uint64_t>(head.sh_addralign, 1);
    file_.resize((file_.size() + alignment - 1) / alignment * alignment);
    head.sh_name = names_.add(name);
    head.sh_offset = file_.size();
    if (head.sh_type != SHT_NOBITS) {
      head.sh_size = bytes.size();
      file_ += bytes;
    }
    heads_.push_back(head);
    return heads_.size() - 1;
  }
  Elf64_Shdr& head(std::size_t section) { return heads_[section]; }

  std::string finish(uint16_t machine, uint32_t flags) {
    names_.add(".shstrtab");
    const std::size_t names = add(".shstrtab", {.sh_type = SHT_STRTAB}, names_.bytes());
    file_.resize((file_.size() + 7) / 8 * 8);
    Elf64_Ehdr head{};
    std::memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_ident[EI_DATA] = ELFDATA2LSB;
    head.e_ident[EI_VERSION] = EV_CURRENT;
    head.e_type = ET_REL;
    head.e_machine = machine;
    head.e_version = EV_CURRENT;
    head.e_flags = flags;
    head.e_ehsize = sizeof(Elf64_Ehdr);
    head.e_shentsize = sizeof(Elf64_Shdr);
    head.e_shoff = file_.size();
    head.e_shnum = static_cast<uint16_t>(heads_.size());
    head.e_shstrndx = static_cast<uint16_t>(names);
    std::memcpy(file_.data(), &head, sizeof head);
    for (const Elf64_Shdr& each : heads_) append(file_, each);
    return std::move(file_);
  }

 private:
  std::string file_;
  std::vector<Elf64_Shdr> heads_;
  Texts names_;
};

}  // namespace

ModelLinker::SymbolTable ModelLinker::write_symbols() const {
  // Local symbols come first.
  std::vector<uint32_t> order;
  for (const bool globals : {false, true}) {
    for (uint32_t i = 1; i < symbols_.size(); ++i) {
      if (symbols_[i].is_global == globals) order.push_back(i);
    }
  }
  Texts texts;
  SymbolTable out{std::string(sizeof(Elf64_Sym), '\0'), "",
                  std::vector<uint32_t>(symbols_.size(), 0)};
  for (const uint32_t i : order) {
    const Symbol& symbol = symbols_[i];
    out.numbers[i] = static_cast<uint32_t>(out.bytes.size() / sizeof(Elf64_Sym));
    const unsigned binding = !symbol.is_global ? STB_LOCAL : symbol.is_weak ? STB_WEAK : STB_GLOBAL;
    out.locals += symbol.is_global ? 0 : 1;
    append(out.bytes,
           Elf64_Sym{.st_name = texts.add(symbol.name),
                     .st_info = static_cast<unsigned char>(ELF64_ST_INFO(binding, symbol.type)),
                     .st_other = 0,
                     .st_shndx = static_cast<uint16_t>(symbol.target.section),
                     .st_value = symbol.target.offset,
                     .st_size = 0});
  }
  out.names = texts.bytes();
  return out;
}

std::string ModelLinker::write() const {
  ElfWriter out;
  // All sections are kept, so their numbers are unchanged; relocations and symbols follow.
  for (std::size_t i = 1; i < sections_.size(); ++i) {
    Elf64_Shdr head = sections_[i].head;
    head.sh_link = head.sh_info = 0;
    out.add(sections_[i].name, head, sections_[i].bytes);
  }
  ETUDE_REQUIRE_CODE(kUnimplemented, 2 * sections_.size() + 5 < SHN_LORESERVE,
                     "the model needs {} sections, but a file holds 65,279: compile fewer graphs "
                     "at once",
                     2 * sections_.size() + 5);
  const SymbolTable symbols = write_symbols();
  std::vector<std::size_t> relocations;
  for (std::size_t i = 1; i < sections_.size(); ++i) {
    if (sections_[i].relocations.empty()) continue;
    std::string bytes;
    for (const Reloc& each : sections_[i].relocations) {
      append(bytes, Elf64_Rela{each.offset,
                               ELF64_R_INFO(uint64_t{symbols.numbers[each.symbol]}, each.type),
                               each.addend});
    }
    relocations.push_back(out.add(".rela" + sections_[i].name,
                                  {.sh_type = SHT_RELA,
                                   .sh_flags = SHF_INFO_LINK,
                                   .sh_info = static_cast<uint32_t>(i),
                                   .sh_addralign = 8,
                                   .sh_entsize = sizeof(Elf64_Rela)},
                                  bytes));
  }
  out.add(".note.GNU-stack", {.sh_type = SHT_PROGBITS, .sh_addralign = 1}, "");
  const std::size_t strings =
      out.add(".strtab", {.sh_type = SHT_STRTAB, .sh_addralign = 1}, symbols.names);
  const std::size_t table = out.add(".symtab",
                                    {.sh_type = SHT_SYMTAB,
                                     .sh_link = static_cast<uint32_t>(strings),
                                     .sh_info = symbols.locals,
                                     .sh_addralign = 8,
                                     .sh_entsize = sizeof(Elf64_Sym)},
                                    symbols.bytes);
  for (const std::size_t each : relocations) {
    out.head(each).sh_link = static_cast<uint32_t>(table);
  }
  return out.finish(machine_, flags_);
}

}  // namespace etude::aot
