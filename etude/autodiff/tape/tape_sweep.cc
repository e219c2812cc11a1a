// SPDX-License-Identifier: Apache-2.0
// The backward sweep of a tape, and explanations of gradients that are absent.
#include <algorithm>
#include <bit>

#include "etude/autodiff/derive.h"
#include "etude/autodiff/internal/custom_rule.h"
#include "etude/autodiff/tape/cotangent_sums.h"
#include "etude/autodiff/tape/tape.h"
#include "etude/base/check.h"
#include "etude/base/permanent.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/located.h"
#include "etude/core/internal/mode.h"
#include "etude/core/op/registry.h"
#include "etude/device/cpu/float_mode.h"
#include "etude/stage/trace.h"

namespace etude {

using internal::CotangentSums;
using internal::InlineVector;

namespace {

// Whether the reverse rule adds to a part of its operand's cotangent sum. An op that runs graphs
// continues with the whole sum, and its graphs do this for their own parts.
bool adds_to_part(const OpDef& def) { return def.takes_sums && !internal::runs_graphs(def); }

// Turns the error of an addition into an error of the sum for operand `i` of a call: its text names
// the addition, its place is the call whose rule returned the faulty cotangent.
Error error_of_sum(const Error& error, std::size_t i, std::string_view call, CallSite where) {
  Error out(error.code(), error.text());
  out.set_cause(error.cause());
  out.name_op(fmt::format("sum of gradients for operand {} of {}", i, call));
  out.locate(where);
  return out;
}

// Whether the calls of a sweep are kept for a derivative of it.
bool is_recorded() {
  if (internal::mode_word == 0) return false;
  for (const Context* c = &ContextStack::top(); c != nullptr; c = c->parent()) {
    if (dynamic_cast<const TapeContext*>(c) != nullptr) return true;
    if (dynamic_cast<const internal::TraceContext*>(c) != nullptr) return true;
  }
  return false;
}

// The index of the first operand whose cotangent is wanted. Bit 63 is for all operands from 63 on.
std::size_t first_wanted(uint64_t wanted) {
  return static_cast<std::size_t>(std::countr_zero(wanted));
}

// The initial term of a sum, as a new value. A sum that a loop carries is a new value in each step,
// so that the cotangents of `g` from the sum and from its other readers arrive in the order of
// these calls.
Tensor own_value(Tensor&& g, CallSite where) {
  const bool has_other_readers = !TensorAccess::is_sparse(g) && !TensorAccess::is_unique(g);
  return has_other_readers ? internal::identity(g, where) : std::move(g);
}

}  // namespace

Values Tape::run_rule(const Record& record, std::span<const Tensor> cotangents, uint64_t expiring,
                      CotangentSums& slots) const {
  try {
    if (record.pullback) {
      std::vector<Tensor> back = record.pullback->run(cotangents);
      InlineVector<const Type*, 6> types;
      for (const Entry& x : inputs_of(record)) types.push_back(x.type);
      internal::require_gradients(back, std::span<const Type* const>(types.data(), types.size()));
      return Values(std::make_move_iterator(back.begin()), std::make_move_iterator(back.end()));
    }
    if (!record.op->def().no_derivative.empty()) return Values(record.inputs);
    ETUDE_REQUIRE_CODE(
        kUnimplemented, internal::has_vjp(*record.op),
        "has no derivative, but a gradient must flow through its {}. Use stop_gradient, or "
        "custom_gradient with a rule of your own. A record of your own takes a rule as `vjp`, or a "
        "reason as `no_derivative`, which marks it as not differentiable",
        internal::operand_text(*record.op, first_wanted(record.wanted)));
    // A persistent tape that records the calls of rules may move its entries meanwhile.
    InlineVector<Tensor, 6> held;
    InlineVector<const Tensor*, 6> list;
    static const internal::Permanent<Tensor> absent;
    const std::size_t size = record.inputs + record.outputs;
    const Entry* entries = entries_.data() + record.first;
    if (options_.persistent) {
      for (std::size_t i = 0; i < size; ++i) held.push_back(entries[i].saved);
    }
    for (std::size_t i = 0; i < size; ++i) {
      const Entry& e = entries[i];
      const Tensor& saved = options_.persistent ? held[i] : e.saved;
      list.push_back(saved.has_value()   ? &saved
                     : e.type != nullptr ? &e.type->abstract_tensor()
                                         : &*absent);
    }
    const OperandList cts{cotangents};
    const Op& op = *record.op;
    const bool is_part = adds_to_part(op.def());
    InlineVector<Tensor*, 6> sums;
    for (std::size_t i = 0; op.def().takes_sums && i < record.inputs; ++i) {
      // A persistent tape that records this may move its entries.
      const Entry& e = entries_[record.first + i];
      const std::optional<uint32_t> slot = e.id != 0 ? std::optional(e.slot) : std::nullopt;
      if (slot && is_part) slots.prepare_for_part(*slot, record.where);
      sums.push_back(slot ? &slots.at(*slot) : nullptr);
    }
    const ContextScope scope(ContextStack::top(), record.where);
    return internal::run_vjp(op, {{list.data(), record.inputs},
                                  {list.data() + record.inputs, record.outputs},
                                  cts.view(expiring),
                                  record.attrs,
                                  record.wanted,
                                  op.def().takes_sums ? sums.data() : nullptr});
  } catch (Error& error) {
    locate(record, error);
    throw;
  }
}

std::string_view Tape::name_of(const Record& record) {
  if (record.op != nullptr) return record.op->name();
  return record.pullback->name.empty() ? "custom_gradient"
                                       : std::string_view(record.pullback->name);
}

void Tape::locate(const Record& record, Error& error) {
  error.name_op(fmt::format("gradient of {}", name_of(record)));
  error.locate(record.where);
}

std::string Tape::describe_hold(const internal::SharedElements& elements) const {
  const auto at = [](CallSite where) {
    return where.known() ? fmt::format(" at {}:{}", where.file, where.line) : std::string();
  };
  for (const Record& record : records_) {
    const Entry* entry = entries_.data() + record.first;
    for (uint32_t i = 0; !record.is_dead && i < record.inputs + record.outputs; ++i) {
      if (!elements.are_in(entry[i].saved)) continue;
      return fmt::format("{}{}, which keeps it for the derivative of {}{}",
                         where_.known() ? "a GradientTape made" : "a pullback", at(where_),
                         name_of(record), at(record.where));
    }
  }
  return "";
}

bool Tape::run_simple(const Record& record, Tensor& ct, Values& back) const {
  if (record.op == nullptr || record.op->def().kind != Kind::kElementwise) return false;
  const std::size_t size = record.inputs + record.outputs;
  constexpr std::size_t kMost = 4;
  if (size > kMost || options_.persistent) return false;
  const Tensor* values[kMost];
  const Entry* entries = entries_.data() + record.first;
  for (std::size_t i = 0; i < size; ++i) {
    if (entries[i].type == nullptr) return false;
    values[i] =
        entries[i].saved.has_value() ? &entries[i].saved : &entries[i].type->abstract_tensor();
  }
  try {
    return internal::run_partials(*record.op, {values, size}, ct, record.wanted, back);
  } catch (Error& error) {
    locate(record, error);
    throw;
  }
}

std::vector<Tensor> Tape::gradient(std::span<const Tensor> targets, std::span<const Tensor> sources,
                                   std::span<const Tensor> seeds) {
  std::vector<uint64_t> ids;
  for (const Tensor& x : sources) ids.push_back(x.has_value() ? TensorAccess::id_or_zero(x) : 0);
  return gradient_by_id(targets, ids, seeds);
}

void Tape::seed(CotangentSums& slots, std::span<const Tensor> targets,
                std::span<const Tensor> seeds) const {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const Tensor& y = targets[i];
    ETUDE_REQUIRE(y.has_value(), "target {} is nothing. Does the loss function return its value?",
                  i);
    if (!is_differentiable(y.dtype())) continue;
    // A tape tracks a sparse target by its rows.
    const std::optional<IndexedSlices> rows = y.slices();
    const Tensor& target = rows ? rows->values : y;
    const Known* known = known_.find(TensorAccess::id_or_zero(target));
    if (known == nullptr) continue;
    const uint32_t slot = known->slot;
    const bool seeded = !seeds.empty() && seeds[i].has_value();
    ETUDE_REQUIRE(
        !seeded || seeds[i].shape() == y.shape(),
        "output_gradients[{}] has shape {}, but target {} has shape {}. They must be equal", i,
        seeds[i].shape().to_string(), i, y.shape().to_string());
    slots.add(slot,
              !seeded ? internal::full(target.type(), 1)
              : rows  ? internal::rows_of(seeds[i], rows->indices)
                      : Tensor(seeds[i]),
              {});
  }
}

