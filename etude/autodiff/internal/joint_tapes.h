// SPDX-License-Identifier: Apache-2.0
// The interfaces between a tape of numbers and a tape of tensors that serve one derivative
// (numbers.h). It does not need tape.h.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "etude/autodiff/tape/tape_options.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Tape;

namespace internal {

// The tape of numbers, as the tape of tensors sees it.
class NumberTape {
 public:
  NumberTape() = default;
  NumberTape(const NumberTape&) = delete;
  NumberTape& operator=(const NumberTape&) = delete;
  virtual ~NumberTape() = default;
  // Whether this thread records numbers there now. This recording begins and ends with the
  // recording of tensors.
  virtual bool is_recording() const = 0;
  virtual void pause() noexcept = 0;
  virtual void resume() = 0;
  // Runs `sweep_tensors`, during which cotangents pass to numbers and back.
  virtual void during_sweep(const std::function<void()>& sweep_tensors) const = 0;
};

// The tape of tensors, as the tape of numbers sees it. See the functions of the same name in Tape.
// threads: confined to the thread of the tape.
class TensorTape {
 public:
  // Refers to the tape of another owner, which must outlive it.
  explicit TensorTape(Tape& tape) noexcept;
  // Owns a new tape, which records the calls of this thread until stop().
  TensorTape();
  TensorTape(TensorTape&& other) noexcept;
  TensorTape& operator=(TensorTape&&) = delete;
  ~TensorTape();

  void watch(const Tensor& x);
  void record(std::span<const Tensor> inputs, std::span<const Tensor> outputs, Pullback pullback,
              std::string_view name, CallSite where);
  void record_reading(const Tensor& x, Pullback pullback, CallSite where);
  NumberTape* numbers() const noexcept;
  void set_numbers(NumberTape* numbers) noexcept;
  void keep_numbers(std::shared_ptr<void> held);
  // The reverse pass, from the numbers that were read from tensors.
  void sweep() const;
  // Ends recording on an owned tape; no effect on the tape of another owner.
  void stop() noexcept;

 private:
  struct Own;  // a tape and its context
  std::unique_ptr<Own> own_;
  Tape* tape_;
};

}  // namespace internal
}  // namespace etude
