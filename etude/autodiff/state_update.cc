// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/state_update.h"

#include <unordered_map>

#include "etude/autodiff/batch.h"
#include "etude/base/check.h"
#include "etude/base/warning.h"
#include "etude/core/call/builtin.h"
#include "etude/core/context/context.h"
#include "etude/core/internal/call.h"
#include "etude/core/internal/infer.h"

namespace etude::internal {

int count_vmaps(const Context& inner) noexcept {
  int count = 0;
  for (const Context* c = &inner; c != nullptr; c = c->parent()) {
    count += dynamic_cast<const BatchContext*>(c) != nullptr ? 1 : 0;
  }
  return count;
}
int count_vmaps() noexcept { return count_vmaps(ContextStack::top()); }

Tensor updated_value(const Tensor& x, int vmaps) {
  if (!x.has_value()) return {};
  int inside = count_vmaps() - vmaps;
  for (const Context* c = &ContextStack::top(); c != nullptr && inside > 0; c = c->parent()) {
    const auto* batch = dynamic_cast<const BatchContext*>(c);
    if (batch == nullptr) continue;
    --inside;
    ETUDE_REQUIRE(!batch->is_example(x),
                  "inside a vmap a layer has another new state for each example, and the model "
                  "outside can take only one. Call the layer on the whole batch, take the gradient "
                  "inside the vmap, or run it in the inference phase");
  }
  return stop_gradient(x);
}

void warn_untaken(std::string_view layer, std::string_view path, CallSite where) {
  if (dynamic_cast<TypeContext*>(&ContextStack::top()) != nullptr) return;  // nothing is trained
  const std::string name = path.empty() ? std::string(layer) : fmt::format("{} ({})", path, layer);
  warn_once(fmt::format("state {} {}:{}", name, where.file, where.line),
            fmt::format("{}: its state, such as running statistics, does not change, since no "
                        "gradient took the new state of the layer. Pass the model to "
                        "value_with_gradient or pullback as an argument, and its gradient to "
                        "optimizer.update or move; or run it in the inference phase\n  at {}:{}",
                        name, where.file, where.line));
}

struct TapedStates::Boxes {
  std::unordered_map<const void*, std::shared_ptr<StateBoxBase>> by_layer;
};

TapedStates::TapedStates(int vmaps, uint64_t since) : vmaps_(vmaps), since_(since) {}
TapedStates::~TapedStates() = default;

std::shared_ptr<StateBoxBase>& TapedStates::place(const void* layer) {
  return boxes_->by_layer[layer];
}

const std::shared_ptr<StateBoxBase>* TapedStates::find(const void* layer) const {
  const auto found = boxes_->by_layer.find(layer);
  return found == boxes_->by_layer.end() ? nullptr : &found->second;
}

void TapedStates::warn_untaken() const {
  for (const auto& [address, box] : boxes_->by_layer) {
    if (!box->is_taken) internal::warn_untaken(box->layer, "", box->where);
  }
}

void require_state_fits(const Tensor& was, const Tensor& now) {
  if (!was.has_value() || !now.has_value() || was.type() == now.type()) return;
  ETUDE_THROW(kInvalidArgument,
              "new state of a layer is {}, but the layer has {}. A tangent that came out of a vmap "
              "moves a batch of models",
              now.type()->to_string(), was.type()->to_string());
}

}  // namespace etude::internal
