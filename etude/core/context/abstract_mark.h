// SPDX-License-Identifier: Apache-2.0
// Data attached to a tensor without elements: its trace and origin, or the state of a resource. It
// is stored in the buffer pointer: in tensors with elements that pointer refers to the owner of the
// elements.
#pragma once

#include <memory>
#include <utility>

#include "etude/core/tensor.h"

namespace etude::internal {

template <class Data>
struct GhostMark : Buffer {
  Data data;
  static void give_back_mark(Buffer* mark) noexcept { delete static_cast<GhostMark*>(mark); }
};

// The count starts at 2, as for foreign memory, so that no tensor considers the mark its own
// buffer.
template <class Data>
Tensor make_marked_abstract(const Type* type, Data data) {
  auto mark = std::make_unique<GhostMark<Data>>();
  mark->count = 2;
  mark->give_back = GhostMark<Data>::give_back_mark;
  mark->data = std::move(data);
  Tensor out = make_abstract(type);
  TensorAccess::rep(out)->buffer = mark.release();
  return out;
}

// The data attached to x; null for another tensor.
template <class Data>
const Data* find_mark(const Tensor& x) noexcept {
  const Buffer* buffer = x.has_value() ? TensorAccess::rep(x)->buffer : nullptr;
  const bool is_mark = buffer != nullptr && buffer->give_back == GhostMark<Data>::give_back_mark;
  return is_mark ? &static_cast<const GhostMark<Data>*>(buffer)->data : nullptr;
}

}  // namespace etude::internal
