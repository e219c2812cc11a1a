// SPDX-License-Identifier: Apache-2.0
// host_call: a callable of the program as a call (stage/host_function.h). Its cotangents and its
// tangents are calls of the same op, which run the callable again: attribute `run` states which of
// the three a call computes.
#include <algorithm>
#include <cstring>
#include <optional>

#include "etude/autodiff/jvp.h"
#include "etude/autodiff/tape/tape.h"
#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/call/run.h"
#include "etude/core/context/ambient.h"
#include "etude/core/context/caller_place.h"
#include "etude/core/context/pending.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/internal/traced.h"
#include "etude/core/op/batching.h"
#include "etude/device/cpu/float_mode.h"
#include "etude/ops/families.h"
#include "etude/ops/graph/graph_attrs.h"
#include "etude/stage/internal/host_call.h"
#include "etude/variables/init_scope.h"
#include "etude/variables/internal/variable_replay.h"

namespace etude::ops {
namespace {

using internal::HostCallable;
using internal::HostFacts;
using internal::RefPtr;

enum class HostRun { kResults, kCotangents, kTangents };

// Operands are the inputs of the callable and the values of its Variables, `inputs` together;
// then cotangents of the results in `given`, or tangents of the inputs in `moves`. A call returns
// the results, or the cotangents of the inputs in `moves`, or the tangents of all results that have
// one.
struct HostCall {
  HostCall(const Attrs& attrs, std::size_t operands) : callable(&callable_of(attrs)) {
    const std::string& kind = attrs.text("run");
    run = kind == "results"      ? HostRun::kResults
          : kind == "cotangents" ? HostRun::kCotangents
                                 : HostRun::kTangents;
    ETUDE_REQUIRE(run != HostRun::kTangents || kind == "tangents",
                  "attribute 'run' is '{}', but must be results, cotangents or tangents", kind);
    inputs =
        run == HostRun::kResults ? operands : static_cast<std::size_t>(attrs.integer("inputs"));
    if (attrs.has("moves")) moves = attrs.ints("moves");
    if (attrs.has("given")) given = attrs.ints("given");
    const std::size_t more = run == HostRun::kResults      ? 0
                             : run == HostRun::kCotangents ? given.size()
                                                           : moves.size();
    ETUDE_REQUIRE(inputs + more == operands && inputs >= facts().variables.size(),
                  "has {} inputs and {} derivatives of them, but {} operands", inputs, more,
                  operands);
  }
  static const HostCallable& callable_of(const Attrs& attrs) {
    const auto* found = dynamic_cast<const HostCallable*>(&attrs.host("function"));
    ETUDE_REQUIRE(found != nullptr, "attribute 'function' is no callable of host_function()");
    return *found;
  }
  const HostFacts& facts() const { return callable->facts(); }

  RefPtr<const HostCallable> callable;
  HostRun run = HostRun::kResults;
  std::size_t inputs = 0;
  std::vector<int64_t> moves, given;
};

Types host_type(const TypeCall& call) {
  const HostCall host(call.attrs, call.types.size());
  Types out;
  if (host.run == HostRun::kCotangents) {
    for (const int64_t i : host.moves) out.push_back(call.types[static_cast<std::size_t>(i)]);
    return out;
  }
  for (const Type* type : host.facts().results) {
    if (host.run == HostRun::kTangents && !is_differentiable(type->dtype())) continue;
    out.push_back(call.make(type->dtype(), type->shape()));
  }
  // A node of a graph has a value to be known by.
  if (out.empty()) out.push_back(call.make(kBool, {0}));
  return out;
}

struct HostParams : KernelParams {
  explicit HostParams(HostCall given) : host(std::move(given)) {}
  HostCall host;
  std::vector<const Type*> operands, results;
};

// Keys for draws of the callable. In a run for a derivative they would be other keys than in the
// run before.
class HostKeys final : public internal::KeySource {
 public:
  HostKeys(internal::KeySource* outer, bool is_again) : outer_(outer), is_again_(is_again) {}
  Tensor next_key() override {
    ETUDE_REQUIRE_CODE(kFailedPrecondition, !is_again_,
                       "its callable draws random numbers, and is run again for a derivative: they "
                       "would be other numbers. Draw them outside, or pass a key as an argument");
    Tensor key = outer_ != nullptr ? outer_->next_key() : ambient().generator.next_key();
    ETUDE_REQUIRE_CODE(kFailedPrecondition, !key.has_value() || !TensorAccess::is_abstract(key),
                       "its callable draws random numbers inside a vmap. Draw them outside, or "
                       "pass a key for each example as an argument");
    return key;
  }

