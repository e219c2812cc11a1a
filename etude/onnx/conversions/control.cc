// SPDX-License-Identifier: Apache-2.0
// Branches and loops. Their graphs read values of the graph around them by name, so invariants of
// loops need no inputs.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/onnx/conversions.h"

namespace etude::onnx::internal {
namespace {

const Graph& graph_in(const AttrObject& object) { return static_cast<const Graph&>(object); }

std::vector<Port> output_ports(const Graph& graph, std::size_t count) {
  std::vector<Port> out;
  const Types types = graph.output_types();
  for (std::size_t i = 0; i < count; ++i) out.push_back(port_of("", types[i]));
  return out;
}
std::vector<DType> result_dtypes(const Call& call) {
  std::vector<DType> out;
  for (std::size_t i = 0; i < call.results(); ++i) out.push_back(call.result(i).dtype());
  return out;
}
std::vector<Term> slice_of(const std::vector<Term>& list, std::size_t begin, std::size_t end) {
  return {list.begin() + static_cast<std::ptrdiff_t>(begin),
          list.begin() + static_cast<std::ptrdiff_t>(end)};
}

// A name and a port for each of the inputs [begin, end) of a graph.
std::vector<Port> input_ports(Call& call, const Graph& graph, std::size_t begin, std::size_t end) {
  std::vector<Port> out;
  for (std::size_t i = begin; i < end; ++i) {
    out.push_back(port_of(call.fresh("step"), graph.inputs()[i].type));
  }
  return out;
}
std::vector<Term> terms_of(Call& call, const std::vector<Port>& ports) {
  std::vector<Term> out;
  for (const Port& port : ports) out.push_back({&call, port.name, port.dtype});
  return out;
}

// Branches from number `first` on: if the index is `first`, that branch, else one of the others.
std::vector<Term> choose(Call& call, const Term& index, const std::vector<const Graph*>& branches,
                         std::size_t first, const std::vector<Term>& operands,
                         const std::vector<DType>& dtypes) {
  const std::vector<Port> outputs = output_ports(*branches[first], dtypes.size());
  if (first + 1 == branches.size()) return call.splice(*branches[first], operands);
  const auto here = [&](Call& inside) { return inside.splice(*branches[first], operands); };
  const auto others = [&](Call& inside) {
    Term number = index;
    number.call = &inside;
    return choose(inside, number, branches, first + 1, operands, dtypes);
  };
  const Term is_here = index == static_cast<double>(first);
  return call.nodes(
      "If", {is_here},
      {call.body("then_branch", {}, outputs, here), call.body("else_branch", {}, outputs, others)},
      dtypes);
}

std::vector<Term> switch_case(Call& call) {
  std::vector<const Graph*> branches;
  for (const auto& branch : call.attrs.objects("branches")) branches.push_back(&graph_in(*branch));
  const std::vector<Term> operands = slice_of(call.inputs(), 1, call.inputs().size());
  const Term index = call.cast(call.in(0), kInt64);
  return choose(call, index, branches, 0, operands, result_dtypes(call));
}

// The facts of a scan, and its operands.
struct RowScan {
  explicit RowScan(Call& call)
      : body(graph_in(call.attrs.object("body"))),
        carried(static_cast<std::size_t>(call.attrs.integer("carried"))),
        rows(static_cast<std::size_t>(call.attrs.integer("rows"))),
        invariants(slice_of(call.inputs(), carried + rows, call.inputs().size())),
        is_reverse(call.attrs.flag("reverse")) {}

