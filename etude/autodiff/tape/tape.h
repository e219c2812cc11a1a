// SPDX-License-Identifier: Apache-2.0
// The tape: an append-only list of the calls that depend on watched values, with exactly the values
// that their reverse rules read (the residuals); and the context that fills it. GradientTape is
// made of these two.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "etude/autodiff/internal/joint_tapes.h"
#include "etude/autodiff/internal/value_table.h"
#include "etude/autodiff/tape/tape_options.h"
#include "etude/base/error.h"
#include "etude/base/internal/ref_ptr.h"
#include "etude/core/context/context.h"
#include "etude/core/copies.h"
#include "etude/core/internal/value_observer.h"
#include "etude/core/op/attrs.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {
class CotangentSums;
}

// threads: confined to the thread that made it, until freeze().
class Tape final {
 public:
  // explain_copy() shows `where` as the line of the tape.
  explicit Tape(TapeOptions options = {}, CallSite where = {});
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;
  ~Tape();

  // Records calls that depend on `x` from now on. Idempotent; a no-op for results of recorded
  // calls.
  void watch(const Tensor& x);
  bool is_watched(const Tensor& x) const;
  // Whether a cotangent of x would reach a watched value: some path from x to a watched value has
  // no call that ends derivatives, such as stop_gradient. cost: a traversal of the calls that made
  // x.
  bool depends_on_watched(const Tensor& x) const;
  // Whether a call on these inputs would be recorded: an input depends on a watched value and has a
  // differentiable dtype.
  bool should_record(std::span<const Tensor> inputs) const;
  // Records a call made elsewhere, with its pullback. Does nothing unless should_record(inputs).
  void record(std::span<const Tensor> inputs, std::span<const Tensor> outputs, Pullback pullback,
              std::string_view name, CallSite where);
  // Records that numbers were read from x. `pullback` converts the cotangents of these numbers to a
  // cotangent of x. It always runs, even if no cotangent arrived at another value.
  void record_reading(const Tensor& x, Pullback pullback, CallSite where);
  // The tape of numbers of the same derivative; null: none. keep_numbers() takes ownership of it.
  internal::NumberTape* numbers() const noexcept { return numbers_; }
  void set_numbers(internal::NumberTape* numbers) noexcept { numbers_ = numbers; }
  void keep_numbers(std::shared_ptr<void> held) { held_numbers_ = std::move(held); }
  // Drops the records that serve this value only. Safe for values that are dead or unknown.
  void forget(const Tensor& x);

  // Cotangents of `sources`; absent where none arrived. `seeds` is empty (ones) or has one entry
  // per target, where an absent entry means ones. Rules run in the innermost context.
  // throws: kFailedPrecondition the second time on a tape that is not persistent;
  //   kUnimplemented, naming the op, when a cotangent must pass an op without a derivative.
  std::vector<Tensor> gradient(std::span<const Tensor> targets, std::span<const Tensor> sources,
                               std::span<const Tensor> seeds = {});
  // The same for sources given by value id; 0: none.
  std::vector<Tensor> gradient_by_id(std::span<const Tensor> targets,
                                     std::span<const uint64_t> sources,
                                     std::span<const Tensor> seeds = {});
  // While alive, the tape may be swept repeatedly. Afterwards a tape that is not persistent cannot
  // be swept again.
  class Sweeps {
   public:
    explicit Sweeps(Tape& tape) : tape_(tape), was_persistent_(tape.options_.persistent) {
      tape_.options_.persistent = true;
    }
    Sweeps(const Sweeps&) = delete;
    ~Sweeps();

   private:
    Tape& tape_;
    bool was_persistent_;
  };
  // Ends recording for good: the tape keeps its records and may be swept from any thread.
  void freeze() noexcept;
  // Drops all records and watches.
  void reset();
  // Why the gradient of `target` for `source` is absent, in one sentence.
  std::string explain(const Tensor& target, const Tensor& source) const;
  std::string explain_id(const Tensor& target, DType source_dtype, uint64_t source) const;

  // "multiply at train.cc:12" for the first call whose rule reads a value that depends on watched
  // values; empty if there is none.
  std::string find_nonlinear() const;

  // Whether the tape holds calls that were recorded with a pullback.
  bool has_pullbacks() const noexcept;

  const TapeOptions& options() const { return options_; }
  bool is_used_up() const { return used_up_; }
  // The number of calls that the tape holds.
  std::size_t size() const { return records_.size() - dead_records_; }

 private:
  friend class TapeContext;
  // While alive, which is during a call or a sweep, records stay in place.
  class Busy {
   public:
    explicit Busy(Tape& tape) : tape_(tape), was_(std::exchange(tape.is_busy_, true)) {}
    Busy(const Busy&) = delete;
    ~Busy() {
      tape_.is_busy_ = was_;
      if (!was_ && !tape_.deaths_.empty()) tape_.settle_deaths();
    }

   private:
    Tape& tape_;
    bool was_;
  };
  using Known = internal::KnownValue;

