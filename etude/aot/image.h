// SPDX-License-Identifier: Apache-2.0
// Objects of this process as data of a file: what a kernel was made ready with, with all that it
// points to. No kernel is told: bytes are copied as they lie, and a word that is an address becomes
// a pointer to a copy of what lies there.
//
// Which words are addresses is found by looking at two objects that were made in the same way. What
// operator new gave (blocks.h) lies elsewhere in the second one, at the same place in a block that
// is like its own, and made in a TwinScope; a function or a constant is told by a symbol that
// begins there. Other words stay as they are: numbers, and what was left where nobody wrote. A word
// that was written in part could be taken for an address, and what was written be lost: parameters
// of kernels have none (WordOf in core/op/rules.h; tests/ops/params_test.cc), and blocks begin where a
// small field with an old address behind it does not point (blocks.h).
//
// What a file cannot have is left out: the table of virtual functions of an object is null in it. A
// kernel that calls one would end the program; the op matrix runs each of them.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "etude/aot/blocks.h"
#include "etude/aot/link_model.h"
#include "etude/aot/program_symbols.h"

namespace etude::aot {

// Where a file has a function of this process; unknown: nowhere.
using FunctionFinder = std::function<LinkTarget(uintptr_t address, const ProgramSymbol& symbol)>;

// confined to one thread; the linker outlives it, and what was added outlives both.
class Image {
 public:
  Image(ModelLinker& linker, FunctionFinder function)
      : linker_(linker), function_(std::move(function)) {}

  // The object, of which `twin` was made in the same way in a TwinScope.
  //
  // throws: kUnimplemented, saying what it points to, for one that a file cannot hold.
  LinkTarget add(const void* object, const void* twin);
  // throws: kUnimplemented for a function that the file has not.
  LinkTarget function_at(uintptr_t address);
  // What was copied is copied again where it is met again: it may have ended, and others may lie at
  // its address.
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
