// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/internal/numbers.h"

#include "etude/autodiff/jvp.h"
#include "etude/autodiff/tape/tape.h"
#include "etude/core/call/call_scope.h"

namespace etude::internal {
namespace {

[[noreturn]] void throw_here(const char* text, CallSite where) {
  throw_of("numbers of a tensor", ErrorCode::kUnimplemented, text, where);
}
[[noreturn]] void throw_nested(CallSite where) {
  throw_here(
      "numbers that are read from a tensor are followed by one derivative, and this tensor belongs "
      "to another one as well. Stay with tensors where derivatives nest, or read a constant with "
      "item<double>()",
      where);
}

// Calls fn for the tapes and the forward runs of this thread that follow x.
template <class Fn>
void each_follower(const Tensor& x, Fn&& fn) {
  if (!x.has_value() || !is_differentiable(x.dtype())) return;
  for (Context* c = &ContextStack::top(); c != nullptr; c = c->parent()) {
    auto* forward = dynamic_cast<JvpContext*>(c);
    auto* taped = dynamic_cast<TapeContext*>(c);
    if (forward != nullptr && forward->tangent(x).has_value()) fn(nullptr, forward);
    if (taped != nullptr && taped->tape().is_watched(x)) fn(&taped->tape(), nullptr);
  }
}

}  // namespace

void throw_two_derivatives(CallSite where) {
  throw_here(
      "the tensor belongs to one derivative and the numbers around it to another. Give both to one "
      "operator, as in gradient(f, tensor, number), or read a constant with item<double>()",
      where);
}

void throw_forward_alone(CallSite where) {
  throw_here(
      "forward mode over numbers alone does not follow tensors that are made of them. Use "
      "pullback(f, x...), or pass a tensor as an argument, too",
      where);
}

Tape* tape_that_follows(const Tensor& x, CallSite where) {
  Tape* found = nullptr;
  each_follower(x, [&](Tape* tape, const JvpContext* forward) {
    if (forward != nullptr || found != nullptr) throw_nested(where);
    found = tape;
  });
  return found;
}

void require_followed_by(const JvpContext* context, const Tensor& x, CallSite where) {
  each_follower(x, [&](const Tape* tape, const JvpContext* forward) {
    if (tape != nullptr || forward != context) throw_nested(where);
  });
}

}  // namespace etude::internal
