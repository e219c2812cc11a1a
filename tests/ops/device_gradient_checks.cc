// SPDX-License-Identifier: Apache-2.0
// Derivatives of calls on other devices than cpu:0: gradients, tangents and second derivatives are
// on the devices of their operands, and have the bits of cpu:0.
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/graph/graph.h"
#include "etude/passes/place.h"
#include "tests/ops/checks.h"

namespace etude::matrix {
namespace device_gradients {
namespace {

using Tensors = std::vector<Tensor>;
// A call as a function of its operands.
using Body = std::function<Values(const Tensors&)>;

// Where derivatives are taken, and in which directions. Operands without a derivative have no
// direction, results without one no seed.
struct Point {
  Tensors operands, directions, more_directions, seeds;
};

struct Case {
  Body body;
  Point at;
  Tensors results;
  bool has_second_order = false;
};

Tensor on(const Tensor& x, const Device& device) { return x.has_value() ? x.to(device) : x; }

Tensors gradients_of(const Body& body, const Point& at) {
  Tape tape;
  Values y;
  {
    TapeContext context(tape);
    for (std::size_t i = 0; i < at.operands.size(); ++i) {
      if (at.directions[i].has_value()) tape.watch(at.operands[i]);
    }
    y = body(at.operands);
  }
  Tensors out = tape.gradient({y.data(), y.size()}, at.operands, at.seeds);
  for (Tensor& g : out) g = g.has_value() ? to_dense(g) : g;
  return out;
}

Tensors tangents_of(const Body& body, const Point& at) {
  JvpContext context;
  for (std::size_t i = 0; i < at.operands.size(); ++i) {
    if (at.directions[i].has_value()) context.set_tangent(at.operands[i], at.directions[i]);
  }
  Tensors out;
  for (const Tensor& y : body(at.operands)) out.push_back(context.tangent(y));
  return out;
}

// The gradient of the inner product of the gradients and the directions.
Tensors second_order_of(const Body& body, const Point& at) {
  Tape outer;
  TapeContext context(outer);
  for (std::size_t i = 0; i < at.operands.size(); ++i) {
    if (at.directions[i].has_value()) outer.watch(at.operands[i]);
  }
  const Tensors g = gradients_of(body, at);
  Tensors targets, seeds;
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (!g[i].has_value() || !at.directions[i].has_value()) continue;
    targets.push_back(g[i]);
    seeds.push_back(at.more_directions[i]);
  }
  return targets.empty() ? Tensors() : outer.gradient(targets, at.operands, seeds);
}

// The values of `f` on cpu:0, or the code of its error. `places` are the devices of the values.
struct Outcome {
  Tensors values;
  std::vector<Device> places;
  std::string error;
};

template <class F>
Outcome outcome_of(const F& f) {
  Outcome out;
  try {
    for (const Tensor& x : f()) {
      out.places.push_back(x.has_value() ? x.device() : Device());
      out.values.push_back(x.has_value() ? to_dense(x).to(Device()) : x);
    }
  } catch (const Error& error) {
    out = {{}, {}, std::string(to_string(error.code()))};
  }
  return out;
}

// Output i is on the device of `like[i]`.
void compare(const Call& call, const std::string& mode, const Outcome& got, const Outcome& want,
             const Tensors& like) {
  expect(got.error == want.error, call.label(mode),
         [&] { return fmt::format("got error '{}', want '{}'", got.error, want.error); });
  compare_lists(call, mode, got.values, want.values);
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    if (!got.values[i].has_value()) continue;
    const Device expected = like[i].device();
    expect(got.places[i] == expected, call.label(mode), [&] {
      return fmt::format("output {} is on {}, want {}", i, got.places[i].to_string(),
                         expected.to_string());
    });
  }
}

void compare_cases(const Call& call, const Case& home, const Case& away, const Device& device) {
  const auto mode = [&](std::string_view what) {
    return fmt::format("{} on {}", what, device.to_string());
  };
  const auto check = [&](std::string_view what, const auto& derive, const Tensors& like) {
    compare(call, mode(what), outcome_of([&] { return derive(away.body, away.at); }),
            outcome_of([&] { return derive(home.body, home.at); }), like);
  };
  check("gradient", gradients_of, away.at.operands);
  check("jvp", tangents_of, away.results);
  if (home.has_second_order) check("second order", second_order_of, away.at.operands);
}

Tensors directions(const Call& call, std::string_view purpose) {
  Draw draw(call.label(purpose));
  Tensors out;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    out.push_back(may_move(call, i) ? draw_like(draw, call.operands[i].type()) : Tensor());
  }
  return out;
}