 private:
  internal::KeySource* outer_;
  bool is_again_;
};

// Refuses reads of Variables that would be missing in a derivative.
class HostReads final : public internal::VariableReader {
 public:
  HostReads(const HostFacts& facts, const internal::ReadersPause& outer, bool is_derivative)
      : facts_(facts), outer_(outer), is_derivative_(is_derivative) {
    start_reading();
  }
  void variable_read(const Variable& variable, const Tensor&) override {
    if (!variable.trainable()) return;
    for (const Variable& v : facts_.variables) {
      if (v.ref() == variable.ref()) return;
    }
    if (!is_derivative_ && !outer_.hides_derivative(variable)) return;
    ETUDE_THROW(
        kFailedPrecondition,
        "its callable reads {}, which is trainable, while a derivative is taken. In a graph "
        "only listed Variables get gradients: host_function(f, results, {{.variables = "
        "{{v}}}}), or read stop_gradient(v) outside and pass it",
        internal::made_text(variable));
  }

 private:
  const HostFacts& facts_;
  const internal::ReadersPause& outer_;
  bool is_derivative_;
};

// A tensor of its own with these elements: the callable may keep it, and the memory is reused.
Tensor copy_of(const Type* type, const void* elements) {
  Tensor out = internal::make_tensor(type);
  if (type->bytes() > 0) {
    std::memcpy(internal::new_host_elements(out), elements,
                static_cast<std::size_t>(type->bytes()));
  }
  return out;
}

void copy_to(void* to, const Type* type, const Tensor& x) {
  const auto bytes = static_cast<std::size_t>(type->bytes());
  if (bytes == 0) return;
  if (!x.has_value()) {
    std::memset(to, 0, bytes);
    return;
  }
  Tensor dense = to_dense(x);
  if (internal::is_unrun(dense)) internal::observe(dense);
  ETUDE_REQUIRE_CODE(kFailedPrecondition, !TensorAccess::is_abstract(dense),
                     "its callable returned a value of a trace or a vmap: {}",
                     internal::explain_abstract(dense));
  dense = internal::at_home(dense);
  std::memcpy(to, internal::host_elements(dense), bytes);
}

// One run of the callable, apart from everything around the call.
class HostExecution {
 public:
  HostExecution(const HostParams& params, const KernelCall& call)
      : p_(params), call_(call), is_again_(params.host.run != HostRun::kResults) {
    for (std::size_t i = 0; i < p_.operands.size(); ++i) {
      in_.push_back(copy_of(p_.operands[i], call.in[i]));
    }
  }

  void run() {
    HostKeys keys(ambient().keys, is_again_);
    const internal::HostCodeScope no_locks;
    const internal::ReadersPause readers;
    const internal::OutsideScope outside;
    const internal::KeyScope own_keys(&keys);
    std::optional<DeviceScope> device;  // of the caller, as around a plain call
    if (const internal::Placement* const place = internal::caller_place()) {
      device.emplace(internal::device_of(*place),
                     DeviceScopeOptions{CopyPolicy::kSilent, place->soft});
    }
    const HostFloatModeScope float_mode;
    const HostReads reads(facts(), readers, is_again_);
    std::vector<internal::VariableUse> uses;
    const std::size_t first = p_.host.inputs - facts().variables.size();
    for (std::size_t v = 0; v < facts().variables.size(); ++v) {
      uses.push_back({facts().variables[v], {in_[first + v]}});
    }
    const internal::VariableReplay values(uses);
    internal::run_host_code(facts(), [&] { run_kind(); });
  }

