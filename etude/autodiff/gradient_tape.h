// SPDX-License-Identifier: Apache-2.0
// GradientTape: records the calls that depend on watched values, and runs their derivative rules in
// reverse order. For programs that choose sources and targets after the computation; gradient.h has
// operators on functions. Implemented by Tape and TapeContext (tape/tape.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/autodiff/state_update.h"
#include "etude/autodiff/tangent.h"
#include "etude/autodiff/tape/tape_options.h"
#include "etude/base/internal/in_place.h"
#include "etude/diff/internal/replace_scalars.h"
#include "etude/variables/variable.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// The gradient for a source that the target does not depend on: absent, or zeros.
enum class Unconnected { kNone, kZero };

struct GradientOptions {
  std::vector<Tensor> output_gradients = {};  // one per target; empty or absent means ones
  Unconnected unconnected = Unconnected::kNone;
};
struct JacobianOptions {
  Unconnected unconnected = Unconnected::kNone;
  bool vectorize = true;  // true: one sweep for many target elements; false: one sweep per element
};

// A pytree of tensors, Variables and host values: the argument of watch and gradient.
template <class X>
concept Structure = internal::HasTangent<X>;
// The gradient of a pytree: a Tensor for a Tensor or Variable, the same container for a container,
// and tangent_t<X> for a struct.
template <class X>
using gradient_t = tangent_t<X>;

namespace internal {

// LeafList lists the tensors and Variables of a pytree in order. LeafRef points to one of them.
struct LeafRef {
  const Tensor* tensor = nullptr;
  const Variable* variable = nullptr;
};
class LeafList {
 public:
  template <class X>
  explicit LeafList(const X& x) {
    each_leaf(x, *this);
  }
  void operator()(const Tensor& x);
  void operator()(const Variable& x);
  template <class T>
  void operator()(const T& x) {  // a host value: not recorded
    static_cast<void>(sizeof(LeafIsErased<T>));
    if constexpr (TensorManifold<T>) each_tensor_of(x, *this);
  }

  const std::vector<LeafRef>& items() const { return items_; }

 private:
  std::vector<LeafRef> items_;
};

// Pulls the cotangents of the tensors of x back through move(), and returns the cotangent for the
// tangent of x. An absent cotangent contributes nothing.
template <TensorManifold T>
tangent_t<T> pull_through_move(const T& x, std::span<const Tensor> cotangents);

// Replaces leaves by gradients, in the order of LeafList. Inside structs, absent gradients become
// zeros.
class LeafGradients {
 public:
  explicit LeafGradients(std::vector<Tensor> found, bool all_zeros = false)
      : found_(std::move(found)), depth_(all_zeros ? 1 : 0) {}
  // `states` are the state updates that layers made while a tape recorded; may be null.
  LeafGradients(std::vector<Tensor> found, const TapedStates* states)
      : found_(std::move(found)), depth_(0), states_(states) {}
  // Whether a gradient arrived since the last call of take_arrived().
  bool take_arrived() { return std::exchange(arrived_, false); }
  Tensor operator()(const Tensor& x) { return take(x); }
  Tensor operator()(const Variable& x) { return take(x); }
  template <class T>
  tangent_t<T> operator()(const T& x) {
    if constexpr (TensorManifold<T>) {
      std::vector<Tensor> cotangents;
      bool has_arrived = false;
      each_tensor_of(x, [&](const Tensor&) {
        cotangents.push_back(std::move(found_[next_++]));
        has_arrived = has_arrived || cotangents.back().has_value();
      });
      arrived_ = arrived_ || has_arrived;
      if (has_arrived) return pull_through_move(x, cotangents);
    }
    return zero_tangent(x);
  }
  // Returns the update of a layer's state. If `x` is already an update, from an inner derivative,
  // returns `x` itself.
  template <class T>
  NewState<T> state(const LayerState<T>& x) {
    const auto& box = StateAccess::box(x);
    if (box != nullptr) return taken_from(*box);
    return states_ != nullptr ? states_->take(x) : NewState<T>();
  }
  template <class T>
  NewState<T> state(const NewState<T>& x) {
    return x;
  }
  // Drops the state updates of a frozen part without a warning.
  template <class X>
  void frozen(const X& x) {
    const DropStates drop{states_};
    if (states_ != nullptr) each_leaf(x, drop);
  }
  void enter() { ++depth_; }
  void leave() { --depth_; }

