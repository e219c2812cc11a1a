// SPDX-License-Identifier: Apache-2.0
#include "etude/runtime/tape.h"

#include <algorithm>
#include <optional>

#include "etude/base/check.h"
#include "etude/core/builtin.h"
#include "etude/core/registry.h"
#include "etude/runtime/derive.h"

namespace etude {

using internal::InlineVector;

Tape::~Tape() = default;

void Tape::watch(const Tensor& x) {
  if (!x.has_value()) return;
  known_.try_emplace(TensorAccess::id(x));
}

bool Tape::is_watched(const Tensor& x) const {
  if (!x.has_value()) return false;
  const uint64_t id = TensorAccess::id_or_zero(x);
  return id != 0 && known_.contains(id);
}

bool Tape::should_record(std::span<const Tensor> inputs) const {
  return std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& x) {
    return x.has_value() && is_differentiable(x.dtype()) && is_watched(x);
  });
}

uint64_t Tape::begin_call(Operands in) {
  uint64_t tracked = 0;
  for (std::size_t i = 0; i < in.size() && i < 64; ++i) {
    if (!in[i].has_value()) continue;
    const uint64_t id = TensorAccess::id_or_zero(in[i]);
    if (id == 0) continue;
    const auto found = known_.find(id);
    if (found == known_.end()) continue;
    ++found->second.uses;  // keeps the entry while an expiring operand is overwritten
    tracked |= uint64_t{1} << i;
  }
  return tracked;
}

void Tape::append(Record record) {
  const auto index = static_cast<uint32_t>(records_.size());
  for (Input& output : record.outputs) {
    if (output.id == 0) continue;
    Known& known = known_[output.id];
    known.record = index;
  }
  records_.push_back(std::move(record));
}

void Tape::record(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                  Pullback pullback, std::string_view name, CallSite where) {
  if (!should_record(inputs)) return;
  Record record;
  record.where = where;
  record.pullback = std::move(pullback);
  record.name = name;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Input input;
    if (inputs[i].has_value()) {
      input.type = inputs[i].type();
      const uint64_t id = TensorAccess::id_or_zero(inputs[i]);
      const auto found = id == 0 ? known_.end() : known_.find(id);
      if (found != known_.end()) {
        ++found->second.uses;
        input.id = id;
      }
    }
    record.inputs.push_back(std::move(input));
  }
  for (const Tensor& y : outputs) {
    record.outputs.push_back(
        {y.has_value() ? TensorAccess::id(y) : 0, y.has_value() ? y.type() : nullptr, {}});
  }
  append(std::move(record));
}

void Tape::forget(const Tensor& x) {
  if (x.has_value() && TensorAccess::id_or_zero(x) != 0) value_died(TensorAccess::id_or_zero(x));
}

void Tape::value_died(uint64_t id) noexcept {
  const auto found = known_.find(id);
  if (found == known_.end()) return;
  found->second.is_alive = false;
  if (found->second.uses > 0) return;
  const uint32_t record = found->second.record;
  if (record == Known::kWatched) {
    known_.erase(found);
    return;
  }
  const Record& r = records_[record];
  // A call with several results goes when all of them are dead and unused.
  const bool unused = std::none_of(r.outputs.begin(), r.outputs.end(), [&](const Input& o) {
    const auto k = known_.find(o.id);
    return k != known_.end() && (k->second.is_alive || k->second.uses > 0);
  });
  if (unused && !in_gradient_) drop_record(record);
}

void Tape::drop_record(uint32_t index) noexcept {
  Record dropped = std::move(records_[index]);
  records_[index] = Record{};
  records_[index].is_dead = true;
  ++dead_records_;
  for (const Input& output : dropped.outputs) known_.erase(output.id);
  for (const Input& input : dropped.inputs) {
    if (input.id != 0) release_use(input.id);
  }
  while (!records_.empty() && records_.back().is_dead) {
    records_.pop_back();
    --dead_records_;
  }
  if (dead_records_ > 64 && dead_records_ * 2 > records_.size()) compact();
}

void Tape::release_use(uint64_t id) noexcept {
  const auto found = known_.find(id);
  if (found == known_.end()) return;
  --found->second.uses;
  if (found->second.uses == 0 && !found->second.is_alive) value_died(id);
}

void Tape::compact() {
  uint32_t to = 0;
  for (uint32_t from = 0; from < records_.size(); ++from) {
    if (records_[from].is_dead) continue;
    for (const Input& output : records_[from].outputs) {
      const auto found = known_.find(output.id);
      if (found != known_.end()) found->second.record = to;
    }
    if (to != from) records_[to] = std::move(records_[from]);
    ++to;
  }
  records_.resize(to);
  dead_records_ = 0;
}