 private:
  const HostFacts& facts() const { return p_.host.facts(); }

  void run_kind() {
    switch (p_.host.run) {
      case HostRun::kResults:
        return give(call_results());
      case HostRun::kCotangents:
        return give(cotangents());
      case HostRun::kTangents:
        return give(tangents());
    }
  }

  std::vector<Tensor> call_results() const {
    const std::size_t count = p_.host.inputs - facts().variables.size();
    std::vector<Tensor> out = p_.host.callable->run(std::span(in_).first(count));
    internal::require_declared(facts(), out);
    return out;
  }

  std::vector<Tensor> cotangents() const {
    Tape tape;
    std::vector<Tensor> sources, out;
    {
      const TapeContext context(tape);
      for (const int64_t i : p_.host.moves) {
        sources.push_back(in_[static_cast<std::size_t>(i)]);
        tape.watch(sources.back());
      }
      out = call_results();
    }
    std::vector<Tensor> targets, seeds;
    for (std::size_t k = p_.host.given.size(); k-- > 0;) {
      const Tensor y = to_dense(out[static_cast<std::size_t>(p_.host.given[k])]);
      if (!tape.is_watched(y)) continue;
      targets.push_back(y);
      seeds.push_back(in_[p_.host.inputs + k]);
    }
    if (targets.empty()) return std::vector<Tensor>(sources.size());
    return tape.gradient(targets, sources, seeds);
  }

  std::vector<Tensor> tangents() const {
    JvpContext jvp;
    for (std::size_t k = 0; k < p_.host.moves.size(); ++k) {
      jvp.set_tangent(in_[static_cast<std::size_t>(p_.host.moves[k])], in_[p_.host.inputs + k]);
    }
    std::vector<Tensor> out;
    for (const Tensor& y : call_results()) {
      if (is_differentiable(y.dtype())) out.push_back(jvp.tangent(y));
    }
    ContextStack::remove(jvp);
    return out;
  }

  void give(const std::vector<Tensor>& out) const {
    for (std::size_t r = 0; r < out.size(); ++r) copy_to(call_.out[r], p_.results[r], out[r]);
  }

  const HostParams& p_;
  const KernelCall& call_;
  const bool is_again_;
  std::vector<Tensor> in_;
};

bool run_host(const KernelCall& call) {
  const auto& p = *static_cast<const HostParams*>(call.params);
  return guarded([&] {
    HostExecution(p, call).run();
    return true;
  });
}

void prepare_host(const PrepareCall& call) {
  auto params = internal::make_ref<HostParams>(HostCall(call.attrs, call.types.size()));
  params->operands.assign(call.types.begin(), call.types.end());
  params->results.assign(call.out.results.begin(), call.out.results.end());
  call.set(run_host, params);
}

Values call_derivative(const Attrs& of, std::string_view run, const Tensors& operands,
                       std::size_t inputs, const std::vector<int64_t>& moves,
                       const std::vector<int64_t>& given) {
  return call_op(op<"host_call">(), operands,
                 {{"function", of.value("function")},
                  {"name", of.value("name")},
                  {"run", std::string(run)},
                  {"inputs", static_cast<int64_t>(inputs)},
                  {"moves", moves},
                  {"given", given}});
}

[[noreturn]] void refuse_second(const HostCall& host) {
  Error error(ErrorCode::kUnimplemented,
              "a second derivative passes through its call in a graph, which has the first alone. "
              "Call the function without function(), or write its derivative by hand with "
              "custom_gradient");
  error.name_op(host.facts().title());
  throw error;
}

Values host_vjp(const VjpCall& call) {
  const HostCall host(call.attrs, call.in.size());
  if (host.run != HostRun::kResults) refuse_second(host);
  Tensors operands = list_of(call.in);
  std::vector<int64_t> moves, given;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (call.wants(i) && is_differentiable(call.in[i].dtype())) {
      moves.push_back(static_cast<int64_t>(i));
    }
  }
  for (std::size_t i = 0; i < call.cotangents.size(); ++i) {
    if (!call.cotangents[i].has_value()) continue;
    given.push_back(static_cast<int64_t>(i));
    operands.push_back(to_dense(call.cotangents[i]));
  }
  Values out(call.in.size());
  if (moves.empty() || given.empty()) return out;
  const Values found =
      call_derivative(call.attrs, "cotangents", operands, call.in.size(), moves, given);
  for (std::size_t k = 0; k < moves.size(); ++k) out[static_cast<std::size_t>(moves[k])] = found[k];
  return out;
}

Values host_jvp(const JvpCall& call) {
  const HostCall host(call.attrs, call.in.size());
  if (host.run != HostRun::kResults) refuse_second(host);
  Tensors operands = list_of(call.in);
  std::vector<int64_t> moves;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (!call.tangents[i].has_value()) continue;
    moves.push_back(static_cast<int64_t>(i));
    operands.push_back(to_dense(call.tangents[i]));
  }
  Values out(call.out.size());
  const Types results = types_of(call.out);
  if (moves.empty() || differentiable(results).empty()) return out;
  const Values found = call_derivative(call.attrs, "tangents", operands, call.in.size(), moves, {});
  std::size_t next = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (is_differentiable(results[i]->dtype())) out[i] = found[next++];
  }
  return out;
}

