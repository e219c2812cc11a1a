// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/trace.h"

#include <algorithm>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/context/pending.h"
#include "etude/core/context/placement.h"
#include "etude/core/context/resource.h"
#include "etude/eager/dispatch.h"

namespace etude::internal {
namespace {

// Every trace is a TraceContext.
TraceContext* innermost_trace() noexcept {
  return static_cast<TraceContext*>(EnclosingTrace::innermost());
}

}  // namespace

const TraceContext* TraceContext::innermost() noexcept { return innermost_trace(); }

TraceContext::TraceContext(std::string function, CallSite where)
    : builder_(function),
      info_(make_ref<TraceInfo>(std::move(function), where)),
      outer_(static_cast<TraceContext*>(exchange_innermost(this))),
      around_(&ContextStack::top()),
      keys_(std::in_place, static_cast<KeySource*>(this)),
      bottom_(*this) {}

TraceContext::~TraceContext() { leave(); }

void TraceContext::leave() noexcept {
  if (!std::exchange(is_live_, false)) return;
  info_->is_over = true;
  exchange_innermost(outer_);
  keys_.reset();
  size_reads_.leave();
  bottom_.leave();
}

Tensor TraceContext::made(Draft draft, std::string_view op, CallSite where) {
  if (builder_.type(draft) == nullptr) return {};  // an absent result
  Tensor out = make_traced(builder_.type(draft), info_, op, where);
  drafts_.emplace(TensorAccess::id(out), draft);
  return out;
}

Tensor TraceContext::add_argument(std::string name, const Type* type) {
  return made(builder_.add_input(std::move(name), type), "", {});
}

std::vector<Tensor> TraceContext::add_arguments(const Graph& graph) {
  std::vector<Tensor> out;
  for (const Graph::Input& input : graph.inputs()) {
    out.push_back(add_argument(input.name, input.type));
  }
  return out;
}

Tensor TraceContext::next_key() {
  if (refuses_draws_) return {};
  const Type* type = intern_type(kUInt64, {2});
  return made(builder_.add_input("key", type, InputRole::kKey), "", {});
}

bool TraceContext::is_around(const TraceInfo* trace) const noexcept {
  for (const TraceContext* t = outer_; t != nullptr; t = t->outer_) {
    if (t->info_.get() == trace) return true;
  }
  return false;
}

TraceContext::Draft TraceContext::number(const Tensor& x) {
  if (!x.has_value()) return GraphBuilder::kNoDraft;
  const auto known = drafts_.find(TensorAccess::id(x));
  return known != drafts_.end() ? known->second : capture(x);
}

TraceContext::Draft TraceContext::capture(const Tensor& x) {
  ETUDE_CHECK(!TensorAccess::is_sparse(x), "a sparse value reached a trace");
  // A pending value is an operand of the call that runs this graph, or is fixed now.
  const bool is_known = !TensorAccess::is_abstract(x) || (!takes_followed_ && observe(x));
  if (!is_known) {
    const TraceInfo* trace = trace_of(x);
    const bool is_own_example = trace == nullptr && is_of_function_ && is_any_example(x);
    const bool is_followed = is_own_example || (trace == nullptr && takes_followed_);
    has_examples_ = has_examples_ || is_own_example;
    ETUDE_REQUIRE_CODE(kFailedPrecondition, is_followed || is_around(trace), "{}",
                       explain_abstract(x));
    if (!is_followed) enclosing_ = RefPtr<const TraceInfo>(outer_->info_.get());
  }
  const std::string name = "capture" + std::to_string(captures_.size());
  const Draft input = builder_.add_input(name, x.type(), InputRole::kCapture);
  drafts_.emplace(TensorAccess::id(x), input);
  captures_.push_back({input, x});
  return input;
}

bool TraceContext::is_any_example(const Tensor& x) noexcept {
  const auto is_among = [&](const Context* c) {
    for (; c != nullptr; c = c->parent()) {
      if (c->is_example(x)) return true;
    }
    return false;
  };
  if (is_among(&ContextStack::top())) return true;
  for (const TraceContext* t = innermost_trace(); t != nullptr; t = t->outer_) {
    if (is_among(t->around_)) return true;
  }
  return false;
}

void TraceContext::variable_made(const Variable& variable) {
  created_.push_back({weak_state(variable), made_text(variable)});
}

TraceContext* TraceContext::of_function() noexcept {
  TraceContext* trace = innermost_trace();
  while (trace != nullptr && !trace->is_of_function_) trace = trace->outer_;
  return trace;
}

void TraceContext::variable_refused(const Variable& variable) {
  note_unmade({made_text(variable), ""});
}

void TraceContext::note_unmade(Unmade variable) {
  if (TraceContext* trace = of_function()) trace->unmade_ = std::move(variable);
}

Tensor TraceContext::fixed_value(const Tensor& x) const {
  for (const TraceContext* t = this; t != nullptr; t = t->outer_) {
    const auto known = t->drafts_.find(TensorAccess::id(x));
    if (known != t->drafts_.end()) return t->fixed_value(known->second);
  }
  return {};
}

Tensor TraceContext::fixed_input(Draft value) const {
  if (const Tensor* constant = builder_.constant(value)) return *constant;
  const auto captured = std::ranges::find(captures_, value, &Capture::input);
  if (captured == captures_.end()) return {};
  if (!TensorAccess::is_abstract(captured->value)) return captured->value;
  return outer_ != nullptr ? outer_->fixed_value(captured->value) : Tensor();
}

Tensor TraceContext::fixed_value(Draft value) const {
  std::vector<Tensor> values(value + 1);
  std::vector<bool> is_needed(value + 1);
  is_needed[value] = true;
  std::vector<Draft> calls;  // latest first: operands come before results
  for (Draft at = value + 1; at-- > 0;) {
    if (!is_needed[at]) continue;
    const GraphBuilder::Made call = builder_.maker(at);
    if (call.op == nullptr) {
      values[at] = fixed_input(at);
      if (!values[at].has_value()) return {};
      continue;
    }
    if (has_effects(*call.op, *call.attrs)) return {};
    calls.push_back(at);
    for (const Draft operand : call.operands) {
      if (operand != GraphBuilder::kNoDraft) is_needed[operand] = true;
    }
  }
  const ContextScope scope(eager_context(), {});
  for (; !calls.empty(); calls.pop_back()) {
    const Draft at = calls.back();
    const GraphBuilder::Made call = builder_.maker(at);
    Draft first = at;
    while (first > 0 && builder_.maker(first - 1).attrs == call.attrs) --first;
    std::vector<Tensor> operands;
    for (const Draft i : call.operands) {
      operands.push_back(i == GraphBuilder::kNoDraft ? Tensor() : values[i]);
    }
    const OperandList list{std::span<const Tensor>(operands)};
    values[at] = etude::execute(*call.op, list.view(), *call.attrs, builder_.where(at))[at - first];
  }
  return values[value];
}

void TraceContext::note_reads(const std::vector<SizeRead>& reads) {
  if (TraceContext* trace = innermost_trace()) trace->size_reads_.add(reads);
}

Tensor TraceContext::take_call_time(const std::shared_ptr<const CallTimeValue>& source) {
  TraceContext* serving = of_function();
  const Tensor now = source->value();
  if (serving == nullptr) return now;
  const CallSite at = source->where;
  const Draft input = serving->builder_.add_input("call_time", now.type(), InputRole::kVariable);
  const Tensor standing = serving->made(input, "", at);
  serving->variables_.push_back(
      {{standing, fmt::format("call_time_value at {}:{}", at.file, at.line), true, false, source},
       standing,
       {},
       standing});
  return standing;
}

TraceContext::Held& TraceContext::held(const Tensor& resource) {
  const Variable variable = variable_of(resource);
  const auto state = state_of(resource);
  for (Held& known : variables_) {
    if (known.variable.source == nullptr && state_of(known.variable.resource) == state) {
      return known;
    }
  }
  const std::string name = variable.name().empty() ? "variable" : variable.name();
  const Draft input = builder_.add_input(name, resource.type(), InputRole::kVariable);
  const Tensor first = made(input, "", {});
  fix_place(first);
  return variables_.emplace_back(
      Held{{resource, title_of(variable), false, false, nullptr}, first, {}, {}});
}

Tensor TraceContext::read(const Tensor& resource) {
  Held& v = held(resource);
  if (v.current.has_value()) return v.current;
  if (!v.assigned.has_value()) {
    v.variable.is_read = true;
    v.current = v.first;
  } else if (is_differentiable(v.assigned.dtype())) {
    v.variable.is_read = true;
    const ContextScope scope(*this, {});
    v.current = read_assigned(v.assigned, v.first);
  } else {
    v.current = v.assigned;
  }
  return v.current;
}

Tensor TraceContext::write(const Tensor& resource, const Tensor& x) {
  Held& v = held(resource);
  v.variable.is_written = true;
  v.assigned = made(number(to_dense(x)), "assign", {});  // a new value
  v.current = {};
  if (is_differentiable(v.assigned.dtype())) {
    const ContextScope scope(*this, {});
    v.assigned = stop_gradient(v.assigned);
  }
  return v.assigned;
}

Values TraceContext::execute(const Op& op, Operands in, const Attrs& attrs, CallSite where) {
  if (op.def().effect == Effect::kReads) return {read(in[0])};
  if (op.def().effect == Effect::kWrites) return {write(in[0], in[1])};
  if (op.is_composed(device_of(op, in, attrs))) return lower(op, in, attrs, *this, where);
  InlineVector<Draft, 6> operands;
  for (std::size_t i = 0; i < in.size(); ++i) operands.push_back(number(in[i]));
  const auto [first, count] = builder_.append(op, attrs, {operands.data(), operands.size()}, where);
  Values out;
  for (uint32_t r = 0; r < count; ++r) out.push_back(made(first + r, op.name(), where));
  return out;
}

TracedGraph TraceContext::finish(std::span<const Tensor> outputs) {
  std::vector<Draft> results;
  for (const Tensor& y : outputs) results.push_back(number(y.has_value() ? to_dense(y) : y));
  TracedGraph out;
  // Inputs and outputs are in the order of the first uses.
  for (const Held& v : variables_) {
    if (v.variable.is_written) results.push_back(number(v.assigned));
    if (!v.variable.is_read) builder_.drop_input(number(v.first));
    out.variables.push_back(v.variable);
  }
  leave();
  out.enclosing = enclosing_;
  out.has_examples = has_examples_;
  out.size_reads = size_reads_.list();
  for (Capture& c : captures_) {
    // A tensor without another owner is a constant of the function, such as the 0.5 of x * 0.5.
    if (!TensorAccess::is_abstract(c.value) &&
        (!has_outside_ || TensorAccess::is_unique(c.value))) {
      builder_.make_constant(c.input, std::move(c.value));
    } else {
      out.captures.push_back(std::move(c.value));
    }
  }
  out.graph = builder_.finish(results);
  return out;
}

}  // namespace etude::internal
