// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/derive.h"

#include <algorithm>

#include "etude/autodiff/tape/tape.h"
#include "etude/base/check.h"
#include "etude/base/thread_table.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_key.h"
#include "etude/core/call/run.h"
#include "etude/core/internal/infer.h"
#include "etude/core/internal/mode.h"
#include "etude/core/op/slices.h"

namespace etude::internal {
namespace {

std::vector<double> real_attrs(const Attrs& attrs) {
  std::vector<double> out;
  for (const AttrValue& value : attrs.values()) {
    if (const double* number = std::get_if<double>(&value)) out.push_back(*number);
  }
  return out;
}

bool is_identity(const ScalarDef& partial, std::size_t operands) {
  const scalar::Program& program = *partial.program;
  return program.size == 1 && program.operands == 1 && program.sources[0] == operands + 1;
}

// Maps the tangent `t` of operand `wrt` to the result, by the program of the partial.
Tensor push(const Op& op, int wrt, Operands in, const Tensor& y, const Tensor& t,
            const Attrs& attrs) {
  const ScalarDef& partial = op.def().partials.by_operand[static_cast<std::size_t>(wrt)];
  const scalar::Program& program = *partial.program;
  if (is_identity(partial, in.size())) return t;
  if (program.operands == 0) return full(y.type(), 0);  // a constant that is linear in t
  OperandList list;
  for (int i = 0; i < program.operands; ++i) {
    const std::size_t source = program.sources[static_cast<std::size_t>(i)];
    list.add(source < in.size() ? in[source] : source == in.size() ? y : t);
  }
  const int sparse = slices_operand(list.view());
  if (sparse < 0) return run_program(partial, list.view(), real_attrs(attrs));
  // A sparse t with single numbers: the program is linear in t and runs on its rows.
  const Tensor rows = list.view()[static_cast<std::size_t>(sparse)].slices()->values;
  OperandList on_rows;
  for (int i = 0; i < program.operands; ++i) {
    on_rows.add(i == sparse ? rows : list.view()[static_cast<std::size_t>(i)]);
  }
  return with_rows(t, run_program(partial, on_rows.view(), real_attrs(attrs)));
}

bool has_partial(const Op& op, std::size_t i) {
  return i < 3 && op.def().partials.by_operand[i].program != nullptr &&
         op.def().partials.by_operand[i].program->size > 0;
}

Values elementwise_vjp(const Op& op, const VjpCall& call) {
  Values out(call.in.size());
  const bool complex = is_complex(call.ct().dtype());
  const Tensor conjugate = complex ? conj(call.ct()) : Tensor();
  const Tensor& ct = complex ? conjugate : call.ct();
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (!call.wants(i) || !has_partial(op, i) || !call.in[i].has_value()) continue;
    Tensor g = push(op, static_cast<int>(i), call.in, call.out[0], ct, call.attrs);
    if (complex) g = conj(g);
    // Broadcasting and the partial may disagree in shape: a partial that does not read t's shape.
    out[i] = g.type() == call.in[i].type() ? std::move(g) : sum_to(g, call.in[i].shape());
  }
  return out;
}

Values elementwise_jvp(const Op& op, const JvpCall& call) {
  Values out(1);
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (!call.tangents[i].has_value() || !has_partial(op, i)) continue;
    const Tensor part =
        push(op, static_cast<int>(i), call.in, call.out[0], call.tangents[i], call.attrs);
    out[0] = out[0].has_value() ? add(std::move(out[0]), part) : part;
  }
  // A tangent that came through broadcasting alone is smaller than the result.
  if (out[0].has_value() && out[0].shape() != call.out[0].shape()) {
    out[0] = add(full(call.out[0].type(), 0), out[0]);
  }
  return out;
}

Values linear_vjp(const Op& op, const VjpCall& call) {
  Values out(call.in.size());
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (!call.wants(i)) continue;
    out[i] = op.def().transpose(call.in, static_cast<int>(i), call.ct(), call.attrs);
  }
  return out;
}

Values linear_jvp(const Op& op, const JvpCall& call) {
  Values out(1);
  const auto apply = [&](Operands in) {
    Tensor part = run(op, in, call.attrs);
    out[0] = out[0].has_value() ? add(std::move(out[0]), part) : std::move(part);
  };
  if (op.is_variadic()) {  // linear in the list as a whole: absent tangents are zeros
    std::vector<Tensor> tangents;
    for (std::size_t i = 0; i < call.in.size(); ++i) {
      const Tensor& t = call.tangents[i];
      tangents.push_back(t.has_value() ? t : full(call.in[i].type(), 0));
    }
    apply(OperandList(std::span<const Tensor>(tangents)).view());
    return out;
  }
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (!call.tangents[i].has_value()) continue;
    OperandList in;
    for (std::size_t j = 0; j < call.in.size(); ++j) in.add(i == j ? call.tangents[i] : call.in[j]);
    apply(in.view());
  }
  return out;
}

