// SPDX-License-Identifier: Apache-2.0
// Makes one relocatable file of what a model needs and of nothing else: functions and constants of
// archives, taken section by section with all that they refer to, object files of generated code,
// and data. No linker is needed for it, and relocations stay as they are, so that machines differ
// in one number.
//
// All symbols of the file are local but those that show() names: models do not meet in a program.
// What the archives lack and libc, libm and libgcc have stays undefined; anything else is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "etude/aot/object_file.h"

namespace etude::aot {

// A place in the file that is made.
struct LinkTarget {
  std::size_t section = 0;  // of the linker; 0: none
  uint64_t offset = 0;
  bool is_known() const { return section != 0; }
};

// A name of the linker as it is written in C++.
std::string readable(const std::string& name);

// confined to one thread. Archives and objects that are given outlive it.
class ModelLinker {
 public:
  // Archives in the order in which they are searched. Functions whose names say that they are for
  // an instruction set among `left_out` (as "avx512") are not taken: calls of them abort.
  explicit ModelLinker(std::vector<const std::vector<ObjectFile>*> archives,
                       std::vector<std::string> left_out = {});

  // The function of this name; `source` is the name of its source ("conv.cc"), for names that
  // several have. Unknown: there is none, or several.
  LinkTarget find(std::string_view name, std::string_view source);
  // All of an object file of generated code: where its symbol `name` is. `import` says where what
  // it calls is; what that does not know is searched as above.
  LinkTarget add_object(const ObjectFile& object, std::string_view name,
                        const std::map<std::string, LinkTarget, std::less<>>& imports);

  // A copy of a function of the archives of its own, for which some of what it refers to is
  // another.
  LinkTarget copy(std::string_view function,
                  const std::map<std::string, LinkTarget, std::less<>>& imports);

  // Data that may be written to, or may not, in the section of this name; what it points to by
  // point(). Its place there is aligned.
  LinkTarget add_data(const std::string& name, std::string_view bytes, uint64_t alignment,
                      bool is_writable);
  void point(LinkTarget from, LinkTarget to, int64_t addend = 0);
  void clear(LinkTarget at);  // a null pointer

  // All that what was taken refers to, so that what is missing is told now.
  //
  // throws: kUnimplemented, naming what is missing and what needs it; return_to() is then needed.
  void take_all();
  // All is as it was at the mark, before which take_all() was called.
  struct Mark {
    std::size_t sections = 0, symbols = 0;
    // Of what lies in sections that grow: bytes and relocations.
    std::map<std::size_t, std::pair<std::size_t, std::size_t>> grown;
    bool is_behind(LinkTarget target) const;  // added after it
  };
  Mark mark() const;
  void return_to(const Mark& mark);

  // A global symbol of the file.
  void show(const std::string& name, LinkTarget target, bool is_function);

  // throws: as take_all().
  std::string finish();

 private:
  struct Reloc {
    uint64_t offset;
    uint32_t type;
    int64_t addend;
    uint32_t symbol;  // of symbols_
  };
  struct Section {
    std::string name;
    Elf64_Shdr head{};
    std::string bytes;
    std::vector<Reloc> relocations;
    const ObjectFile* object = nullptr;
    std::size_t index = 0;    // in it
    std::size_t imports = 0;  // of imports_; 0: none
  };
  struct Symbol {
    std::string name;
    LinkTarget target;  // unknown: undefined in the file
    unsigned type = STT_NOTYPE;
    bool is_global = false;
    bool is_weak = false;
  };
  struct Definition {
    const ObjectFile* object = nullptr;
    const ObjectFile::Symbol* symbol = nullptr;
  };
  using Imports = std::map<std::string, LinkTarget, std::less<>>;

  const Definition* definition(std::string_view name) const;
  std::size_t take(const ObjectFile& object, std::size_t section);
  std::size_t add(const ObjectFile& object, std::size_t section);
  void take_references(std::size_t section);
  void take_initialisers();
  bool writes_what_is_taken(const ObjectFile& object, const ObjectFile::Section& list) const;
  uint32_t symbol_of(const ObjectFile& object, uint32_t number, std::size_t imports);
  uint32_t resolve(const std::string& name, const ObjectFile& from, bool is_weak);
  uint32_t add_symbol(Symbol symbol);
  bool is_left_out(std::string_view name) const;
  bool is_code_left_out(const ObjectFile& object, const ObjectFile::Symbol& symbol) const;
  struct SymbolTable {
    std::string bytes, names;
    std::vector<uint32_t> numbers;  // by symbol
    uint32_t locals = 1;            // the first one is none
  };
  SymbolTable write_symbols() const;
  std::string write() const;

  std::vector<const std::vector<ObjectFile>*> archives_;
  std::vector<std::string> left_out_;
  std::unordered_map<std::string_view, std::vector<Definition>> by_name_;  // globals first
  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;
  std::map<std::pair<const ObjectFile*, std::size_t>, std::size_t> taken_;
  std::map<std::pair<const ObjectFile*, uint32_t>, uint32_t> symbol_numbers_;
  std::map<std::string, uint32_t> by_resolved_name_;
  std::vector<Imports> imports_;
  std::map<const ObjectFile*, std::size_t> imports_of_;
  std::map<std::string, std::size_t> data_;  // sections, by name
  std::vector<std::size_t> waiting_;         // sections whose references are not taken yet
  uint16_t machine_ = EM_X86_64;
  uint32_t flags_ = 0;
};

}  // namespace etude::aot
