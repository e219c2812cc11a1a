// SPDX-License-Identifier: Apache-2.0
// Makes plans: kernels of the nodes, and places of the values.
#include "etude/plan/planner.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "etude/base/check.h"
#include "etude/core/call/located.h"
#include "etude/device/cpu/parallel.h"
#include "etude/eager/dispatch.h"
#include "etude/passes/decisions.h"
#include "etude/passes/graph_copy.h"
#include "etude/plan/arena_space.h"
#include "etude/plan/call_time.h"
#include "etude/plan/forks.h"
#include "etude/plan/plan.h"
#include "etude/plan/queued_steps.h"
#include "etude/plan/stretches.h"
#include "etude/plan/write_over.h"

namespace etude::internal {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kLeastRoom = 64 << 10;  // bytes: smaller inputs are not worth a look
constexpr int64_t kForkRoom = 256 << 10;  // bytes that forks may cost in any plan
int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

class Planner {
 public:
  // The plan of `graph`, which the passes made of `keeper`: with forks where they pay.
  static RefPtr<const Plan> best(const Graph& keeper, const GraphRef& graph,
                                 std::span<const uint8_t> dying) {
    Planner serial(keeper, graph, dying);
    serial.prepare_nodes();
    serial.lay_out();
    const Forks setting = forks_setting();
    const bool may_fork = (setting == Forks::kAlways || worker_count() > 1) && !serial.has_queue();
    ForkedOrder order;
    if (may_fork) order = find_forks(*graph, serial.prepared_, serial.times_, setting);
    while (!order.forks.empty()) {
      Planner forked(keeper, in_order(*graph, order.nodes), dying);
      forked.take_order(serial, order);
      forked.lay_out();
      if (setting == Forks::kAlways || forked.fits(serial)) {
        forked.plan_->keep_fused_calls(*graph, graph.get() == &keeper);
        return forked.finish();
      }
      report_decision("forks", "one more fork would take {} bytes instead of {}", forked.memory(),
                      serial.memory());
      order.drop_least();
    }
    return serial.finish();
  }

 private:
  using Home = Plan::Home;
  using Place = Plan::Place;
  static constexpr std::size_t kForEver = ~std::size_t{0};

  Planner(const Graph& keeper, const GraphRef& graph, std::span<const uint8_t> dying)
      : graph_(*graph), dying_(dying), plan_(new Plan), held_(plan_) {
    plan_->graph_ = graph.get();
    if (graph.get() != &keeper) plan_->owned_ = graph;
    values_.resize(graph_.value_count());
    safe_ = graph_.size();
  }

  // Chooses the places of all values.
  void lay_out() {
    find_roots();
    find_outputs();
    find_last_uses();
    write_in_place();
    add_outputs();
    find_safe();
    find_overs();
    find_donations();
    find_heirs();
    find_rooms();
    place_roots();
  }
  RefPtr<const Plan> finish() {
    add_steps();
    if (has_queue() && plan_->may_fail_) plan_->find_late_values(safe_);
    find_stretches(*plan_, graph_, prepared_);
#ifdef ETUDE_ASSERTIONS
    plan_->verify_places();
    plan_->verify_forks();
#endif
    plan_->share_arena();
    report_decision("memory",
                    "an arena of {} bytes, where {} are alive at once at most; {} results may be "
                    "written over inputs",
                    plan_->arena_bytes_, plan_->live_bytes_, plan_->donations_.size());
    return held_;
  }

  // The nodes of `serial` in an order with forks.
  void take_order(const Planner& serial, const ForkedOrder& order) {
    for (const uint32_t node : order.nodes) {
      prepared_.push_back(serial.prepared_[node]);
      times_.push_back(serial.times_[node]);
    }
    plan_->time_ = serial.plan_->time_;
    plan_->forks_ = order.forks;
    plan_->source_nodes_ = order.nodes;
    spots_ = spots_of(order);
  }
  // Bytes of a run, besides the inputs that it takes.
  int64_t memory() const {
    int64_t bytes = plan_->arena_bytes_;
    for (const Type* type : plan_->made_) bytes += type->bytes();
    for (const Plan::Donation& d : plan_->donations_) bytes -= plan_->made_[d.made]->bytes();
    return bytes;
  }
  // Whether a plan with forks needs little more memory, and overwrites as many inputs: a kernel
  // that writes a part of a tensor copies the rest where it may not.
  bool fits(const Planner& serial) const {
    return memory() <= serial.memory() + std::max(serial.memory() / 4, kForkRoom) &&
           plan_->overs_.size() >= serial.plan_->overs_.size() &&
           plan_->donations_.size() >= serial.plan_->donations_.size();
  }

