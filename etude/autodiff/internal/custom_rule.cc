// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/internal/custom_rule.h"

#include <algorithm>
#include <complex>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "etude/autodiff/batch.h"
#include "etude/autodiff/internal/captures.h"
#include "etude/autodiff/jvp.h"
#include "etude/autodiff/tape/tape.h"
#include "etude/autodiff/traced_rule.h"
#include "etude/base/check.h"
#include "etude/base/warning.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/call/graph_calls.h"
#include "etude/core/context/pending.h"
#include "etude/core/internal/call.h"
#include "etude/lazy/lazy.h"
#include "etude/stage/trace.h"

namespace etude::internal {
namespace {

Tensor call_identity(const Tensor& x) { return x.has_value() ? identity(to_dense(x)) : Tensor(); }

bool is_followed_from(Context* context, std::span<const Tensor> inputs, bool is_for_forward) {
  for (Context* c = context; c != nullptr; c = c->parent()) {
    if (auto* tape = dynamic_cast<TapeContext*>(c)) {
      if (tape->tape().should_record(inputs)) return true;
    } else if (auto* jvp = dynamic_cast<JvpContext*>(c)) {
      const auto moves_there = [&](const Tensor& x) { return jvp->tangent(x).has_value(); };
      if (is_for_forward && std::ranges::any_of(inputs, moves_there)) return true;
    } else if (dynamic_cast<TraceContext*>(c) != nullptr) {
      return std::ranges::any_of(inputs, moves);  // the owner of the graph may differentiate it
    } else if (auto* batch = dynamic_cast<BatchContext*>(c)) {
      std::vector<Tensor> around;
      for (const Tensor& x : inputs)
        around.push_back(batch->is_example(x) ? batch->batch_of(x) : x);
      return is_followed_from(c->parent(), around, is_for_forward);
    }
  }
  return false;
}

// Whether the derivative by x is followed now. A trace has no derivative of its own.
bool is_differentiated(Context* context, Tensor x) {
  for (Context* c = context; c != nullptr; c = c->parent()) {
    if (auto* tape = dynamic_cast<TapeContext*>(c)) {
      if (tape->tape().depends_on_watched(x)) return true;
    } else if (auto* jvp = dynamic_cast<JvpContext*>(c)) {
      if (jvp->tangent(x).has_value()) return true;
    } else if (auto* batch = dynamic_cast<BatchContext*>(c)) {
      if (batch->is_example(x)) x = batch->batch_of(x);
    }
  }
  return false;
}

[[noreturn]] void throw_not_linear(const RuleCall& call, const std::string& what) {
  Error error(ErrorCode::kInvalidArgument,
              "forward mode needs a pullback that is linear in its cotangents, but " + what +
                  ". Take the derivative in reverse mode, or make the pullback of calls that are "
                  "linear in dy");
  error.name_op(call.name);
  throw error;
}

[[noreturn]] void throw_not_linear_in_tangents(std::string_view name, CallSite where,
                                               const std::string& what) {
  Error error(ErrorCode::kInvalidArgument,
              "reverse mode needs a jvp that is linear in its tangents, but " + what +
                  ". Write a vjp as well, or make the tangent of calls that are linear in dx");
  error.name_op(name);
  error.locate(where);
  throw error;
}

// False only for a value with an element that is not 0. An abstract value is not looked at.
bool is_known_zero(const Tensor& x) {
  if (TensorAccess::is_abstract(x) && !observe(x)) return true;
  const auto numbers = to_dense(x).to_vector<std::complex<double>>();
  return std::ranges::all_of(numbers, [](const auto& number) { return number == 0.0; });
}

// No gradient of the pullback depends on cotangents by calls of ops: then all must be zero.
void require_zero_rule(const RuleCall& call, std::vector<Tensor> cotangents) {
  for (Tensor& ct : cotangents) {
    if (ct.has_value()) ct = full(ct.type(), 1);
  }
  for (const Tensor& x : call.pullback(cotangents)) {
    if (x.has_value() && !is_known_zero(x))
      throw_not_linear(call, "it computes outside of tensors or adds a constant");
  }
}

}  // namespace

void require_gradients(std::span<const Tensor> found, std::span<const Type* const> inputs) {
  ETUDE_REQUIRE(found.size() == inputs.size(),
                "the pullback returned {} gradients for {} inputs. Return one per input, absent "
                "where there is none",
                found.size(), inputs.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Type* input = inputs[i];
    if (!found[i].has_value() || input == nullptr || !is_differentiable(input->dtype())) continue;
    ETUDE_REQUIRE(
        found[i].dtype() == input->dtype() && found[i].shape() == input->shape(),
        "the pullback returned a gradient {} for input {}, which is {}. Return one of the "
        "shape and dtype of the input",
        found[i].type()->to_string(), i, input->to_string());
  }
}

void require_gradients(std::span<const Tensor> found, std::span<const Tensor> inputs) {
  std::vector<const Type*> types;
  for (const Tensor& x : inputs) types.push_back(x.has_value() ? x.type() : nullptr);
  require_gradients(found, types);
}

std::vector<Tensor> push_forward(const RuleCall& call, std::span<const Tensor> tangents) {
  std::vector<Tensor> cotangents, back;
  for (const Tensor& y : call.results) {
    cotangents.push_back(moves(y) ? full(y.type(), 0) : Tensor());
  }
  Tape tape({.persistent = true});
  {
    TapeContext context(tape);
    for (const Tensor& ct : cotangents) {
      if (ct.has_value()) tape.watch(ct);
    }
    back = call.pullback(cotangents);
  }
  try {
    require_gradients(back, call.inputs);
  } catch (Error& error) {
    error.name_op(call.name);
    error.locate(call.where);
    throw;
  }
  const std::string culprit = tape.find_nonlinear();
  if (!culprit.empty()) throw_not_linear(call, culprit + " is not");
  std::vector<Tensor> targets, seeds;
  for (std::size_t i = 0; i < back.size(); ++i) {
    if (!tangents[i].has_value() || !back[i].has_value()) continue;
    const Tensor target = to_dense(back[i]);
    if (!tape.is_watched(target)) continue;
    targets.push_back(target);
    seeds.push_back(tangents[i]);
  }
  if (targets.empty()) {
    require_zero_rule(call, cotangents);
    return std::vector<Tensor>(cotangents.size());
  }
  return tape.gradient(targets, cotangents, seeds);
}

void require_tangents(const RuleCall& call, std::span<const Tensor> found) {
  try {
    ETUDE_REQUIRE(
        found.size() == call.results.size(),
        "the jvp returned {} tangents for {} results. Return the tangent of the value, of "
        "the same structure",
        found.size(), call.results.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Tensor& y = call.results[i];
      if (!found[i].has_value() || !moves(y)) continue;
      ETUDE_REQUIRE(found[i].dtype() == y.dtype() && found[i].shape() == y.shape(),
                    "the jvp returned a tangent {} for result {}, which is {}. Return one of the "
                    "shape and dtype of the result",
                    found[i].type()->to_string(), i, y.type()->to_string());
    }
  } catch (Error& error) {
    error.name_op(call.name);
    error.locate(call.where);
    throw;
  }
}

std::vector<Tensor> push_by_rule(const RuleCall& call, std::span<const Tensor> tangents) {
  std::vector<Tensor> along;
  for (std::size_t i = 0; i < tangents.size(); ++i) {
    const bool is_zero = !tangents[i].has_value() && moves(call.inputs[i]);
    along.push_back(is_zero                   ? full(call.inputs[i].type(), 0)
                    : tangents[i].has_value() ? to_dense(tangents[i])
                                              : tangents[i]);
  }
  std::vector<Tensor> found = call.push(along);
  require_tangents(call, found);
  return found;
}

Pullback transposed(Pushforward push, std::span<const Tensor> inputs, std::string_view name,
                    CallSite where) {
  std::vector<const Type*> types;
  for (const Tensor& x : inputs) types.push_back(moves(x) ? x.type() : nullptr);
  return [push = std::move(push), types = std::move(types), name = std::string(name),
          where](std::span<const Tensor> cotangents) {
    std::vector<Tensor> tangents, moved, targets, seeds;
    for (const Type* type : types) tangents.push_back(type != nullptr ? full(type, 0) : Tensor());
    Tape tape({.persistent = true});
    {
      TapeContext context(tape);
      for (const Tensor& t : tangents) {
        if (t.has_value()) tape.watch(t);
      }
      moved = push(tangents);
    }
    const std::string culprit = tape.find_nonlinear();
    if (!culprit.empty()) throw_not_linear_in_tangents(name, where, culprit + " is not");
    for (std::size_t i = 0; i < moved.size() && i < cotangents.size(); ++i) {
      if (!cotangents[i].has_value() || !moved[i].has_value()) continue;
      const Tensor target = to_dense(moved[i]);
      if (!tape.is_watched(target)) {
        if (!is_known_zero(target)) {
          throw_not_linear_in_tangents(name, where,
                                       "it computes outside of tensors or adds a constant");
        }
        continue;
      }
      targets.push_back(target);
      seeds.push_back(to_dense(cotangents[i]));
    }
    if (targets.empty()) return std::vector<Tensor>(tangents.size());
    return tape.gradient(targets, tangents, seeds);
  };
}

std::vector<Tensor> push_in(BatchContext& batch, const Pushforward& push,
                            std::span<const Tensor> tangents, const std::vector<bool>& is_example) {
  std::vector<Tensor> examples;
  for (std::size_t i = 0; i < tangents.size(); ++i) {
    const bool is_batch = tangents[i].has_value() && is_example[i];
    examples.push_back(is_batch ? batch.example_of(tangents[i]) : tangents[i]);
  }
  std::vector<Tensor> found = push(examples);
  for (Tensor& t : found) t = batch.batch_of(t);
  return found;
}

std::vector<Tensor> pull_in(BatchContext& batch, const Pullback& pull,
                            std::span<const Tensor> cotangents,
                            const std::vector<bool>& is_example) {
  std::vector<Tensor> examples;
  for (const Tensor& ct : cotangents) examples.push_back(batch.example_of(ct));
  std::vector<Tensor> found = pull(examples);
  const ContextScope around(*batch.parent(), {});
  for (std::size_t i = 0; i < found.size() && i < is_example.size(); ++i) {
    const bool is_summed = !is_example[i] && batch.is_example(found[i]);
    if (is_example[i] || is_summed) found[i] = batch.batch_of(found[i]);
    // A value that is the same for all examples gets the sum over them.
    if (is_summed) found[i] = sum_to(found[i], Shape(found[i].shape().sizes().subspan(1)));
  }
  return found;
}

namespace {

std::vector<Tensor> attach(Context& context, const RuleCall& call);

// The pullback of a rule that ran inside `batch`, on batches.
Pullback batched(const BatchContext& batch, const RuleCall& call) {
  std::vector<bool> is_example;
  for (const Tensor& x : call.inputs) is_example.push_back(batch.is_example(x));
  return [size = batch.size(), randomness = batch.randomness(),
          batches = std::make_shared<const BatchContext::Batches>(batch.batches()),
          is_example = std::move(is_example),
          pull = call.pullback](std::span<const Tensor> cotangents) {
    BatchContext again(size, randomness, *batches);
    return pull_in(again, pull, cotangents, is_example);
  };
}

// The forward rule of a call that ran inside `batch`, on batches.
Pushforward batched_push(const BatchContext& batch, const RuleCall& call) {
  std::vector<bool> is_example;
  for (const Tensor& x : call.inputs) is_example.push_back(batch.is_example(x));
  return [&batch, &call, is_example = std::move(is_example)](std::span<const Tensor> tangents) {
    BatchContext again(batch.size(), batch.randomness(), batch.batches());
    return push_in(again, call.push, tangents, is_example);
  };
}

std::vector<Tensor> attach_around(BatchContext& batch, const RuleCall& call) {
  const auto is_example = [&](const Tensor& x) { return batch.is_example(x); };
  if (std::ranges::none_of(call.inputs, is_example) &&
      std::ranges::none_of(call.results, is_example)) {
    return attach(*batch.parent(), call);
  }
  RuleCall around{.name = call.name,
                  .is_for_forward = call.is_for_forward,
                  .where = call.where,
                  .warns_of_missing = call.warns_of_missing};
  for (const Tensor& x : call.inputs) {
    around.inputs.push_back(batch.is_example(x) ? batch.batch_of(x) : x);
  }
  for (const Tensor& y : call.results) around.results.push_back(batch.batch_of(y));
  if (is_followed_from(batch.parent(), around.inputs, call.is_for_forward)) {
    around.pullback = batched(batch, call);
    if (call.push != nullptr) around.push = batched_push(batch, call);
  }
  std::vector<Tensor> out = attach(*batch.parent(), around);
  for (Tensor& y : out) y = batch.example_of(y);
  return out;
}

std::vector<Tensor> attach(Context& context, const RuleCall& call) {
  if (auto* captures = dynamic_cast<CaptureList*>(&context)) {
    for (const Tensor& x : call.inputs) captures->note(x);
    return attach(*context.parent(), call);
  }
  if (auto* batch = dynamic_cast<BatchContext*>(&context)) return attach_around(*batch, call);
  if (auto* tape = dynamic_cast<TapeContext*>(&context)) {
    std::vector<Tensor> out = attach(*context.parent(), call);
    tape->tape().record(call.inputs, out, call.pullback, call.name, call.where);
    return out;
  }
  auto* jvp = dynamic_cast<JvpContext*>(&context);
  if (jvp == nullptr) {
    const ContextScope scope(context, {});
    if (dynamic_cast<TraceContext*>(&context) != nullptr) return trace_rule(call);
    std::vector<Tensor> out;
    for (const Tensor& y : call.results) out.push_back(call_identity(y));
    return out;
  }
  std::vector<Tensor> out = attach(*context.parent(), call);
  std::vector<Tensor> tangents;
  if (!call.is_for_forward) {  // then it takes the tangents of the results
    const ContextScope scope(*context.parent(), {});
    for (std::size_t i = 0; i < out.size(); ++i) {
      const Tensor moved = call_identity(jvp->tangent(call.results[i]));
      if (moved.has_value()) jvp->set_tangent(out[i], moved);
    }
    return out;
  }
  for (const Tensor& x : call.inputs) tangents.push_back(jvp->tangent(x));
  if (std::ranges::none_of(tangents, &Tensor::has_value)) return out;
  const ContextScope scope(*context.parent(), {});
  const std::vector<Tensor> moved =
      call.push != nullptr ? push_by_rule(call, tangents) : push_forward(call, tangents);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (moved[i].has_value()) jvp->set_tangent(out[i], to_dense(moved[i]));
  }
  return out;
}

// One value, as `context` sees it. An example is replaced by its batch, so that a value that is the
// same for all examples stays so.
Tensor held_back_in(Context& context, const Tensor& x, const std::vector<Tensor>& cotangents) {
  if (dynamic_cast<CaptureList*>(&context)) return held_back_in(*context.parent(), x, cotangents);
  if (auto* batch = dynamic_cast<BatchContext*>(&context)) {
    const auto around = [&](const Tensor& t) {
      return batch->is_example(t) ? batch->batch_of(t) : t;
    };
    std::vector<Tensor> batches;
    for (const Tensor& ct : cotangents) batches.push_back(around(ct));
    const Tensor held = held_back_in(*batch->parent(), around(x), batches);
    return batch->is_example(x) ? batch->example_of(held) : held;
  }
  const ContextScope scope(context, {});
  return after(x, cotangents);
}

}  // namespace

