// SPDX-License-Identifier: Apache-2.0
// Running plans. How they are made is in planner.cc.
#include "etude/plan/plan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/internal/device_table.h"
#include "etude/core/internal/mode.h"
#include "etude/device/cpu/float_mode.h"
#include "etude/eager/cancel.h"
#include "etude/eager/dispatch.h"
#include "etude/eager/profiler.h"
#include "etude/graph/text/programs.h"
#include "etude/passes/decisions.h"
#include "etude/passes/graph_copy.h"
#include "etude/passes/pipeline.h"
#include "etude/plan/cluster_maker.h"
#include "etude/plan/planner.h"

namespace etude::internal {

namespace {

constexpr uint64_t kStepNs = 8;  // the approximate time of a step of a few elements

// Throws the fault that the kernel of a node reported, with the name and line of this node.
[[noreturn]] void throw_fault_of(const Graph& graph, std::size_t at) {
  const Graph::Node node = graph.node(at);
  try {
    throw_fault(node.op, node.attrs);
  } catch (Error& error) {
    explain(error, node.op.name(), node.where);
    if (const std::string_view body = node.op.def().body; !body.empty()) {
      error.name_caller(static_cast<const Graph&>(node.attrs.object(body)).name(), node.where);
    }
    for (uint32_t f = node.frame; f != Graph::kNoFrame; f = graph.frames()[f].outer) {
      error.name_caller(graph.frames()[f].function, graph.frames()[f].where);
    }
    throw;
  }
}

int64_t bytes_of(const Graph& graph, const Graph::Node& node) {
  int64_t bytes = 0;
  const auto add = [&](GraphValue v) {
    if (v != kNoValue && graph.type(v) != nullptr) bytes += graph.type(v)->bytes();
  };
  for (const GraphValue v : node.operands) add(v);
  for (uint32_t r = 0; r < node.results; ++r) add(node.first_result + r);
  return bytes;
}

}  // namespace

RefPtr<const Plan> Plan::of(const Graph& graph) { return of(graph, {}); }

RefPtr<const Plan> Plan::of(const Graph& graph, std::span<const uint8_t> dying) {
  const auto plan =
      graph.kept<Plan>("plan", [&] { return best_plan(graph, run_passes(graph), dying); });
  if (plan->lacks_fused_calls_) plan->keep_fused_calls(graph, false);
  return plan;
}

RefPtr<const Plan> Plan::of_passed(const Graph& graph, std::span<const uint8_t> dying) {
  const auto plan =
      graph.kept<Plan>("plan", [&] { return best_plan(graph, GraphRef(&graph), dying); });
  if (plan->lacks_fused_calls_) plan->keep_fused_calls(graph, false);
  return plan;
}

// Inlined into the run of a plan without forks, which is as short as some clusters.
[[gnu::always_inline]] inline const Plan::Step* Plan::walk(const Frame& frame, const Stretch* first,
                                                           const Stretch* end) const {
  for (const Stretch* s = first; s != end; ++s) {
    if (s->code != nullptr) {
      if (const ClusterCode::Run run = s->code->take(kStepNs * (s->end - s->first))) {
        run(frame.pointers.data() + s->first_place, s->params.data(), 1);
        continue;
      }
    }
    if (const Step* failed = run_range(frame, s->first, s->end)) return failed;
  }
  return nullptr;
}

const Plan::Step* Plan::run_steps(const Frame& frame) const {
  if ((mode_word & (kModeProfile | kModeCancel)) != 0) [[unlikely]] {
    return run_watched_steps(frame);
  }
  if (stretches_.empty()) return run_range(frame, 0, steps_.size());
  if (!sections_.empty()) [[unlikely]]
    return run_sections(frame);
  return walk(frame, stretches_.data(), stretches_.data() + stretches_.size());
}

const Plan::Step* Plan::run_stretches(const Frame& frame, std::size_t first,
                                      std::size_t end) const {
  return walk(frame, stretches_.data() + first, stretches_.data() + end);
}

namespace {

// Reports the exception that a kernel threw: no memory, no thread, the failure of a library.
[[gnu::cold, gnu::noinline]] void report_exception() {
  try {
    throw;
  } catch (const Error& error) {
    report_error(error);
  } catch (const std::bad_alloc&) {
    report_fault(ErrorCode::kResourceExhausted, "the host has no memory left for this call");
  }
}

}  // namespace

const Plan::Step* Plan::run_range(const Frame& frame, std::size_t first, std::size_t end) const {
  const KernelCall* call = frame.calls.data() + first;
  const Step* step = steps_.data() + first;
  try {
    for (; step != steps_.data() + end; ++step) {
      if (!step->run(*call++)) [[unlikely]]
        return step;
    }
  } catch (...) {
    report_exception();
    return step;
  }
  return nullptr;
}

std::optional<LoopCode> Plan::loop_code(const LoopShape& loop) const {
  if (!makes_clusters()) return std::nullopt;
  std::vector<RefPtr<Prepared>> calls;
  for (std::size_t i = 0; i < graph_->size(); ++i) {
    const Graph::Node node = graph_->node(i);
    calls.push_back(prepare(node.op, node.attrs, operand_types(*graph_, node)));
  }
  std::optional<Cluster> cluster = ClusterMaker(*graph_, calls).loop_of(loop);
  if (!cluster) return std::nullopt;
  LoopCode out;
  out.inputs_ = graph_->inputs().size();
  out.outputs_ = graph_->outputs().size();
  out.params_ = cluster->params();
  for (const Tensor& constant : graph_->constants()) {
    out.constants_.push_back(TensorAccess::data(constant));
  }
  out.code_ = ClusterCode::of(std::move(*cluster));
  if (out.code_ == nullptr) return std::nullopt;
  return out;
}

bool LoopCode::run(const void* const* in, void* const* out, std::size_t steps) const {
  if ((mode_word & (kModeProfile | kModeCancel)) != 0) return false;
  const std::size_t calls = code_->cluster().calls.size();
  const ClusterCode::Run run = code_->take(kStepNs * steps * (calls + 1));
  if (run == nullptr) return false;
  std::array<void*, Cluster::kMostSlots> slots;
  auto at = slots.begin();
  for (std::size_t i = 0; i < inputs_; ++i) *at++ = const_cast<void*>(in[i]);
  at = std::copy_n(out, outputs_, at);
  for (const void* constant : constants_) *at++ = const_cast<void*>(constant);
  run(slots.data(), params_.data(), steps);
  return true;
}

const Plan::Step* Plan::run_watched_steps(const Frame& frame) const {
  const bool is_profiled = (mode_word & kModeProfile) != 0;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const std::size_t at = program_order_.empty() ? i : program_order_[i];
    const Step& step = steps_[at];
    if (is_cancelled()) {
      report_fault(ErrorCode::kCancelled, std::string(kCancelledText));
      return &step;
    }
    const Graph::Node node = graph_->node(step.node);
    std::optional<ProfiledCall> timed;
    if (is_profiled) timed.emplace(node.op, bytes_of(*graph_, node), user_line(node.where));
    if (const Step* failed = run_range(frame, at, at + 1)) return failed;
  }
  return nullptr;
}

