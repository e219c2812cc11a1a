// SPDX-License-Identifier: Apache-2.0
#include "etude/variables/assignment_undo.h"

#include <mutex>
#include <utility>

#include "etude/base/thread_object.h"

namespace etude::internal {
namespace {

struct InnermostUndo {
  AssignmentUndo* undo = nullptr;
};

VariableCell& cell_of(const Variable& variable) {
  return *static_cast<VariableCell*>(const_cast<void*>(variable.ref()));
}

}  // namespace

AssignmentUndo::AssignmentUndo()
    : outer_(ThreadObject<InnermostUndo>::get().undo),
      entries_(outer_ != nullptr ? outer_->entries_ : own_),
      first_(entries_.size()) {
  ThreadObject<InnermostUndo>::get().undo = this;
}

AssignmentUndo::~AssignmentUndo() {
  ThreadObject<InnermostUndo>::find()->undo = outer_;
  if (!is_kept_) put_back(entries_, first_);
}

void AssignmentUndo::before(const Variable& variable) {
  VariableCell& cell = cell_of(variable);
  const std::lock_guard lock(cell.mutex);
  Entry entry{variable, cell.value, nullptr};
  if (!cell.value.has_value()) entry.content = std::make_unique<CellContent>(CellContent::of(cell));
  entries_.push_back(std::move(entry));
}

void AssignmentUndo::put_back(Entries& entries, std::size_t from) noexcept {
  while (entries.size() > from) {
    Entry& entry = entries.back();
    VariableCell& cell = cell_of(entry.variable);
    if (entry.content != nullptr) {
      entry.content->exchange_with(cell);
    } else {
      const std::lock_guard lock(cell.mutex);
      std::swap(entry.value, cell.value);
    }
    entries.pop_back();
  }
}

}  // namespace etude::internal
