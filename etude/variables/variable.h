// SPDX-License-Identifier: Apache-2.0
// Variable: a cell that holds a tensor and is shared by reference. For programs that share state;
// models may also be plain structs of tensors. A read returns a snapshot. Tapes watch reads.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "etude/core/index.h"
#include "etude/core/internal/owned_result.h"
#include "etude/core/tensor.h"
#include "etude/diff/differentiable.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class VariableSlice;

struct VariableOptions {
  std::string name = {};                      // for display; need not be unique
  bool trainable = true;                      // tapes watch reads of trainable Variables
  std::optional<DType> dtype = std::nullopt;  // the initial value is cast to this dtype
  std::optional<Shape> shape = std::nullopt;  // a size of kAny may change
};

namespace internal {
struct VariableCell;
struct VariableAccess;
}  // namespace internal

// A handle. Copies name the same cell. The cell is destroyed with its last handle.
//
// threads: a read, an assignment and each updating assignment are atomic.
class Variable {
 public:
  // Makes a Variable with the value `initial`. If `initial` is absent, the options must state dtype
  // and shape. The Variable must then be assigned before its first read.
  explicit Variable(Tensor initial, VariableOptions options = {},
                    CallSite where = CallSite::here());
  // From nested literals: Variable w({{1.0, 2.0}, {3.0, 4.0}}).
  explicit Variable(std::initializer_list<Literal> rows, VariableOptions options = {},
                    CallSite where = CallSite::here())
      : Variable(Tensor(rows, where), std::move(options), where) {}
  // The initialiser computes the initial value when it is first needed, and only once. It never
  // runs if the Variable is assigned before, for example by a restore from a checkpoint.
  template <class F>
  requires(std::is_invocable_r_v<Tensor, F&> &&
           !std::is_convertible_v<F, Tensor>) explicit Variable(F initialiser,
                                                                VariableOptions options = {},
                                                                CallSite where = CallSite::here())
      : Variable(Initialiser{std::move(initialiser)}, std::move(options), where) {
    internal::require_owned<F&>();
  }

  // Returns the current value; later assignments do not change the result. Recording tapes watch
  // the result if the Variable is trainable.
  //
  // throws: kFailedPrecondition before initialisation, and for a handle that was moved from.
  Tensor read(CallSite where = CallSite::here()) const;
  operator Tensor() const { return read(); }

  // Replaces or updates the value, in place if no snapshot is alive. Returns the new value. No
  // derivative passes through an assignment.
  //
  // throws: kInvalidArgument, naming the Variable, for another dtype or a shape that does not fit.
  Tensor assign(const Arg& x) const;
  Tensor assign_add(const Arg& x) const;
  Tensor assign_sub(const Arg& x) const;
  // Returns a part of the value, which can be assigned to. Indices follow the rules of Tensor::at.
  template <class... I>
  VariableSlice at(const IndexItem& first, const I&... more) const;

  const std::string& name() const;
  bool trainable() const;
  bool initialized() const;  // has a value, or an initialiser
  DType dtype() const;
  Shape shape() const;    // of the current value; the declared shape before initialisation
  Device device() const;  // of the current value; assignments do not change the device
  // The line that made the Variable. If code of the standard library or of Etude made the Variable,
  // this is the line of the user's call, if known.
  CallSite where() const;
  // A hashable id of the cell.
  const void* ref() const noexcept { return cell_.get(); }
  // "Variable(w, [1, 2], shape=[2], dtype=float32)". Never throws because of its contents.
  std::string to_string() const;

 private:
  friend class VariableSlice;
  friend struct internal::VariableAccess;
  struct Initialiser {
    std::function<Tensor()> run;
  };
  Variable(Initialiser initialiser, VariableOptions options, CallSite where);
  // Wraps a pointer, so that Variable(0) takes the number 0 and not a null pointer.
  struct Existing {
    std::shared_ptr<internal::VariableCell> cell;
  };
  explicit Variable(Existing existing) noexcept : cell_(std::move(existing.cell)) {}
  // Whether an assignment of x changes the cell directly: no context records calls, and x is no
  // abstract value.
  static bool is_direct(const Arg& x) noexcept;
  internal::VariableCell& cell() const;
  // The device of the value; std::nullopt before initialisation.
  std::optional<Device> initialized_device() const;
  // Always throws. Reports the error first to the function that is being traced.
  [[noreturn]] void refuse_initial(const Tensor& initial) const;
  template <class Run>
  Tensor located_assignment(const char* name, CallSite where, const Run& run) const;
  // Applies `next` to the value, and assigns the result at once or as calls that a trace records.
  template <class Next>
  Tensor change(const Arg& x, const char* name, const Next& next) const;

  std::shared_ptr<internal::VariableCell> cell_;
};

// Prints `value` with its name, shape and dtype.
std::ostream& operator<<(std::ostream& out, const Variable& value);

// A part of a Variable. Reads as a tensor, and can be assigned to. Lives for one expression.
class VariableSlice {
 public:
  VariableSlice(Variable variable, Index index)
      : variable_(std::move(variable)), index_(std::move(index)) {}
  VariableSlice(const VariableSlice&) = delete;