std::vector<Tensor> held_back(std::span<const Tensor> xs, std::span<const Tensor> cotangents) {
  std::vector<Tensor> out(xs.begin(), xs.end()), others;
  if (TraceContext::innermost() == nullptr && !is_lazy()) return out;
  for (const Tensor& ct : cotangents) {
    if (ct.has_value()) others.push_back(to_dense(ct));
  }
  for (Tensor& x : out) {
    if (x.has_value()) x = held_back_in(ContextStack::top(), to_dense(x), others);
  }
  return out;
}

UntapedScope::UntapedScope() {
  bool is_inside = true;  // of forward modes and traces
  for (Context* c = &ContextStack::top(); c != nullptr; c = c->parent()) {
    const bool is_tape = dynamic_cast<TapeContext*>(c) != nullptr;
    is_inside =
        is_inside && (is_tape || dynamic_cast<BatchContext*>(c) || dynamic_cast<CaptureList*>(c));
    has_tapes_ = has_tapes_ || is_tape;
    if (is_inside) contexts_.push_back(c);
  }
  lift(false);
}

UntapedScope::~UntapedScope() { lift(true); }

void UntapedScope::lift(bool with_tapes) {
  for (Context* c : contexts_) ContextStack::remove(*c);
  for (auto c = contexts_.rbegin(); c != contexts_.rend(); ++c) {
    if (with_tapes || dynamic_cast<TapeContext*>(*c) == nullptr) ContextStack::push(**c);
  }
}