Case at_home(const Call& call) {
  Case out;
  for (const Tensor& x : call.operands) {
    out.at.operands.push_back(x.has_value() ? to_dense(x) : x);
  }
  out.body = [&call](const Tensors& operands) {
    Call there = call;
    there.operands = operands;
    return run(there);
  };
  out.at.directions = directions(call, "direction");
  out.at.more_directions = directions(call, "second direction");
  out.at.seeds = cotangents(call, dense_results(call));
  out.has_second_order = call.dtype == kFloat64;
  return out;
}

// The same with each list on the device where `place` of its index is true.
template <class Place>
Case moved_case(const Case& home, const Device& device, const Place& place) {
  Case out = home;
  for (Tensors* list : {&out.at.operands, &out.at.directions, &out.at.more_directions}) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      if (place(i)) (*list)[i] = on((*list)[i], device);
    }
  }
  const Values y = out.body(out.at.operands);
  out.results.assign(y.begin(), y.end());
  for (std::size_t r = 0; r < y.size(); ++r) {  // some results are at home
    out.at.seeds[r] = on(out.at.seeds[r], y[r].has_value() ? y[r].device() : device);
  }
  return out;
}

// The call as a graph: its operands that are present.
Case graph_case(Case home, const GraphRef& graph) {
  for (Tensors* list : {&home.at.directions, &home.at.more_directions, &home.at.operands}) {
    Tensors there;
    for (std::size_t i = 0; i < list->size(); ++i) {
      if (home.at.operands[i].has_value()) there.push_back((*list)[i]);
    }
    *list = std::move(there);
  }
  home.body = [graph](const Tensors& inputs) {
    const Tensors out = interpret(*graph, inputs);
    return Values(out.begin(), out.end());
  };
  return home;
}

// The plans of the derivative of the placed graph.
void check_plan(const Call& call, const Graph& placed, const Case& home, const Case& away,
                const Device& device) {
  if (!has_graph_derivative(call, placed)) return;
  const auto pair = internal::derivative_of(placed, movable_inputs(call));
  const auto planned = [&] {
    const Tensors forward = run_plan(*pair->forward, away.at.operands);
    Tensors in;
    for (const int64_t i : pair->read) {
      in.push_back(away.at.operands[static_cast<std::size_t>(i)]);
    }
    in.insert(in.end(), forward.begin() + static_cast<std::ptrdiff_t>(placed.outputs().size()),
              forward.end());
    for (const Tensor& seed : away.at.seeds) {
      if (seed.has_value()) in.push_back(seed);
    }
    return run_plan(*pair->backward, in);
  };
  Outcome want = outcome_of([&] { return gradients_of(home.body, home.at); });
  Outcome picked{{}, {}, want.error};
  Tensors operands;
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    if (!home.at.directions[i].has_value()) continue;
    picked.values.push_back(want.values[i]);
    operands.push_back(away.at.operands[i]);
  }
  compare(call, fmt::format("staged gradient on {}", device.to_string()), outcome_of(planned),
          picked, operands);
}

}  // namespace

void check(const Call& call) {
  const Effect effect = call.op->def().effect;
  const bool is_state = effect == Effect::kReads || effect == Effect::kWrites;
  if (!call.op->is_differentiable() || call.is_same_tensor) return;
  if (is_state || call.op->moves_devices()) return;
  const Case home = at_home(call);
  if (!fixes_devices(call)) {
    for (const Device& device : other_devices()) {
      const auto is_moved = [&](std::size_t i) { return !call.op->operand(i).on_host; };
      compare_cases(call, home, moved_case(home, device, is_moved), device);
    }
  }
  if (has_data_sizes(call)) return;
  const GraphRef graph = graph_of(call);
  const Case traced = graph_case(home, graph);
  for (const Device& device : other_devices()) {
    const GraphRef placed = internal::placed_graph(*graph, device);
    const auto is_moved = [&](std::size_t i) {
      return placed->inputs()[i].type->device() == device;
    };
    Case away = graph_case(home, placed);
    away = moved_case(away, device, is_moved);
    if (fixes_devices(call)) compare_cases(call, traced, away, device);
    check_plan(call, *placed, traced, away, device);
  }
}

}  // namespace device_gradients

void check_device_gradient(const Call& call) { device_gradients::check(call); }

}  // namespace etude::matrix
