// SPDX-License-Identifier: Apache-2.0
#include "etude/core/resource.h"

#include "etude/base/check.h"

namespace etude::internal {
namespace {

// Lies where a tensor has the owner of its elements, as the mark of a traced value does.
struct ResourceMark : Buffer {
  std::weak_ptr<void> state;
};

void give_back_mark(Buffer* mark) noexcept { delete static_cast<ResourceMark*>(mark); }

const Buffer* buffer_of(const Tensor& x) noexcept {
  return x.has_value() ? TensorAccess::rep(x)->buffer : nullptr;
}

}  // namespace

Tensor make_resource(const Type* type, std::weak_ptr<void> state) {
  auto mark = std::make_unique<ResourceMark>();
  mark->count = 2;
  mark->give_back = give_back_mark;
  mark->state = std::move(state);
  Tensor out = make_ghost(type);
  TensorAccess::rep(out)->buffer = mark.release();
  return out;
}

bool is_resource(const Tensor& x) noexcept {
  const Buffer* buffer = buffer_of(x);
  return buffer != nullptr && buffer->give_back == give_back_mark;
}

std::shared_ptr<void> state_of(const Tensor& x) noexcept {
  return static_cast<const ResourceMark*>(buffer_of(x))->state.lock();
}

}  // namespace etude::internal
