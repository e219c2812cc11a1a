// SPDX-License-Identifier: Apache-2.0
// Contexts execute calls. Every operation, in every mode, is one call of Context::execute. Contexts
// stack per thread; the bottom is eager. Contexts read op records and know no op by name.
#pragma once

#include <span>

#include "etude/base/call_site.h"
#include "etude/core/call/values.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Attrs;
class Op;

// threads: confined to the thread that made it.
class Context {
 public:
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  virtual ~Context() = default;

  // Runs one call. The operands are checked: their number and kinds fit the record, they are dense,
  // and operands that share a dtype in the record have one dtype.
  // throws: the errors of the op's rules, without the op's name.
  virtual Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) = 0;

  // Whether x is an example of the batch that this context runs: an abstract tensor that represents
  // every example.
  virtual bool is_example(const Tensor& /*x*/) const { return false; }

  // The context below this one on the stack; null at the bottom.
  Context* parent() const noexcept { return parent_; }

 protected:
  friend class ContextStack;
  Context* parent_ = nullptr;
};

// The bottom of every stack: runs kernels at once. Implemented in eager/eager.cc.
Context& eager_context();

// The contexts of this thread. A context is pushed on top and may be removed from any position.
class ContextStack {
 public:
  // The innermost context.
  static Context& top() noexcept;
  // Whether the top is the eager context itself.
  static bool is_eager() noexcept;
  // Whether the bottom of the stack is the eager context, that is, whether no trace is running.
  static bool is_on_eager() noexcept;
  static void push(Context& context) noexcept;
  // Removes `context` from any position; does nothing if it is not on the stack.
  static void remove(Context& context) noexcept;

 private:
  friend class ContextScope;
};

// While alive, `context` is the innermost context, and calls carry the line `where`. Used to run
// the calls of a rule in the parent context at the user's line.
class ContextScope {
 public:
  ContextScope(Context& context, CallSite where) noexcept;
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope();

 private:
  Context* saved_;
  CallSite saved_where_;
  bool saved_inside_;
};

// While alive, or until leave(), `bottom` replaces the whole stack: contexts below are invisible.
// threads: confined to the thread that made it.
class BottomScope {
 public:
  explicit BottomScope(Context& bottom) noexcept;
  BottomScope(const BottomScope&) = delete;
  BottomScope& operator=(const BottomScope&) = delete;
  ~BottomScope() { leave(); }
  void leave() noexcept;

 private:
  Context* saved_;
  CallSite saved_where_;
  bool saved_inside_;
  bool is_open_ = true;
};

// Runs a call in the innermost context. Every call of an op passes through this function. First
// checks the operands against the record: their number, absent operands, dtypes (promoted to a
// common dtype, core/op/promotion.h). Slices are made dense unless the record accepts them.
// throws: Error with the op's name first and the user's line last.
Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where);

namespace internal {
// Runs the call with its cached kernel if no context is active and all operands have values.
// Returns false if the call is not cached. Implemented by the eager context; execute() tries it
// first.
bool run_cached(const Op& op, Operands operands, const Attrs& attrs, Values& out);
}  // namespace internal

// Runs the lowering of a composition in `context`, after its type rule, which checks the operands.
Values lower(const Op& op, Operands operands, const Attrs& attrs, Context& context, CallSite where);

// The result types of a call, by the record's rule or by running its lowering on types. A result
// size that depends on data is kAny; operands must not have unknown sizes.
// throws: kInvalidArgument for an operand of unknown size, or operands on different devices; the
// errors of the rule.
Types infer_types(const Op& op, std::span<const Type* const> operands, const Attrs& attrs);

}  // namespace etude