bool is_followed(const RuleCall& call) {
  return is_followed_from(&ContextStack::top(), call.inputs, call.is_for_forward);
}

bool takes_derivatives() noexcept {
  for (Context* c = &ContextStack::top(); c != nullptr; c = c->parent()) {
    if (dynamic_cast<TapeContext*>(c) || dynamic_cast<JvpContext*>(c)) return true;
  }
  return false;
}

void warn_of_captures(std::span<const Tensor> captured, std::span<const Tensor> known,
                      CallSite where) {
  for (const Tensor& x : captured) {
    const auto is_it = [&](const Tensor& other) {
      return other.has_value() && TensorAccess::id_or_zero(other) == TensorAccess::id(x);
    };
    if (std::ranges::any_of(known, is_it) || !is_differentiated(&ContextStack::top(), x)) continue;
    where = user_line(where);
    const std::string at =
        where.known() ? fmt::format("\n  at {}:{}", where.file, where.line) : std::string();
    warn_once("captures of a rule" + at,
              fmt::format("custom_gradient: the rule uses a {} that is no argument of it, but a "
                          "derivative by it is taken. Its part of the derivative is missing: to "
                          "the rule it is a constant. Pass it as an argument, or take "
                          "stop_gradient() of it where a constant is meant{}",
                          x.type()->to_string(), at));
    return;
  }
}

std::vector<Tensor> attach_rule(const RuleCall& call) { return attach(ContextStack::top(), call); }

}  // namespace etude::internal