  Tensor read(CallSite where = CallSite::here()) const {
    if (!where.known()) where = index_[0].where();
    return get_index(variable_.read(where), index_, where);
  }
  operator Tensor() const { return read(); }
  const VariableSlice& operator=(const Arg& x) const {
    assign(x);
    return *this;
  }
  const VariableSlice& operator=(const VariableSlice& other) const {
    return *this = Arg(other.read());
  }
  // Returns the new value of the whole Variable. In assign_add and assign_sub, each occurrence of a
  // repeated index counts.
  Tensor assign(const Arg& x) const { return update(x, ScatterMode::kSet, "assign"); }
  Tensor assign_add(const Arg& x) const { return update(x, ScatterMode::kAdd, "assign_add"); }
  Tensor assign_sub(const Arg& x) const;

 private:
  Tensor update(const Arg& x, ScatterMode mode, const char* name) const;

  Variable variable_;
  Index index_;
};

template <class... I>
VariableSlice Variable::at(const IndexItem& first, const I&... more) const {
  return VariableSlice(*this, Index{first, IndexItem(more)...});
}

// The tangent of a Variable is a tensor. move() is an assign_add.
template <>
inline constexpr bool internal::kIsOtherLeaf<Variable> = true;
template <>
struct DifferentiableTraits<Variable> {
  using Tangent = Tensor;
  static Tensor zero(const Variable& x);
  static void move(Variable& x, const Tensor& by) {
    if (by.has_value()) x.assign_add(by);
  }
};

namespace internal {

// Declared before VariableReader, which befriends this function: g++ hides names that only a friend
// declaration introduces. See autodiff/state_update.h.
class TapedStates;
TapedStates* taped_states();

// While registered, a reader is notified of each read and each assignment of a Variable on its
// thread. For tapes, and for operators that run a function again.
class VariableReader {
 public:
  VariableReader() = default;
  VariableReader(const VariableReader&) = delete;
  VariableReader& operator=(const VariableReader&) = delete;
  virtual void variable_read(const Variable& variable, const Tensor& snapshot) = 0;
  virtual void variable_assigned(const Variable& variable, const Tensor& value);
  // Whether the reader takes derivatives with respect to values read from the Variable.
  virtual bool takes_derivative(const Variable& /*variable*/) const { return false; }
  // Returns the state updates of layers that run outside of gradient operators; null if the reader
  // collects no updates.
  virtual TapedStates* states() { return nullptr; }

 protected:
  ~VariableReader() { stop_reading(); }
  // Both functions are idempotent.
  // threads: confined to one thread.
  void start_reading() noexcept;
  void stop_reading() noexcept;

 private:
  friend class VariableReplay;
  friend void notify_read(const Variable& variable, const Tensor& snapshot);
  friend void notify_assignment(const Variable& variable, const Tensor& value);
  friend TapedStates* taped_states();
  friend class ReadersPause;
  VariableReader* next_ = nullptr;
  bool is_registered_ = false;
};

// While alive, no reader on this thread is notified of reads or assignments.
class ReadersPause {
 public:
  ReadersPause() noexcept;
  ReadersPause(const ReadersPause&) = delete;
  ReadersPause& operator=(const ReadersPause&) = delete;
  ~ReadersPause();
  // Whether a paused reader takes derivatives with respect to values read from the Variable.
  bool hides_derivative(const Variable& variable) const;

 private:
  VariableReader* saved_;
};

// Returns the value without notifying readers.
Tensor peek(const Variable& variable);
// Returns the Variable as an operand of calls: a resource with the type of the value
// (core/context/resource.h).
Tensor resource_of(const Variable& variable);
// Returns the cell as the identity of the Variable, without keeping the cell alive.
std::weak_ptr<void> weak_state(const Variable& variable);
// "Variable 'w'": its name in messages.
std::string title_of(const Variable& variable);
// "Variable 'w' made at train.cc:12"; only the title if the user's line is not known.
std::string made_text(const Variable& variable);
Variable variable_of_state(const std::shared_ptr<void>& state);
// throws: kFailedPrecondition if the Variable has been destroyed.
Variable variable_of(const Tensor& resource);
// Returns a new Variable with the same value and options. It is the placeholder of `variable` while
// a function is traced.
Variable stand_in_for(const Variable& variable);
// Assigns at once, whatever contexts are active.
Tensor assign_now(const Variable& variable, const Tensor& x);

// While alive, no other thread reads or assigns these Variables. So a function can change several
// of them in one step. While host code runs (HostCodeScope), other threads may access them. The
// Variables are locked in the order of their addresses.
// threads: confined to its thread.
class VariableLock {
 public:
  explicit VariableLock(std::vector<Variable> variables);
  VariableLock(const VariableLock&) = delete;
  VariableLock& operator=(const VariableLock&) = delete;
  ~VariableLock();

 private:
  friend class HostCodeScope;
  void lock();
  void unlock() noexcept;
  std::vector<Variable> variables_;
  VariableLock* outer_;
  bool is_locked_ = false;
};

// While alive, host code of a program runs on this thread inside of a call. Meanwhile the thread
// releases its locks of Variables, since the host code may wait for a thread that needs them. So
// another thread may assign to these Variables.
// threads: confined to its thread.
class HostCodeScope {
 public:
  HostCodeScope() noexcept;
  HostCodeScope(const HostCodeScope&) = delete;
  HostCodeScope& operator=(const HostCodeScope&) = delete;
  ~HostCodeScope();

 private:
  VariableLock* const innermost_;
};

}  // namespace internal
}  // namespace etude
