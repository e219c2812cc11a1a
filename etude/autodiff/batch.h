// SPDX-License-Identifier: Apache-2.0
// vmap on tensors: a function of one example runs once, on all examples of a batch together. Inside
// the function, a value has the shape of one example. Outside, the value has the batch axis in
// front.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "etude/autodiff/state_update.h"
#include "etude/autodiff/tangent.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/ambient.h"
#include "etude/core/context/context.h"
#include "etude/core/internal/followed_values.h"
#include "etude/core/internal/owned_result.h"
#include "etude/diff/function_values.h"
#include "etude/diff/vmap_options.h"
#include "etude/variables/variable.h"
#include "etude/version.h"

namespace ETUDE_API etude {

struct BatchCall;

// Converts calls on examples to calls on the batch, by the batching rules of op records. The
// context is on the stack for its lifetime. It nests with tapes and forward mode in either order,
// for per-example gradients or for the gradient of a batch.
// threads: confined to the thread that made it.
class BatchContext final : public Context, private internal::KeySource {
 public:
  using Randomness = internal::Randomness;
  // `size` is the number of examples, at least 1. `randomness` controls the random keys that are
  // drawn inside.
  explicit BatchContext(int64_t size, Randomness randomness = Randomness::kSame);
  // Reopens a batch that may have ended, so that calls recorded inside the batch can run again on
  // the same examples.
  using Batches = internal::FollowedValues::Map;
  BatchContext(int64_t size, Randomness randomness, Batches batches);
  ~BatchContext() override;

  // Returns an abstract tensor (without elements) that represents every example x[i], 0 <= i <
  // size. Absent if x is absent.
  Tensor example_of(const Tensor& x);
  // Whether x is an example of this batch.
  bool is_example(const Tensor& x) const override { return find(x) != nullptr; }
  int64_t size() const noexcept { return size_; }
  Randomness randomness() const noexcept { return randomness_; }
  // Returns the batches of all live examples.
  const Batches& batches() const noexcept { return batches_.all(); }
  // Returns the values of all examples, [size, ...]. A value that all examples share is repeated.
  Tensor batch_of(const Tensor& x) const;

  // throws: the errors of the op for one example; kInvalidArgument if the results of two examples
  // have different shapes, or if an example is assigned to a Variable.
  Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) override;

 private:
  Tensor next_key() override;
  // Returns the batch of the example x; null if x is not an example of this batch.
  const Tensor* find(const Tensor& x) const;
  Values run(const BatchCall& call, std::span<const Type* const> types) const;
  Values one_by_one(const BatchCall& call) const;

  int64_t size_;
  Randomness randomness_;
  internal::FollowedValues batches_;
  internal::KeyScope keys_;
};

namespace internal {

// Counts the examples: the size of axis 0, which must be equal for all tensor leaves.
struct CountExamples {
  CallSite where;
  int64_t size = -1;
  // throws: kInvalidArgument for a scalar, for an empty batch, and if two leaves have different
  // numbers of examples.
  void operator()(const Tensor& x);
  template <class T>
  void operator()(const T& x) {
    if constexpr (TensorManifold<T>) each_tensor_of(x, *this);
  }
  template <class T>
  void state(const T& x) {
    each_state_tensor(x.value, *this);
  }
};
// ToExamples converts tensor leaves to examples. ToBatches converts examples back to batches.
struct ToExamples {
  BatchContext& context;
  void operator()(Tensor& x) const { x = context.example_of(x); }
  // Refuses a Variable among Parts. throws: kInvalidArgument.
  void operator()(Variable& x) const;
  template <class T>
  void operator()(T& x) const {
    if constexpr (TensorManifold<T>) each_tensor_of(x, *this);
  }
  template <class T>
  void state(T& x) const {
    each_state_tensor(x.value, *this);
  }
};
struct ToBatches {
  BatchContext& context;
  void operator()(Tensor& x) const { x = context.batch_of(x); }
  template <class T>
  void operator()(T& x) const {
    if constexpr (TensorManifold<T>) each_tensor_of(x, *this);
  }
  template <class T>
  void state(T& x) const {
    each_state_tensor(x.value, *this);
  }
};

template <class X>
struct BatchOfVariables {
  static constexpr bool holds_no_variable =
      !HasLeaf<X, Variable>::value || holds_runtime_structure<X>();
  static_assert(holds_no_variable,
                "etude: vmap: a Variable is not a batch of examples; let the function read it");
};

template <class... X>
struct BatchedCall<true, X...> {
  template <class F>
  static auto run(const F& f, Randomness randomness, CallSite where, X... x) {
    (static_cast<void>(sizeof(BatchOfVariables<X>)), ...);
    const CallScope scope(where);
    CountExamples count{where};
    (each_leaf(std::as_const(x), count), ...);
    BatchContext context(count.size, randomness);
    const ToExamples enter{context};
    (each_leaf(x, enter), ...);
    auto result = call_owned(f, std::as_const(x)...);
    const ToBatches leave{context};
    each_leaf(result, leave);
    return result;
  }
};

}  // namespace internal
}  // namespace etude
