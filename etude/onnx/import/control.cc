// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan. A condition or a number of steps that is known when the model is loaded
// decides at once; else the graphs of the node become branches and steps of cond(), while_loop()
// and scan().
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "etude/core/context/context.h"
#include "etude/onnx/import/importer.h"
#include "etude/onnx/import/windows.h"
#include "etude/ops.h"
#include "etude/stage/control_flow.h"

namespace etude::onnx::importing {
namespace control {
namespace {

using Values = std::vector<Value>;

// Steps that run one by one, if a graph for all steps does not exist.
constexpr int64_t kMostUnrolled = 1024;
// Steps of a graph for all steps. A loop that is meant to end by its condition has a larger limit.
constexpr int64_t kMostScanned = int64_t{1} << 31;

std::vector<Tensor> tensors_in(const Values& values) {
  std::vector<Tensor> out;
  for (const Value& value : values) out.push_back(value.tensor());
  return out;
}

void add_sources(std::vector<std::string>& to, const Values& values) {
  for (const Value& value : values) {
    for (const std::string& name : value.inputs) {
      if (std::ranges::find(to, name) == to.end()) to.push_back(name);
    }
  }
}
std::vector<std::string> sources_of(const NodeCall& n) {
  std::vector<std::string> out;
  add_sources(out, n.inputs());
  return out;
}
Values traced(std::vector<Tensor> tensors, const std::vector<std::string>& sources) {
  Values out;
  for (Tensor& x : tensors) out.push_back({{}, std::move(x), sources});
  return out;
}

Tensor scalar_of(const NodeCall& n, const Tensor& x) {
  n.require(x.type()->count() == 1, "its condition is {}, but a single bool is needed",
            x.type()->to_string());
  return x.type()->rank() == 0 ? x : reshape(x, Sizes{});
}

Values branch(const NodeCall& n) {
  const FileGraph &then = n.graph("then_branch"), &otherwise = n.graph("else_branch");
  n.require(n.dtype(0) == kBool, "its condition is {}, but a bool is needed",
            n.x(0).type()->to_string());
  n.require(then.outputs.size() == otherwise.outputs.size() && then.outputs.size() >= n.results(),
            "its branches have {} and {} outputs, but it has {} results", then.outputs.size(),
            otherwise.outputs.size(), n.results());
  const auto run = [&](const FileGraph& graph) {
    return n.importer().run_inner(graph, n.scope(), {});
  };
  if (n.is_known(0)) return run(n.flag(0) ? then : otherwise);
  std::vector<std::string> sources = sources_of(n);
  const auto on_tensors = [&](const FileGraph& graph) {
    const Values values = run(graph);
    add_sources(sources, values);
    return tensors_in(values);
  };
  std::vector<Tensor> out = cond(
      scalar_of(n, n.x(0)), [&] { return on_tensors(then); },
      [&] { return on_tensors(otherwise); });
  return traced(std::move(out), sources);
}

// A Loop: its body takes the number of the step, a condition and the states, and returns a
// condition, the states and rows.
class LoopRun {
 public:
  explicit LoopRun(const NodeCall& n) : n_(n), body_(n.graph("body")) {
    n.require(body_.inputs.size() >= 2 && body_.outputs.size() >= 1,
              "its body has {} inputs and {} outputs", body_.inputs.size(), body_.outputs.size());
    states_ = body_.inputs.size() - 2;
    n.require(n.count() <= states_ + 2 && body_.outputs.size() >= states_ + 1,
              "it has {} states, but its body has {} inputs and {} outputs",
              n.count() < 2 ? 0 : n.count() - 2, body_.inputs.size(), body_.outputs.size());
    rows_ = body_.outputs.size() - 1 - states_;
    for (std::size_t i = 0; i < states_; ++i) first_.push_back(n.value(i + 2));
    if (n.is_known(0)) {
      limit_ = std::max<int64_t>(n.integer(std::size_t{0}), 0);
    }
    sources_ = sources_of(n);
  }

  Values run() {
    const bool has_condition = n_.has(1);
    if (has_condition && n_.is_known(1) && !n_.flag(1)) return without_steps();
    if (limit_ == 0) return without_steps();
    if (rows_ > 0) {  // their number has to be known
      if (n_.has(0)) static_cast<void>(n_.known(0));
      if (has_condition) static_cast<void>(n_.known(1));
    }
    const bool is_open = n_.has(0) && !limit_;  // the limit is computed by the graph
    const bool are_known =
        std::ranges::none_of(first_, [](const Value& value) { return value.traced.has_value(); });
    if (limit_ && *limit_ <= kMostUnrolled && are_known) return unrolled();
    if (limit_ && ends_by_limit()) {
      try {
        return staged();
      } catch (const UnknownValue&) {
        return unrolled();
      }
    }
    if (rows_ == 0) {
      try {
        return conditional(is_open);
      } catch (const UnknownValue&) {
        if (!limit_) throw;
      }
    }
    return unrolled();
  }