void Tape::sweep(CotangentSums& slots, const std::vector<bool>& is_source) {
  const bool has_derivative = is_recorded();
  // Rules that run now may add records (a persistent tape on the stack); the sweep skips these.
  for (std::size_t k = records_.size(); k-- > 0;) {
    if (records_[k].is_dead) continue;
    InlineVector<Tensor, 2> cts;
    bool any = false;
    uint64_t expiring = 0;  // the rule may overwrite it
    for (std::size_t i = 0; i < records_[k].outputs; ++i) {
      const Entry& o = outputs_of(records_[k])[i];
      const uint32_t slot = o.slot;
      const bool known = o.id != 0 && slot < slots.size();
      const bool is_moved = known && !is_source[slot];
      if (is_moved && i < 32) expiring |= uint64_t{1} << i;
      cts.push_back(!known ? Tensor() : is_moved ? std::move(slots.at(slot)) : slots.at(slot));
      any = any || cts.back().has_value();
    }
    if (any) {
      // Rules that are recorded on this very tape may move its records.
      Values back;
      if (!run_simple(records_[k], cts[0], back)) {
        const std::span<const Tensor> given(cts.data(), cts.size());
        back = options_.persistent ? run_rule(Record(records_[k]), given, expiring, slots)
                                   : run_rule(records_[k], given, expiring, slots);
      }
      cts.clear();
      const bool takes_sums = records_[k].op != nullptr && records_[k].op->def().takes_sums;
      for (std::size_t at = 0; at < back.size(); ++at) {
        // In reverse order: a rule that takes sums returns them for its later operands, and a sum
        // must precede new cotangents.
        const std::size_t i = takes_sums ? back.size() - 1 - at : at;
        // A persistent tape that records these calls may move its entries.
        const uint32_t slot = inputs_of(records_[k])[i].slot;
        if (!back[i].has_value() || inputs_of(records_[k])[i].id == 0) continue;
        if (has_derivative && slots.is_empty(slot))
          back[i] = own_value(std::move(back[i]), records_[k].where);
        try {
          slots.add(slot, std::move(back[i]), records_[k].where);
        } catch (const Error& error) {
          throw error_of_sum(error, i, name_of(records_[k]), records_[k].where);
        }
      }
    }
    if (options_.persistent) continue;
    for (Entry& e : inputs_of(records_[k])) e.saved.reset();
    for (Entry& e : outputs_of(records_[k])) e.saved.reset();
    records_[k].pullback = {};
  }
}