  const Graph& body;
  std::size_t carried, rows;
  std::vector<Term> invariants;
  bool is_reverse;
};

// Steps without rows are a Loop, since Scan has a row at least. Rows of the results come in the
// order of the steps.
std::vector<Term> counted_loop(Call& call, const RowScan& scan) {
  std::vector<Port> inputs = {{call.fresh("number"), kInt64, {}},
                              {call.fresh("condition"), kBool, {}}};
  const std::vector<Port> states = input_ports(call, scan.body, 0, scan.carried);
  inputs.insert(inputs.end(), states.begin(), states.end());
  std::vector<Port> outputs = {{"", kBool, {}}};
  for (Port& port : output_ports(scan.body, call.results())) outputs.push_back(std::move(port));
  const Attribute body = call.body("body", inputs, outputs, [&](Call& inside) {
    std::vector<Term> in = terms_of(inside, states);
    in.insert(in.end(), scan.invariants.begin(), scan.invariants.end());
    std::vector<Term> out = inside.splice(scan.body, in);
    out.insert(out.begin(), Term{&inside, inputs[1].name, kBool});
    return out;
  });
  std::vector<Term> operands = {
      call.number(static_cast<double>(call.attrs.integer("length")), kInt64), call.absent()};
  for (std::size_t i = 0; i < scan.carried; ++i) operands.push_back(call.in(i));
  std::vector<Term> out = call.nodes("Loop", operands, {body}, result_dtypes(call));
  for (std::size_t i = scan.carried; scan.is_reverse && i < out.size(); ++i) {
    const int64_t first = std::numeric_limits<int64_t>::min();
    out[i] = call.node(
        "Slice", {out[i], call.ints({-1}), call.ints({first}), call.ints({0}), call.ints({-1})});
  }
  return out;
}

std::vector<Term> row_scan(Call& call) {
  const RowScan scan(call);
  if (scan.rows == 0) return counted_loop(call, scan);
  const std::vector<Port> inputs = input_ports(call, scan.body, 0, scan.carried + scan.rows);
  const auto make = [&](Call& inside) {
    std::vector<Term> in = terms_of(inside, inputs);
    in.insert(in.end(), scan.invariants.begin(), scan.invariants.end());
    return inside.splice(scan.body, in);
  };
  const Attribute body = call.body("body", inputs, output_ports(scan.body, call.results()), make);
  const std::size_t outputs = call.results() - scan.carried;
  std::vector<Attribute> attributes = {body, {"num_scan_inputs", static_cast<int64_t>(scan.rows)}};
  if (scan.is_reverse) {
    attributes.push_back({"scan_input_directions", std::vector<int64_t>(scan.rows, 1)});
    if (outputs > 0) {
      attributes.push_back({"scan_output_directions", std::vector<int64_t>(outputs, 1)});
    }
  }
  return call.nodes("Scan", slice_of(call.inputs(), 0, scan.carried + scan.rows), attributes,
                    result_dtypes(call));
}

std::vector<Term> while_loop(Call& call) {
  const Graph& condition = graph_in(call.attrs.object("condition"));
  const Graph& step = graph_in(*call.attrs.objects("bodies")[0]);
  const auto carried = static_cast<std::size_t>(call.attrs.ints("carried")[0]);
  const std::vector<Term> invariants = slice_of(call.inputs(), carried, call.inputs().size());
  const auto holds = [&](Call& at, std::vector<Term> values) {
    values.resize(carried);
    values.insert(values.end(), invariants.begin(), invariants.end());
    return at.splice(condition, values)[0];
  };
  std::vector<Port> inputs = {{call.fresh("number"), kInt64, {}},
                              {call.fresh("condition"), kBool, {}}};
  const std::vector<Port> states = input_ports(call, step, 0, carried);
  inputs.insert(inputs.end(), states.begin(), states.end());
  std::vector<Port> outputs = {{"", kBool, {}}};
  for (Port& port : output_ports(step, carried)) outputs.push_back(std::move(port));
  const Attribute body = call.body("body", inputs, outputs, [&](Call& inside) {
    std::vector<Term> in = terms_of(inside, states);
    in.insert(in.end(), invariants.begin(), invariants.end());
    std::vector<Term> out = inside.splice(step, in);
    out.insert(out.begin(), holds(inside, out));
    return out;
  });
  const int64_t most = call.attrs.integer("max_steps");
  const Term limit = most < 0 ? call.absent() : call.number(static_cast<double>(most), kInt64);
  std::vector<Term> operands = {limit, holds(call, call.inputs())};
  for (std::size_t i = 0; i < carried; ++i) operands.push_back(call.in(i));
  return call.nodes("Loop", operands, {body}, result_dtypes(call));
}
// Later passes over the steps are derivatives.
bool has_one_pass(const CallFacts& call) {
  const auto bodies = call.attrs.objects("bodies");
  return bodies.size() == 1 && static_cast<int64_t>(graph_in(*bodies[0]).outputs().size()) ==
                                   call.attrs.ints("carried")[0];
}

// A recurrence along an axis: step(state, elements) is the next state, and its states are the
// result. `state` is the first state, without the axis.
using Step =
    etude::internal::FunctionRef<Term(const Term& state, const std::vector<Term>& elements)>;
Term recurrence(Call& call, const std::vector<Term>& inputs, int64_t axis, bool is_reverse,
                double first, Step step) {
  std::vector<int64_t> sizes = call.shape(0).to_vector();
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(axis));
  const DType dtype = inputs[0].dtype;
  const auto port = [&] {
    Port out{call.fresh("step"), dtype, {}};
    for (const int64_t size : sizes) out.axes.push_back({size});
    return out;
  };
  std::vector<Port> ports(inputs.size() + 1);
  for (Port& each : ports) each = port();
  const Attribute body = call.body("body", ports, {port(), port()}, [&](Call& inside) {
    std::vector<Term> in = terms_of(inside, ports);
    const Term next = step(in[0], std::vector<Term>(in.begin() + 1, in.end()));
    return std::vector<Term>{next, next};
  });
  const std::vector<int64_t> directions(inputs.size(), is_reverse ? 1 : 0);
  std::vector<Term> operands = {call.node("Expand", {call.number(first, dtype), call.ints(sizes)})};
  operands.insert(operands.end(), inputs.begin(), inputs.end());
  return call.nodes("Scan", operands,
                    {body,
                     {"num_scan_inputs", static_cast<int64_t>(inputs.size())},
                     {"scan_input_axes", std::vector<int64_t>(inputs.size(), axis)},
                     {"scan_output_axes", std::vector<int64_t>{axis}},
                     {"scan_input_directions", directions},
                     {"scan_output_directions", std::vector<int64_t>{directions[0]}}},
                    {dtype, dtype})[1];
}

std::vector<Term> linear_scan(Call& call) {
  const int64_t axis = axis_from_front(call.attrs.integer("axis"), call.rank(0));
  const auto step = [](const Term& state, const std::vector<Term>& in) {
    return where(in[0] == 0.0, in[1], in[1] + in[0] * state);
  };
  return {recurrence(call, call.inputs(), axis, call.attrs.flag("reverse"), 0, step)};
}

// With include_initial, 1 is the first element; then, and with `exclusive`, the product is shifted
// by an element.
std::vector<Term> cumulative_prod(Call& call) {
  const int64_t axis =
      call.attrs.has("axis") ? axis_from_front(call.attrs.integer("axis"), call.rank(0)) : 0;
  const bool is_reverse = call.attrs.flag("reverse");
  const auto step = [](const Term& state, const std::vector<Term>& in) { return state * in[0]; };
  Term y = recurrence(call, {call.in(0)}, axis, is_reverse, 1, step);
  const bool drops = call.attrs.flag("exclusive");
  if (!drops && !call.attrs.flag("include_initial")) return {y};
  std::vector<int64_t> pads(static_cast<std::size_t>(2 * call.rank(0)), 0);
  const auto front = static_cast<std::size_t>(axis);
  const std::size_t back = front + pads.size() / 2;
  pads[is_reverse ? back : front] = 1;
  if (drops) pads[is_reverse ? front : back] = -1;
  return {call.node("Pad", {y, call.ints(pads), call.number(1, y.dtype)})};
}

}  // namespace

void add_control_conversions(Conversions& to) {
  to.insert(to.end(), {{.op = "internal.switch_case", .write = switch_case},
                       {.op = "internal.scan", .write = row_scan},
                       {.op = "internal.linear_scan",
                        .dtypes = kHalfToDouble,
                        .write = linear_scan,
                        .is_formula = true},
                       {.op = "cumulative_prod",
                        .dtypes = DTypeSet(kInt32) | kInt64 | kHalfToDouble,
                        .write = cumulative_prod,
                        .is_formula = true},
                       {.op = "internal.while_loop", .write = while_loop, .fits = has_one_pass}});
}

}  // namespace etude::onnx::internal