 private:
  Value number(int64_t step) const { return {int_scalar(step), {}, {}}; }

  Values step(const Value& number, const Value& condition, Values states) const {
    Values inputs = {number, condition};
    inputs.insert(inputs.end(), states.begin(), states.end());
    return n_.importer().run_inner(body_, n_.scope(), std::move(inputs));
  }

  // Whether the body passes on its condition, or returns true.
  bool ends_by_limit() const {
    const std::string& out = body_.outputs[0].name;
    std::string at = out;
    for (std::size_t i = body_.nodes.size(); i-- > 0;) {
      const FileNode& node = body_.nodes[i];
      const bool makes = !node.outputs.empty() && node.outputs[0] == at;
      if (makes && node.op == "Identity" && node.inputs.size() == 1) at = node.inputs[0];
      if (makes && node.op == "Constant") {
        const auto value = std::ranges::find(node.attributes, "value", &FileAttribute::name);
        const Tensor* x =
            value == node.attributes.end() ? nullptr : std::get_if<Tensor>(&value->value);
        return x != nullptr && is_true(*x);
      }
    }
    if (at == body_.inputs[1].name) return !n_.has(1) || n_.is_known(1);
    for (const FileConstant& constant : body_.constants) {
      if (constant.name == at) return is_true(constant.value);
    }
    const Value* outer = n_.scope().find(at);
    return outer != nullptr && is_true(outer->known);
  }

  Values without_steps() const {
    Values out = first_;
    if (rows_ > 0) {
      n_.refuse("it runs no step, so the sizes of its outputs are unknown");
    }
    return out;
  }

  Values unrolled() const {
    Values states = first_;
    std::vector<std::vector<Tensor>> rows(rows_);
    std::vector<std::string> sources = sources_;
    Value condition = n_.has(1) ? n_.value(1) : Value{Tensor(true), {}, {}};
    bool is_known = true;
    for (int64_t i = 0; !limit_ || i < *limit_; ++i) {
      if (!condition.known.has_value() || condition.traced.has_value()) {
        refuse_condition();
      }
      if (!is_true(condition.known)) break;
      require_steps(i);
      Values out = step(number(i), condition, states);
      condition = out[0];
      for (std::size_t s = 0; s < states_; ++s) states[s] = out[1 + s];
      for (std::size_t r = 0; r < rows_; ++r) {
        const Value& row = out[1 + states_ + r];
        is_known = is_known && !row.traced.has_value();
        rows[r].push_back(row.tensor());
      }
    }
    Values out = states;
    if (rows_ > 0 && rows[0].empty()) return without_steps();
    std::optional<BottomScope> at_once;
    if (is_known) at_once.emplace(eager_context());
    for (const std::vector<Tensor>& each : rows) {
      const Tensor all = stack(each, {.axis = 0});
      out.push_back(is_known ? Value{all, {}, {}} : Value{{}, all, sources});
    }
    return out;
  }

  // Whether it is a single constant that is true.
  static bool is_true(const Tensor& x) {
    if (!x.has_value() || x.dtype() != kBool || x.size() != 1) return false;
    const BottomScope at_once(eager_context());
    return x.to_vector<bool>()[0];
  }
  void require_steps(int64_t i) const {
    if (i < kMostUnrolled) return;
    n_.fail(
        ErrorCode::kResourceExhausted,
        fmt::format("it runs more than {} steps while the model is loaded, as a loop without end "
                    "does. A loop whose condition depends on an input has no such limit",
                    kMostUnrolled));
  }
  [[noreturn]] void refuse_condition() const {
    std::string advice;
    if (!sources_.empty()) {
      advice = fmt::format(
          ". Pass values for inputs that the condition depends on: LoadOptions::constants = "
          "{{{{\"{:.200}\", ...}}}}",
          sources_[0]);
    }
    throw UnknownValue(
        ErrorCode::kFailedPrecondition,
        fmt::format("{}: the number of its steps depends on elements, and it has outputs with a "
                    "row for each step, so their sizes are unknown{}",
                    n_.importer().title(n_.node()), advice));
  }

