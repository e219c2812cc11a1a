// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/control_flow.h"

#include <algorithm>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/call/graph_calls.h"
#include "etude/core/context/placement.h"
#include "etude/core/context/resource.h"
#include "etude/core/internal/mode.h"
#include "etude/core/op/batching.h"
#include "etude/stage/function.h"
#include "etude/stage/key_inputs.h"
#include "etude/stage/loop_places.h"
#include "etude/stage/make_graph.h"
#include "etude/stage/trace.h"
#include "etude/variables/open_shape.h"

namespace etude::internal {
namespace {

Tensor int64_scalar(int64_t value) {
  return Tensor(std::span<const int64_t>(&value, 1), Shape(std::initializer_list<int64_t>{}));
}

std::string type_or_absent(const Type* type) {
  return type == nullptr ? "absent" : type->to_string();
}

std::vector<std::string> size_texts(std::span<const int64_t> sizes) {
  std::vector<std::string> out;
  for (const int64_t size : sizes) out.push_back(size == kAny ? "kAny" : std::to_string(size));
  return out;
}

// The next step for the user if a tensor was `before` and is `after` later.
std::string remedy(std::string_view name_of, const Type* before, const Type* after, bool is_open) {
  if (before == nullptr || after == nullptr) return "Have it in both";
  if (before->dtype() != after->dtype()) {
    return fmt::format("Begin with a value of dtype {}, such as {}, or cast with astype",
                       name(after->dtype()),
                       is_floating(after->dtype()) ? "0.0 instead of 0" : "zeros of that dtype");
  }
  const std::string_view fixed =
      "To collect a row in each step use scan; else write into a tensor that has its full shape "
      "from the beginning";
  if (is_open && is_tracing()) {
    return fmt::format(
        "Option 'shapes' lets its sizes vary where the loop runs eagerly, but a "
        "graph knows all sizes before it runs. {}",
        fixed);
  }
  if (is_open) return "Option 'shapes' does not allow that";
  if (before->rank() != after->rank()) return std::string(fixed);
  std::vector<int64_t> sizes = after->shape().to_vector();
  for (int axis = 0; axis < before->rank(); ++axis) {
    if (before->shape()[axis] != after->shape()[axis]) sizes[static_cast<std::size_t>(axis)] = kAny;
  }
  return fmt::format(
      "{}. Outside of functions while_loop takes the option shapes = {{{{\"{}\", "
      "{{{}}}}}}}",
      fixed, name_of, fmt::join(size_texts(sizes), ", "));
}

}  // namespace

void StructureShape::set_key(const Arguments& given) {
  if (what_ == "state" && given.variables.size() > 0) {
    throw_of(op_, ErrorCode::kInvalidArgument,
             fmt::format("the state holds {}, but a loop carries values. Read the Variable into a "
                         "tensor, or capture it",
                         title_of(*given.variables[0])),
             where_);
  }
  key_ = TraceKey(given);
}

void StructureShape::throw_change(const Arguments& found, const ArgumentNames& names,
                                  std::string_view then, std::string_view now) const {
  std::string fact;
  if (found.tensors.size() == key_.types.size()) {
    for (std::size_t i = 0; i < key_.types.size() && fact.empty(); ++i) {
      const Type* was = key_.types[i];
      const Type* is = found.tensors[i]->has_value() ? found.tensors[i]->type() : nullptr;
      if (was == is) continue;
      fact = fmt::format("'{}' is {} {} and {} {}; its type stays the same. {}", names.tensors[i],
                         type_or_absent(was), then, type_or_absent(is), now,
                         remedy(names.tensors[i], was, is, open_.contains(i)));
    }
  }
  if (fact.empty()) {
    const std::string path = find_change(key_, found, names);
    fact = path.empty()
               ? fmt::format("the phase or the default dtype is another {} than {}", now, then)
               : fmt::format(
                     "{} is another {} than {}, but only elements of tensors may "
                     "differ. Make it a tensor",
                     path == "the structure of an argument"
                         ? fmt::format("the structure of '{}'", what_)
                         : fmt::format("the host value '{}'", path),
                     now, then);
  }
  throw_of(op_, ErrorCode::kInvalidArgument, fact, where_);
}

void StructureShape::set_open(const std::vector<std::string>& names,
                              const std::map<std::string, Shape>& shapes) {
  located(op_, where_, [&] {
    for (const auto& [name, shape] : shapes) {
      const auto at = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
      ETUDE_REQUIRE(at < names.size(), "option 'shapes' names '{}', but the tensors are {}", name,
                    fmt::join(names, ", "));
      const Type* type = key_.types[at];
      ETUDE_REQUIRE(type != nullptr && admits(shape, type->shape()),
                    "option 'shapes' says {} of '{}', which is {} before the first step. Begin "
                    "with a tensor of that shape",
                    shape.to_string(), name, type_or_absent(type));
      open_.emplace(at, shape);
    }
  });
}

bool StructureShape::fits_open(const Arguments& found) const {
  if (open_.empty() || is_tracing() || found.tensors.size() != key_.types.size()) return false;
  TraceKey key = key_;
  for (const auto& [i, shape] : open_) {
    if (!found.tensors[i]->has_value()) continue;
    const Type* type = found.tensors[i]->type();
    if (type->dtype() == key.types[i]->dtype() && admits(shape, type->shape())) key.types[i] = type;
  }
  return key.fits(found);
}

void StepKeys::start(int64_t step, bool is_condition) {
  step_ = step;
  draws_ = 0;
  is_condition_ = is_condition;
  of_step_ = Tensor();
}

namespace {

// The key of one draw. Draws of the condition of a step have negative numbers.
Tensor key_of_draw(const Tensor& of_step, int64_t draw, bool is_condition) {
  return fold_in(of_step, int64_scalar(is_condition ? -1 - draw : draw));
}

}  // namespace

Tensor StepKeys::next_key() {
  if (!base_.has_value()) return {};
  if (!of_step_.has_value()) of_step_ = step_ < 0 ? base_ : fold_in(base_, int64_scalar(step_));
  return key_of_draw(of_step_, draws_++, is_condition_);
}

bool is_tracing() noexcept { return TraceContext::innermost() != nullptr; }

std::optional<bool> bool_of(std::string_view op, const Tensor& condition, CallSite where) {
  return located(op, where, [&]() -> std::optional<bool> {
    ETUDE_REQUIRE(condition.has_value(), "the condition is absent");
    ETUDE_REQUIRE(condition.dtype() == kBool && condition.size() == 1,
                  "the condition is {}, but must be a single bool. Compare, as in x > 0.0F, and "
                  "reduce with all() or any()",
                  condition.type()->to_string());
    if (is_tracing() || TensorAccess::is_abstract(condition)) return std::nullopt;
    return condition.item<bool>();
  });
}

std::optional<std::size_t> index_of(const Tensor& index, std::size_t branches, CallSite where) {
  return located("switch_case", where, [&]() -> std::optional<std::size_t> {
    ETUDE_REQUIRE(index.has_value() && index.size() == 1 && is_integer(index.dtype()),
                  "the index is {}, but must be a single integer",
                  index.has_value() ? index.type()->to_string() : "absent");
    if (is_tracing() || TensorAccess::is_abstract(index)) return std::nullopt;
    const auto i = index.item<int64_t>();
    ETUDE_REQUIRE_CODE(kOutOfRange, i >= 0 && i < static_cast<int64_t>(branches),
                       "operand 'index' is {}, but branches are 0 to {}", i, branches - 1);
    return static_cast<std::size_t>(i);
  });
}

void check_options(std::string_view op, const LoopOptions& options, CallSite where) {
  const int64_t most = options.max_iterations.value_or(0);
  if (most >= 0) return;
  throw_of(op, ErrorCode::kInvalidArgument,
           fmt::format("option 'max_iterations' is {}, but must be 0 or more", most), where);
}

namespace {

// A branch or a body as it was traced. Inputs of the graph are the arguments, the keys of its
// draws, the Variables that it reads, and the captures.
struct BodyGraph {
  GraphRef graph;
  std::vector<Tensor> captures;
  std::vector<GraphVariable> variables;
  std::size_t results = 0;          // outputs before the new values of Variables
  std::vector<bool> is_drawn = {};  // by key: whether the graph reads it