std::vector<Tensor> Tape::gradient_by_id(std::span<const Tensor> targets,
                                         std::span<const uint64_t> sources,
                                         std::span<const Tensor> seeds) {
  ETUDE_REQUIRE_CODE(
      kFailedPrecondition, !used_up_,
      "this tape is used up: gradient() was called before. Ask for a persistent one: "
      "GradientTape tape({{.persistent = true}})");
  ETUDE_REQUIRE(seeds.empty() || seeds.size() == targets.size(),
                "output_gradients has {} entries for {} targets. Give one per target, or none",
                seeds.size(), targets.size());
  if (numbers_ == nullptr) return sweep_to(targets, sources, seeds);
  std::vector<Tensor> out;
  numbers_->during_sweep([&] { out = sweep_to(targets, sources, seeds); });
  return out;
}

std::vector<Tensor> Tape::sweep_to(std::span<const Tensor> targets,
                                   std::span<const uint64_t> sources,
                                   std::span<const Tensor> seeds) {
  std::vector<Tensor> out(sources.size());
  // Once for all rules, not for each of their calls.
  const FloatModeScope float_mode;
  if (!options_.persistent) used_up_ = true;
  // A frozen tape may be swept by several threads: nothing in it changes.
  std::optional<Busy> busy;
  if (observer_) busy.emplace(*this);
  CotangentSums slots(next_slot_);
  std::vector<bool> is_source(next_slot_);
  for (const uint64_t id : sources) {
    if (const Known* known = std::as_const(known_).find(id)) is_source[known->slot] = true;
  }
  if (follows_escapes_ && observer_) {
    for (const Tensor& x : targets) targets_.push_back(TensorAccess::id_or_zero(x));
  }
  seed(slots, targets, seeds);
  seed(slots, readings_, {});
  sweep(slots, is_source);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Known* known = std::as_const(known_).find(sources[i]);
    if (known != nullptr && known->slot < slots.size()) out[i] = slots.at(known->slot);
  }
  return out;
}

