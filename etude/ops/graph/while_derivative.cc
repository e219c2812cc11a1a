// SPDX-License-Identifier: Apache-2.0
// Derivatives and batches of loops: loops with other bodies.
#include <algorithm>

#include "etude/base/check.h"
#include "etude/core/op/batching.h"
#include "etude/ops/graph/while_loop.h"
#include "etude/stage/make_graph.h"

namespace etude::ops {
namespace {

// The derivative of one pass, as a pass in the other direction. It carries cotangents of the values
// that the pass carries, and cotangent sums of loop invariants. Its records are cotangents of the
// records of earlier passes.
struct PassBack {
  PassBack(const WhileLoop& loop, std::size_t p, const std::vector<bool>& wants_invariant)
      : body(loop.bodies[p]), carried(loop.carried[p]), records(loop.records_before(p)) {
    std::vector<bool> chosen;
    for (const Graph::Input& input : body->inputs()) {
      const std::size_t i = chosen.size();
      const bool is_invariant = i >= carried + records;
      chosen.push_back(is_differentiable(input.type->dtype()) &&
                       (!is_invariant || wants_invariant[i - carried - records]));
      if (!chosen.back()) continue;
      (i < carried ? moved : is_invariant ? summed : to_records).push_back(i);
    }
    std::vector<bool> in_sums = chosen;
    std::fill_n(in_sums.begin(), carried + records, false);
    pair = internal::derivative_of(*body, Chosen(chosen), Chosen(in_sums));
    for (const int64_t i : pair->read) {
      if (static_cast<std::size_t>(i) < carried) carried_residuals.push_back(i);
    }
    for (std::size_t k = 0; k < to_records.size(); ++k) {
      if (pair->adds[moved.size() + k]) given.push_back(k);
    }
    for (std::size_t k = 0; k < summed.size(); ++k) {
      adds_sum.push_back(pair->adds[moved.size() + to_records.size() + k]);
    }
  }

  // The number of residuals: the results of `pair->forward` after the outputs.
  std::size_t residuals() const { return pair->forward->outputs().size() - body->outputs().size(); }

  GraphRef body;
  std::size_t carried, records;
  std::vector<std::size_t> moved, to_records, summed;  // inputs that have a cotangent
  std::vector<bool> adds_sum;                          // by `summed`: whether the pass adds to it
  std::vector<std::size_t> given;                      // positions in `to_records` with a cotangent
  std::vector<int64_t> carried_residuals;
  internal::RefPtr<const internal::GraphDerivative> pair;
};

// Makes the loop of the derivative.
class LoopBack {
 public:
  LoopBack(const WhileLoop& loop, const std::vector<bool>& wants_invariant) : loop_(loop) {
    for (std::size_t p = 0; p < loop.passes(); ++p) {
      backs_.emplace_back(loop, p, wants_invariant);
      // Records of a pass: its own, its residuals, and carried values before the step.
      std::size_t own =
          loop.records(p) + backs_[p].residuals() + backs_[p].carried_residuals.size();
      first_record_.push_back(record_types_.size());
      const Types types = backs_[p].pair->forward->output_types();
      for (std::size_t i = loop.carried[p]; i < types.size(); ++i) {
        record_types_.push_back(types[i]);
      }
      for (const int64_t c : backs_[p].carried_residuals) {
        record_types_.push_back(backs_[p].body->inputs()[static_cast<std::size_t>(c)].type);
      }
      ETUDE_CHECK(first_record_[p] + own == record_types_.size(), "records do not add up");
    }
  }

  WhileLoop make() {
    WhileLoop out;
    out.condition = internal::without_effects(*loop_.condition);
    out.invariants = loop_.invariants;
    out.max_steps = loop_.max_steps;
    for (std::size_t p = 0; p < loop_.passes(); ++p) {
      out.bodies.push_back(forward(p));
      out.carried.push_back(loop_.carried[p]);
    }
    // The cotangent of a record comes from all later passes that read it.
    record_cts_.resize(loop_.records_before(loop_.passes()));
    for (std::size_t p = loop_.passes(); p-- > 0;) {
      out.bodies.push_back(backward(p));
      out.carried.push_back(backs_[p].moved.size() + backs_[p].summed.size());
    }
    return out;
  }

  const std::vector<PassBack>& backs() const { return backs_; }

 private:
  std::span<const Graph::Input> invariants(std::size_t p) const {
    return backs_[p].body->inputs().subspan(backs_[p].carried + backs_[p].records);
  }

