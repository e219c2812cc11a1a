// SPDX-License-Identifier: Apache-2.0
// Assignments of several Variables by one call: all of them, or none. Used by calls of staged
// functions (stage/function_core.cc) and of loaded functions (saved/function.cc).
#pragma once

#include <cstddef>
#include <memory>

#include "etude/base/internal/inline_vector.h"
#include "etude/variables/variable.h"
#include "etude/variables/variable_cell.h"

namespace etude::internal {

// Puts back the values from before(), unless keep() is called. Inside of another AssignmentUndo the
// outer one puts them back, if it is not kept.
// threads: confined to its thread, whose VariableLock should hold the Variables.
class AssignmentUndo {
 public:
  AssignmentUndo();
  AssignmentUndo(const AssignmentUndo&) = delete;
  AssignmentUndo& operator=(const AssignmentUndo&) = delete;
  ~AssignmentUndo();

  // Before each assignment. throws: std::bad_alloc; then the value is not known here.
  void before(const Variable& variable);
  void keep() noexcept { is_kept_ = true; }

 private:
  struct Entry {
    Variable variable;
    Tensor value;
    std::unique_ptr<CellContent> content;  // of a Variable without a value
  };
  using Entries = InlineVector<Entry, 4>;
  static void put_back(Entries& entries, std::size_t from) noexcept;

  AssignmentUndo* const outer_;
  Entries own_;
  Entries& entries_;  // of the outermost one
  const std::size_t first_;
  bool is_kept_ = false;
};

}  // namespace etude::internal