void Tape::reset() {
  in_gradient_ = true;  // values that die with the records need no bookkeeping
  records_.clear();
  known_.clear();
  dead_records_ = 0;
  in_gradient_ = false;
  used_up_ = false;
}

Values TapeContext::execute(const Op& op, Operands in, const Attrs& attrs, CallSite where) {
  if (!internal::has_vjp(op) && op.def().lower != nullptr) {
    const ContextScope scope(*this, where);
    return op.def().lower(in, attrs);
  }
  const uint64_t tracked = tape_.begin_call(in);
  if (tracked == 0) return parent_->execute(op, in, attrs, where);

  Tape::Record record;
  uint64_t wanted = 0;
  InlineVector<const Type*, 6> types;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool is_tracked = i < 64 && ((tracked >> i) & 1) != 0;
    types.push_back(in[i].has_value() ? in[i].type() : nullptr);
    if (is_tracked && is_differentiable(types.back()->dtype())) wanted |= uint64_t{1} << i;
    record.inputs.push_back({is_tracked ? TensorAccess::id_or_zero(in[i]) : 0, types.back(), {}});
  }
  try {
    // Which values to keep is known before the call, since the call may overwrite expiring
    // operands.
    const Types results = infer_types(op, {types.data(), types.size()}, attrs);
    const internal::Reads reads = internal::find_reads(op, attrs, {types.data(), types.size()},
                                                       {results.data(), results.size()}, wanted);
    for (std::size_t i = 0; i < in.size(); ++i) {
      if ((reads.operands >> std::min<std::size_t>(i, 63)) & 1) record.inputs[i].saved = in[i];
    }
    Values out = parent_->execute(op, in, attrs, where);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const bool is_read = (reads.results >> std::min<std::size_t>(i, 63)) & 1;
      record.outputs.push_back(
          {TensorAccess::id(out[i]), out[i].type(), is_read ? out[i] : Tensor()});
    }
    record.op = &op;
    record.attrs = attrs;
    record.where = where;
    record.wanted = wanted;
    tape_.append(std::move(record));
    return out;
  } catch (...) {
    for (const Tape::Input& input : record.inputs) {
      if (input.id != 0) tape_.release_use(input.id);
    }
    throw;
  }
}

namespace {

// Slots of cotangents by value id, summed as they arrive.
class Cotangents {
 public:
  void add(uint64_t id, const Tensor& g) {
    Tensor& slot = slots_[id];
    if (!slot.has_value()) {
      slot = g;
    } else if (slot.slices() && g.slices()) {
      slot = join(*slot.slices(), *g.slices());
    } else {
      slot = internal::add(std::move(slot), g);
    }
  }
  Tensor take(uint64_t id, bool keep) {
    const auto found = slots_.find(id);
    if (found == slots_.end()) return {};
    return keep ? found->second : std::move(found->second);
  }
  const Tensor* find(uint64_t id) const {
    const auto found = slots_.find(id);
    return found == slots_.end() || !found->second.has_value() ? nullptr : &found->second;
  }
  void erase(uint64_t id) { slots_.erase(id); }

 private:
  static Tensor join(const IndexedSlices& a, const IndexedSlices& b) {
    static const Op& concat = Registry::global().at("concat");
    const auto both = [&](const Tensor& x, const Tensor& y) {
      const OperandList in({&x, &y});
      return std::move(execute(concat, in.view(), concat.attrs({std::vector<int64_t>{0}}), {})[0]);
    };
    return make_slices({both(a.indices, b.indices), both(a.values, b.values), a.dense_shape});
  }
  std::unordered_map<uint64_t, Tensor> slots_;
};

}  // namespace

Values Tape::run_rule(Record& record, std::span<const Tensor> cotangents) const {
  try {
    if (record.pullback) {
      std::vector<Tensor> back = record.pullback(cotangents);
      ETUDE_REQUIRE(
          back.size() == record.inputs.size(),
          "the pullback returned {} gradients for {} inputs. Return one per input, absent "
          "where there is none",
          back.size(), record.inputs.size());
      return Values(back.begin(), back.end());
    }
    if (!record.op->def().no_derivative.empty()) return Values(record.inputs.size());
    ETUDE_REQUIRE_CODE(
        kUnimplemented, internal::has_vjp(*record.op),
        "has no derivative, but a gradient must flow through it. Use stop_gradient, or "
        "custom_gradient with a rule of your own");
    OperandList in, out;
    const Tensor absent;
    for (const Input& i : record.inputs) {
      in.add(i.saved.has_value() ? i.saved : i.type != nullptr ? i.type->ghost() : absent);
    }
    for (const Input& o : record.outputs) out.add(o.saved.has_value() ? o.saved : o.type->ghost());
    const OperandList cts{cotangents};
    const ContextScope scope(ContextStack::top(), record.where);
    return internal::run_vjp(*record.op,
                             {in.view(), out.view(), cts.view(), record.attrs, record.wanted});
  } catch (Error& error) {
    error.name_op(
        record.op != nullptr
            ? fmt::format("gradient of {}", record.op->name())
            : fmt::format("gradient of {}", record.name.empty() ? "custom_gradient" : record.name));
    error.locate(record.where);
    throw;
  }
}