// One call for each example, in their order.
Values host_batch(const BatchCall& call) {
  std::vector<Values> parts(call.in.size());
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (call.is_batched(i)) parts[i] = internal::unstack(call.in[i]);
  }
  std::vector<Tensors> results;
  for (int64_t e = 0; e < call.size; ++e) {
    OperandList list;
    for (std::size_t i = 0; i < call.in.size(); ++i) {
      list.add(call.is_batched(i) ? parts[i][static_cast<std::size_t>(e)] : call.in[i]);
    }
    Values out = internal::run_all(call.op, list, call.attrs);
    results.resize(out.size());
    for (std::size_t r = 0; r < out.size(); ++r) results[r].push_back(std::move(out[r]));
  }
  Values out;
  for (const Tensors& of_one : results) out.push_back(internal::stack(of_one));
  return out;
}

}  // namespace

}  // namespace etude::ops

// Below its callers in the order of folders: they know no op by name.
std::vector<etude::Tensor> etude::internal::call_host(const RefPtr<const HostCallable>& callable,
                                                      std::span<const Tensor> inputs,
                                                      CallSite where) {
  const HostFacts& facts = callable->facts();
  return located(facts.title(), where, [&] {
    std::vector<Tensor> operands(inputs.begin(), inputs.end());
    for (const Variable& v : facts.variables) operands.push_back(v.read(where));
    const OperandList list{std::span<const Tensor>(operands)};
    const std::string title = facts.title();
    Values out =
        run_all(op<"host_call">(), list,
                {RefPtr<const HostObject>(callable), title, none, none, none, none}, where);
    if (facts.results.empty()) return std::vector<Tensor>();
    return std::vector<Tensor>(std::make_move_iterator(out.begin()),
                               std::make_move_iterator(out.end()));
  });
}

namespace etude::ops {

void define_host_calls(Registry& r) {
  r.define({
      .name = "host_call",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "Runs a callable of the program on tensors (host_function), or runs it again for "
             "cotangents or tangents.",
      .operands = {{"xs...@host", kAnyDType}},
      .attrs = {{"function", AttrKind::kHost},
                {"name", AttrKind::kText},
                {"run", "results"},
                {"inputs", 0},
                {"moves", AttrKind::kInts, none},
                {"given", AttrKind::kInts, none}},
      .results = {"ys..."},
      .type = host_type,
      .kernels = {.cpu = prepare_host},
      .vjp = host_vjp,
      .jvp = host_jvp,
      .batch = host_batch,
      .effect = Effect::kOutside,
      .works_for = "name",
  });
}

}  // namespace etude::ops
