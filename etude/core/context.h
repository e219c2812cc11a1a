// SPDX-License-Identifier: Apache-2.0
// Contexts: who executes calls. Every operation, in every mode, is one call of Context::execute.
// Contexts stack per thread; the bottom is eager. They read op records and know no op by name.
#pragma once

#include <span>

#include "etude/base/call_site.h"
#include "etude/core/values.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Attrs;
class Op;

// confined to the thread that made it.
class Context {
 public:
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  virtual ~Context() = default;

  // Runs one call. Operands are dense, of one dtype where the record shares it, and their number
  // and kinds are checked. throws: what the op's rules throw, without the op's name.
  virtual Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) = 0;

  // The context that this one wraps; null at the bottom.
  Context* parent() const noexcept { return parent_; }

 protected:
  friend class ContextStack;
  Context* parent_ = nullptr;
};

// The bottom of every stack: runs kernels at once. Implemented in runtime/eager.cc.
Context& eager_context();

// The contexts of this thread. A wrapper is put on top and may leave from anywhere.
class ContextStack {
 public:
  // The innermost context.
  static Context& top() noexcept;
  // Whether the top is the eager context itself.
  static bool is_eager() noexcept;
  // Whether calls end there, whatever lies above: nothing is being traced.
  static bool is_on_eager() noexcept;
  static void push(Context& context) noexcept;
  // Takes `context` out wherever it is; nothing happens if it is not on the stack.
  static void remove(Context& context) noexcept;

 private:
  friend class ContextScope;
};

// While alive, `context` is the innermost one and calls carry the line `where`: how a rule's calls
// run in the parent and show the user's line.
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

// While alive, or until leave(), `bottom` takes the place of the whole stack: what is below is not
// seen, as if the program had begun here. confined to the thread that made it.
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

// Runs a call in the innermost context after checking operands against the record: number, absent
// ones, dtypes (promoted to one, core/promotion.h), slices made dense unless the record accepts
// them. The one way an op runs.
// throws: Error with the op's name in front and the user's line behind.
Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where);

namespace internal {
// Runs the call by its cached kernel if no context watches and all operands have values; false if
// it is not cached. Implemented by the eager context; execute() tries it first.
bool run_cached(const Op& op, Operands operands, const Attrs& attrs, Values& out);
}  // namespace internal

// Runs the lowering of a composition in `context`, after its type rule, which checks the operands.
Values lower(const Op& op, Operands operands, const Attrs& attrs, Context& context, CallSite where);

// Result types of a call, by the record's rule or by running its lowering on types. A size that
// depends on data is kAny in a result; operands have none.
// throws: kInvalidArgument for an operand of unknown size, or on another device than the others;
// what the rule throws.
Types infer_types(const Op& op, std::span<const Type* const> operands, const Attrs& attrs);

}  // namespace etude