std::vector<Tensor> Tape::gradient(std::span<const Tensor> targets, std::span<const Tensor> sources,
                                   std::span<const Tensor> seeds) {
  std::vector<uint64_t> ids;
  for (const Tensor& x : sources) ids.push_back(x.has_value() ? TensorAccess::id_or_zero(x) : 0);
  return gradient_by_id(targets, ids, seeds);
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
  used_up_ = !options_.persistent;
  in_gradient_ = true;
  struct Reset {
    bool& flag;
    ~Reset() { flag = false; }
  } reset{in_gradient_};

  Cotangents cotangents;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const Tensor& y = targets[i];
    ETUDE_REQUIRE(y.has_value(), "target {} is nothing. Does the loss function return its value?",
                  i);
    if (!is_differentiable(y.dtype()) || !is_watched(y)) continue;
    const bool seeded = !seeds.empty() && seeds[i].has_value();
    cotangents.add(TensorAccess::id(y), seeded ? seeds[i] : internal::full(y.type(), 1));
  }
  std::unordered_map<uint64_t, bool> is_source;
  for (const uint64_t id : sources) is_source[id] = true;
  // Rules that run now may add records (a persistent tape on the stack); those are not walked.
  for (std::size_t k = records_.size(); k-- > 0;) {
    if (records_[k].is_dead) continue;
    std::vector<Tensor> cts;
    bool any = false;
    for (const Input& o : records_[k].outputs) {
      cts.push_back(cotangents.take(o.id, is_source.contains(o.id)));
      any = any || cts.back().has_value();
    }
    if (!any) continue;
    Record copy = options_.persistent ? records_[k] : std::move(records_[k]);
    if (!options_.persistent) {
      records_[k].outputs = copy.outputs;  // explain() reads the shape of the record
      for (Input& o : records_[k].outputs) o.saved.reset();
    }
    Values back = run_rule(copy, cts);
    for (std::size_t i = 0; i < back.size(); ++i) {
      if (back[i].has_value() && copy.inputs[i].id != 0) cotangents.add(copy.inputs[i].id, back[i]);
    }
  }
  std::vector<Tensor> out;
  for (const uint64_t id : sources) {
    const Tensor* found = id != 0 ? cotangents.find(id) : nullptr;
    out.push_back(found != nullptr ? *found : Tensor());
  }
  if (!options_.persistent) {
    records_.clear();
    known_.clear();
    dead_records_ = 0;
  }
  return out;
}

Tape::Sweeps::Sweeps(Tape& tape) : tape_(tape), was_persistent_(tape.options_.persistent) {
  tape_.options_.persistent = true;
}

Tape::Sweeps::~Sweeps() {
  tape_.options_.persistent = was_persistent_;
  tape_.used_up_ = !was_persistent_;
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
  if (used_up_) return "the tape is used up; explain before gradient, or use a persistent tape";
  if (!known_.contains(source)) {
    return "the source was not watched: watch it (or read the Variable) before it is used";
  }
  if (!is_watched(target)) {
    return "no recorded call on watched values made the target: it was computed before the watch, "
           "while recording was paused, or through host data, integers or stop_gradient";
  }
  // Backwards from the target to where the chain ends.
  std::vector<uint64_t> todo = {TensorAccess::id(target)};
  std::unordered_map<uint64_t, bool> seen;
  while (!todo.empty()) {
    const uint64_t id = todo.back();
    todo.pop_back();
    if (std::exchange(seen[id], true)) continue;
    if (id == source) return "the source is connected to the target";
    const auto found = known_.find(id);
    if (found == known_.end() || found->second.record == Known::kWatched) continue;
    const Record& r = records_[found->second.record];
    if (r.op != nullptr && !r.op->def().no_derivative.empty()) {
      return fmt::format("the chain ended at {} ({}:{}): {}", r.op->name(), r.where.file,
                         r.where.line, r.op->def().no_derivative);
    }
    for (const Input& i : r.inputs) {
      if (i.id != 0) todo.push_back(i.id);
    }
  }
  return "the target depends on watched values, but not on this source";
}

}  // namespace etude