  // An operand or result of a recorded call.
  struct Entry {
    uint64_t id = 0;             // 0: not known to the tape
    const Type* type = nullptr;  // null: absent operand
    Tensor saved = {};           // absent: the rule does not read it
    uint32_t slot = 0;
    bool is_use = false;  // an operand, counted in KnownValue::uses
  };
  struct ByPullback final : internal::RefCounted {
    ByPullback(Pullback f, std::string_view text) : run(std::move(f)), name(text) {}
    Pullback run;
    std::string name;
  };
  // A call. Its entries, operands before results, are adjacent in entries_.
  struct Record {
    const Op* op = nullptr;  // null: a pullback
    Attrs attrs = {};
    CallSite where = {};
    uint32_t first = 0;
    uint32_t inputs = 0;
    uint32_t outputs = 0;
    bool is_dead = false;
    bool keeps_result = false;
    uint64_t wanted = 0;  // bit i: operand i; bit 63: operands from 63 on
    internal::RefPtr<const ByPullback> pullback = {};
  };
  struct Observer final : internal::ValueObserver {
    explicit Observer(Tape& t) : tape(t) {}
    void value_died(uint64_t id) noexcept override { tape.value_died(id); }
    Tape& tape;
  };
  struct Holder final : internal::ElementHolder {
    Holder(const Tape& t, bool frozen) : ElementHolder(frozen), tape(t) {}
    std::string describe(const internal::SharedElements& elements) const override {
      return tape.describe_hold(elements);
    }
    const Tape& tape;
  };

  std::span<Entry> inputs_of(const Record& r) { return {entries_.data() + r.first, r.inputs}; }
  std::span<const Entry> inputs_of(const Record& r) const {
    return {entries_.data() + r.first, r.inputs};
  }
  std::span<Entry> outputs_of(const Record& r) {
    return {entries_.data() + r.first + r.inputs, r.outputs};
  }
  std::span<const Entry> outputs_of(const Record& r) const {
    return {entries_.data() + r.first + r.inputs, r.outputs};
  }
  bool is_recording() const noexcept { return observer_.has_value() && !used_up_; }
  // Appends the operands as entries, and marks the known operands as used. Returns whether any
  // operand is known.
  bool begin_call(Operands in, uint64_t& wanted);
  bool add_operands(Operands in, uint64_t& wanted);
  // Removes the entries that were appended for a call since begin_call.
  void abandon_call(std::size_t first) noexcept;
  void add_output(const Tensor& y, bool is_saved);
  void finish_call(Record&& record, std::size_t first);
  Values record_call(const Op& op, Operands in, const Attrs& attrs, CallSite where,
                     Context& parent);
  // The same for an op with OpDef::residuals: calls another form of the op, which also returns the
  // residuals of its rule.
  Values record_with_residuals(const Op& op, Operands in, const Attrs& attrs, CallSite where,
                               Context& parent, std::size_t first, uint64_t wanted);

  // Records the results of the calls on this tape for Diagnostics::escaped_value.
  void note_escapes() const;

  // Handles the end of a value; deferred while a call or a sweep is in progress.
  void value_died(uint64_t id) noexcept;
  void note_death(uint64_t id) noexcept;
  void settle_deaths() noexcept;
  void drop_record(uint32_t index) noexcept;
  void release_use(uint64_t id) noexcept;
  // Drops calls whose results only the tape still holds. The latest calls are dropped at once,
  // others when the number of records has doubled.
  void collect() noexcept;
  bool is_unreachable(const Record& record) const noexcept;
  void erase_known(uint64_t id) noexcept;
  void compact();

  std::vector<Tensor> sweep_to(std::span<const Tensor> targets, std::span<const uint64_t> sources,
                               std::span<const Tensor> seeds);
  void seed(internal::CotangentSums& slots, std::span<const Tensor> targets,
            std::span<const Tensor> seeds) const;
  void sweep(internal::CotangentSums& slots, const std::vector<bool>& is_source);
  // Runs the rule of a plain element-wise call, with the same bits as run_rule(). Returns false for
  // any other call.
  bool run_simple(const Record& record, Tensor& ct, Values& back) const;
  static void locate(const Record& record, Error& error);
  static std::string_view name_of(const Record& record);
  std::string describe_hold(const internal::SharedElements& elements) const;
  std::string describe_end(const Record& record, std::string_view why) const;
  Values run_rule(const Record& record, std::span<const Tensor> cotangents, uint64_t expiring,
                  internal::CotangentSums& slots) const;

  // The vectors that grow. When a tape ends, it clears them and passes their memory to the next
  // tape on its thread.
  struct Storage {
    std::vector<Record> records;
    std::vector<Entry> entries;
    internal::ValueTable known;
  };
  struct Spare;
  static std::unique_ptr<Storage> take_storage();

  TapeOptions options_;
  std::unique_ptr<Storage> storage_;
  std::vector<Record>& records_;
  std::vector<Entry>& entries_;
  internal::ValueTable& known_;
  uint32_t next_slot_ = 0;
  std::size_t dead_records_ = 0;
  std::size_t next_collect_ = 1024;
  std::vector<uint64_t> deaths_;
  std::vector<Tensor> readings_;  // placeholders of numbers that were read from values
  internal::NumberTape* numbers_ = nullptr;
  std::shared_ptr<void> held_numbers_;
  bool used_up_ = false;
  bool is_busy_ = false;
  const bool follows_escapes_;     // of an operator, if Diagnostics::escaped_value is set
  std::vector<uint64_t> targets_;  // of its sweeps: they do not count as escaped
  CallSite where_;
  std::optional<Holder> holder_;
  std::optional<Observer> observer_;  // last, so that it is destroyed first
};

// Passes every call to its parent and records it. So the same op code runs with and without a tape,
// eager or traced. On the stack for its lifetime, unless removed.
// threads: confined to its thread.
class TapeContext final : public Context {
 public:
  explicit TapeContext(Tape& tape) : tape_(tape) {
    ContextStack::push(*this);
    if (tape_.numbers() != nullptr) tape_.numbers()->resume();
  }
  ~TapeContext() override {
    ContextStack::remove(*this);
    if (tape_.numbers() != nullptr) tape_.numbers()->pause();
  }

  Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) override;
  Tape& tape() const { return tape_; }

 private:
  Tape& tape_;
};

}  // namespace etude
