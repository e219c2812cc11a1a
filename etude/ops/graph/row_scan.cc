// SPDX-License-Identifier: Apache-2.0
// scan: a graph run once for each row of tensors, with values that it carries from step to step.
// scan() and fold() become this op in a trace. Its derivative is a scan in the opposite direction,
// over the rows that the forward scan has kept.
#include <algorithm>
#include <optional>

#include "etude/base/check.h"
#include "etude/core/call/located.h"
#include "etude/core/op/batching.h"
#include "etude/ops/families.h"
#include "etude/ops/graph/graph_attrs.h"
#include "etude/plan/cluster_maker.h"
#include "etude/stage/make_graph.h"

namespace etude::ops {
namespace {

// Operands are carried values, tensors with a row for each step, and loop invariants. The body
// takes the same, with rows instead of these tensors. It returns the carried values for the next
// step, and then rows of the further results.
struct Scan {
  explicit Scan(const Attrs& attrs, std::size_t operands)
      : body(graph_of(attrs, "body")),
        carried(static_cast<std::size_t>(attrs.integer("carried"))),
        rows(static_cast<std::size_t>(attrs.integer("rows"))),
        invariants(operands - std::min(operands, carried + rows)),
        length(attrs.integer("length")),
        is_reverse(attrs.flag("reverse")) {}

  std::size_t operands() const { return carried + rows + invariants; }