// Notes which of the given abstract tensors are read by calls.
class ReadsContext final : public TypeContext {
 public:
  explicit ReadsContext(std::span<const Tensor> watched) : watched_(watched) {}

  Values execute(const Op& op, Operands in, const Attrs& attrs, CallSite where) override {
    for (std::size_t i = 0; i < in.size(); ++i) {
      for (std::size_t w = 0; w < watched_.size(); ++w) {
        if (in[i].has_value() && in[i].ref() == watched_[w].ref()) read |= uint64_t{1} << w;
      }
    }
    return TypeContext::execute(op, in, attrs, where);
  }

  uint64_t read = 0;

 private:
  std::span<const Tensor> watched_;
};

// Replaces sizes that depend on data by numbers: rules need numbers, and no rule reads these.
const Type* with_known_sizes(const Type* type) {
  if (type == nullptr || type->count() != kAny) return type;
  Shape shape = type->shape();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == kAny) shape.set(axis, 2);
  }
  return intern_type(type->dtype(), shape, type->device());
}

Reads try_on_symbols(const Op& op, const Attrs& attrs, std::span<const Type* const> operands,
                     std::span<const Type* const> results, uint64_t wanted) {
  std::vector<Tensor> abstract_tensors, cotangents;
  for (const Type* type : operands)
    abstract_tensors.push_back(type == nullptr ? Tensor() : make_abstract(type));
  for (const Type* type : results) {
    abstract_tensors.push_back(make_abstract(type));
    cotangents.push_back(is_differentiable(type->dtype()) ? make_abstract(type) : Tensor());
  }
  const std::span<const Tensor> all(abstract_tensors);
  ReadsContext context(all);
  const OperandList in(all.first(operands.size())), out(all.subspan(operands.size()));
  const OperandList cts{std::span<const Tensor>(cotangents)};
  const ContextScope scope(context, {});
  Values back = run_vjp(op, {in.view(), out.view(), cts.view(), attrs, wanted});
  // A cotangent may be an operand itself, unread by any call.
  for (const Tensor& b : back) {
    for (std::size_t w = 0; w < all.size(); ++w) {
      if (b.has_value() && b.ref() == all[w].ref()) context.read |= uint64_t{1} << w;
    }
  }
  const uint64_t low = (uint64_t{1} << operands.size()) - 1;
  return {context.read & low, context.read >> operands.size()};
}

struct ReadsEntry : CallKey<6> {  // calls with more operands are tried every time
  uint64_t wanted = 0;
  Reads reads;
};

}  // namespace

bool has_vjp(const Op& op) {
  return op.def().vjp != nullptr || op.def().transpose != nullptr ||
         op.def().partials.by_operand[0].program != nullptr;
}

bool has_jvp(const Op& op) { return op.def().jvp != nullptr || has_vjp(op); }

Values run_vjp(const Op& op, const VjpCall& call) {
  Values out = op.def().vjp != nullptr         ? op.def().vjp(call)
               : op.def().transpose != nullptr ? linear_vjp(op, call)
                                               : elementwise_vjp(op, call);
  ETUDE_REQUIRE(out.size() == call.in.size(),
                "its reverse rule returned {} cotangents for {} operands. Return one entry per "
                "operand, absent where there is none",
                out.size(), call.in.size());
  return out;
}

bool run_partials(const Op& op, std::span<const Tensor* const> values, Tensor& ct, uint64_t wanted,
                  Values& out) {
  const std::size_t n = values.size() - 1;
  if (mode_word != 0 || op.def().vjp != nullptr || !op.def().attrs.empty() || n > 3 ||
      op.def().partials.by_operand[0].program == nullptr || TensorAccess::is_sparse(ct)) {
    return false;
  }
  const Type* type = ct.type();
  if (is_complex(type->dtype())) return false;
  for (const Tensor* value : values) {
    if (value->type() != type) return false;
  }
  std::size_t last = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const bool computes = ((wanted >> i) & 1) && has_partial(op, i);
    if (!computes) continue;
    if (op.def().partials.by_operand[i].program->operands == 0) return false;
    last = i;
  }
  for (std::size_t i = 0; i < n; ++i) {
    out.emplace_back();
    if (((wanted >> i) & 1) == 0 || !has_partial(op, i)) continue;
    const ScalarDef& partial = op.def().partials.by_operand[i];
    if (is_identity(partial, n)) {
      out[i] = i == last ? std::move(ct) : ct;
      continue;
    }
    const scalar::Program& program = *partial.program;
    const Tensor* in[5];  // three operands, the result, the tangent
    uint64_t expiring = 0;
    for (int k = 0; k < program.operands; ++k) {
      const std::size_t source = program.sources[static_cast<std::size_t>(k)];
      in[k] = source <= n ? values[source] : &ct;
      if (source > n && i == last) expiring |= uint64_t{1} << k;
    }
    const Operands operands(in, static_cast<std::size_t>(program.operands), expiring);
    out[i] = run_program(partial, operands, {});
  }
  return true;
}