  bool draws() const { return std::ranges::count(is_drawn, true) > 0; }
};

// Draws of the body are derived from `key`; an absent key refuses them.
BodyGraph trace_body(std::string_view op, const std::string& name, const Tensor& key,
                     std::span<const Tensor> like, std::span<const std::string> names,
                     TensorBody body, CallSite where) {
  const ReadersPause quiet;
  TraceContext context(name, where);
  context.mark_body();
  context.take_followed_values();
  if (!key.has_value()) context.refuse_draws();
  std::vector<Tensor> arguments;
  for (std::size_t i = 0; i < like.size(); ++i) {
    arguments.push_back(context.add_argument(names[i], like[i].type()));
  }
  std::vector<Tensor> results = body(arguments);
  to_scope(results, where);  // a body may return a value that it did not compute
  if (!context.created().empty()) {
    throw_of(op, ErrorCode::kFailedPrecondition,
             fmt::format("{} in '{}' would be made whenever that runs. Make it before",
                         context.created()[0].text, name),
             where);
  }
  TracedGraph traced = context.finish(results);
  TraceContext::note_reads(traced.size_reads);
  BodyGraph out{traced.graph, std::move(traced.captures), std::move(traced.variables),
                results.size()};
  for (std::size_t i = 0; i < out.graph->inputs().size(); ++i) {
    if (out.graph->inputs()[i].role != InputRole::kKey) continue;
    out.is_drawn.push_back(first_reader(*out.graph, i).has_value());
  }
  return out;
}

// The outside values that several bodies of one call use, each once.
class Outside {
 public:
  explicit Outside(CallSite where) : where_(where) {}

