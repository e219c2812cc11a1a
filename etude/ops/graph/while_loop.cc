// SPDX-License-Identifier: Apache-2.0
// while_loop: a graph that runs while the condition graph returns true. while_loop() becomes this
// op in a trace.
#include "etude/ops/graph/while_loop.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "etude/base/check.h"
#include "etude/core/call/located.h"
#include "etude/core/internal/host_door.h"
#include "etude/ops/families.h"
#include "etude/stage/make_graph.h"

namespace etude::ops {

WhileLoop::WhileLoop(const Attrs& attrs, std::size_t operands)
    : condition(graph_of(attrs, "condition")),
      bodies(graphs_of(attrs, "bodies")),
      max_steps(attrs.integer("max_steps")) {
  const std::vector<int64_t>& counts = attrs.ints("carried");
  ETUDE_REQUIRE(!bodies.empty() && counts.size() == bodies.size(),
                "has {} bodies, and numbers of carried values for {}", bodies.size(),
                counts.size());
  for (std::size_t p = 0; p < counts.size(); ++p) {
    ETUDE_REQUIRE(
        counts[p] >= 0 && static_cast<std::size_t>(counts[p]) <= bodies[p]->outputs().size(),
        "carries {} values, but body {} returns {}", counts[p], p, bodies[p]->outputs().size());
    carried.push_back(static_cast<std::size_t>(counts[p]));
  }
  ETUDE_REQUIRE(operands >= all_carried(), "carries {} values, but has {} operands", all_carried(),
                operands);
  invariants = operands - all_carried();
}

std::size_t WhileLoop::first_carried(std::size_t p) const {
  std::size_t out = 0;
  for (std::size_t q = 0; q < p; ++q) out += carried[q];
  return out;
}

std::size_t WhileLoop::records_before(std::size_t p) const {
  std::size_t out = 0;
  for (std::size_t q = 0; q < p; ++q) out += records(q);
  return out;
}

std::vector<std::size_t> WhileLoop::groups(std::size_t p) const {
  std::vector<std::size_t> out = {carried[p]};
  for (std::size_t q = 0; q < p; ++q) out.push_back(records(q));
  out.push_back(invariants);
  return out;
}

Values WhileLoop::call(std::span<const Tensor> operands) const {
  const std::vector<int64_t> counts(carried.begin(), carried.end());
  return call_op(op<"while_loop">(), operands,
                 {{"condition", graph_value(condition)},
                  {"bodies", graphs_value(bodies)},
                  {"carried", counts},
                  {"max_steps", max_steps}});
}

namespace {

LoopFacts while_facts(std::size_t operands, const Attrs& attrs) {
  return {WhileLoop(attrs, operands).invariants};
}

Types while_type(const TypeCall& call) {
  const WhileLoop loop(call.attrs, call.types.size());
  const auto invariants = call.types.subspan(loop.all_carried());
  const auto inputs = [&](std::size_t p, const std::vector<const Type*>& records) {
    const auto carried = call.types.subspan(loop.first_carried(p), loop.carried[p]);
    std::vector<const Type*> out(carried.begin(), carried.end());
    out.insert(out.end(), records.begin(), records.end());
    out.insert(out.end(), invariants.begin(), invariants.end());
    return out;
  };
  std::vector<const Type*> records;
  internal::require_inputs(*loop.condition, inputs(0, {}));
  const Types says = loop.condition->output_types();
  ETUDE_REQUIRE(
      says.size() == 1 && says[0] != nullptr && says[0]->on(Device()) == intern_type(kBool, {}),
      "the condition returns {}, but must return a single bool: whether to run another step",
      says.empty() || says[0] == nullptr ? "nothing" : says[0]->to_string());
  Types out;
  for (std::size_t p = 0; p < loop.passes(); ++p) {
    internal::require_inputs(*loop.bodies[p], inputs(p, records));
    const Types types = loop.bodies[p]->output_types();
    for (std::size_t i = 0; i < types.size(); ++i) {
      ETUDE_REQUIRE(types[i] != nullptr, "result {} of a body is absent", i);
      if (i >= loop.carried[p]) {
        records.push_back(types[i]);
        continue;
      }
      const Type* before = call.types[loop.first_carried(p) + i];
      ETUDE_REQUIRE(types[i] == before, "carried value {} is {} before a step and {} after it", i,
                    text_with_device(before), text_with_device(types[i]));
      out.push_back(types[i]);
    }
  }
  return out;
}

struct WhileParams : PlanParams {  // plans: of the condition, and of the bodies
  std::vector<std::size_t> carried;
  std::vector<bool> goes_over;  // by carried value of all passes: whether a step updates it
  std::vector<const Type*> records;
  std::vector<std::size_t> first_record;  // by pass, and their number
  std::size_t invariants = 0;
  int64_t max_steps = -1;
};

// The records of one kind in all steps.
class Records {
 public:
  explicit Records(const Type* type)
      : device_(type->device()), bytes_(std::max<int64_t>((type->bytes() + 63) / 64, 1) * 64) {}
  void make_room(std::size_t step) {
    while (blocks_.size() <= block_of(step)) {
      const int64_t steps = int64_t{1} << blocks_.size();
      const Type* type = intern_type(kUInt8, {steps * bytes_}, device_);
      blocks_.push_back(internal::make_tensor(type));
    }
  }
  void* at(std::size_t step) const {
    const std::size_t block = block_of(step);
    const std::size_t first = (std::size_t{1} << block) - 1;
    return static_cast<char*>(TensorAccess::rep(blocks_[block])->data) +
           static_cast<int64_t>(step - first) * bytes_;
  }

