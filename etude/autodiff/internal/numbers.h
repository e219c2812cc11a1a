// SPDX-License-Identifier: Apache-2.0
// Numbers and tensors in one derivative. A differentiated number (Real, diff/active.h) becomes a
// tensor that depends on it, and a tensor returns numbers that depend on it:
//
//   gradient([&](auto x) { return (w * x).template item<decltype(x)>() + sin(x); }, 3.0, ...);
//
// Each such crossing is a record on the tape of tensors. When the reverse pass over the tensors
// reaches a crossing, it first runs the reverse pass over the numbers back to the point of the
// crossing. Included by autodiff/gradient.h.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/autodiff/internal/joint_tapes.h"
#include "etude/base/error.h"
#include "etude/core/create.h"
#include "etude/core/tensor.h"
#include "etude/diff/internal/tape/scalar_reverse.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class JvpContext;

namespace internal {

// The tape that records x; null: no tape does.
// throws: kUnimplemented if several derivatives differentiate x, or one in forward mode does.
Tape* tape_that_follows(const Tensor& x, CallSite where);
// throws: kUnimplemented: numbers of one derivative and tensors of another.
[[noreturn]] void throw_two_derivatives(CallSite where);
// throws: kUnimplemented if another derivative than the derivative of `context`, in forward mode,
// differentiates x.
void require_followed_by(const JvpContext* context, const Tensor& x, CallSite where);
// throws: kUnimplemented.
[[noreturn]] void throw_forward_alone(CallSite where);

template <class T>
Tensor tensor_of(const std::vector<T>& values, const Shape& shape, DType dtype, CallSite where) {
  return tensor_from_host(values.data(), dtype_of<T>, static_cast<int64_t>(values.size()), shape,
                          {.dtype = dtype}, where);
}

// The crossings between numbers of type T and tensors in one derivative. Owned by the tape of
// numbers.
template <class T>
class Crossings final : public ScalarCompanion<T>, public NumberTape {
 public:
  // For a derivative that recorded only numbers so far: its tensors are recorded from now on.
  static Crossings& beside(ScalarTape<T>& numbers) { return join(numbers, TensorTape()); }
  // For a derivative that recorded only tensors so far: numbers are recorded from now on, as long
  // as the tensors are.
  static Crossings& beside(Tape& tape) {
    auto numbers = std::make_shared<ScalarTape<T>>();
    Crossings& made = join(*numbers, TensorTape(tape));
    numbers->start();
    made.tensors_.keep_numbers(std::move(numbers));
    return made;
  }
  // For a derivative that records both from the start. The tape of numbers must end first and must
  // not be moved.
  static Crossings& join(ScalarTape<T>& numbers, TensorTape tensors) {
    std::unique_ptr<Crossings> made(new Crossings(numbers, std::move(tensors)));
    Crossings& out = *made;
    numbers.set_companion(std::move(made));
    return out;
  }
  // The crossings of the numbers being recorded; made if only numbers were recorded so far.
  static Crossings& current() {
    ScalarTape<T>& numbers = *ScalarTape<T>::current();
    // No other class makes companions.
    auto* found = static_cast<Crossings*>(numbers.companion());
    return found != nullptr ? *found : beside(numbers);
  }
  ~Crossings() override { tensors_.set_numbers(nullptr); }

  // Returns a tensor that depends on the numbers.
  Tensor enter(std::span<const Active<T>> numbers, const Shape& shape, DType dtype,
               CallSite where) {
    std::vector<uint32_t> slots;
    std::vector<T> values;
    for (const Active<T>& x : numbers) {
      slots.push_back(x.slot_on(*numbers_));
      values.push_back(x.value());
    }
    Tensor out = tensor_of(values, shape, dtype, where);
    auto back = [this, at = numbers_->mark(), slots](std::span<const Tensor> arrived) {
      std::vector<T>& cotangents = sweep().down_to(at);
      const std::vector<T> each = to_dense(arrived[0]).template to_vector<T>();
      for (std::size_t i = 0; i < slots.size(); ++i) {
        if (slots[i] != 0) cotangents[slots[i]] += each[i];
      }
      return std::vector<Tensor>(1);
    };
    tensors_.record({&anchor_, 1}, {&out, 1}, std::move(back), "a tensor of numbers", where);
    return out;
  }
  // Returns the elements of x as numbers that depend on it.
  std::vector<Active<T>> leave(const Tensor& x, CallSite where) {
    std::vector<Active<T>> out;
    std::vector<uint32_t> slots;
    for (const T& value : x.to_vector<T>(where)) {
      slots.push_back(numbers_->new_input());
      out.push_back(Active<T>::computed(value, *numbers_, slots.back()));
    }
    auto back = [this, at = numbers_->mark(), slots,
                 type = x.type()](std::span<const Tensor>) -> std::vector<Tensor> {
      std::vector<T>& cotangents = sweep().down_to(at);
      std::vector<T> each;
      for (const uint32_t s : slots) each.push_back(std::exchange(cotangents[s], T(0)));
      return {tensor_of(each, type->shape(), type->dtype(), {})};
    };
    tensors_.record_reading(x, std::move(back), where);
    return out;
  }