  // A known number of steps: a scan over their numbers.
  Values staged() const {
    if (*limit_ > kMostScanned) {
      n_.fail(ErrorCode::kResourceExhausted,
              fmt::format("it is a loop of {} steps whose condition stays true, but at most {} "
                          "steps are imported. Export the model with fewer steps, or with a "
                          "condition that becomes false",
                          *limit_, kMostScanned));
    }
    const Tensor numbers = numbered(*limit_);
    const std::vector<Tensor> init = tensors_in(first_);
    const Value yes{Tensor(true), {}, {}};
    auto [last, rows] = scan(
        [&](const std::vector<Tensor>& now, const Tensor& i) {
          Values out = step({{}, i, {}}, yes, traced(now, sources_));
          const std::vector<Tensor> all = tensors_in(out);
          const auto middle = all.begin() + 1 + static_cast<std::ptrdiff_t>(states_);
          return std::pair(std::vector<Tensor>(all.begin() + 1, middle),
                           std::vector<Tensor>(middle, all.end()));
        },
        init, numbers);
    last.insert(last.end(), rows.begin(), rows.end());
    return traced(std::move(last), sources_);
  }

  Values conditional(bool has_open_limit) const {
    std::vector<Tensor> init = {int_scalar(0)};
    init.push_back(n_.has(1) ? scalar_of(n_, n_.x(1)) : Tensor(true));
    for (const Value& state : first_) init.push_back(state.tensor());
    LoopOptions options;
    options.max_iterations = limit_;
    const int64_t most = n_.importer().max_loop_steps();
    if (most > 0 && (!limit_ || *limit_ > most)) {
      n_.fail(ErrorCode::kResourceExhausted,
              fmt::format("it is a loop with {}, but at most {} steps are allowed "
                          "(LoadOptions::max_loop_steps)",
                          limit_ ? fmt::format("a limit of {} steps", *limit_) : "no limit", most));
    }
    const Tensor limit = has_open_limit ? scalar_of(n_, as_dtype(n_.x(0), kInt64)) : int_scalar(0);
    std::vector<Tensor> last = while_loop(
        [&](const std::vector<Tensor>& now) {
          return has_open_limit ? logical_and(now[1], now[0] < limit) : Tensor(now[1]);
        },
        [&](const std::vector<Tensor>& now) {
          Values states = traced({now.begin() + 2, now.end()}, sources_);
          Values out = step({{}, now[0], sources_}, {{}, now[1], sources_}, std::move(states));
          std::vector<Tensor> next = {now[0] + 1, scalar_of(n_, out[0].tensor())};
          for (std::size_t s = 0; s < states_; ++s) next.push_back(out[1 + s].tensor());
          return next;
        },
        init, options);
    return traced({last.begin() + 2, last.end()}, sources_);
  }

  const NodeCall& n_;
  const FileGraph& body_;
  std::size_t states_ = 0, rows_ = 0;
  Values first_;
  std::optional<int64_t> limit_;
  std::vector<std::string> sources_;
};

Values loop(const NodeCall& n) { return LoopRun(n).run(); }

// A Scan over rows of its inputs. In opset 8 its first axis was a batch.
class ScanRun {
 public:
  explicit ScanRun(const NodeCall& n) : n_(n), body_(n.graph("body")) {
    is_old_ = n.opset() < 9;
    first_ = is_old_ ? 1 : 0;  // the lengths of sequences
    const int64_t count = n.integer("num_scan_inputs");
    n.require(count > 0 && static_cast<std::size_t>(count) + first_ <= n.count(),
              "num_scan_inputs is {}, but it has {} inputs", count, n.count());
    inputs_ = static_cast<std::size_t>(count);
    states_ = n.count() - first_ - inputs_;
    n.require(body_.outputs.size() >= states_ && body_.inputs.size() == states_ + inputs_,
              "it has {} states and {} rows, but its body has {} inputs and {} outputs", states_,
              inputs_, body_.inputs.size(), body_.outputs.size());
    outputs_ = body_.outputs.size() - states_;
    if (is_old_ && n.has(0)) n.refuse("lengths of sequences (opset 8) are not imported");
    in_axes_ = list("scan_input_axes", inputs_);
    in_reverse_ = list(is_old_ ? "directions" : "scan_input_directions", inputs_);
    out_axes_ = list("scan_output_axes", outputs_);
    out_reverse_ = list("scan_output_directions", outputs_);
    sources_ = sources_of(n);
  }