  void add(const BodyGraph& body) {
    draws = draws || body.draws();
    for (const GraphVariable& v : body.variables) {
      Used& used = find(v);
      used.is_written = used.is_written || v.is_written;
    }
    for (const Tensor& x : body.captures) {
      if (place_of(x) == captures.size()) captures.push_back(x);
    }
  }

  struct Used {
    Variable variable;
    Tensor value;
    bool is_written = false;
  };
  std::size_t place_of(const GraphVariable& v) const {
    const auto state = state_of(v.resource);
    std::size_t i = 0;
    while (i < variables.size() && variables[i].variable.ref() != state.get()) ++i;
    return i;
  }
  std::size_t place_of(const Tensor& capture) const {
    std::size_t i = 0;
    while (i < captures.size() && TensorAccess::id(captures[i]) != TensorAccess::id(capture)) ++i;
    return i;
  }
  // Variables in two groups: the written ones, in their order, and the others.
  std::vector<std::size_t> variables_with(bool is_written) const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < variables.size(); ++i) {
      if (variables[i].is_written == is_written) out.push_back(i);
    }
    return out;
  }
  void assign(std::span<const Tensor> values) const {
    std::size_t next = 0;
    for (const Used& used : variables) {
      if (used.is_written) used.variable.assign(Arg(values[next++], where_));
    }
  }

  std::vector<Used> variables;
  std::vector<Tensor> captures;
  bool draws = false;

 private:
  Used& find(const GraphVariable& v) {
    const std::size_t at = place_of(v);
    if (at < variables.size()) return variables[at];
    const Variable variable = variable_of(v.resource);
    return variables.emplace_back(Used{variable, variable.read(where_), false});
  }
  CallSite where_;
};

// The placeholders of outside values in a graph that runs bodies.
struct Inside {
  Tensor key;  // of the step
  std::vector<Tensor> variables;
  std::vector<Tensor> captures;
};

