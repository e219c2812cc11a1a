// SPDX-License-Identifier: Apache-2.0
#include "etude/core/context/resource.h"

#include "etude/core/context/abstract_mark.h"

namespace etude::internal {
namespace {

struct State {
  std::weak_ptr<void> held;
};

}  // namespace

Tensor make_resource(const Type* type, std::weak_ptr<void> state) {
  return make_marked_abstract(type, State{std::move(state)});
}

bool is_resource(const Tensor& x) noexcept { return find_mark<State>(x) != nullptr; }

std::shared_ptr<void> state_of(const Tensor& x) noexcept {
  return find_mark<State>(x)->held.lock();
}

}  // namespace etude::internal