  // The loop's own records among the records of the passes before p.
  Tensors own_records(std::size_t p, std::span<const Tensor> records) const {
    Tensors out;
    for (std::size_t q = 0; q < p; ++q) {
      append(out, records.subspan(first_record_[q], loop_.records(q)));
    }
    return out;
  }

  GraphRef forward(std::size_t p) const {
    const PassBack& back = backs_[p];
    Inputs inputs;
    add_inputs(inputs, back.body->inputs().first(back.carried));
    for (std::size_t r = 0; r < first_record_[p]; ++r)
      inputs.push_back({"record", record_types_[r]});
    add_inputs(inputs, invariants(p));
    return internal::make_graph(back.body->name(), inputs, [&](std::span<const Tensor> in) {
      std::size_t at = 0;
      const auto carried = part(in, at, back.carried);
      const auto records = part(in, at, first_record_[p]);
      Tensors given(carried.begin(), carried.end());
      append(given, own_records(p, records));
      append(given, in.subspan(at));
      Tensors out = interpret(*internal::without_effects(*back.pair->forward), given);
      for (const int64_t c : back.carried_residuals)
        out.push_back(carried[static_cast<std::size_t>(c)]);
      return out;
    });
  }

  GraphRef backward(std::size_t p) {
    const PassBack& back = backs_[p];
    const auto all = back.body->inputs();
    Inputs inputs;
    for (const std::size_t i : back.moved) add_inputs(inputs, all.subspan(i, 1), "ct_");
    for (const std::size_t i : back.summed) add_inputs(inputs, all.subspan(i, 1), "sum_");
    const std::size_t own = inputs.size(), records = record_types_.size();
    for (const Type* type : record_types_) inputs.push_back({"record", type});
    add_inputs(inputs, invariants(p));
    const GraphRef graph =
        internal::make_graph(back.pair->backward->name(), inputs, [&](std::span<const Tensor> in) {
          return step_back(p, in.first(own), in.subspan(own, records), in.subspan(own + records));
        });
    // Its records follow the existing records.
    for (std::size_t g = 0; g < back.given.size(); ++g) {
      const std::size_t record = back.to_records[back.given[g]] - back.carried;
      record_cts_[record].push_back(record_types_.size());
      record_types_.push_back(graph->output_types()[own + g]);
    }
    return graph;
  }

  Tensors step_back(std::size_t p, std::span<const Tensor> carried, std::span<const Tensor> records,
                    std::span<const Tensor> invariants) const {
    const PassBack& back = backs_[p];
    const std::size_t first_own = first_record_[p];
    const auto mine = records.subspan(first_own + loop_.records(p));
    const Tensors earlier = own_records(p, records);
    Tensors given;
    std::size_t carried_residuals = back.residuals();
    for (const int64_t input : back.pair->read) {
      const auto i = static_cast<std::size_t>(input);
      given.push_back(i < back.carried ? mine[carried_residuals++]
                      : i < back.carried + back.records
                          ? earlier[i - back.carried]
                          : invariants[i - back.carried - back.records]);
    }
    append(given, mine.first(back.residuals()));
    append(given, carried.first(back.moved.size()));
    for (std::size_t r = 0; r < loop_.records(p); ++r) {
      const Type* type = record_types_[first_own + r];
      if (!is_differentiable(type->dtype())) continue;
      Tensor ct;
      for (const std::size_t from : record_cts_[loop_.records_before(p) + r]) {
        ct = ct.has_value() ? internal::add(std::move(ct), records[from]) : records[from];
      }
      given.push_back(ct.has_value() ? ct : internal::full(type, 0));
    }
    append(given, carried.subspan(back.moved.size()));
    const Tensors found = interpret(*back.pair->backward, given);
    Tensors out;
    for (std::size_t k = 0; k < back.moved.size(); ++k) {
      out.push_back(found[k].has_value() ? found[k] : internal::full(carried[k].type(), 0));
    }
    append(out, std::span(found).subspan(back.moved.size() + back.to_records.size()));
    for (const std::size_t g : back.given) out.push_back(found[back.moved.size() + g]);
    return out;
  }

