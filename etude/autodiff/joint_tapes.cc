// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/joint_tapes.h"

#include <optional>
#include <utility>

#include "etude/autodiff/tape/tape.h"

namespace etude::internal {

struct TensorLane::Own {
  Tape tape{{.persistent = true, .watch_variables = false}};
  std::optional<TapeContext> context{std::in_place, tape};
};

TensorLane::TensorLane(Tape& tape) noexcept : tape_(&tape) {}
TensorLane::TensorLane() : own_(std::make_unique<Own>()), tape_(&own_->tape) {}
TensorLane::TensorLane(TensorLane&& other) noexcept = default;
TensorLane::~TensorLane() = default;

void TensorLane::watch(const Tensor& x) { tape_->watch(x); }

void TensorLane::record(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                        Pullback pullback, std::string_view name, CallSite where) {
  tape_->record(inputs, outputs, std::move(pullback), name, where);
}

void TensorLane::record_reading(const Tensor& x, Pullback pullback, CallSite where) {
  tape_->record_reading(x, std::move(pullback), where);
}

NumberLane* TensorLane::numbers() const noexcept { return tape_->numbers(); }
void TensorLane::set_numbers(NumberLane* numbers) noexcept { tape_->set_numbers(numbers); }
void TensorLane::keep_numbers(std::shared_ptr<void> held) { tape_->keep_numbers(std::move(held)); }

void TensorLane::sweep() const { tape_->gradient_by_id({}, {}); }

void TensorLane::stop() noexcept {
  if (own_ == nullptr) return;
  own_->context.reset();
  own_->tape.freeze();
}

}  // namespace etude::internal