 private:
  // Each block is twice as long as the one before, and none moves when there are more steps.
  static std::size_t block_of(std::size_t step) {
    return static_cast<std::size_t>(std::bit_width(step + 1)) - 1;
  }
  Device device_;
  int64_t bytes_;
  std::vector<Tensor> blocks_;
};

// The result of a condition graph. On another device than cpu:0 each look waits for it.
class Condition {
 public:
  explicit Condition(const Type* type)
      : value_(internal::make_tensor(type)), is_home_(type->device().is_home()) {}
  void* address() const { return TensorAccess::rep(value_)->data; }
  // throws: the late error of the condition.
  bool is_true() const { return is_home_ ? look(value_) : look(internal::at_home(value_)); }

 private:
  static bool look(const Tensor& x) {
    return *static_cast<const bool*>(internal::host_elements(x));
  }

  Tensor value_;
  bool is_home_;
};

class WhileRun {
 public:
  WhileRun(const WhileParams& params, const KernelCall& call) : p_(params), call_(call) {
    std::size_t all = 0;
    for (const std::size_t n : p_.carried) all += n;
    invariants_.assign(call.in + all, call.in + all + p_.invariants);
    for (const Type* type : p_.records) records_.emplace_back(type);
  }

  bool run() {
    std::size_t first = 0;
    for (std::size_t pass = 0; pass < p_.carried.size(); ++pass) {
      if (!run_pass(pass, first)) return false;
      first += p_.carried[pass];
    }
    return true;
  }

 private:
  // Carried values that a step updates stay where the results are. The others take turns between
  // two places; the last ones are copied to the results.
  bool run_pass(std::size_t pass, std::size_t first) {
    const GraphRef& body = p_.graphs[pass + 1];
    const std::size_t carried = p_.carried[pass];
    internal::Plan::Runner runner(*p_.plans[pass + 1]);
    std::vector<const void*> in(call_.in + first, call_.in + first + carried);
    std::vector<void*> places[2];
    std::vector<Tensor> held;
    for (std::size_t c = 0; c < carried; ++c) {
      const Type* type = body->inputs()[c].type;
      void* const result = call_.out[first + c];
      if (p_.goes_over[first + c]) {
        internal::copy_elements(type, result, in[c]);
        in[c] = result;
      }
      for (auto& place : places) {
        if (!p_.goes_over[first + c]) held.push_back(internal::make_tensor(type));
        place.push_back(p_.goes_over[first + c] ? result : TensorAccess::rep(held.back())->data);
      }
    }
    in.resize(carried + p_.first_record[pass]);
    in.insert(in.end(), invariants_.begin(), invariants_.end());
    std::vector<void*> out(body->outputs().size());
    const auto step_once = [&](std::size_t at, std::size_t turn) {
      std::ranges::copy(places[turn % 2], out.begin());
      for (std::size_t r = 0; r < p_.first_record[pass]; ++r) in[carried + r] = records_[r].at(at);
      for (std::size_t r = p_.first_record[pass]; r < p_.first_record[pass + 1]; ++r) {
        records_[r].make_room(at);
        out[carried + r - p_.first_record[pass]] = records_[r].at(at);
      }
      if (!runner.run(in.data(), out.data())) return false;
      std::copy(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(carried), in.begin());
      return true;
    };
    if (pass == 0 ? !run_while(in, step_once) : !run_again(pass, step_once)) return false;
    for (std::size_t c = 0; c < carried; ++c) {
      internal::copy_elements(body->inputs()[c].type, call_.out[first + c], in[c]);
    }
    return true;
  }