  const WhileLoop& loop_;
  std::vector<PassBack> backs_;
  std::vector<std::size_t> first_record_;             // by pass, in record_types_
  std::vector<const Type*> record_types_;             // of all passes so far
  std::vector<std::vector<std::size_t>> record_cts_;  // by record of the loop: where its cts are
};

// Sums that began empty are 0 and not -0 if the loop makes no step.
void settle_empty_sums(Values& out, const VjpCall& call, const WhileLoop& loop,
                       const std::vector<bool>& has_sum) {
  const std::size_t carried = loop.all_carried();
  Tensor has_step;
  for (std::size_t at = carried; at < out.size(); ++at) {
    if (!out[at].has_value() || has_sum[at]) continue;
    if (!has_step.has_value()) {
      OperandList list;
      for (std::size_t i = 0; i < loop.carried[0]; ++i) list.add(call.in[i]);
      for (std::size_t i = carried; i < call.in.size(); ++i) list.add(call.in[i]);
      has_step = internal::call_graph(internal::graph_attrs(*loop.condition), list.view(), {})[0];
    }
    const Tensor zero = internal::full(out[at].type(), 0);
    out[at] = run(op<"where">(), {&has_step, &out[at], &zero});
  }
}

}  // namespace

Values while_vjp(const VjpCall& call) {
  const WhileLoop loop(call.attrs, call.in.size());
  const std::size_t carried = loop.all_carried();
  const Types types = types_of(call.in);
  const std::vector<bool> asked = wanted(call.wanted, {types.data(), types.size()});
  LoopBack maker(loop, {asked.begin() + static_cast<std::ptrdiff_t>(carried), asked.end()});
  const WhileLoop back = maker.make();
  const Tensors operands = list_of(call.in);
  Tensors in(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(carried));
  std::vector<bool> is_first(call.in.size(), true), has_sum(call.in.size());
  for (std::size_t p = loop.passes(); p-- > 0;) {
    add_cotangents(in, call, loop.first_carried(p), loop.carried[p]);
    const PassBack& of = maker.backs()[p];
    for (std::size_t k = 0; k < of.summed.size(); ++k) {
      const std::size_t at = carried + of.summed[k] - of.carried - of.records;
      const Tensor so_far = of.adds_sum[k] && is_first[at] ? call.take_sum(at) : Tensor();
      if (so_far.has_value()) has_sum[at] = true;
      if (of.adds_sum[k]) is_first[at] = false;
      in.push_back(so_far.has_value() ? to_dense(so_far) : empty_sum(call.in[at].type()));
    }
  }
  append(in, std::span(operands).subspan(carried));
  const Values found = back.call(in);
  Values out(call.in.size());
  std::size_t next = carried;
  for (std::size_t p = loop.passes(); p-- > 0;) {
    const PassBack& of = maker.backs()[p];
    for (const std::size_t c : of.moved) out[loop.first_carried(p) + c] = found[next++];
    for (std::size_t k = 0; k < of.summed.size(); ++k, ++next) {
      if (!of.adds_sum[k]) continue;
      Tensor& sum = out[carried + of.summed[k] - of.carried - of.records];
      sum = sum.has_value() ? internal::add(std::move(sum), found[next]) : found[next];
    }
  }
  settle_empty_sums(out, call, loop, has_sum);
  return out;
}

namespace {

// The flags of operands and records, by input of the body of pass p.
std::vector<bool> of_body(const WhileLoop& loop, std::size_t p, const std::vector<bool>& operands,
                          const std::vector<bool>& records) {
  std::vector<bool> out;
  for (std::size_t c = 0; c < loop.carried[p]; ++c) {
    out.push_back(operands[loop.first_carried(p) + c]);
  }
  for (std::size_t r = 0; r < loop.records_before(p); ++r) out.push_back(records[r]);
  for (std::size_t i = 0; i < loop.invariants; ++i) {
    out.push_back(operands[loop.all_carried() + i]);
  }
  return out;
}

// Marks operands that pass p carries until no mark is added. `marks` returns which outputs of the
// body are marked for given marks of its inputs. Returns the marks of the outputs.
template <class Marks>
std::vector<bool> settle(const WhileLoop& loop, std::size_t p, std::vector<bool>& operands,
                         const std::vector<bool>& records, const Marks& marks) {
  for (;;) {
    const std::vector<bool> outputs = marks(Chosen(of_body(loop, p, operands, records)));
    bool is_settled = true;
    for (std::size_t c = 0; c < loop.carried[p]; ++c) {
      const std::size_t operand = loop.first_carried(p) + c;
      if (!outputs[c] || operands[operand]) continue;
      operands[operand] = true;
      is_settled = false;
    }
    if (is_settled) return outputs;
  }
}

// The body of pass p with tangents of its values.
GraphRef jvp_body(const WhileLoop& loop, std::size_t p, const GraphRef& pushed,
                  const std::vector<bool>& moves, const Doubled& doubled) {
  return internal::make_graph(pushed->name(), doubled.inputs, [&](std::span<const Tensor> given) {
    Tensors in = doubled.values(given);
    append(in, doubled.tangents(given));
    return doubled.outputs(interpret(*pushed, in), loop.carried[p], moves);
  });
}

GraphRef jvp_condition(const WhileLoop& loop, const std::vector<bool>& moves) {
  const std::size_t groups[] = {loop.carried[0], loop.invariants};
  const Doubled doubled(*loop.condition, groups, of_body(loop, 0, moves, {}));
  return internal::make_graph(loop.condition->name(), doubled.inputs,
                              [&](std::span<const Tensor> given) {
                                return interpret(*loop.condition, doubled.values(given));
                              });
}

}  // namespace

Values while_jvp(const JvpCall& call) {
  const WhileLoop loop(call.attrs, call.in.size());
  const std::size_t carried = loop.all_carried();
  std::vector<bool> moves = moving(call), record_moves;
  WhileLoop both;
  both.max_steps = loop.max_steps;
  for (std::size_t p = 0; p < loop.passes(); ++p) {
    GraphRef pushed;
    const auto outputs = settle(loop, p, moves, record_moves, [&](const Chosen& chosen) {
      pushed = internal::pushed_graph_of(*loop.bodies[p], chosen);
      const Types types = pushed->output_types();
      std::vector<bool> out;
      for (std::size_t i = types.size() / 2; i < types.size(); ++i) {
        out.push_back(types[i] != nullptr);
      }
      return out;
    });
    const std::vector<bool> body_moves = of_body(loop, p, moves, record_moves);
    const Doubled doubled(*loop.bodies[p], loop.groups(p), body_moves);
    both.bodies.push_back(jvp_body(loop, p, pushed, body_moves, doubled));
    both.carried.push_back(doubled.group_sizes[0]);
    record_moves.insert(record_moves.end(),
                        outputs.begin() + static_cast<std::ptrdiff_t>(loop.carried[p]),
                        outputs.end());
  }
  both.condition = jvp_condition(loop, moves);
  Tensors in;
  const auto add = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) in.push_back(call.in[i]);
    for (std::size_t i = begin; i < end; ++i) {
      if (!moves[i]) continue;
      in.push_back(call.tangents[i].has_value() ? call.tangents[i]
                                                : internal::full(call.in[i].type(), 0));
    }
  };
  for (std::size_t p = 0; p < loop.passes(); ++p) {
    add(loop.first_carried(p), loop.first_carried(p + 1));
  }
  add(carried, call.in.size());
  const Values found = both.call(in);
  Values out(2 * carried);
  std::size_t next = 0;
  for (std::size_t p = 0; p < loop.passes(); ++p) {
    const std::size_t begin = loop.first_carried(p), end = loop.first_carried(p + 1);
    for (std::size_t i = begin; i < end; ++i) out[i] = found[next++];
    for (std::size_t i = begin; i < end; ++i) {
      if (moves[i]) out[carried + i] = found[next++];
    }
  }
  return out;
}