  GraphRef body;
  std::size_t carried, rows, invariants;
  int64_t length;
  bool is_reverse;
};

LoopFacts scan_facts(std::size_t operands, const Attrs& attrs) {
  const Scan scan(attrs, operands);
  return {scan.invariants, scan.length};
}

const Type* stack_of(const Type* row, int64_t length) {
  return intern_type(row->dtype(), Shape(batching::behind(length, row->shape().sizes())),
                     row->device());
}

Types scan_type(const TypeCall& call) {
  const Scan scan(call.attrs, call.types.size());
  ETUDE_REQUIRE(scan.operands() == call.types.size() && scan.length >= 0,
                "carries {} values over {} steps with {} rows each, but has {} operands",
                scan.carried, scan.length, scan.rows, call.types.size());
  Types inputs(call.types.begin(), call.types.end());
  for (std::size_t i = scan.carried; i < scan.carried + scan.rows; ++i) {
    ETUDE_REQUIRE(call.has(i) && call.rank(i) > 0 && call.shape(i)[0] == scan.length,
                  "element {} of 'xs' is {}, but needs {} rows along axis 0, one for each step", i,
                  call.has(i) ? call.types[i]->to_string() : "absent", scan.length);
    inputs[i] = batching::example_type(call.types[i]);
  }
  internal::require_inputs(*scan.body, {inputs.data(), inputs.size()});
  Types out = scan.body->output_types();
  ETUDE_REQUIRE(out.size() >= scan.carried, "carries {} values, but its body returns {}",
                scan.carried, out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    ETUDE_REQUIRE(out[i] != nullptr, "result {} of the body is absent", i);
    if (i >= scan.carried) {
      out[i] = stack_of(out[i], scan.length);
    } else {
      ETUDE_REQUIRE(out[i] == call.types[i], "carried value {} is {} before a step and {} after it",
                    i, text_with_device(call.types[i]), text_with_device(out[i]));
    }
  }
  return out;
}

struct ScanParams : PlanParams {
  std::size_t carried = 0, rows = 0;
  int64_t length = 0;
  bool is_reverse = false;
  std::vector<bool> goes_over;                   // by carried value: whether a step updates it
  std::vector<std::size_t> bytes_in, bytes_out;  // of inputs and outputs of the body
  std::optional<internal::LoopCode> code;        // of all steps
};

// Carried values that a step updates stay in the memory of the results. The others alternate
// between the results and other memory, so that the last step writes the results.
bool run_steps(const ScanParams& p, const KernelCall& call) {
  internal::Plan::Runner runner(*p.plans[0]);
  std::vector<const void*> in(call.in, call.in + p.bytes_in.size());
  std::vector<void*> out(call.out, call.out + p.bytes_out.size());
  std::vector<Tensor> beside(p.carried);
  for (std::size_t c = 0; c < p.carried && p.length > 1; ++c) {
    const Type* const type = p.graphs[0]->inputs()[c].type;
    if (p.goes_over[c]) {
      internal::copy_elements(type, call.out[c], call.in[c]);
      in[c] = call.out[c];
    } else {
      beside[c] = internal::make_tensor(type);
    }
  }
  const std::size_t first_invariant = p.carried + p.rows;
  for (int64_t step = 0; step < p.length; ++step) {
    const auto row = static_cast<std::size_t>(p.is_reverse ? p.length - 1 - step : step);
    const bool is_result = (p.length - step) % 2 == 1;
    for (std::size_t c = 0; c < p.carried; ++c) {
      if (step > 0) in[c] = out[c];
      out[c] = is_result || p.goes_over[c] ? call.out[c] : TensorAccess::rep(beside[c])->data;
    }
    for (std::size_t i = p.carried; i < first_invariant; ++i) {
      in[i] = static_cast<const char*>(call.in[i]) + row * p.bytes_in[i];
    }
    for (std::size_t i = p.carried; i < out.size(); ++i) {
      out[i] = static_cast<char*>(call.out[i]) + row * p.bytes_out[i];
    }
    if (!runner.run(in.data(), out.data())) return false;
  }
  return true;
}

bool run_scan(const KernelCall& call) {
  const auto& p = *static_cast<const ScanParams*>(call.params);
  if (p.length == 0) {
    return guarded([&] {
      for (std::size_t c = 0; c < p.carried; ++c) {
        internal::copy_elements(p.graphs[0]->inputs()[c].type, call.out[c], call.in[c]);
      }
      return true;
    });
  }
  if (p.code && p.code->run(call.in, call.out, static_cast<std::size_t>(p.length))) return true;
  return guarded([&] { return run_steps(p, call); });
}

void prepare_scan(const PrepareCall& call) {
  const Scan scan(call.attrs, call.types.size());
  auto params = internal::make_ref<ScanParams>();
  params->add(scan.body);
  params->carried = scan.carried;
  params->rows = scan.rows;
  params->length = scan.length;
  params->is_reverse = scan.is_reverse;
  for (const Graph::Input& input : scan.body->inputs()) {
    params->bytes_in.push_back(static_cast<std::size_t>(input.type->bytes()));
  }
  for (const Type* type : scan.body->output_types()) {
    params->bytes_out.push_back(static_cast<std::size_t>(type->bytes()));
  }
  for (std::size_t c = 0; c < scan.carried; ++c) {
    params->goes_over.push_back(params->plans[0]->may_go_over(c, c));
    if (params->goes_over[c]) write_over(call, c);
  }
  params->code = params->plans[0]->loop_code({scan.carried, scan.rows, scan.is_reverse});
  call.set(run_scan, params);
}

Values call_scan(const Scan& like, const GraphRef& body, std::span<const Tensor> operands,
                 std::size_t carried, std::size_t rows, bool is_reverse) {
  return call_op(op<"scan">(), operands,
                 {{"body", graph_value(body)},
                  {"carried", static_cast<int64_t>(carried)},
                  {"rows", static_cast<int64_t>(rows)},
                  {"length", like.length},
                  {"reverse", is_reverse}});
}

// The parts of the derivative of a scan. `with_sums`: the operands with rows whose cotangents are
// added to an earlier sum, row by row.
struct ScanDerivative {
  ScanDerivative(const Scan& of, const std::vector<bool>& is_wanted,
                 std::vector<std::size_t> with_sums = {})
      : scan(of), summed_rows(std::move(with_sums)) {
    std::vector<bool> chosen = is_wanted;
    for (std::size_t c = 0; c < scan.carried; ++c) {
      const Type* type = scan.body->inputs()[c].type;
      chosen[c] = is_differentiable(type->dtype());
      if (chosen[c]) moved.push_back(c);
    }
    std::vector<bool> summed = chosen;
    std::fill_n(summed.begin(), scan.carried + scan.rows, false);
    for (const std::size_t i : summed_rows) summed[i] = true;
    pair = internal::derivative_of(*scan.body, Chosen(chosen), Chosen(summed));
    for (const int64_t i : pair->read) {
      const auto at = static_cast<std::size_t>(i);
      (at < scan.carried ? carried_read : operands_read).push_back(i);
    }
    std::size_t next = moved.size();
    for (std::size_t i = scan.carried; i < scan.operands(); ++i) {
      if (!chosen[i]) continue;
      const bool adds = pair->adds[next++];
      const bool is_row = i < scan.carried + scan.rows;
      if (!is_row) summed_inputs.push_back(i);
      if (is_row) adds_row.push_back(adds);
      if (adds) (is_row ? rows_given : sums_given).push_back(static_cast<int64_t>(i));
    }
  }