  // The bytes of a value are in its root, from `offset` on. The root of a view is the value that it
  // shows. The root of a result that is written over an operand is that operand.
  struct Value {
    GraphValue root = kNoValue;
    int64_t offset = 0;
    // Of roots only:
    Home home = Home::kNone;
    uint32_t index = 0;
    std::size_t first = 0, last = 0;  // the steps that write it first and read it last
    int64_t bytes = 0;
    int64_t at = 0;          // in the arena
    ForkSpot touched;        // by the last step outside of branches, or the last branch
    bool is_shared = false;  // several branches of that fork touch it
  };

  bool is_view(const Prepared& p) const { return p.view_of >= 0; }
  // Whether steps only enqueue their work. Branches would gain nothing then.
  bool has_queue() const {
    return std::ranges::any_of(prepared_, [](const auto& p) { return is_queued(*p); });
  }

  ForkSpot spot_of(std::size_t i) const { return i < spots_.size() ? spots_[i] : ForkSpot{}; }
  // The first and last node that may run at the same time as node i: itself, outside of forks.
  std::size_t begin_of(std::size_t i) const {
    const ForkSpot spot = spot_of(i);
    return spot.fork < 0 ? i : plan_->forks_[static_cast<std::size_t>(spot.fork)].first;
  }
  std::size_t last_of(std::size_t i) const {
    const ForkSpot spot = spot_of(i);
    return spot.fork < 0 ? i : plan_->forks_[static_cast<std::size_t>(spot.fork)].end - 1;
  }
  // Whether a root that step i touches last is not in use by another branch meanwhile.
  bool is_alone(const Value& root, std::size_t i) const {
    return spot_of(i).fork < 0 || !root.is_shared;
  }

  void prepare_nodes() {
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Graph::Node node = graph_.node(i);
      located(node.op, node.where, [&] {
        prepared_.push_back(prepare(node.op, node.attrs, operand_types(graph_, node)));
      });
      times_.push_back(time_of(graph_, node, *prepared_.back()));
      plan_->time_ += times_.back();
    }
  }

  Value& root_of(GraphValue v) { return values_[values_[v].root]; }

  void make_root(GraphValue v, Home home, uint32_t index) {
    values_[v].root = v;
    values_[v].home = home;
    values_[v].index = index;
    values_[v].bytes = graph_.type(v)->bytes();
  }