Tape::Sweeps::~Sweeps() {
  tape_.options_.persistent = was_persistent_;
  if (was_persistent_) return;
  tape_.used_up_ = true;
  for (Entry& e : tape_.entries_) e.saved.reset();
}

std::string Tape::find_nonlinear() const {
  const auto is_read = [](const Entry& e) { return e.id != 0 && e.saved.has_value(); };
  for (const Record& r : records_) {
    if (r.is_dead) continue;
    const auto inputs = inputs_of(r), outputs = outputs_of(r);
    const bool is_linear = r.op != nullptr && std::none_of(inputs.begin(), inputs.end(), is_read) &&
                           std::none_of(outputs.begin(), outputs.end(), is_read);
    if (is_linear) continue;
    return fmt::format("{} at {}:{}", r.op != nullptr ? r.op->name() : "custom_gradient",
                       r.where.file, r.where.line);
  }
  return {};
}

std::string Tape::describe_end(const Record& record, std::string_view why) const {
  const Type* type = outputs_of(record)[0].type;
  return fmt::format("last dependent value: {}({}) at {}:{}: {}",
                     record.op != nullptr ? record.op->name() : "custom_gradient",
                     type != nullptr ? name(type->dtype()) : "", record.where.file,
                     record.where.line, why);
}

std::string Tape::explain(const Tensor& target, const Tensor& source) const {
  if (!source.has_value()) return "the source is absent: it was never given a value";
  return explain_id(target, source.dtype(), TensorAccess::id_or_zero(source));
}

std::string Tape::explain_id(const Tensor& target, DType source_dtype, uint64_t source) const {
  if (!target.has_value()) return "the target is absent: it was never given a value";
  if (!is_differentiable(source_dtype)) {
    return fmt::format("the source is {}: only floating and complex values have gradients",
                       name(source_dtype));
  }
  if (!is_differentiable(target.dtype())) {
    return fmt::format("the target is {}: only floating and complex values have gradients",
                       name(target.dtype()));
  }
  if (known_.find(source) == nullptr) {
    return "the source was not watched: watch it (or read the Variable) before it is used";
  }
  if (!is_watched(target)) {
    return "no recorded call on watched values made the target: it was computed before the watch, "
           "while recording was paused, or through host data, integers or stop_gradient";
  }
  // Forwards from the source to the end of the chain, through values that the target depends on.
  std::vector<bool> reaches(next_slot_), needed(next_slot_);
  needed[known_.find(TensorAccess::id_or_zero(target))->slot] = true;
  for (std::size_t k = records_.size(); k-- > 0;) {
    if (records_[k].is_dead) continue;
    const auto outputs = outputs_of(records_[k]);
    if (std::none_of(outputs.begin(), outputs.end(),
                     [&](const Entry& o) { return needed[o.slot]; }))
      continue;
    for (const Entry& i : inputs_of(records_[k])) {
      if (i.id != 0) needed[i.slot] = true;
    }
  }
  const uint32_t from = known_.find(source)->slot;
  if (!needed[from]) return "the target depends on watched values, but not on this source";
  reaches[from] = true;
  std::string ended;
  for (const Record& r : records_) {
    if (r.is_dead) continue;
    const auto inputs = inputs_of(r), outputs = outputs_of(r);
    const bool reached = std::any_of(inputs.begin(), inputs.end(), [&](const Entry& i) {
      return i.id != 0 && reaches[i.slot] && is_differentiable(i.type->dtype());
    });
    const bool used =
        std::any_of(outputs.begin(), outputs.end(), [&](const Entry& o) { return needed[o.slot]; });
    if (!reached || !used) continue;
    const bool ends = r.op != nullptr && !r.op->def().no_derivative.empty();
    const bool smooth = std::any_of(outputs.begin(), outputs.end(), [](const Entry& o) {
      return o.type != nullptr && is_differentiable(o.type->dtype());
    });
    if (ends || !smooth) {
      ended = describe_end(
          r, ends ? r.op->def().no_derivative : "its result has an integer or bool dtype");
      continue;
    }
    for (const Entry& o : outputs) reaches[o.slot] = true;
  }
  const bool connected = reaches[known_.find(TensorAccess::id_or_zero(target))->slot];
  return connected ? "the source is connected to the target" : ended;
}

}  // namespace etude