  // The body with further rows: the values of a step that the backward body reads. Attribute
  // `source` is the original body.
  GraphRef forward() const {
    return internal::make_graph(scan.body->name(), scan.body->inputs(),
                                [&](std::span<const Tensor> in) {
                                  Tensors out = interpret(*pair->forward, in);
                                  for (const int64_t c : carried_read)
                                    out.push_back(in[static_cast<std::size_t>(c)]);
                                  return out;
                                });
  }

  // One step back. Carries cotangents of the carried values, and cotangent sums of loop invariants.
  GraphRef backward() const {
    const auto all = scan.body->inputs();
    const Types types = pair->forward->output_types();
    Inputs inputs;
    for (const std::size_t c : moved) add_inputs(inputs, all.subspan(c, 1), "ct_");
    for (const std::size_t i : summed_inputs) add_inputs(inputs, all.subspan(i, 1), "sum_");
    const std::size_t visible = scan.body->outputs().size();
    for (std::size_t k = visible; k < types.size(); ++k) inputs.push_back({"residual", types[k]});
    for (const auto& list : {carried_read, rows_read()}) {
      for (const int64_t i : list) add_inputs(inputs, all.subspan(static_cast<std::size_t>(i), 1));
    }
    for (const std::size_t i : summed_rows) add_inputs(inputs, all.subspan(i, 1), "sum_");
    for (std::size_t y = scan.carried; y < visible; ++y) {
      if (is_differentiable(types[y]->dtype())) inputs.push_back({"ct", types[y]});
    }
    for (const int64_t i : invariants_read()) {
      add_inputs(inputs, all.subspan(static_cast<std::size_t>(i), 1));
    }
    return internal::make_graph(pair->backward->name(), inputs, [&](std::span<const Tensor> in) {
      return step_back(in, types.size() - visible);
    });
  }

  Tensors step_back(std::span<const Tensor> in, std::size_t residual_count) const {
    std::size_t at = 0;
    const auto cts = part(in, at, moved.size());
    const auto sums = part(in, at, summed_inputs.size());
    const auto residuals = part(in, at, residual_count);
    const auto carried = part(in, at, carried_read.size());
    const auto rows = part(in, at, rows_read().size());
    const auto row_sums = part(in, at, summed_rows.size());
    const auto row_cts = part(in, at, in.size() - at - invariants_read().size());
    const auto invariants = part(in, at, invariants_read().size());
    Tensors given(carried.begin(), carried.end());  // inputs of the body, in their order
    for (const auto& list : {rows, invariants, residuals, cts, row_cts, row_sums, sums}) {
      append(given, list);
    }
    const Tensors found = interpret(*pair->backward, given);
    Tensors out;
    for (std::size_t k = 0; k < moved.size(); ++k) {
      out.push_back(found[k].has_value() ? found[k] : internal::full(cts[k].type(), 0));
    }
    const auto of_rows = std::span(found).subspan(moved.size(), adds_row.size());
    append(out, std::span(found).subspan(moved.size() + adds_row.size()));
    for (std::size_t r = 0; r < of_rows.size(); ++r) {
      if (adds_row[r]) out.push_back(of_rows[r]);
    }
    return out;
  }