  void find_roots() {
    for (GraphValue v = 0; v < graph_.first_constant(); ++v) make_root(v, Home::kInput, v);
    for (GraphValue v = graph_.first_constant(); v < graph_.first_result(); ++v) {
      make_root(v, Home::kConstant, v - graph_.first_constant());
    }
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Graph::Node node = graph_.node(i);
      const Prepared& p = *prepared_[i];
      for (uint32_t r = 0; r < node.results; ++r) {
        const GraphValue v = node.first_result + r;
        make_root(v, Home::kArena, 0);
        values_[v].first = i;
      }
      if (!is_view(p)) continue;
      const Value& shown = values_[node.operands[static_cast<std::size_t>(p.view_of)]];
      values_[node.first_result].root = shown.root;
      values_[node.first_result].offset = shown.offset + p.view_offset;
    }
  }

  // Roots that outputs lie in become tensors of their own.
  void find_outputs() {
    const std::vector<const Type*> covers = find_covers();
    for (const GraphValue v : graph_.outputs()) {
      if (v == kNoValue) continue;
      Value& root = root_of(v);
      root.last = kForEver;
      if (root.home != Home::kArena) continue;
      root.home = Home::kOutput;
      root.index = static_cast<uint32_t>(plan_->made_.size());
      const Type* const cover = covers[values_[v].root];
      plan_->made_.push_back(cover != nullptr ? cover : graph_.type(values_[v].root));
    }
  }

  // By root: the type of the first output that covers it, so that its tensor is this output; null:
  // there is none.
  std::vector<const Type*> find_covers() const {
    std::vector<const Type*> out(values_.size());
    for (const GraphValue v : graph_.outputs()) {
      if (v == kNoValue) continue;
      const GraphValue root = values_[v].root;
      const bool covers = values_[v].offset == 0 && graph_.type(v)->bytes() == values_[root].bytes;
      if (covers && out[root] == nullptr) out[root] = graph_.type(v);
    }
    return out;
  }

  void find_last_uses() {
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Graph::Node node = graph_.node(i);
      for (uint32_t r = 0; r < node.results; ++r) touch(node.first_result + r, i);
      for (const GraphValue v : node.operands) {
        if (v != kNoValue) touch(v, i);
      }
    }
  }
  void touch(GraphValue v, std::size_t step) {
    Value& root = root_of(v);
    if (root.last != kForEver) root.last = std::max(root.last, step);
    const ForkSpot spot = spot_of(step);
    const bool is_other = spot.fork >= 0 && spot.branch != root.touched.branch;
    root.is_shared = spot.fork == root.touched.fork && (root.is_shared || is_other);
    root.touched = spot;
  }

  // Whether step i may write `result` over its operand: the operand has no later reader, it is the
  // only value in its root, and no other operand of the step is in that root.
  bool may_overwrite(std::size_t i, std::size_t operand, GraphValue result) {
    const Graph::Node node = graph_.node(i);
    const GraphValue v = node.operands[operand];
    if (v == kNoValue) return false;
    const Value& root = root_of(v);
    const Value& target = values_[result];
    const bool is_new = target.home == Home::kArena || target.home == Home::kOutput;
    if (root.home != Home::kArena || root.last != i || values_[v].offset != 0 || !is_new ||
        target.root != result || root.bytes != target.bytes || !is_alone(root, i)) {
      return false;
    }
    return std::ranges::none_of(node.operands, [&](GraphValue other) {
      return other != kNoValue && other != v && values_[other].root == values_[v].root;
    });
  }

  void overwrite(std::size_t i, std::size_t operand, GraphValue result) {
    const GraphValue v = graph_.node(i).operands[operand];
    const GraphValue root = values_[v].root;
    values_[root].last = values_[result].last;
    values_[root].touched = values_[result].touched;
    values_[root].is_shared = values_[result].is_shared;
    // A value that an output overwrites lies in the tensor of the output from the beginning.
    values_[root].home = values_[result].home;
    values_[root].index = values_[result].index;
    // Views of the result move to the new root on request: see settle().
    values_[result].root = root;
  }

  void write_in_place() {
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Graph::Node node = graph_.node(i);
      const Prepared& p = *prepared_[i];
      settle(node);
      if (is_view(p)) continue;
      for (uint32_t r = 0; r < node.results; ++r) {
        const GraphValue result = node.first_result + r;
        for (std::size_t o = 0; o < node.operands.size() && o < 64; ++o) {
          if (!may_write_over(node, p, o, r) || !may_overwrite(i, o, result)) continue;
          overwrite(i, o, result);
          break;
        }
      }
    }
  }
  // Roots of a node's values may have moved into another root since they were found.
  void settle(const Graph::Node& node) {
    const auto follow = [&](GraphValue v) {
      if (v == kNoValue) return;
      while (values_[values_[v].root].root != values_[v].root) {
        values_[v].root = values_[values_[v].root].root;
      }
    };
    for (const GraphValue v : node.operands) follow(v);
    for (uint32_t r = 0; r < node.results; ++r) follow(node.first_result + r);
  }

  void place_roots() {
    std::vector<std::vector<GraphValue>> dying(graph_.size());
    ArenaSpaces arenas;
    // Memory that a branch has used goes to its own later values; to others after the fork. Place
    // 0: memory that several branches have used.
    std::vector<ArenaSpaces> of_branch;
    int64_t live = 0;
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Graph::Node node = graph_.node(i);
      const auto branch = static_cast<std::size_t>(spot_of(i).branch + 1);  // 0: none
      if (of_branch.size() <= branch) of_branch.resize(branch + 1);
      for (uint32_t r = 0; r < node.results; ++r) {
        const GraphValue v = node.first_result + r;
        Value& value = values_[v];
        if (value.root != v || value.home != Home::kArena) continue;
        live += value.bytes;
        dying[value.last].push_back(v);
        if (take_room(i, r)) continue;
        const int64_t bytes = aligned(std::max<int64_t>(value.bytes, 1));
        value.index = arenas.number_of(graph_.type(v)->device());
        const auto own = of_branch[branch].at(value.index).take_free(bytes);
        value.at = own ? *own : arenas.at(value.index).take(bytes);
      }
      plan_->live_bytes_ = std::max(plan_->live_bytes_, live);
      for (const GraphValue v : dying[i]) {
        live -= values_[v].bytes;
        if (values_[v].home == Home::kOutput) continue;  // in a room, which knows until when
        const int64_t bytes = aligned(std::max<int64_t>(values_[v].bytes, 1));
        const std::size_t owner = values_[v].is_shared ? 0 : branch;
        ArenaSpaces& spaces = branch == 0 ? arenas : of_branch[owner];
        spaces.at(values_[v].index).give(values_[v].at, bytes);
      }
      if (last_of(i) != i || spot_of(i).fork < 0) continue;
      for (ArenaSpaces& spaces : of_branch) arenas.give_all(spaces);
    }
    for (const auto& [device, space] : arenas.all()) {
      plan_->arenas_.push_back({device, space.end()});
      plan_->arena_bytes_ += space.end();
    }
  }

  // Memory for one value at a time: a large input after its last reader, or a result before it is
  // written. (A place where a loop may overwrite an input by a result is no room: it holds the
  // input until then.)
  struct Room {
    GraphValue input;  // kNoValue: a result
    Device device;
    int64_t bytes;
    std::size_t from, until;  // the steps that may write and read there
    int64_t made = -1;        // the new tensor; of an input once it is used
  };
  void find_safe() {
    while (safe_ > 0 && (is_view(*prepared_[safe_ - 1]) || prepared_[safe_ - 1]->never_faults))
      --safe_;
    // A branch of a fork may be ahead of a failing step of another branch.
    if (safe_ < graph_.size() && begin_of(safe_) < safe_) safe_ = last_of(safe_) + 1;
  }
  // Puts large results into the tensor of an input of their type that dies before they are written.
  // Takes the input that dies last, since an input that dies earlier is room for more values.
  void find_heirs() {
    free_from_.resize(plan_->made_.size(), 0);
    if (dying_.empty() || !may_donate_) return;
    std::vector<bool> is_taken(graph_.first_constant()), has_one(plan_->made_.size());
    for (const Plan::Donation& d : plan_->donations_) is_taken[d.input] = has_one[d.made] = true;
    std::vector<GraphValue> dead;
    for (GraphValue v = 0; v < graph_.first_constant() && v < dying_.size(); ++v) {
      const bool dies = dying_[v] != 0 && !is_taken[v] && values_[v].last != kForEver;
      if (dies && values_[v].bytes >= kLeastRoom) dead.push_back(v);
    }
    std::ranges::stable_sort(dead, std::greater(), [&](GraphValue v) { return values_[v].last; });
    for (GraphValue v = graph_.first_result(); v < graph_.value_count(); ++v) {
      const Value& result = values_[v];
      if (result.root != v || result.home != Home::kOutput || result.first < safe_) continue;
      const auto found = std::ranges::find_if(dead, [&](GraphValue d) {
        return graph_.type(d) == plan_->made_[result.index] &&
               last_of(values_[d].last) < begin_of(result.first);
      });
      if (found == dead.end() || has_one[result.index]) continue;
      plan_->donations_.push_back({*found, result.index, true});
      free_from_[result.index] = std::max(safe_, last_of(values_[*found].last) + 1);
      dead.erase(found);
    }
    std::ranges::sort(plan_->donations_, {}, &Plan::Donation::input);
  }
  // See plan.h. Inputs that become results are none.
  void find_rooms() {
    if (dying_.empty()) return;
    std::vector<bool> is_taken(graph_.first_constant()), is_over(plan_->made_.size());
    for (const auto* list : {&plan_->donations_, &plan_->overs_}) {
      for (const Plan::Donation& d : *list) is_over[d.made] = !d.is_room;
    }
    for (const Plan::Donation& d : plan_->donations_) is_taken[d.input] = true;
    for (GraphValue v = 0; v < graph_.first_constant() && v < dying_.size() && may_donate_; ++v) {
      const Value& input = values_[v];
      if (dying_[v] == 0 || is_taken[v] || input.last == kForEver) continue;
      rooms_.push_back({v, graph_.type(v)->device(), input.bytes,
                        std::max(safe_, last_of(input.last) + 1), kForEver});
    }
    for (GraphValue v = graph_.first_result(); v < graph_.value_count(); ++v) {
      const Value& value = values_[v];
      if (value.root != v || value.home != Home::kOutput || is_over[value.index]) continue;
      rooms_.push_back({kNoValue, graph_.type(v)->device(), value.bytes, free_from_[value.index],
                        begin_of(value.first), value.index});
    }
    std::erase_if(rooms_, [](const Room& room) { return room.bytes < kLeastRoom; });
    std::ranges::stable_sort(rooms_, {}, &Room::bytes);
  }
  // Whether step i, the last reader of the input, may write its result r over it.
  bool may_go_into(const Room& room, std::size_t i, uint32_t r) {
    if (room.input == kNoValue || i < safe_ || room.made >= 0) return false;
    const Graph::Node node = graph_.node(i);
    const Value& input = values_[room.input];
    if (input.last != i || !is_alone(input, i)) return false;
    if (input.bytes != values_[node.first_result + r].bytes) return false;
    for (std::size_t o = 0; o < node.operands.size() && o < 64; ++o) {
      if (node.operands[o] != room.input) continue;
      if (!may_write_over(node, *prepared_[i], o, r)) continue;
      return std::ranges::none_of(node.operands, [&](GraphValue other) {
        return other != kNoValue && other != room.input && values_[other].root == room.input;
      });
    }
    return false;
  }
  // Puts result r of step i into the smallest room that is free and large enough.
  bool take_room(std::size_t i, uint32_t r) {
    Value& value = values_[graph_.node(i).first_result + r];
    if (value.bytes < kLeastRoom) return false;
    const Device device = graph_.type(graph_.node(i).first_result + r)->device();
    const auto fits = [&](const Room& room) {
      if (room.device != device) return false;
      const bool is_free =
          room.from <= i && last_of(value.last) < room.until && room.bytes >= value.bytes;
      return is_free || may_go_into(room, i, r);
    };
    const auto room = std::ranges::find_if(rooms_, fits);
    if (room == rooms_.end()) return false;
    if (room->made < 0) {
      room->made = static_cast<int64_t>(plan_->made_.size());
      plan_->made_.push_back(graph_.type(room->input));
      const Plan::Donation donation{room->input, static_cast<uint32_t>(room->made), true};
      const auto at =
          std::ranges::lower_bound(plan_->donations_, donation.input, {}, &Plan::Donation::input);
      plan_->donations_.insert(at, donation);
    }
    value.home = Home::kOutput;
    value.index = static_cast<uint32_t>(room->made);
    room->from = last_of(value.last) + 1;
    return true;
  }

  Place place_of(GraphValue v) {
    if (v == kNoValue) return {};
    const Value& root = root_of(v);
    const int64_t start = root.home == Home::kArena ? root.at : 0;
    return {root.home, root.index, start + values_[v].offset};
  }

  void add_place(GraphValue v) {
    const Place place = place_of(v);
    const auto at = static_cast<uint32_t>(plan_->places_.size());
    if (place.home == Home::kInput) {
      plan_->input_patches_.push_back({at, place.index, place.offset});
    } else if (place.home == Home::kOutput) {
      plan_->output_patches_.push_back({at, place.index, place.offset});
    }
    plan_->places_.push_back(place);
  }

  void add_steps() {
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Graph::Node node = graph_.node(i);
      const Prepared& p = *prepared_[i];
      if (is_view(p)) continue;
      const auto first = static_cast<uint32_t>(plan_->places_.size());
      for (uint32_t r = 0; r < node.results; ++r) add_place(node.first_result + r);
      for (const GraphValue v : node.operands) add_place(v);
      plan_->may_fail_ = plan_->may_fail_ || !p.never_faults;
      plan_->steps_.push_back({p.run, p.state, first, node.results,
                               static_cast<uint32_t>(node.operands.size()),
                               static_cast<uint32_t>(i)});
      if (p.owner) plan_->held_.push_back(p.owner);
      if (!is_queued(p)) continue;
      Plan::Step& step = plan_->steps_.back();
      step.state = noted_state(graph_, i, prepared_[i], plan_->held_.emplace_back());
      step.run = run_noted;
    }
  }

  void add_outputs() {
    std::vector<bool> is_given(plan_->made_.size());
    for (const GraphValue v : graph_.outputs()) {
      Plan::Output output;
      if (v != kNoValue) {
        output.type = graph_.type(v);
        output.place = place_of(v);
        const bool covers = output.place.home == Home::kOutput && output.place.offset == 0 &&
                            plan_->made_[output.place.index] == output.type;
        // A second output of the same value is a value of its own.
        if (covers && !is_given[output.place.index]) {
          output.is_whole = is_given[output.place.index] = true;
        }
      }
      plan_->outputs_.push_back(output);
    }
  }

  // Results after the last step that can fail, which may use the memory of inputs: see plan.h.
  void find_donations() {
    using Output = Plan::Output;
    if (std::ranges::any_of(plan_->outputs_, [](const Output& y) {
          return y.type != nullptr && !y.is_whole && y.place.home == Home::kOutput;
        })) {
      may_donate_ = false;  // its tensor is made after the run
      return;
    }
    std::vector<bool> is_taken(graph_.first_constant());
    for (std::size_t i = graph_.size(); i-- > 0;) {
      const Prepared& p = *prepared_[i];
      if (i < safe_) break;
      if (is_view(p)) continue;
      const Graph::Node node = graph_.node(i);
      for (uint32_t r = 0; r < node.results; ++r) {
        const GraphValue result = node.first_result + r;
        for (std::size_t o = 0; o < node.operands.size() && o < 64; ++o) {
          if (!may_go_over(i, o, r) || is_taken[node.operands[o]]) continue;
          if (!may_die(node.operands[o])) continue;
          is_taken[node.operands[o]] = true;
          plan_->donations_.push_back({node.operands[o], values_[result].index});
          break;
        }
      }
    }
    std::ranges::sort(plan_->donations_, {}, &Plan::Donation::input);
  }
  // If it is not known which inputs die, each input may die.
  bool may_die(GraphValue input) const {
    return dying_.empty() || (input < dying_.size() && dying_[input] != 0);
  }
  // Results that may use the memory of inputs if a failure may destroy the inputs: in loops.
  void find_overs() {
    if (!dying_.empty()) return;
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Graph::Node node = graph_.node(i);
      if (is_view(*prepared_[i])) continue;
      for (uint32_t r = 0; r < node.results; ++r) {
        for (std::size_t o = 0; o < node.operands.size() && o < 64; ++o) {
          if (!may_go_over(i, o, r)) continue;
          plan_->overs_.push_back({node.operands[o], values_[node.first_result + r].index});
        }
      }
    }
  }
  bool may_go_over(std::size_t i, std::size_t o, uint32_t r) {
    const Graph::Node node = graph_.node(i);
    return may_write_over(node, *prepared_[i], o, r) && may_take(i, o, node.first_result + r);
  }
  // Whether step i is the last reader of an input that its operand is, and makes a whole tensor.
  bool may_take(std::size_t i, std::size_t operand, GraphValue result) {
    const Graph::Node node = graph_.node(i);
    const GraphValue v = node.operands[operand];
    if (v == kNoValue || v >= graph_.first_constant() || values_[v].last != i) return false;
    if (!is_alone(values_[v], i)) return false;
    const Value& target = values_[result];
    if (target.root != result || target.home != Home::kOutput) return false;
    if (plan_->made_[target.index] != graph_.type(v)) return false;
    return std::ranges::none_of(node.operands, [&](GraphValue other) {
      return other != kNoValue && other != v && values_[other].root == v;
    });
  }

  const Graph& graph_;
  std::span<const uint8_t> dying_;
  bool may_donate_ = true;
  std::vector<Room> rooms_;             // smallest first
  std::size_t safe_ = 0;                // no step from here on can fail
  std::vector<std::size_t> free_from_;  // by new tensor: the first step with its memory
  Plan* plan_;
  RefPtr<const Plan> held_;
  std::vector<RefPtr<Prepared>> prepared_;
  std::vector<CallTime> times_;  // by node
  std::vector<ForkSpot> spots_;  // by node; empty: no forks
  std::vector<Value> values_;
};

RefPtr<const Plan> best_plan(const Graph& keeper, const GraphRef& graph,
                             std::span<const uint8_t> dying) {
  return Planner::best(keeper, graph, dying);
}

}  // namespace etude::internal
