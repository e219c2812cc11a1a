// SPDX-License-Identifier: Apache-2.0
// Writes objects of this process as data of a file: the prepared parameters of a kernel, with
// everything to which they point. No kernel is involved: bytes are copied as they are in memory,
// and a word that is an address becomes a pointer to a copy of its target.
//
// Addresses are found by comparing two objects that were made in the same way. The second object,
// the twin, is made in a TwinScope: its memory from operator new (blocks.h) has other addresses,
// but the same offsets in equal blocks. A function or a constant is recognised by a symbol that
// begins at the address. All other words are copied unchanged: numbers, and bytes that were never
// written. A partly written word could look like an address, and its written part would be lost.
// Two measures prevent this: parameters of kernels have no such words (WordOf in core/op/rules.h;
// tests/ops/params_test.cc), and a small field in a word that still has the upper bytes of an old
// address cannot form the address of a block (blocks.h).
//
// Objects are written without their virtual function table: its pointer is null in the file. A
// kernel that makes a virtual call would end the program; the op matrix runs every kernel, so a
// test would detect it.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "etude/aot/blocks.h"
#include "etude/aot/link_model.h"
#include "etude/aot/program_symbols.h"

namespace etude::aot {

// Finds the location in the file of a function of this process; unknown if the file lacks it.
using FunctionFinder = std::function<LinkTarget(uintptr_t address, const ProgramSymbol& symbol)>;

// The linker must outlive this object, and the added objects must outlive both.
// threads: confined to one thread.
class Image {
 public:
  Image(ModelLinker& linker, FunctionFinder function)
      : linker_(linker), function_(std::move(function)) {}

  // Adds the object. `twin` was made in the same way in a TwinScope.
  //
  // throws: kUnimplemented, naming the target of a pointer, for an object that a file cannot hold.
  LinkTarget add(const void* object, const void* twin);
  // throws: kUnimplemented for a function that the file lacks.
  LinkTarget function_at(uintptr_t address);
  // Forgets the copies, so that objects are copied again. Call it when objects may have been
  // destroyed and their addresses reused.
  void forget() { copied_.clear(); }

 private:
  struct Pair {
    uintptr_t own = 0, twin = 0;
    std::size_t bytes = 0;
  };
  LinkTarget copy(const Pair& part);
  void copy_pointers();
  void copy_word(LinkTarget at, uintptr_t own, uintptr_t twin);
  void copy_shared_word(LinkTarget at, uintptr_t word);

  ModelLinker& linker_;
  FunctionFinder function_;
  std::map<uintptr_t, LinkTarget> copied_;
  std::vector<std::pair<Pair, LinkTarget>> waiting_;
};

}  // namespace etude::aot
