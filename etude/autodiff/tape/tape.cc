// SPDX-License-Identifier: Apache-2.0
// Recording. The backward sweep is in tape_sweep.cc.
#include "etude/autodiff/tape/tape.h"

#include <algorithm>

#include "etude/autodiff/derive.h"
#include "etude/autodiff/tape/escaped.h"
#include "etude/base/check.h"
#include "etude/base/thread_object.h"
#include "etude/base/warning.h"
#include "etude/graph/graph.h"

namespace etude {

using internal::InlineVector;

struct Tape::Spare {
  std::unique_ptr<Storage> storage;
};

std::unique_ptr<Tape::Storage> Tape::take_storage() {
  Spare& spare = internal::ThreadObject<Spare>::get();
  return spare.storage != nullptr ? std::move(spare.storage) : std::make_unique<Storage>();
}

Tape::Tape(TapeOptions options, CallSite where)
    : options_(options),
      storage_(take_storage()),
      records_(storage_->records),
      entries_(storage_->entries),
      known_(storage_->known),
      follows_escapes_(!options.watch_variables &&
                       diagnostics().escaped_value != Severity::kIgnore),
      where_(where),
      observer_(std::in_place, *this) {
  holder_.emplace(*this, false);
}

Tape::~Tape() {
  if (follows_escapes_ && observer_) note_escapes();  // a frozen tape belongs to a pullback
  constexpr std::size_t kMostRecords = 1 << 14;       // some MiB are worth keeping, not more
  // No observer needs to know of values that die with the records.
  observer_.reset();
  holder_.reset();
  records_.clear();
  entries_.clear();
  known_.clear();
  Spare* const spare =
      internal::ThreadObject<Spare>::find();  // null on another thread than its own
  if (spare != nullptr && records_.capacity() <= kMostRecords) spare->storage = std::move(storage_);
}

void Tape::note_escapes() const {
  for (const Record& record : records_) {
    // No cotangent passes an op without a derivative, such as stop_gradient.
    if (record.is_dead || (record.op != nullptr && !internal::has_vjp(*record.op))) continue;
    for (const Entry& result : outputs_of(record)) {
      const bool is_target = std::ranges::find(targets_, result.id) != targets_.end();
      if (result.id != 0 && !is_target)
        internal::note_escaped(result.id, name_of(record), record.where);
    }
  }
}

void Tape::freeze() noexcept {
  observer_.reset();
  holder_.reset();
  // A tape for one sweep changes during the sweep, so other threads may not inspect it.
  if (options_.persistent) holder_.emplace(*this, true);
}

void Tape::watch(const Tensor& x) {
  if (!x.has_value() || !is_recording()) return;
  const auto [known, is_new] = known_.insert(TensorAccess::id(x));
  if (is_new) known->slot = next_slot_++;
}

bool Tape::is_watched(const Tensor& x) const {
  return x.has_value() && known_.find(TensorAccess::id_or_zero(x)) != nullptr;
}

bool Tape::depends_on_watched(const Tensor& x) const {
  std::vector<bool> is_seen(next_slot_);
  std::vector<const Known*> open;
  const auto visit = [&](uint64_t id, DType dtype) {
    const Known* known = is_differentiable(dtype) ? known_.find(id) : nullptr;
    if (known == nullptr || is_seen[known->slot]) return;
    is_seen[known->slot] = true;
    open.push_back(known);
  };
  if (x.has_value()) visit(TensorAccess::id_or_zero(x), x.dtype());
  while (!open.empty()) {
    const Known* known = open.back();
    open.pop_back();
    if (known->record == Known::kNone) return true;
    const Record& record = records_[known->record];
    if (record.op != nullptr && !record.op->def().no_derivative.empty()) continue;
    for (const Entry& input : inputs_of(record)) {
      if (input.id != 0) visit(input.id, input.type->dtype());
    }
  }
  return false;
}

bool Tape::should_record(std::span<const Tensor> inputs) const {
  return std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& x) {
    return x.has_value() && is_differentiable(x.dtype()) && is_watched(x);
  });
}

bool Tape::begin_call(Operands in, uint64_t& wanted) {
  const std::size_t first = entries_.size();
  try {
    return add_operands(in, wanted);
  } catch (...) {
    abandon_call(first);
    throw;
  }
}