  std::vector<int64_t> rows_read() const { return read_of(scan.carried, scan.rows); }
  std::vector<int64_t> invariants_read() const {
    return read_of(scan.carried + scan.rows, scan.invariants);
  }
  std::vector<int64_t> read_of(std::size_t first, std::size_t count) const {
    std::vector<int64_t> out;
    for (const int64_t i : operands_read) {
      const auto at = static_cast<std::size_t>(i);
      if (at >= first && at < first + count) out.push_back(i);
    }
    return out;
  }

  const Scan& scan;
  internal::RefPtr<const internal::GraphDerivative> pair;
  std::vector<std::size_t> moved;                    // carried values with cotangents
  std::vector<int64_t> carried_read, operands_read;  // inputs that `pair->backward` reads
  std::vector<int64_t> sums_given, rows_given;       // operands that get a cotangent
  std::vector<std::size_t> summed_inputs;            // of the body
  std::vector<std::size_t> summed_rows;              // operands
  std::vector<bool> adds_row;                        // by row whose cotangent is wanted
};

ResidualCall scan_residuals(std::span<const Type* const> types, const Attrs& attrs, uint64_t bits) {
  const Scan scan(attrs, types.size());
  const ScanDerivative derivative(scan, wanted(bits, types));
  const std::vector<int64_t> sums(derivative.summed_inputs.begin(), derivative.summed_inputs.end());
  const auto visible = static_cast<int64_t>(scan.body->outputs().size());
  std::vector<int64_t> gives = derivative.sums_given;
  gives.insert(gives.end(), derivative.rows_given.begin(), derivative.rows_given.end());
  return {op<"scan">().attrs_by_name({{"body", graph_value(derivative.forward())},
                                      {"carried", attrs.value("carried")},
                                      {"rows", attrs.value("rows")},
                                      {"length", scan.length},
                                      {"reverse", scan.is_reverse},
                                      {"backward", graph_value(derivative.backward())},
                                      {"visible", visible},
                                      {"results", own_results(attrs, visible)},
                                      {"read", derivative.operands_read},
                                      {"sums", sums},
                                      {"gives", gives},
                                      {"source", graph_value(scan.body)}}),
          internal::operand_bits(derivative.operands_read)};
}

// The backward body for sums that have reached operands with rows so far, which are appended to
// `in`: rows that several loops read have theirs added one by one, as single tensors have.
GraphRef backward_with_sums(const VjpCall& call, const Scan& scan, Tensors& in) {
  std::vector<std::size_t> summed;
  for (const int64_t operand : call.attrs.ints("gives")) {
    const auto i = static_cast<std::size_t>(operand);
    const bool is_row = i >= scan.carried && i < scan.carried + scan.rows;
    const Tensor so_far = is_row ? call.take_sum(i) : Tensor();
    if (!so_far.has_value()) continue;
    summed.push_back(i);
    in.push_back(to_dense(so_far));
  }
  if (summed.empty()) return graph_of(call.attrs, "backward");
  Scan source = scan;
  source.body = graph_of(call.attrs, "source");
  const Types types = types_of(call.in);
  return ScanDerivative(source, wanted(call.wanted, {types.data(), types.size()}), summed)
      .backward();
}

Values scan_vjp(const VjpCall& call) {
  const Scan scan(call.attrs, call.in.size());
  const auto visible = static_cast<std::size_t>(call.attrs.integer("visible"));
  const std::size_t first_invariant = scan.carried + scan.rows;
  Tensors in;
  add_cotangents(in, call, 0, scan.carried);
  const std::size_t moved = in.size();
  const std::vector<int64_t>& gives = call.attrs.ints("gives");
  const std::vector<int64_t>& sums = call.attrs.ints("sums");
  add_sums(in, call, sums, gives, scan.length > 0);
  const std::size_t carried = in.size();
  for (std::size_t k = visible; k < call.out.size(); ++k) in.push_back(call.out[k]);
  Tensors invariants;
  for (const int64_t i : call.attrs.ints("read")) {
    const auto at = static_cast<std::size_t>(i);
    (at < first_invariant ? in : invariants).push_back(call.in[at]);
  }
  const GraphRef backward = backward_with_sums(call, scan, in);
  const std::size_t first_ct = in.size();
  add_cotangents(in, call, scan.carried, visible - scan.carried);
  for (std::size_t i = first_ct; i < in.size(); ++i) in[i] = internal::identity(in[i]);
  const std::size_t rows = in.size() - carried;
  append(in, invariants);
  const Values found = call_scan(scan, backward, in, carried, rows, !scan.is_reverse);
  Values out(call.in.size());
  std::size_t next = 0;
  for (std::size_t c = 0; c < scan.carried; ++c) {
    if (is_differentiable(call.in[c].dtype())) out[c] = found[next++];
  }
  std::size_t row = moved + sums.size();
  for (const int64_t i : gives) {
    const auto sum = std::ranges::find(sums, i);
    const std::size_t at =
        sum != sums.end() ? moved + static_cast<std::size_t>(sum - sums.begin()) : row++;
    out[static_cast<std::size_t>(i)] = found[at];
  }
  return out;
}

Values scan_jvp(const JvpCall& call) {
  const Scan scan(call.attrs, call.in.size());
  std::vector<bool> moves = moving(call);
  const std::size_t results = scan.body->outputs().size();
  GraphRef pushed;
  for (bool is_settled = false; !is_settled;) {  // a value may get a tangent in a later step
    pushed = internal::pushed_graph_of(*scan.body, Chosen(moves));
    is_settled = true;
    for (std::size_t c = 0; c < scan.carried; ++c) {
      if (pushed->output_types()[results + c] == nullptr || moves[c]) continue;
      moves[c] = true;
      is_settled = false;
    }
  }
  const std::size_t groups[] = {scan.carried, scan.rows, scan.invariants};
  const Doubled doubled(*scan.body, groups, moves);
  const Types types = pushed->output_types();
  const GraphRef body =
      internal::make_graph(pushed->name(), doubled.inputs, [&](std::span<const Tensor> given) {
        Tensors in = doubled.values(given);
        append(in, doubled.tangents(given));
        return doubled.outputs(interpret(*pushed, in), scan.carried, moves);
      });
  Tensors in(doubled.inputs.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    in[doubled.value_at[i]] = call.in[i];
    if (!moves[i]) continue;
    in[doubled.tangent_at[next++]] =
        call.tangents[i].has_value() ? call.tangents[i] : internal::full(call.in[i].type(), 0);
  }
  const Values found =
      call_scan(scan, body, in, doubled.group_sizes[0], doubled.group_sizes[1], scan.is_reverse);
  Values out(types.size());
  next = 0;
  for (const auto& [begin, end] :
       {std::pair(std::size_t{0}, scan.carried), {scan.carried, results}}) {
    for (std::size_t i = begin; i < end; ++i) out[i] = found[next++];
    for (std::size_t i = begin; i < end; ++i) {
      const bool has_tangent = types[results + i] != nullptr || (i < scan.carried && moves[i]);
      if (has_tangent) out[results + i] = found[next++];
    }
  }
  return out;
}

Values scan_batch(const BatchCall& call) {
  const Scan scan(call.attrs, call.in.size());
  std::vector<bool> is_batch = batched(call);
  std::vector<bool> gives(scan.body->outputs().size());
  for (bool is_settled = false; !is_settled;) {
    const Chosen behind = internal::outputs_behind(*scan.body, Chosen(is_batch));
    is_settled = true;
    for (std::size_t i = 0; i < gives.size(); ++i) {
      gives[i] = behind[i] || (i < scan.carried && is_batch[i]);
      if (i >= scan.carried || !gives[i] || is_batch[i]) continue;
      is_batch[i] = true;
      is_settled = false;
    }
  }
  Tensors in;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    const bool is_row = i >= scan.carried && i < scan.carried + scan.rows;
    if (is_row && is_batch[i]) {
      in.push_back(internal::with_first_axis_second(call.in[i]));
    } else {
      in.push_back(is_batch[i] ? batching::leading(call, i) : call.in[i]);
    }
  }
  const GraphRef body =
      internal::batched_graph_of(*scan.body, Chosen(is_batch), call.size, Chosen(gives));
  Values out = call_scan(scan, body, in, scan.carried, scan.rows, scan.is_reverse);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!gives[i]) {
      out[i] = batching::spread(out[i], call.size);
    } else if (i >= scan.carried) {
      out[i] = internal::with_first_axis_second(out[i]);
    }
  }
  return out;
}