void Plan::take_given(Operands inputs, std::span<const uint8_t> given, Values& made) const {
  for (const Donation& d : donations_) {
    if (given[d.input] != 0 && TensorAccess::is_unique(inputs[d.input])) {
      made[d.made] = inputs[d.input];
    }
  }
  // One object may be two inputs. A tensor that was taken has two handles now.
  auto own = donations_.begin();
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    if (own != donations_.end() && own->input == i) {
      const Donation& d = *own++;
      if (made[d.made].has_value()) continue;
    }
    const TensorRep* rep = TensorAccess::rep(inputs[i]);
    if (rep->count.load(std::memory_order_relaxed) == 1) continue;
    for (const Donation& d : donations_) {
      if (made[d.made].has_value() && TensorAccess::rep(made[d.made]) == rep) made[d.made].reset();
    }
  }
}

Values Plan::run(Operands inputs, std::span<const uint8_t> given) const {
  Values made(made_.size()), out(outputs_.size());
  // A run that can be cancelled may end at each step, so its inputs must stay unchanged.
  bool takes = !given.empty() && !donations_.empty() && (mode_word & kModeCancel) == 0;
  takes = takes && (late_values_.empty() || stretches_.empty());
  if (takes) take_given(inputs, given, made);
  const bool waits = takes && !late_values_.empty() &&
                     std::ranges::any_of(made, [](const Tensor& y) { return y.has_value(); });
  for (std::size_t k = 0; k < made_.size(); ++k) {
    if (!made[k].has_value()) made[k] = make_tensor(made_[k]);
  }
  add_results(inputs, made, out, false);
  struct Taken {
    const Plan& plan;
    std::unique_ptr<Frame> frame;
    ~Taken() { plan.give_frame(std::move(frame)); }
  } taken{*this, take_frame()};
  void** const pointers = taken.frame->pointers.data();
  for (const Patch& patch : input_patches_) {
    pointers[patch.at] =
        static_cast<char*>(TensorAccess::rep(inputs[patch.index])->data) + patch.offset;
  }
  for (const Patch& patch : output_patches_) {
    pointers[patch.at] =
        static_cast<char*>(TensorAccess::rep(made[patch.index])->data) + patch.offset;
  }
  {
    const FloatModeScope float_mode;
    const Step* const failed =
        waits ? run_in_two(*taken.frame, inputs, made) : run_steps(*taken.frame);
    if (failed != nullptr) [[unlikely]]
      throw_fault_of(*graph_, failed->node);
  }
  add_results(inputs, made, out, true);
  return out;
}