bool Tape::add_operands(Operands in, uint64_t& wanted) {
  const std::size_t first = entries_.size();
  bool any = false;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in[i].has_value()) {
      entries_.emplace_back();
      continue;
    }
    Entry& entry = entries_.emplace_back();
    entry.type = in[i].type();
    if (Known* known = known_.find(TensorAccess::id_or_zero(in[i]))) {
      ++known->uses;  // keeps the entry while an expiring operand is overwritten
      entry.id = known->id;
      entry.is_use = true;
      entry.slot = known->slot;
      any = true;
      if (is_differentiable(entry.type->dtype()))
        wanted |= uint64_t{1} << std::min<std::size_t>(i, 63);
    }
  }
  if (!any) entries_.resize(first);
  return any;
}

void Tape::abandon_call(std::size_t first) noexcept {
  const Busy busy(*this);
  for (std::size_t i = entries_.size(); i-- > first;) {
    Entry& entry = entries_[i];
    entry.saved.reset();  // the end of a value waits: `busy`
    const uint64_t id = std::exchange(entry.id, 0);
    if (id != 0 && entry.is_use) release_use(id);
  }
  entries_.resize(first);
}

void Tape::add_output(const Tensor& y, bool is_saved) {
  Entry& entry = entries_.emplace_back();
  if (!y.has_value()) return;
  const auto [known, is_new] = known_.insert(TensorAccess::id(y));
  if (is_new) known->slot = next_slot_++;
  entry.id = known->id;
  entry.type = y.type();
  if (is_saved) entry.saved = y;
  entry.slot = known->slot;
}

void Tape::finish_call(Record&& record, std::size_t first) {
  record.first = static_cast<uint32_t>(first);
  record.outputs = static_cast<uint32_t>(entries_.size() - first) - record.inputs;
  records_.push_back(std::move(record));
  // Only now: without memory for the record, no value may name it.
  for (const Entry& output : outputs_of(records_.back())) {
    if (Known* known = known_.find(output.id)) {
      known->record = static_cast<uint32_t>(records_.size() - 1);
    }
  }
}

void Tape::record(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                  Pullback pullback, std::string_view name, CallSite where) {
  if (!is_recording() || !should_record(inputs)) return;
  const std::size_t first = entries_.size();
  Record record{.where = where, .inputs = static_cast<uint32_t>(inputs.size())};
  record.pullback = internal::make_ref<const ByPullback>(std::move(pullback), name);
  const OperandList list(inputs);
  begin_call(list.view(), record.wanted);
  try {
    for (const Tensor& y : outputs) add_output(y, false);
    finish_call(std::move(record), first);
  } catch (...) {
    abandon_call(first);
    throw;
  }
}

void Tape::record_reading(const Tensor& x, Pullback pullback, CallSite where) {
  Tensor stands_for_numbers(0.0F);
  record({&x, 1}, {&stands_for_numbers, 1}, std::move(pullback), "numbers of a tensor", where);
  readings_.push_back(std::move(stands_for_numbers));
}

bool Tape::has_pullbacks() const noexcept {
  return std::ranges::any_of(records_, [](const Record& r) { return r.op == nullptr; });
}

void Tape::forget(const Tensor& x) {
  if (x.has_value() && TensorAccess::id_or_zero(x) != 0) value_died(TensorAccess::id_or_zero(x));
}

void Tape::erase_known(uint64_t id) noexcept {
  const Known* known = known_.find(id);
  if (known == nullptr) return;
  if (known->slot + 1 == next_slot_) --next_slot_;
  known_.erase(id);
}

void Tape::value_died(uint64_t id) noexcept {
  if (used_up_) return;
  Known* known = known_.find(id);
  if (known == nullptr) return;
  known->is_alive = false;
  if (known->uses > 0) return;
  note_death(id);
}

void Tape::note_death(uint64_t id) noexcept {
  try {
    deaths_.push_back(id);
  } catch (const std::bad_alloc&) {
    return;  // its record stays until the tape ends, which changes no derivative
  }
  if (!is_busy_) settle_deaths();
}