// The results of a body, and then the new values of all Variables that any body writes.
std::vector<Tensor> run_body(const BodyGraph& body, const Outside& outside, const Inside& inside,
                             std::span<const Tensor> arguments, bool is_condition) {
  std::vector<Tensor> in(arguments.begin(), arguments.end());
  for (std::size_t k = 0; k < body.is_drawn.size(); ++k) {
    const auto draw = static_cast<int64_t>(k);
    in.push_back(body.is_drawn[k] ? key_of_draw(inside.key, draw, is_condition) : unread_key());
  }
  for (const GraphVariable& v : body.variables) {
    if (v.is_read) in.push_back(inside.variables[outside.place_of(v)]);
  }
  for (const Tensor& x : body.captures) in.push_back(inside.captures[outside.place_of(x)]);
  std::vector<Tensor> out = interpret(*body.graph, in);
  std::vector<Tensor> after = inside.variables;
  std::size_t next = body.results;
  for (const GraphVariable& v : body.variables) {
    if (v.is_written) after[outside.place_of(v)] = out[next++];
  }
  out.resize(body.results);
  for (const std::size_t i : outside.variables_with(true)) out.push_back(after[i]);
  return out;
}

std::string input_name(const Outside::Used& used) {
  return used.variable.name().empty() ? "variable" : used.variable.name();
}

// Traces the body of a loop. A carried value follows the results of the body to their device.
BodyGraph trace_loop(StagedLoop& loop, std::span<const Tensor> rows, TensorBody body) {
  std::vector<std::string> names = loop.names;
  names.resize(names.size() + rows.size(), "row");
  const auto run = [&](std::span<const Tensor> in) {
    std::vector<Tensor> out = body(in);
    keep_places(out, loop.carried, loop.where);
    return out;
  };
  for (;;) {
    std::vector<Tensor> like = loop.carried;
    for (const Tensor& x : rows) {
      like.push_back(batching::example_type(x.type())->abstract_tensor());
    }
    BodyGraph traced = trace_body(loop.op, "body", loop.key, like, names, run, loop.where);
    if (!follow_results(loop.carried, *traced.graph, loop.where)) return traced;
  }
}

// Inputs of a graph under construction, with their operands.
class Layout {
 public:
  std::size_t add(std::string name, const Tensor& operand) {
    inputs_.push_back({std::move(name), operand.type()});
    operands_.push_back(operand);
    return operands_.size() - 1;
  }
  // An input for a row of the operand.
  void add_slices(std::string name, const Tensor& operand) {
    inputs_.push_back({std::move(name), batching::example_type(operand.type())});
    operands_.push_back(operand);
  }
  std::size_t size() const { return operands_.size(); }
  const std::vector<Graph::Input>& inputs() const { return inputs_; }
  std::span<const Tensor> operands() const { return operands_; }

 private:
  std::vector<Graph::Input> inputs_;
  std::vector<Tensor> operands_;
};

}  // namespace

struct StagedSwitch::State {
  std::string op;
  Tensor key;
  CallSite where;
  std::vector<BodyGraph> branches;
};

StagedSwitch::StagedSwitch(std::string_view op, const Tensor& key, CallSite where)
    : state_(std::make_unique<State>(State{std::string(op), key, where, {}})) {}
StagedSwitch::~StagedSwitch() = default;

void StagedSwitch::trace(const std::string& name, TensorBody branch) {
  state_->branches.push_back(
      trace_body(state_->op, name, state_->key, {}, {}, branch, state_->where));
}

std::vector<Tensor> StagedSwitch::run(const Tensor& index) {
  const CallSite where = state_->where;
  return located(state_->op, where, [&] {
    Outside outside(where);
    for (const BodyGraph& branch : state_->branches) outside.add(branch);
    Layout layout;
    if (outside.draws) layout.add("key", state_->key);
    for (const Outside::Used& used : outside.variables) layout.add(input_name(used), used.value);
    for (const Tensor& x : outside.captures) layout.add("capture", x);
    std::vector<const Graph*> traced;
    for (const BodyGraph& branch : state_->branches) traced.push_back(branch.graph.get());
    const std::vector<Tensor> places = common_places(traced, state_->branches[0].results);
    AttrObjects graphs;
    for (const BodyGraph& branch : state_->branches) {
      const GraphRef graph =
          make_graph(branch.graph->name(), layout.inputs(), [&](std::span<const Tensor> in) {
            Inside inside;
            if (outside.draws) inside.key = in[0];
            in = in.subspan(outside.draws ? 1 : 0);
            const std::size_t count = outside.variables.size();
            inside.variables.assign(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(count));
            inside.captures.assign(in.begin() + static_cast<std::ptrdiff_t>(count), in.end());
            std::vector<Tensor> results = run_body(branch, outside, inside, {}, false);
            keep_places(results, places, where);
            return results;
          });
      graphs.emplace_back(graph.get());
    }
    const Tensor scalar =
        index.rank() == 0 ? index : reshaped(index, Shape(std::initializer_list<int64_t>{}));
    OperandList list({&scalar});
    for (const Tensor& x : layout.operands()) list.add(x);
    const Values out = switch_graphs(graphs, list.view(), where);
    const std::size_t results = state_->branches[0].results;
    std::vector<Tensor> all(out.begin(), out.end());
    outside.assign(std::span(all).subspan(results));
    all.resize(results);
    return all;
  });
}