void Plan::add_results(Operands inputs, Values& made, Values& out, bool from_made) const {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const Place& place = outputs_[i].place;
    if (outputs_[i].type == nullptr || outputs_[i].is_whole) continue;
    if ((place.home == Home::kOutput) != from_made) continue;
    const Tensor& from = place.home == Home::kInput      ? inputs[place.index]
                         : place.home == Home::kConstant ? graph_->constants()[place.index]
                                                         : made[place.index];
    out[i] = with_type(from, outputs_[i].type, place.offset);
  }
  for (std::size_t i = 0; i < outputs_.size() && from_made; ++i) {
    if (!outputs_[i].is_whole) continue;
    out[i] = std::move(made[outputs_[i].place.index]);
    TensorAccess::forget_id(out[i]);  // of the input that it was
  }
}

bool Plan::may_go_over(std::size_t input, std::size_t output) const noexcept {
  const Output& y = outputs_[output];
  return y.is_whole && std::ranges::any_of(overs_, [&](const Donation& d) {
           return d.input == input && d.made == y.place.index;
         });
}

void copy_elements(const Type* type, void* to, const void* from) {
  const auto bytes = static_cast<std::size_t>(type->bytes());
  if (bytes == 0 || to == from) return;
  if (DeviceMemory* const memory = memory_of(type->device())) {
    memory->copy(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

Plan::Runner::Runner(const Plan& plan)
    : plan_(&plan),
      frame_(plan.take_frame()),
      whole_(plan.made_.size(), -1),
      made_(plan.made_.size()) {
  for (std::size_t i = 0; i < plan.outputs_.size(); ++i) {
    if (plan.outputs_[i].is_whole) whole_[plan.outputs_[i].place.index] = static_cast<int32_t>(i);
  }
  for (std::size_t m = 0; m < whole_.size(); ++m) {
    if (whole_[m] >= 0) continue;
    made_[m] = TensorAccess::rep(scratch_.emplace_back(make_tensor(plan.made_[m])))->data;
  }
}

Plan::Runner::~Runner() {
  if (frame_ != nullptr) plan_->give_frame(std::move(frame_));
}

bool Plan::Runner::run(const void* const* in, void* const* out) {
  void** const pointers = frame_->pointers.data();
  for (std::size_t m = 0; m < whole_.size(); ++m) {
    if (whole_[m] >= 0) made_[m] = out[whole_[m]];
  }
  for (const Patch& patch : plan_->input_patches_) {
    pointers[patch.at] =
        const_cast<char*>(static_cast<const char*>(in[patch.index])) + patch.offset;
  }
  for (const Patch& patch : plan_->output_patches_) {
    pointers[patch.at] = static_cast<char*>(made_[patch.index]) + patch.offset;
  }
  if (const Step* failed = plan_->run_steps(*frame_)) [[unlikely]] {
    try {
      throw_fault_of(*plan_->graph_, failed->node);
    } catch (const Error& error) {
      return report_error(error);
    }
  }
  for (std::size_t i = 0; i < plan_->outputs_.size(); ++i) {
    const Output& output = plan_->outputs_[i];
    if (output.type == nullptr || output.is_whole || output.type->bytes() == 0) continue;
    const Place& place = output.place;
    const void* from = place.home == Home::kInput ? in[place.index]
                       : place.home == Home::kConstant
                           ? TensorAccess::rep(plan_->graph_->constants()[place.index])->data
                           : made_[place.index];
    copy_elements(output.type, out[i], static_cast<const char*>(from) + place.offset);
  }
  return true;
}

std::string Plan::place_text(const Place& place) const {
  const auto offset = place.offset == 0 ? "" : fmt::format("+{}", place.offset);
  switch (place.home) {
    case Home::kInput:
      return graph_->inputs()[place.index].name + offset;
    case Home::kConstant:
      return fmt::format("constant{}{}", place.index, offset);
    case Home::kOutput:
      return fmt::format("out{}{}", place.index, offset);
    case Home::kArena: {
      const Device device = arenas_[place.index].device;
      return fmt::format("{}@{}", device.is_home() ? "" : device.to_string(), place.offset);
    }
    case Home::kNone:
      break;
  }
  return "none";
}

std::vector<Plan::ClusterRange> Plan::clusters() const {
  std::vector<ClusterRange> out;
  for (const Stretch& s : stretches_) {
    if (s.code == nullptr) continue;
    out.push_back({steps_[s.first].node, steps_[s.end - 1].node + std::size_t{1}, s.code});
  }
  return out;
}

std::string Plan::to_string() const {
  const RefPtr<const FusedCalls> fused = FusedCalls::of(*graph_);
  std::string text = fmt::format("plan of '{}': {} steps, arena of {} bytes ({} alive at once)\n",
                                 graph_->name(), steps_.size(), arena_bytes_, live_bytes_);
  for (const Step& step : steps_) {
    const Graph::Node node = graph_->node(step.node);
    std::string out, in;
    for (uint32_t i = 0; i < step.results; ++i) {
      out += fmt::format("{}{} {}", i > 0 ? ", " : "", place_text(places_[step.first_place + i]),
                         graph_->type(node.first_result + i)->to_string());
    }
    for (uint32_t i = 0; i < step.operands; ++i) {
      in += (i > 0 ? ", " : "") + place_text(places_[step.first_place + step.results + i]);
    }
    std::string line = fmt::format("  {} = {}({})", out, node.op.name(), in);
    if (&node.op == &program_op()) {
      line += " " + program_text(std::get<const ScalarDef*>(node.attrs.value("program")));
    }
    text += node.where.known()
                ? fmt::format("{:<70}  # {}:{}\n", line, node.where.file, node.where.line)
                : line + "\n";
    const auto parts = fused->by_node.find(step.node);
    if (parts == fused->by_node.end()) continue;
    for (const FusedCall& part : parts->second) {
      const std::string within = fmt::format("      of {}", part.op);
      text += part.where.known()
                  ? fmt::format("{:<70}  # {}:{}\n", within, part.where.file, part.where.line)
                  : within + "\n";
    }
  }
  for (const Stretch& s : stretches_) {
    if (s.code == nullptr) continue;
    text += fmt::format("  steps {} to {} are a cluster\n", s.first + 1, s.end);
  }
  for (const Section& section : sections_) {
    std::string branches;
    for (std::size_t b = 0; b + 1 < section.branches.size(); ++b) {
      branches +=
          fmt::format("{}{} to {}", b > 0 ? ", " : "", stretches_[section.branches[b]].first + 1,
                      stretches_[section.branches[b + 1] - 1].end);
    }
    if (!branches.empty()) text += fmt::format("  steps {} run side by side\n", branches);
  }
  return text;
}

}  // namespace etude::internal
