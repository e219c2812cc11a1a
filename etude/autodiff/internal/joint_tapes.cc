// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/internal/joint_tapes.h"

#include <optional>
#include <utility>

#include "etude/autodiff/tape/tape.h"

namespace etude::internal {

struct TensorTape::Own {
  Tape tape{{.persistent = true, .watch_variables = false}};
  std::optional<TapeContext> context{std::in_place, tape};
};

TensorTape::TensorTape(Tape& tape) noexcept : tape_(&tape) {}
TensorTape::TensorTape() : own_(std::make_unique<Own>()), tape_(&own_->tape) {}
TensorTape::TensorTape(TensorTape&& other) noexcept = default;
TensorTape::~TensorTape() = default;

void TensorTape::watch(const Tensor& x) { tape_->watch(x); }

void TensorTape::record(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                        Pullback pullback, std::string_view name, CallSite where) {
  tape_->record(inputs, outputs, std::move(pullback), name, where);
}

void TensorTape::record_reading(const Tensor& x, Pullback pullback, CallSite where) {
  tape_->record_reading(x, std::move(pullback), where);
}

NumberTape* TensorTape::numbers() const noexcept { return tape_->numbers(); }
void TensorTape::set_numbers(NumberTape* numbers) noexcept { tape_->set_numbers(numbers); }
void TensorTape::keep_numbers(std::shared_ptr<void> held) { tape_->keep_numbers(std::move(held)); }

void TensorTape::sweep() const { tape_->gradient_by_id({}, {}); }

void TensorTape::stop() noexcept {
  if (own_ == nullptr) return;
  own_->context.reset();
  own_->tape.freeze();
}

}  // namespace etude::internal