namespace {

// A loop whose bodies are traced: its carried values and its loop invariants.
class LoopGraphs {
 public:
  LoopGraphs(const StagedLoop& loop, const BodyGraph& body, const Outside& outside,
             std::span<const Tensor> rows)
      : loop_(loop), body_(body), outside_(outside), rows_(rows.size()) {
    // A value that every step returns unchanged is loop-invariant.
    for (std::size_t c = 0; c < loop.carried.size(); ++c) {
      (body.graph->outputs()[c] == c ? fixed_ : changing_).push_back(c);
    }
    for (const std::size_t c : changing_) layout_.add(loop.names[c], loop.carried[c]);
    for (const std::size_t v : outside.variables_with(true)) add_variable(v);
    if (outside.draws) layout_.add("step", int64_scalar(loop.first_step));
    carried_ = layout_.size();
    for (const Tensor& x : rows) layout_.add_slices("row", x);
    first_fixed_ = layout_.size();
    for (const std::size_t c : fixed_) layout_.add(loop.names[c], loop.carried[c]);
    for (const std::size_t v : outside.variables_with(false)) add_variable(v);
    if (outside.draws) layout_.add("key", loop.key);
    for (const Tensor& x : outside.captures) layout_.add("capture", x);
  }

  int64_t carried() const { return static_cast<int64_t>(carried_); }
  std::span<const Tensor> operands() const { return layout_.operands(); }

  GraphRef condition(const BodyGraph& condition) const {
    return make_graph(condition.graph->name(), layout_.inputs(), [&](std::span<const Tensor> in) {
      const Step step = unpack(in);
      std::vector<Tensor> says = run_body(condition, outside_, step.inside, step.state, true);
      says.resize(1);
      says[0] = reshaped(says[0], Shape(std::initializer_list<int64_t>{}));
      return says;
    });
  }

  GraphRef body() const {
    return make_graph(body_.graph->name(), layout_.inputs(), [&](std::span<const Tensor> in) {
      const Step step = unpack(in);
      std::vector<Tensor> arguments = step.state;
      for (std::size_t r = 0; r < rows_; ++r) arguments.push_back(in[carried_ + r]);
      std::vector<Tensor> all = run_body(body_, outside_, step.inside, arguments, false);
      cut_assignments(all, step.inside);
      std::vector<Tensor> out;
      for (const std::size_t c : changing_) out.push_back(all[c]);
      out.insert(out.end(), all.begin() + static_cast<std::ptrdiff_t>(body_.results), all.end());
      if (outside_.draws) out.push_back(add(Tensor(step.number), int64_scalar(1)));
      for (std::size_t y = loop_.carried.size(); y < body_.results; ++y) out.push_back(all[y]);
      return out;
    });
  }

  // The state after the loop, and the other results of the steps. Assigns Variables.
  std::vector<Tensor> finish(const Values& found) const {
    std::vector<Tensor> out = loop_.carried;
    std::size_t next = 0;
    for (const std::size_t c : changing_) out[c] = found[next++];
    const std::vector<Tensor> values(found.begin() + static_cast<std::ptrdiff_t>(next),
                                     found.begin() + static_cast<std::ptrdiff_t>(carried_));
    outside_.assign(values);
    out.insert(out.end(), found.begin() + static_cast<std::ptrdiff_t>(carried_), found.end());
    return out;
  }

 private:
  struct Step {
    std::vector<Tensor> state;
    Tensor number;
    Inside inside;
  };