 private:
  struct DropStates {
    const TapedStates* states;
    template <class T>
    void operator()(const T&) const {}
    template <class T>
    void state(const LayerState<T>& x) const {
      static_cast<void>(states->take(x));
    }
  };
  template <class T>
  Tensor take(const T& x) {
    Tensor g = std::move(found_[next_++]);
    arrived_ = arrived_ || g.has_value();
    return g.has_value() || depth_ == 0 ? std::move(g) : zero_tangent(x);
  }
  std::vector<Tensor> found_;
  std::size_t next_ = 0;
  int depth_;
  const TapedStates* states_ = nullptr;
  bool arrived_ = false;
};

struct GradientTapeAccess;

}  // namespace internal

// Records from its construction until stop() or its destruction. A tape that is not persistent also
// stops at the first gradient(). Neither copyable nor movable.
// threads: confined to the thread that made it.
class GradientTape final : private internal::VariableReader {
 public:
  // The tape does not record while a Pause is alive. When the Pause is destroyed, recording resumes
  // if the tape recorded before.
  class Pause {
   public:
    explicit Pause(GradientTape& tape) : tape_(tape), was_recording_(tape.recording()) {
      if (was_recording_) tape_.stop();
    }
    Pause(const Pause&) = delete;
    ~Pause() {
      if (was_recording_ && !tape_.recording()) tape_.start();
    }

   private:
    GradientTape& tape_;
    bool was_recording_;
  };

  explicit GradientTape(TapeOptions options = {}, CallSite where = CallSite::here());
  ~GradientTape();

  // Records calls on the tensors of x from now on. A Variable in x is watched at each read.
  //
  // throws: kInvalidArgument for a sparse tensor, since only its rows are known.
  template <Structure X>
  void watch(const X& x, CallSite where = CallSite::here()) {
    const internal::LeafList leaves(x);
    for (const internal::LeafRef& leaf : leaves.items()) watch_leaf(leaf, where);
  }

  // Returns the gradient of the sum of all targets, in the structure of the sources. If the targets
  // do not depend on a source, the gradient of that source is absent, or zeros with
  // Unconnected::kZero. If that source is inside a struct, its gradient is zeros with either
  // option. The result also contains the state updates that layers among the sources made while the
  // tape recorded. If the tape watched none of the sources, it reports that
  // (Diagnostics::independent_result).
  //
  // throws: kFailedPrecondition at the second call on a tape that is not persistent;
  //   kInvalidArgument for an absent target, or if output_gradients do not match the targets in
  //   number and shape; kUnimplemented, naming the op, if an op on the path has no derivative.
  template <Structure T, Structure X>
  gradient_t<X> gradient(const T& targets, const X& sources, GradientOptions options = {},
                         CallSite where = CallSite::here()) {
    static_assert(!internal::IsActive<typename internal::ScalarIn<X>::type>::value,
                  "etude: a GradientTape follows tensors; take gradient(f, x) by structures with "
                  "etude::Real");
    internal::LeafGradients found(
        sweep(internal::LeafList(targets), internal::LeafList(sources), std::move(options), where),
        states_.get());
    return internal::build_tangent(sources, found);
  }
  // Returns the derivatives of each element of the target with respect to each source, of shape
  // [target shape..., source shape...].
  //
  // throws: as gradient; kInvalidArgument for a complex target; kFailedPrecondition if vectorize is
  // false and the tape is not persistent.
  template <Structure X>
  gradient_t<X> jacobian(const Tensor& target, const X& sources, JacobianOptions options = {},
                         CallSite where = CallSite::here()) {
    static_assert(!internal::holds_tensor_manifold<X>(),
                  "etude: jacobian takes tensors; a type with a tangent of its own "
                  "(DifferentiableTraits) has none: take the gradient of each element");
    internal::LeafGradients found(
        sweep_elements(target, internal::LeafList(sources), options, where));
    return internal::build_tangent(sources, found);
  }
  // As jacobian, for independent rows: row i of the target depends only on row i of the source.
  // Returns [b, t..., s...] for a target [b, t...] and a source [b, s...].
  //
  // throws: as jacobian; kInvalidArgument unless both ranks are 2 or more and the first sizes are
  // equal.
  Tensor batch_jacobian(const Tensor& target, const Tensor& source, JacobianOptions options = {},
                        CallSite where = CallSite::here());