// Three steps, to which the inputs are in turn rows and the same; results are carried and stacked.
GraphSample scan_around(const AttrObject& object, std::span<const Tensor> inputs) {
  const GraphRef graph(static_cast<const Graph*>(&object));
  Inputs before, rows, others;
  Tensors start, of_rows, of_others;
  for (const Type* type : graph->output_types()) {
    if (type == nullptr) continue;
    before.push_back({"before", type});
    start.push_back(internal::full(type, 0));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool is_row = i % 2 == 0;
    add_inputs(is_row ? rows : others, graph->inputs().subspan(i, 1));
    if (is_row) of_rows.push_back(internal::stack(Tensors(3, inputs[i])));
    if (!is_row) of_others.push_back(inputs[i]);
  }
  Inputs all = before;
  add_inputs(all, rows);
  add_inputs(all, others);
  const GraphRef body =
      internal::make_graph(graph->name(), all, [&](std::span<const Tensor> given) {
        std::size_t row = before.size(), other = row + rows.size();
        Tensors in;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          in.push_back(given[i % 2 == 0 ? row++ : other++]);
        }
        Tensors out = interpret(*graph, in);
        std::erase_if(out, [](const Tensor& y) { return !y.has_value(); });
        const Tensors results = out;
        append(out, results);
        return out;
      });
  GraphSample out{start,
                  {{"body", graph_value(body)},
                   {"carried", static_cast<int64_t>(before.size())},
                   {"rows", static_cast<int64_t>(rows.size())},
                   {"length", int64_t{3}}}};
  append(out.operands, of_rows);
  append(out.operands, of_others);
  return out;
}

}  // namespace

void define_row_scan(Registry& r) {
  r.define({
      .name = "scan",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "Runs a graph for each row of tensors, with values carried from step to step.",
      .operands = {{"xs...", kAnyDType}},
      .attrs = {{"body", AttrKind::kGraph},
                {"carried", AttrKind::kInt},
                {"rows", AttrKind::kInt},
                {"length", AttrKind::kInt},
                {"reverse", false},
                {"backward", AttrKind::kGraph, none},
                {"visible", AttrKind::kInt, none},
                {"results", AttrKind::kInt, none},
                {"read", AttrKind::kInts, none},
                {"sums", AttrKind::kInts, none},
                {"gives", AttrKind::kInts, none},
                {"source", AttrKind::kGraph, none}},
      .results = {"ys..."},
      .type = scan_type,
      .kernels = {.cpu = prepare_scan},
      .vjp = scan_vjp,
      .residuals = scan_residuals,
      .takes_sums = true,
      .jvp = scan_jvp,
      .batch = scan_batch,
      .loop = {.facts = scan_facts, .graphs = {"body"}},
      .samples = {.around = scan_around},
  });
}

}  // namespace etude::ops
