// SPDX-License-Identifier: Apache-2.0
// Links one relocatable file with exactly the needed parts of a model: object files of generated
// code, data, and functions and constants of archives. Sections of archives are copied with
// everything to which they refer. No system linker is needed. Relocations are copied unchanged, so
// code for another machine needs only another machine number.
//
// All symbols of the file are local except the symbols of show(), so that models in one program do
// not conflict. Symbols of libc, libm and libgcc remain undefined; any other symbol that the
// archives lack is an error.
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

// A location in the output file.
struct LinkTarget {
  std::size_t section = 0;  // of the linker; 0: none
  uint64_t offset = 0;
  bool is_known() const { return section != 0; }
};

// The C++ spelling of a linker name (demangled).
std::string readable(const std::string& name);

// The archives and objects must outlive this object.
// threads: confined to one thread.
class ModelLinker {
 public:
  // `archives` are searched in order. Functions whose names include an instruction set in
  // `left_out` (such as "avx512") are omitted; calls of them abort.
  explicit ModelLinker(std::vector<const std::vector<ObjectFile>*> archives,
                       std::vector<std::string> left_out = {});

  // Finds the function with this name. `source` is the name of its source file ("conv.cc"), which
  // distinguishes functions with equal names. Unknown if there is no such function, or several.
  LinkTarget find(std::string_view name, std::string_view source);
  // Adds a whole object file of generated code; returns the location of its symbol `name`.
  // `imports` has the locations of the functions that it calls; other names are searched as above.
  LinkTarget add_object(const ObjectFile& object, std::string_view name,
                        const std::map<std::string, LinkTarget, std::less<>>& imports);

  // Adds a separate copy of a function of the archives, with some references replaced.
  LinkTarget copy(std::string_view function,
                  const std::map<std::string, LinkTarget, std::less<>>& imports);

  // Adds data, writable or not, to the section of this name; point() sets its pointers. Its
  // location there is aligned.
  LinkTarget add_data(const std::string& name, std::string_view bytes, uint64_t alignment,
                      bool is_writable);
  void point(LinkTarget from, LinkTarget to, int64_t addend = 0);
  void clear(LinkTarget at);  // sets a null pointer

  // Adds everything to which the added parts refer, so that missing symbols are reported now.
  //
  // throws: kUnimplemented, naming the missing symbol and its user; return_to() is then necessary.
  void take_all();
  // Marks a state, to which return_to() restores. Call take_all() before making the mark.
  struct Mark {
    std::size_t sections = 0, symbols = 0;
    // The number of bytes and of relocations of each section that can grow.
    std::map<std::size_t, std::pair<std::size_t, std::size_t>> grown;
    bool is_behind(LinkTarget target) const;  // added after it
  };
  Mark mark() const;
  void return_to(const Mark& mark);

  // Makes a symbol of the file global.
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
    uint32_t locals = 1;            // symbol 0 is the null symbol
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
  std::vector<std::size_t> waiting_;         // sections whose references are not yet taken
  uint16_t machine_ = EM_X86_64;
  uint32_t flags_ = 0;
};

}  // namespace etude::aot
