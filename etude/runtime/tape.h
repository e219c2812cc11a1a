// SPDX-License-Identifier: Apache-2.0
// The tape: an append-only list of the calls that depend on watched values, with exactly the values
// that their reverse rules read; and the context that fills it. GradientTape is made of these two.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "etude/core/context.h"
#include "etude/core/value_observer.h"

namespace etude {

struct TapeOptions {
  bool persistent = false;      // gradient() may be called again
  bool watch_variables = true;  // trainable Variables are watched when they are read
};

// Cotangents of the results to cotangents of the inputs; absent entries: none.
using Pullback = std::function<std::vector<Tensor>(std::span<const Tensor> output_gradients)>;

// confined to the thread that made it.
class Tape final : private internal::ValueObserver {
 public:
  explicit Tape(TapeOptions options = {}) : options_(options) {}
  Tape(const Tape&) = delete;
  ~Tape();

  // Notes calls that depend on `x` from now on. Idempotent; a no-op for results of recorded calls.
  void watch(const Tensor& x);
  bool is_watched(const Tensor& x) const;
  // Whether a call on these would be recorded: some input is watched and of differentiable dtype.
  bool should_record(std::span<const Tensor> inputs) const;
  // Records a call made elsewhere by its pullback. Does nothing unless should_record(inputs).
  void record(std::span<const Tensor> inputs, std::span<const Tensor> outputs, Pullback pullback,
              std::string_view name, CallSite where);
  // Drops what belongs to this value only. Safe for values that are dead or unknown.
  void forget(const Tensor& x);

  // Cotangents of `sources`: absent where nothing arrived. `seeds` is empty (ones) or has one entry
  // per target, absent meaning ones. Rules run in the innermost context.
  // throws: kFailedPrecondition the second time on a tape that is not persistent;
  //   kUnimplemented when a cotangent must pass an op without a derivative, naming it.
  std::vector<Tensor> gradient(std::span<const Tensor> targets, std::span<const Tensor> sources,
                               std::span<const Tensor> seeds = {});
  // The same for sources by value id; 0: none.
  std::vector<Tensor> gradient_by_id(std::span<const Tensor> targets,
                                     std::span<const uint64_t> sources,
                                     std::span<const Tensor> seeds = {});
  // While alive, the tape may be swept again and again; then it is used up unless persistent.
  class Sweeps {
   public:
    explicit Sweeps(Tape& tape);
    Sweeps(const Sweeps&) = delete;
    ~Sweeps();

   private:
    Tape& tape_;
    bool was_persistent_;
  };
  // Forgets all records and watches.
  void reset();
  // Why the gradient of `target` for `source` is absent, in one sentence.
  std::string explain(const Tensor& target, const Tensor& source) const;
  std::string explain_id(const Tensor& target, DType source_dtype, uint64_t source) const;

  const TapeOptions& options() const { return options_; }
  bool is_used_up() const { return used_up_; }
  std::size_t size() const { return records_.size() - dead_records_; }

 private:
  friend class TapeContext;
  struct Input {
    uint64_t id = 0;             // 0: not watched
    const Type* type = nullptr;  // null: absent operand
    Tensor saved;                // absent: the rule does not read it
  };
  struct Record {
    const Op* op = nullptr;  // null: a pullback
    Attrs attrs;
    CallSite where;
    internal::InlineVector<Input, 3> inputs;
    internal::InlineVector<Input, 1> outputs;
    uint64_t wanted = 0;
    Pullback pullback;
    std::string name;
    bool is_dead = false;
  };
  struct Known {
    static constexpr uint32_t kWatched = ~uint32_t{0};
    uint32_t record = kWatched;  // the record whose result it is
    uint32_t uses = 0;           // records that have it as an input
    bool is_alive = true;
  };

  // Marks the tracked ones of `in` as used while a call on them runs; bit i: operand i is tracked.
  uint64_t begin_call(Operands in);
  void append(Record record);
  void value_died(uint64_t id) noexcept override;
  void drop_record(uint32_t index) noexcept;
  void release_use(uint64_t id) noexcept;
  void compact();
  Values run_rule(Record& record, std::span<const Tensor> cotangents) const;

  TapeOptions options_;
  std::vector<Record> records_;
  std::unordered_map<uint64_t, Known> known_;
  std::size_t dead_records_ = 0;
  bool used_up_ = false;
  bool in_gradient_ = false;
};

// Passes every call to its parent and records it: the same op code runs with or without a tape,
// eager or traced. On the stack for its lifetime, unless removed. confined to its thread.
class TapeContext final : public Context {
 public:
  explicit TapeContext(Tape& tape) : tape_(tape) { ContextStack::push(*this); }
  ~TapeContext() override { ContextStack::remove(*this); }

  Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) override;

 private:
  Tape& tape_;
};

}  // namespace etude