  template <class Step>
  bool run_while(const std::vector<const void*>& in, const Step& step_once) {
    internal::Plan::Runner condition(*p_.plans[0]);
    const Condition place(p_.graphs[0]->output_types()[0]);
    for (steps_ = 0; p_.max_steps < 0 || steps_ < static_cast<std::size_t>(p_.max_steps);
         ++steps_) {
      void* says = place.address();
      if (!condition.run(in.data(), &says)) return false;
      if (!place.is_true()) return true;
      if (!step_once(steps_, steps_)) return false;
    }
    return true;
  }

  template <class Step>
  bool run_again(std::size_t pass, const Step& step_once) const {
    for (std::size_t i = 0; i < steps_; ++i) {
      if (!step_once(pass % 2 == 0 ? i : steps_ - 1 - i, i)) return false;
    }
    return true;
  }

  const WhileParams& p_;
  const KernelCall& call_;
  std::vector<const void*> invariants_;
  std::vector<Records> records_;
  std::size_t steps_ = 0;
};

bool run_while_loop(const KernelCall& call) {
  return guarded(
      [&] { return WhileRun(*static_cast<const WhileParams*>(call.params), call).run(); });
}

void prepare_while(const PrepareCall& call) {
  const WhileLoop loop(call.attrs, call.types.size());
  auto params = internal::make_ref<WhileParams>();
  params->add(loop.condition);
  for (std::size_t p = 0; p < loop.passes(); ++p) {
    params->add(loop.bodies[p]);
    params->first_record.push_back(loop.records_before(p));
    const Types types = loop.bodies[p]->output_types();
    for (std::size_t c = 0; c < loop.carried[p]; ++c) {
      params->goes_over.push_back(params->plans.back()->may_go_over(c, c));
      if (params->goes_over.back()) write_over(call, loop.first_carried(p) + c);
    }
    for (std::size_t i = loop.carried[p]; i < types.size(); ++i) {
      params->records.push_back(types[i]);
    }
  }
  params->first_record.push_back(params->records.size());
  params->carried = loop.carried;
  params->invariants = loop.invariants;
  params->max_steps = loop.max_steps;
  call.set(run_while_loop, params);
}

// Three steps of a counter, which also carry the results of the last step.
GraphSample while_around(const AttrObject& object, std::span<const Tensor> inputs) {
  const GraphRef graph(static_cast<const Graph*>(&object));
  const Type* counter = intern_type(kInt32, {});
  Inputs all = {{"step", counter}};
  Tensors operands = {Tensor(0)};
  for (const Type* type : graph->output_types()) {
    if (type == nullptr) continue;
    all.push_back({"before", type});
    operands.push_back(internal::full(type, 0));
  }
  const std::size_t carried = all.size();
  add_inputs(all, graph->inputs());
  append(operands, inputs);
  WhileLoop loop;
  loop.condition = internal::make_graph("condition", all, [&](std::span<const Tensor> in) {
    const Tensor last(3);
    return Tensors{run(op<"less">(), {&in[0], &last})};
  });
  loop.bodies = {internal::make_graph(graph->name(), all, [&](std::span<const Tensor> in) {
    Tensors out = {internal::add(Tensor(in[0]), Tensor(1))};
    for (const Tensor& y : interpret(*graph, in.subspan(carried))) {
      if (y.has_value()) out.push_back(y);
    }
    return out;
  })};
  return {operands,
          {{"condition", graph_value(loop.condition)},
           {"bodies", graphs_value(loop.bodies)},
           {"carried", std::vector<int64_t>{static_cast<int64_t>(carried)}}}};
}

}  // namespace

void define_while_loop(Registry& r) {
  r.define({
      .name = "while_loop",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "Runs a graph, with values carried from step to step, as long as another one says; "
             "and then further graphs over the same steps, back and forth.",
      .operands = {{"xs...", kAnyDType}},
      .attrs = {{"condition", AttrKind::kGraph},
                {"bodies", AttrKind::kGraphs},
                {"carried", AttrKind::kInts},
                {"max_steps", -1}},
      .results = {"ys..."},
      .type = while_type,
      .kernels = {.cpu = prepare_while},
      .vjp = while_vjp,
      .takes_sums = true,
      .jvp = while_jvp,
      .batch = while_batch,
      .loop = {.facts = while_facts, .graphs = {"condition", "bodies"}},
      .samples = {.around = while_around},
  });
}

}  // namespace etude::ops