  // Ends recording. Has no effect if the tape is not recording.
  void stop();
  // Resumes recording and keeps the earlier records. throws: kFailedPrecondition if the tape is
  // recording.
  void start(CallSite where = CallSite::here());
  // Drops all records and watches.
  void reset();
  // Stops recording until the returned object is destroyed.
  [[nodiscard]] Pause pause() { return Pause(*this); }

  // Returns the Variables that were read while recording or passed to watch(), in order of first
  // use.
  std::vector<Variable> watched_variables() const;
  // Explains in one sentence why the gradient of `target` with respect to `source` is absent.
  std::string explain(const Tensor& target, const Tensor& source) const;
  std::string explain(const Tensor& target, const Variable& source) const;

  bool persistent() const;
  bool recording() const;
  bool should_record(std::span<const Tensor> inputs) const;
  // Adds a record of a call, with its pullback, if should_record(inputs) is true.
  void record(std::span<const Tensor> inputs, std::span<const Tensor> outputs, Pullback pullback,
              std::string_view name = {}, CallSite where = CallSite::here());
  // Drops the records that only x needs, as if x had been destroyed.
  void forget(const Tensor& x);
  // The number of records. For tests.
  std::size_t size() const;

 private:
  friend struct internal::GradientTapeAccess;
  struct Watched {
    Variable variable;
    std::vector<uint64_t> snapshots;  // ids of the values that were read
    bool is_asked_for = false;        // by watch(), not only a read
  };

  void variable_read(const Variable& variable, const Tensor& snapshot) override;
  bool takes_derivative(const Variable& variable) const override;
  internal::TapedStates* states() override;
  void watch_leaf(const internal::LeafRef& leaf, CallSite where);
  void note(const Variable& variable, const Tensor& snapshot, bool is_asked_for);
  const Watched* find(const Variable& variable) const;
  std::vector<Tensor> sweep(const internal::LeafList& targets, const internal::LeafList& sources,
                            GradientOptions options, CallSite where);
  std::vector<Tensor> sweep_ids(std::span<const Tensor> targets, const internal::LeafList& sources,
                                std::span<const Tensor> seeds);
  std::vector<Tensor> sweep_arrived(const internal::LeafList& targets,
                                    std::span<const Tensor> cotangents,
                                    const internal::LeafList& sources);
  std::vector<Tensor> sweep_units(const Tensor& target, const internal::LeafList& sources,
                                  int64_t rows, bool vectorize);
  std::vector<Tensor> sweep_elements(const Tensor& target, const internal::LeafList& sources,
                                     JacobianOptions options, CallSite where);
  void require_sweeps(const Tensor& target, const JacobianOptions& options) const;

  // Ends recording permanently. Afterwards any thread may sweep the tape.
  void freeze();

  struct Recorder;  // the tape and its context
  internal::InPlace<Recorder, 304> recorder_;
  std::vector<Watched> variables_;
  uint64_t since_ = 0;                             // the moment when recording started
  std::unique_ptr<internal::TapedStates> states_;  // null before the first update
};

namespace internal {

template <TensorManifold T>
tangent_t<T> pull_through_move(const T& x, std::span<const Tensor> cotangents) {
  const tangent_t<T> along = zero_tangent(x);
  GradientTape tape({.watch_variables = false}, {});
  tape.watch(along);
  T moved = x;
  etude::move(moved, along);
  std::vector<Tensor> targets, seeds;
  std::size_t i = 0;
  each_tensor_of(std::as_const(moved), [&](const Tensor& tensor) {
    const Tensor& cotangent = cotangents[i++];
    if (!cotangent.has_value()) return;
    targets.push_back(tensor);
    seeds.push_back(to_dense(cotangent));
  });
  return tape.gradient(targets, along,
                       {.output_gradients = std::move(seeds), .unconnected = Unconnected::kZero});
}

}  // namespace internal
}  // namespace etude