void Tape::settle_deaths() noexcept {
  is_busy_ = true;
  while (!deaths_.empty()) {
    const uint64_t id = deaths_.back();
    deaths_.pop_back();
    const Known* known = known_.find(id);
    if (known == nullptr || known->is_alive || known->uses > 0) continue;
    if (known->record == Known::kNone) {
      erase_known(id);
      continue;
    }
    // A call with several results is dropped when all of them are dead and unused.
    const uint32_t record = known->record;
    const auto outputs = outputs_of(records_[record]);
    const bool needed = std::any_of(outputs.begin(), outputs.end(), [&](const Entry& o) {
      const Known* k = known_.find(o.id);
      return k != nullptr && (k->is_alive || k->uses > 0);
    });
    if (!needed) drop_record(record);
  }
  if (dead_records_ > 64 && dead_records_ * 2 > records_.size()) compact();
  is_busy_ = false;
}

void Tape::drop_record(uint32_t index) noexcept {
  Record& r = records_[index];
  r.is_dead = true;
  ++dead_records_;
  const internal::RefPtr<const ByPullback> pullback = std::move(r.pullback);
  for (const Entry& output : outputs_of(r)) erase_known(output.id);
  for (Entry& e : std::span(entries_.data() + r.first, r.inputs + r.outputs)) {
    e.saved.reset();  // values that this destroys are queued in deaths_
  }
  for (Entry& input : inputs_of(r)) {
    if (input.id != 0) release_use(std::exchange(input.id, 0));
  }
  while (!records_.empty() && records_.back().is_dead) {
    entries_.resize(records_.back().first);
    records_.pop_back();
    --dead_records_;
  }
}

void Tape::release_use(uint64_t id) noexcept {
  Known* known = known_.find(id);
  if (known == nullptr) return;
  --known->uses;
  if (known->uses > 0 || known->is_alive) return;
  note_death(id);
}

bool Tape::is_unreachable(const Record& record) const noexcept {
  const auto outputs = outputs_of(record);
  return !record.is_dead && record.keeps_result &&
         std::all_of(outputs.begin(), outputs.end(), [&](const Entry& o) {
           const Known* known = known_.find(o.id);
           if (known == nullptr) return true;
           const bool is_held =
               known->is_alive && (!o.saved.has_value() || TensorAccess::rep(o.saved)->count.load(
                                                               std::memory_order_acquire) > 1);
           return known->uses == 0 && !is_held;
         });
}

void Tape::collect() noexcept {
  if (is_busy_ || records_.empty()) return;
  while (!records_.empty() && is_unreachable(records_.back())) {
    const Busy busy(*this);
    drop_record(static_cast<uint32_t>(records_.size() - 1));
  }
  if (records_.size() < next_collect_) return;
  for (std::size_t k = records_.size(); k-- > 0;) {
    if (k >= records_.size() || !is_unreachable(records_[k])) continue;
    const Busy busy(*this);
    drop_record(static_cast<uint32_t>(k));
  }
  next_collect_ = std::max<std::size_t>(1024, records_.size() * 2);
}

void Tape::compact() {
  uint32_t to = 0, at = 0;
  for (Record& from : records_) {
    if (from.is_dead) continue;
    for (const Entry& output : outputs_of(from)) {
      if (Known* known = known_.find(output.id)) known->record = to;
    }
    for (uint32_t i = 0; i < from.inputs + from.outputs; ++i) {
      if (from.first + i != at) entries_[at] = std::move(entries_[from.first + i]);
      ++at;
    }
    from.first = at - from.inputs - from.outputs;
    if (&from != &records_[to]) records_[to] = std::move(from);
    ++to;
  }
  records_.resize(to);
  entries_.resize(at);
  dead_records_ = 0;
}

void Tape::reset() {
  if (numbers_ != nullptr) numbers_->pause();
  held_numbers_.reset();
  readings_.clear();
  used_up_ = true;  // values that die with the records need no bookkeeping
  records_.clear();
  entries_.clear();
  known_.clear();
  next_slot_ = 0;
  dead_records_ = 0;
  used_up_ = false;
}