// Forward mode of an op that has a reverse rule only: the reverse rule is linear in its cotangent,
// and its transpose in that cotangent carries the tangent (Radul et al., "You only linearize
// once"). Gradients are adjoints (TP-24), and the adjoint of an adjoint is the map itself: nothing
// is conjugated here.
Values transposed_jvp(const Op& op, const JvpCall& call) {
  Values out(call.out.size());
  uint64_t wanted = 0;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (call.tangents[i].has_value()) wanted |= uint64_t{1} << std::min<std::size_t>(i, 63);
  }
  std::vector<Tensor> cotangents;
  for (std::size_t i = 0; i < call.out.size(); ++i) {
    const bool smooth = is_differentiable(call.out[i].dtype());
    cotangents.push_back(smooth ? full(call.out[i].type(), 0) : Tensor());
  }
  Tape tape({.persistent = true});
  Values back;
  {
    TapeContext context(tape);
    for (const Tensor& ct : cotangents) {
      if (ct.has_value()) tape.watch(ct);
    }
    const OperandList cts{std::span<const Tensor>(cotangents)};
    back = run_vjp(op, {call.in, call.out, cts.view(), call.attrs, wanted});
  }
  std::vector<Tensor> targets, seeds;
  for (std::size_t i = 0; i < back.size(); ++i) {
    if (!back[i].has_value() || !call.tangents[i].has_value()) continue;
    targets.push_back(to_dense(back[i]));
    seeds.push_back(call.tangents[i]);
  }
  if (targets.empty()) return out;
  std::vector<Tensor> sources;
  for (const Tensor& ct : cotangents) sources.push_back(ct);
  const std::vector<Tensor> found = tape.gradient(targets, sources, seeds);
  for (std::size_t i = 0; i < found.size(); ++i) {
    out[i] = found[i];
  }
  return out;
}

bool runs_graphs(const OpDef& def) {
  return def.takes_sums &&
         std::ranges::any_of(def.attrs, [](const AttrDef& a) { return holds_graphs(a.kind); });
}

bool pushes_results(const Op& op) { return op.def().jvp != nullptr && runs_graphs(op.def()); }

Values run_jvp(const Op& op, const JvpCall& call) {
  if (op.def().jvp != nullptr) return op.def().jvp(call);
  if (op.def().vjp != nullptr) return transposed_jvp(op, call);
  if (op.def().transpose != nullptr) return linear_jvp(op, call);
  return elementwise_jvp(op, call);
}

Reads find_reads(const Op& op, const Attrs& attrs, std::span<const Type* const> operands,
                 uint64_t wanted) {
  const Reads everything{~uint64_t{0}, ~uint64_t{0}};
  if (operands.size() > 60) return everything;
  // A linear function of one operand is its own derivative, for all attributes.
  if (op.def().kind == Kind::kLinear && operands.size() == 1) return {};
  const uint32_t id = attrs.dispatch_id();
  const Type* const* types = operands.data();
  const std::size_t size = operands.size();
  ReadsEntry* entry = nullptr;
  if (ReadsEntry::can_hold(size, id)) {
    const auto holds = [&](const ReadsEntry& e) {
      return e.wanted == wanted && e.holds(op, id, types, size);
    };
    const auto found =
        ThreadTable<ReadsEntry, 512>::find(call_hash(op, id, types, size, wanted), holds);
    if (found.holds) return found.entry.reads;
    entry = &found.entry;
  }
  Reads reads = everything;
  try {
    Types results = infer_types(op, operands, attrs);
    for (const Type*& type : results) type = with_known_sizes(type);
    if (operands.size() + results.size() > 63) return everything;
    reads = try_on_symbols(op, attrs, operands, {results.data(), results.size()}, wanted);
  } catch (const Error&) {
    // The rule fails on these types. A gradient that needs it throws its error.
  }
  if (entry != nullptr) {
    entry->set(op, id, types, size);
    entry->wanted = wanted;
    entry->reads = reads;
  }
  return reads;
}

}  // namespace etude::internal