  void stop() noexcept override { tensors_.stop(); }
  void reverse(const ScalarTape<T>& numbers, std::vector<T>& cotangents) const override {
    Sweep all(*this, numbers, cotangents);
    tensors_.sweep();
    all.down_to(numbers.begin());
  }
  // The same where tensors have cotangents as well: `sweep_tensors` runs the reverse pass of their
  // tape.
  template <class Fn>
  auto reverse_both(const ScalarTape<T>& numbers, std::vector<T>& cotangents,
                    Fn&& sweep_tensors) const {
    Sweep all(*this, numbers, cotangents);
    auto found = sweep_tensors();
    all.down_to(numbers.begin());
    return found;
  }

  void resume() override {
    if (ScalarTape<T>::current() == nullptr) numbers_->start();
  }
  bool is_recording() const override {
    const ScalarTape<T>* current = ScalarTape<T>::current();
    return current != nullptr && current->companion() == this;
  }
  void pause() noexcept override { numbers_->stop(); }
  void during_sweep(const std::function<void()>& sweep_tensors) const override {
    if (find_sweep() != nullptr) return sweep_tensors();
    Cotangents<T> cotangents(numbers_->size());
    const Sweep all(*this, *numbers_, cotangents.values());
    sweep_tensors();
  }

 private:
  // A reverse pass over the tape of numbers, in steps. While alive, its tape is the current one of
  // its thread.
  class Sweep {
   public:
    Sweep(const Crossings& of, const ScalarTape<T>& numbers, std::vector<T>& cotangents)
        : of_(of),
          numbers_(numbers),
          cotangents_(cotangents),
          at_(numbers.end()),
          outer_(std::exchange(innermost(), this)) {}
    Sweep(const Sweep&) = delete;
    Sweep& operator=(const Sweep&) = delete;
    ~Sweep() { innermost() = outer_; }

    static Sweep*& innermost() {
      thread_local constinit Sweep* sweep = nullptr;
      return sweep;
    }
    // The cotangents by slot, after each record later than `to` has passed its cotangents on.
    std::vector<T>& down_to(const typename ScalarTape<T>::Position& to) {
      numbers_.reverse(at_, to, cotangents_);
      at_ = to;
      return cotangents_;
    }
    const Crossings* of() const { return &of_; }
    Sweep* outer() const { return outer_; }

   private:
    const Crossings& of_;
    const ScalarTape<T>& numbers_;
    std::vector<T>& cotangents_;
    typename ScalarTape<T>::Position at_;
    Sweep* outer_;
  };

  Crossings(ScalarTape<T>& numbers, TensorTape tensors)
      : numbers_(&numbers), tensors_(std::move(tensors)), anchor_(0.0F) {
    tensors_.set_numbers(this);
    tensors_.watch(anchor_);
  }
  Sweep* find_sweep() const {
    Sweep* sweep = Sweep::innermost();
    while (sweep != nullptr && sweep->of() != this) sweep = sweep->outer();
    return sweep;
  }
  Sweep& sweep() const { return *find_sweep(); }

  ScalarTape<T>* numbers_;  // while recorded; a pullback moves it
  TensorTape tensors_;
  Tensor anchor_;  // placeholder of the numbers on the tape of tensors
};

// How Tensor (core/tensor.h) converts from and to differentiated numbers.
template <class T>
struct NumberCrossing<Active<T>> {
  static constexpr bool kIsNumber = std::floating_point<T>;
  using Value = T;

  static double real(const Active<T>& x) { return static_cast<double>(x.value()); }
  // A tensor for a number that is being differentiated; absent for other numbers.
  static Tensor followed(const Active<T>& x, CallSite where) {
    return x.varies() ? Crossings<T>::current().enter({&x, 1}, Shape{}, dtype_of<T>, where)
                      : Tensor();
  }
  static Tensor tensor(std::span<const Active<T>> numbers, const Shape& shape, DType dtype,
                       CallSite where) {
    for (const Active<T>& x : numbers) {
      if (x.varies()) return Crossings<T>::current().enter(numbers, shape, dtype, where);
    }
    std::vector<T> values;
    for (const Active<T>& x : numbers) values.push_back(x.value());
    return tensor_of(values, shape, dtype, where);
  }
  static Active<T> item(const Tensor& x, CallSite where) {
    const T value = x.item<T>(where);  // throws the error of x
    Crossings<T>* crossings = crossings_of(x, where);
    return crossings != nullptr ? std::move(crossings->leave(x, where)[0]) : Active<T>(value);
  }
  static std::vector<Active<T>> elements(const Tensor& x, CallSite where) {
    if (Crossings<T>* crossings = crossings_of(x, where)) return crossings->leave(x, where);
    const std::vector<T> values = x.to_vector<T>(where);
    return {values.begin(), values.end()};
  }

 private:
  // The crossings of the tape that records the numbers of x; null: none.
  static Crossings<T>* crossings_of(const Tensor& x, CallSite where) {
    Tape* tape = tape_that_follows(x, where);
    if (tape == nullptr) return nullptr;
    NumberTape* numbers = TensorTape(*tape).numbers();
    if (numbers == nullptr) {
      if (ScalarTape<T>::current() != nullptr) throw_two_derivatives(where);
      return &Crossings<T>::beside(*tape);
    }
    auto* crossings = dynamic_cast<Crossings<T>*>(numbers);
    if (crossings == nullptr) throw_two_derivatives(where);
    if (!crossings->is_recording()) crossings->resume();
    if (!crossings->is_recording()) throw_two_derivatives(where);
    return crossings;
  }
};

}  // namespace internal
}  // namespace etude