  Values run() const {
    if (!is_old_) return traced(one(n_.all()), sources_);
    const int64_t batch = n_.shape(first_)[0];
    n_.require(batch > 0 && batch <= kMostUnrolled, "its batch has {} examples", batch);
    std::vector<std::vector<Tensor>> all(states_ + outputs_);
    for (int64_t b = 0; b < batch; ++b) {
      std::vector<Tensor> inputs;
      for (std::size_t i = first_; i < n_.count(); ++i) inputs.push_back(take(n_.x(i), b));
      std::vector<Tensor> out = one(inputs);
      for (std::size_t i = 0; i < out.size(); ++i) all[i].push_back(out[i]);
    }
    std::vector<Tensor> out;
    for (const std::vector<Tensor>& each : all) out.push_back(stack(each, {.axis = 0}));
    return traced(std::move(out), sources_);
  }

 private:
  Sizes list(const char* name, std::size_t count) const {
    const Sizes out = n_.ints(name, Sizes(count, 0));
    n_.require(out.size() == count, "the attribute '{}' has {} numbers, but {} are needed", name,
               out.size(), count);
    return out;
  }

  // The states, then the outputs.
  std::vector<Tensor> one(const std::vector<Tensor>& given) const {
    const auto middle = given.begin() + static_cast<std::ptrdiff_t>(states_);
    const std::vector<Tensor> init(given.begin(), middle);
    std::vector<Tensor> rows;
    for (std::size_t i = 0; i < inputs_; ++i) {
      const Tensor& x = *(middle + static_cast<std::ptrdiff_t>(i));
      const int64_t axis = n_.axis(in_axes_[i], x.type()->rank());
      Tensor moved = axis == 0 ? x : moveaxis(x, axis, 0);
      rows.push_back(in_reverse_[i] != 0 ? flip(moved, {.axis = {0}}) : moved);
    }
    auto [last, outputs] = scan(
        [&](const std::vector<Tensor>& now, const std::vector<Tensor>& in) {
          std::vector<Tensor> inputs = now;
          inputs.insert(inputs.end(), in.begin(), in.end());
          const std::vector<Tensor> all = tensors_in(
              n_.importer().run_inner(body_, n_.scope(), traced(std::move(inputs), sources_)));
          const auto split = all.begin() + static_cast<std::ptrdiff_t>(states_);
          return std::pair(std::vector<Tensor>(all.begin(), split),
                           std::vector<Tensor>(split, all.end()));
        },
        init, rows);
    for (std::size_t i = 0; i < outputs_; ++i) {
      Tensor y = out_reverse_[i] != 0 ? flip(outputs[i], {.axis = {0}}) : outputs[i];
      const int64_t axis = n_.axis(out_axes_[i], y.type()->rank());
      last.push_back(axis == 0 ? y : moveaxis(y, 0, axis));
    }
    return last;
  }

  const NodeCall& n_;
  const FileGraph& body_;
  bool is_old_ = false;
  std::size_t first_ = 0, inputs_ = 0, states_ = 0, outputs_ = 0;
  Sizes in_axes_, in_reverse_, out_axes_, out_reverse_;
  std::vector<std::string> sources_;
};

Values scan_of(const NodeCall& n) { return ScanRun(n).run(); }

}  // namespace
}  // namespace control

void add_control_imports(Imports& to) {
  using namespace control;
  to.push_back(
      {.op = "If", .inputs = "cond", .attributes = "then_branch else_branch", .run = branch});
  to.push_back(
      {.op = "Loop", .inputs = "M? cond? v_initial...", .attributes = "body", .run = loop});
  to.push_back({.op = "Scan",
                .inputs = "initial_state_and_scan_inputs...",
                .attributes =
                    "body num_scan_inputs directions scan_input_axes scan_input_directions "
                    "scan_output_axes scan_output_directions",
                .run = scan_of});
}

void add_refused_imports(Imports& to) {
  const auto refuse = [&](std::string_view reason, std::initializer_list<std::string_view> ops) {
    for (const std::string_view op : ops) to.push_back({.op = op, .refusal = reason});
  };
  refuse("texts are not imported. Compute with numbers, such as the numbers of words",
         {"RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"});
  refuse(
      "sequences are not imported. Export the model with tensors, for example stacked along an "
      "axis",
      {"ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
       "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence"});
  refuse("optional values are not imported. Export the model without them",
         {"Optional", "OptionalGetElement", "OptionalHasElement"});
  refuse("files of images are not decoded by a graph. Decode them before the call",
         {"ImageDecoder"});
  refuse("there is no such function in this library",
         {"MaxRoiPool", "CausalConvWithState", "LinearAttention"});
}

}  // namespace etude::onnx::importing