Values Tape::record_call(const Op& op, Operands in, const Attrs& attrs, CallSite where,
                         Context& parent) {
  if (follows_escapes_) internal::warn_escaped(in, where);
  collect();
  const Busy busy(*this);
  const std::size_t first = entries_.size();
  uint64_t wanted = 0;
  if (!begin_call(in, wanted)) return parent.execute(op, in, attrs, where);
  try {
    // The values to keep are known before the call, since the call may overwrite expiring operands.
    InlineVector<const Type*, 6> types;
    for (std::size_t i = 0; i < in.size(); ++i) types.push_back(entries_[first + i].type);
    const std::span<const Type* const> operands(types.data(), types.size());
    if (op.def().residuals != nullptr)
      return record_with_residuals(op, in, attrs, where, parent, first, wanted);
    const internal::Reads reads = internal::find_reads(op, attrs, operands, wanted);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const bool is_read = (reads.operands >> std::min<std::size_t>(i, 63)) & 1;
      if (is_read) entries_[first + i].saved = in[i];
    }
    Values out = parent.execute(op, in, attrs, where);
    for (std::size_t i = 0; i < out.size(); ++i) {
      add_output(out[i], (reads.results >> std::min<std::size_t>(i, 63)) & 1);
    }
    finish_call({.op = &op,
                 .attrs = attrs,
                 .where = where,
                 .inputs = static_cast<uint32_t>(in.size()),
                 .keeps_result = reads.results != 0,
                 .wanted = wanted},
                first);
    return out;
  } catch (...) {
    abandon_call(first);
    throw;
  }
}

namespace {

using GraphList = InlineVector<const Graph*, 4>;

// The graphs that return the results of a call, or rows of them: of a call, of a loop over rows, or
// of branches.
GraphList graphs_of_results(const OpDef& def, const Attrs& attrs) {
  GraphList out;
  if (!def.takes_sums) return out;
  std::string_view name = def.body;
  if (name.empty() && def.loop.graphs.size() == 1) name = def.loop.graphs[0];
  if (!name.empty()) {
    out.push_back(static_cast<const Graph*>(&attrs.object(name)));
    return out;
  }
  const auto is_list = [](const AttrDef& a) { return a.kind == AttrKind::kGraphs; };
  const auto branches = std::ranges::find_if(def.attrs, is_list);
  if (branches == def.attrs.end() || !def.loop.graphs.empty()) return out;
  for (const auto& branch : attrs.objects(branches->name))
    out.push_back(static_cast<const Graph*>(branch.get()));
  return out;
}

// The first result, of those from `begin` <= i on, that is result i in all of the graphs.
std::size_t first_result(const GraphList& graphs, std::size_t i, std::size_t begin) {
  const auto differs = [&](const Graph* g) { return g->outputs()[begin] != g->outputs()[i]; };
  while (std::ranges::any_of(graphs, differs)) ++begin;
  return begin;
}

// Rows that a loop returns and results of branches are new values, except those that a tape inside
// keeps.
std::size_t first_value(const OpDef& def, const Attrs& attrs, std::size_t visible) {
  if (!def.body.empty()) return 0;
  return attrs.has("results") ? static_cast<std::size_t>(attrs.integer("results")) : visible;
}

}  // namespace

Values Tape::record_with_residuals(const Op& op, Operands in, const Attrs& attrs, CallSite where,
                                   Context& parent, std::size_t first, uint64_t wanted) {
  InlineVector<const Type*, 6> types;
  for (std::size_t i = 0; i < in.size(); ++i) types.push_back(entries_[first + i].type);
  const std::span<const Type* const> operands(types.data(), types.size());
  const std::size_t visible = infer_types(op, operands, attrs).size();
  ResidualCall residual_call = op.def().residuals(operands, attrs, wanted);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool is_read = (residual_call.reads >> std::min<std::size_t>(i, 63)) & 1;
    if (is_read) entries_[first + i].saved = in[i];
  }
  Values out = parent.execute(op, in.without_expiring(), residual_call.attrs, where);
  const GraphList graphs = graphs_of_results(op.def(), residual_call.attrs);
  const std::size_t first_at = first_value(op.def(), attrs, visible);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t at = graphs.empty() || i < visible ? i : first_result(graphs, i, first_at);
    if (at == i) {
      add_output(out[i], i >= visible);
    } else {  // saved as the result itself
      entries_.emplace_back(Entry{.type = out[at].type(), .saved = out[at]});
    }
  }
  finish_call({.op = &op,
               .attrs = std::move(residual_call.attrs),
               .where = where,
               .inputs = static_cast<uint32_t>(in.size()),
               .keeps_result = true,
               .wanted = wanted},
              first);
  out.resize(visible);
  return out;
}

Values TapeContext::execute(const Op& op, Operands in, const Attrs& attrs, CallSite where) {
  if (!tape_.is_recording()) return parent_->execute(op, in, attrs, where);
  if (!internal::has_vjp(op) && op.def().lower != nullptr) {
    return lower(op, in, attrs, *this, where);
  }
  return tape_.record_call(op, in, attrs, where, *parent_);
}

}  // namespace etude