  // An assigned value of a Variable reaches the next step without its derivative.
  void cut_assignments(std::vector<Tensor>& results, const Inside& inside) const {
    std::size_t at = body_.results;
    for (const std::size_t v : outside_.variables_with(true)) {
      Tensor& after = results[at++];
      if (is_differentiable(after.dtype())) after = read_assigned(after, inside.variables[v]);
    }
  }

  void add_variable(std::size_t v) {
    layout_.add(input_name(outside_.variables[v]), outside_.variables[v].value);
  }

  Step unpack(std::span<const Tensor> in) const {
    Step out;
    out.state.resize(loop_.carried.size());
    out.inside.variables.resize(outside_.variables.size());
    std::size_t next = 0;
    for (const std::size_t c : changing_) out.state[c] = in[next++];
    for (const std::size_t v : outside_.variables_with(true)) out.inside.variables[v] = in[next++];
    if (outside_.draws) out.number = in[next++];
    next = first_fixed_;
    for (const std::size_t c : fixed_) out.state[c] = in[next++];
    for (const std::size_t v : outside_.variables_with(false)) out.inside.variables[v] = in[next++];
    if (outside_.draws) out.inside.key = fold_in(in[next++], out.number);
    out.inside.captures.assign(in.begin() + static_cast<std::ptrdiff_t>(next), in.end());
    return out;
  }

  const StagedLoop& loop_;
  const BodyGraph& body_;
  const Outside& outside_;
  Layout layout_;
  std::vector<std::size_t> changing_, fixed_;  // of the state
  std::size_t carried_ = 0, rows_ = 0, first_fixed_ = 0;
};

}  // namespace

std::vector<Tensor> run_while(StagedLoop loop, const LoopOptions& options, TensorBody condition,
                              TensorBody body) {
  return located(loop.op, loop.where, [&] {
    to_scope(loop.carried, loop.where);
    OwnValues(loop.where).own(loop.carried);
    const auto trace_condition = [&] {
      return trace_body(loop.op, "condition", loop.key, loop.carried, loop.names, condition,
                        loop.where);
    };
    BodyGraph traced_condition = trace_condition();
    for (const GraphVariable& v : traced_condition.variables) {
      ETUDE_REQUIRE_CODE(kUnimplemented, !v.is_written,
                         "the condition assigns {}. Assign it in the body", v.name);
    }
    const Type* says = traced_condition.graph->output_types()[0];
    ETUDE_REQUIRE(says != nullptr && says->dtype() == kBool && says->count() == 1,
                  "the condition is {}, but must be a single bool", type_or_absent(says));
    const std::vector<Tensor> before = loop.carried;
    const BodyGraph traced_body = trace_loop(loop, {}, body);
    if (!are_at_places_of(before, loop.carried)) traced_condition = trace_condition();
    Outside outside(loop.where);
    outside.add(traced_condition);
    outside.add(traced_body);
    const LoopGraphs graphs(loop, traced_body, outside, {});
    const GraphRef test = graphs.condition(traced_condition);
    const GraphRef step = graphs.body();
    const OperandList list(graphs.operands());
    return graphs.finish(loop_graph(*test, {RefPtr<const AttrObject>(step.get())}, list.view(),
                                    graphs.carried(), options.max_iterations.value_or(-1),
                                    loop.where));
  });
}

std::vector<Tensor> run_scan(StagedLoop loop, std::span<const Tensor> given, int64_t length,
                             TensorBody body) {
  return located(loop.op, loop.where, [&] {
    // In the order of the eager loop: the state, and then Rows::split().
    std::vector<Tensor> rows(given.begin(), given.end());
    for (std::vector<Tensor>* list : {&loop.carried, &rows}) {
      to_scope(*list, loop.where);
      OwnValues(loop.where).own(*list);
    }
    const BodyGraph traced = trace_loop(loop, rows, body);
    Outside outside(loop.where);
    outside.add(traced);
    const LoopGraphs graphs(loop, traced, outside, rows);
    const GraphRef step = graphs.body();
    return graphs.finish(scan_graph(*step, OperandList(graphs.operands()).view(), graphs.carried(),
                                    static_cast<int64_t>(rows.size()), length, loop.where));
  });
}

}  // namespace etude::internal