// Where the examples need different numbers of steps, they run one by one.
Values while_batch(const BatchCall& call) {
  const WhileLoop loop(call.attrs, call.in.size());
  std::vector<bool> is_batch = batched(call), record_is;
  WhileLoop all;
  all.condition = loop.condition;
  all.carried = loop.carried;
  all.max_steps = loop.max_steps;
  for (std::size_t p = 0; p < loop.passes(); ++p) {
    std::vector<bool> results = settle(loop, p, is_batch, record_is, [&](const Chosen& chosen) {
      return internal::outputs_behind(*loop.bodies[p], chosen).to_vector();
    });
    const Chosen inputs(of_body(loop, p, is_batch, record_is));
    const Chosen of_condition(of_body(loop, 0, is_batch, {}));
    if (p == 0 && internal::outputs_behind(*loop.condition, of_condition)[0]) return {};
    for (std::size_t c = 0; c < loop.carried[p]; ++c) results[c] = inputs[c];
    record_is.insert(record_is.end(),
                     results.begin() + static_cast<std::ptrdiff_t>(loop.carried[p]), results.end());
    all.bodies.push_back(
        internal::batched_graph_of(*loop.bodies[p], inputs, call.size, Chosen(std::move(results))));
  }
  // The condition must read values that are the same for all examples.
  const std::vector<bool> of_condition = of_body(loop, 0, is_batch, {});
  all.condition = internal::batched_graph_of(*loop.condition, Chosen(of_condition), call.size,
                                             Chosen(std::vector<bool>(1, false)));
  Tensors in;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    in.push_back(is_batch[i] ? batching::leading(call, i) : call.in[i]);
  }
  Values out = all.call(in);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!is_batch[i]) out[i] = batching::spread(out[i], call.size);
  }
  return out;
}

}  // namespace etude::ops
