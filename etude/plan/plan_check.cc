// SPDX-License-Identifier: Apache-2.0
// The oracle of plans: simulates the steps, and checks that each read sees the value that the graph
// defines.
#include <algorithm>
#include <map>

#include "etude/base/check.h"
#include "etude/eager/dispatch.h"
#include "etude/plan/plan.h"

namespace etude::internal {
namespace {

// The value that last wrote each byte of the arena.
class Memory {
 public:
  void write(int64_t begin, int64_t end, GraphValue value) {
    if (begin == end) return;
    for (auto at = first_over(begin); at != spans_.end() && at->first < end;) {
      const auto [from, span] = *at;
      at = spans_.erase(at);
      if (from < begin) spans_.emplace(from, Span{begin, span.value});
      if (span.end > end) spans_.emplace(end, span);
    }
    spans_.emplace(begin, Span{end, value});
  }
  bool holds(int64_t begin, int64_t end, GraphValue value) {
    int64_t at = begin;
    for (auto span = first_over(begin); at < end; ++span) {
      if (span == spans_.end() || span->first > at || span->second.value != value) return false;
      at = span->second.end;
    }
    return true;
  }

 private:
  struct Span {
    int64_t end;
    GraphValue value;
  };
  std::map<int64_t, Span>::iterator first_over(int64_t begin) {
    auto at = spans_.upper_bound(begin);
    if (at != spans_.begin() && std::prev(at)->second.end > begin) --at;
    return at;
  }
  std::map<int64_t, Span> spans_;
};

// Whether the kernel may write result r where operand o lies. For an element-wise kernel, an
// operand that is the same value as an overwritable operand may be overwritten, too.
bool may_stand_over(const Graph::Node& node, const Prepared& p, std::size_t o, uint32_t r) {
  const bool is_alone = std::ranges::count(node.operands, node.operands[o]) == 1;
  if (!is_alone && node.op.def().kind != Kind::kElementwise) return false;
  if (node.results > 1)
    return r < p.results_over.size() && p.results_over[r] == static_cast<int>(o);
  for (std::size_t t = 0; t < std::min<std::size_t>(node.operands.size(), 64); ++t) {
    if (node.operands[t] == node.operands[o] && ((p.in_place >> t) & 1) != 0) return true;
  }
  return false;
}

RefPtr<Prepared> prepared_of(const Graph& graph, const Graph::Node& node) {
  InlineVector<const Type*, 6> types;
  for (const GraphValue v : node.operands) {
    types.push_back(v == kNoValue ? nullptr : graph.type(v));
  }
  return prepare(node.op, node.attrs, {types.data(), types.size()});
}

}  // namespace

void Plan::verify_donation(const Donation& d, bool may_fail) const {
  const auto is_input = [&](const Place& x) {
    return x.home == Home::kInput && x.index == d.input;
  };
  bool is_written = false;
  for (const Step& step : steps_) {
    const Graph::Node node = graph_->node(step.node);
    const Place* const results = &places_[step.first_place];
    for (uint32_t r = 0; r < step.results; ++r) {
      if (results[r].home != Home::kOutput || results[r].index != d.made) continue;
      const auto is_there = [&](const Place& x) {
        return x.home == Home::kOutput && x.index == d.made;
      };
      const bool goes_on =
          std::any_of(results + step.results, results + step.results + step.operands, is_there);
      ETUDE_CHECK(d.is_room || ((!is_written || goes_on) && results[r].offset == 0),
                  "a donated result is written twice");
      is_written = true;
    }
    if (!is_written) continue;
    const RefPtr<Prepared> p = prepared_of(*graph_, node);
    ETUDE_CHECK(may_fail || p->never_faults, "step {} can fail after an input was overwritten",
                step.node);
    for (uint32_t o = 0; o < step.operands; ++o) {
      if (!is_input(results[step.results + o])) continue;
      bool writes = false;
      for (uint32_t r = 0; r < step.results; ++r) {
        const bool is_here = results[r].home == Home::kOutput && results[r].index == d.made;
        writes = writes || (is_here && may_stand_over(node, *p, o, r));
      }
      ETUDE_CHECK(writes && results[step.results + o].offset == 0,
                  "operand {} of step {} ({}) is an input that was overwritten", o, step.node,
                  node.op.name());
    }
  }
  ETUDE_CHECK(is_written && made_[d.made] == graph_->inputs()[d.input].type,
              "a donated result is never written");
  for (const Output& output : outputs_) {
    ETUDE_CHECK(output.type == nullptr || !is_input(output.place), "a donated input is a result");
    const bool is_made = !may_fail && output.type != nullptr && !output.is_whole;
    ETUDE_CHECK(!is_made || output.place.home != Home::kOutput,
                "a result is allocated after an input was overwritten");
  }
  for (const Donation& other : donations_) {
    const bool is_one = (other.input == d.input) == (other.made == d.made);
    ETUDE_CHECK(may_fail || is_one, "a donation is made twice");
  }
}

void Plan::verify_devices() const {
  for (const Step& step : steps_) {
    const Graph::Node node = graph_->node(step.node);
    for (uint32_t r = 0; r < step.results; ++r) {
      const Place& place = places_[step.first_place + r];
      const Device device =
          place.home == Home::kArena ? arenas_[place.index].device : made_[place.index]->device();
      ETUDE_CHECK(device == graph_->type(node.first_result + r)->device(),
                  "result {} of {} in a plan is in the memory of {}", r, node.op.name(),
                  device.to_string());
    }
  }
}

void Plan::verify_places() const {
  verify_devices();
  for (const Donation& donation : donations_) verify_donation(donation, false);
  for (const Donation& over : overs_) verify_donation(over, true);
  std::vector<Memory> memories(made_.size() + arenas_.size());  // new tensors, then arenas
  const auto memory_of = [&](const Place& place) {
    return place.home == Home::kArena    ? &memories[made_.size() + place.index]
           : place.home == Home::kOutput ? &memories[place.index]
                                         : nullptr;
  };
  // Views have no step: the value at the end of their chain wrote the bytes that they show.
  std::vector<GraphValue> writer(graph_->value_count());
  for (GraphValue v = 0; v < writer.size(); ++v) writer[v] = v;
  std::size_t next = 0;
  for (std::size_t i = 0; i < graph_->size(); ++i) {
    const Graph::Node node = graph_->node(i);
    const RefPtr<Prepared> p = prepared_of(*graph_, node);
    if (p->view_of >= 0) {
      writer[node.first_result] = writer[node.operands[static_cast<std::size_t>(p->view_of)]];
      continue;
    }
    const Step& step = steps_[next++];
    ETUDE_CHECK(
        step.node == i && step.results == node.results && step.operands == node.operands.size(),
        "step {} of a plan is not node {}", next - 1, i);
    const Place* const results = &places_[step.first_place];
    const Place* const operands = results + step.results;
    for (std::size_t o = 0; o < node.operands.size(); ++o) {
      const GraphValue v = node.operands[o];
      Memory* const memory = v == kNoValue ? nullptr : memory_of(operands[o]);
      if (memory == nullptr) continue;
      const int64_t begin = operands[o].offset, end = begin + graph_->type(v)->bytes();
      ETUDE_CHECK(memory->holds(begin, end, writer[v]),
                  "operand {} of step {} ({}) of a plan was overwritten", o, next - 1,
                  node.op.name());
      for (uint32_t r = 0; r < node.results; ++r) {
        if (memory_of(results[r]) != memory) continue;
        const int64_t to = results[r].offset;
        const int64_t to_end = to + graph_->type(node.first_result + r)->bytes();
        if (to >= end || begin >= to_end) continue;
        const bool is_same = to == begin && to_end == end;
        ETUDE_CHECK(is_same && may_stand_over(node, *p, o, r),
                    "step {} ({}) of a plan writes over operand {}", next - 1, node.op.name(), o);
      }
    }
    for (uint32_t r = 0; r < node.results; ++r) {
      Memory* const memory = memory_of(results[r]);
      if (memory == nullptr) continue;
      const GraphValue v = node.first_result + r;
      memory->write(results[r].offset, results[r].offset + graph_->type(v)->bytes(), v);
    }
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const Place& at = outputs_[i].place;
    const bool is_there = at.home != Home::kOutput ||
                          memory_of(at)->holds(at.offset, at.offset + outputs_[i].type->bytes(),
                                               writer[graph_->outputs()[i]]);
    ETUDE_CHECK(is_there, "output {} of a plan was overwritten", i);
  }
}

}  // namespace etude::internal
