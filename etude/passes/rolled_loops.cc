// SPDX-License-Identifier: Apache-2.0
#include "etude/passes/rolled_loops.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "etude/base/internal/hash.h"
#include "etude/core/internal/host_door.h"
#include "etude/passes/graph_copy.h"
#include "etude/passes/repeats.h"

namespace etude::internal {
namespace {

using From = RolledLoop::From;

// Shorter stretches are planned unrolled, so that neighbouring computations are fused into one pass
// over memory.
constexpr std::size_t kLeastRepeats = 16;
constexpr std::size_t kLeastSaved = 256;  // nodes
// Repetitions are grouped to steps of this many nodes, so that passes find most of their matches
// within a step.
constexpr std::size_t kStepNodes = 64;
constexpr std::size_t kLeastSteps = 4;
// The maximum number of stretches that look like loops but are not, before the search ends.
constexpr int kMostFailures = 32;

class LoopFinder {
 public:
  LoopFinder(const Graph& graph, const std::vector<bool>& stays)
      : graph_(graph),
        reads_inputs_(find_readers_of_inputs(graph)),
        repeats_(hashes(graph, stays), kLeastRepeats, kLeastSaved) {
    number_constants();
    find_last_readers();
  }

  std::vector<RolledLoop> find() {
    int failures = 0;
    for (std::size_t from = 0; failures < kMostFailures;) {
      const Repeat repeat = repeats_.next(from);
      if (repeat.count == 0) break;
      if (std::optional<RolledLoop> loop = loop_of(repeat)) {
        from = loop->end();
        add(*std::move(loop));
      } else {
        ++failures;
        from = repeat.first + std::max(repeat.period, repeat.count * repeat.period / 4);
      }
    }
    return std::move(loops_);
  }

 private:
  struct RowPlace {
    int32_t loop;
    uint32_t kept;
    std::size_t row;
  };

  static std::vector<bool> find_readers_of_inputs(const Graph& graph) {
    std::vector<bool> out;
    for (std::size_t i = 0; i < graph.size(); ++i) {
      const auto is_given = [&](GraphValue v) { return v == kNoValue || v < graph.first_result(); };
      out.push_back(std::ranges::all_of(graph.node(i).operands, is_given));
    }
    return out;
  }

  std::vector<uint64_t> hashes(const Graph& graph, const std::vector<bool>& stays) const {
    std::vector<uint64_t> out;
    for (std::size_t i = 0; i < graph.size(); ++i) {
      const Graph::Node node = graph.node(i);
      // Nodes that read only inputs may differ in their attributes.
      uint64_t h = mix(node.op.index(), reads_inputs_[i] ? 0 : node.attrs.hash());
      for (const GraphValue v : node.operands) {
        h = mix(h, v == kNoValue ? 0 : graph.type(v)->id());
      }
      for (uint32_t r = 0; r < node.results; ++r) {
        const Type* const type = graph.type(node.first_result + r);
        h = mix(h, type == nullptr ? 0 : type->id());
      }
      // Nodes that must stay in place are equal to no other node.
      const bool is_alone = stays[i] || node.results == 0 || has_effects(node.op, node.attrs) ||
                            std::ranges::count(result_types(graph, node), nullptr) > 0;
      out.push_back(is_alone ? mix(h, i + 1) : h);
    }
    return out;
  }

  // Equal numbers are the same value.
  void number_constants() {
    constexpr int64_t kMostBytes = 16;
    std::map<std::pair<const Type*, std::string>, GraphValue> known;
    for (std::size_t c = 0; c < graph_.constants().size(); ++c) {
      const Tensor& x = graph_.constants()[c];
      const auto v = graph_.first_constant() + static_cast<GraphValue>(c);
      one_of_.push_back(v);
      const auto bytes = static_cast<std::size_t>(x.type()->bytes());
      if (x.type()->bytes() > kMostBytes || !x.device().is_home()) continue;
      std::string bits(static_cast<const char*>(host_elements(x)), bytes);
      one_of_.back() = known.try_emplace({x.type(), std::move(bits)}, v).first->second;
    }
  }
  GraphValue one(GraphValue v) const {
    return v != kNoValue && graph_.is_constant(v) ? one_of_[v - graph_.first_constant()] : v;
  }
  bool are_one(GraphValue a, GraphValue b) const { return one(a) == one(b); }

  void find_last_readers() {
    last_reader_.resize(graph_.value_count(), 0);
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Graph::Node node = graph_.node(i);
      node_of_.insert(node_of_.end(), node.results, i);
      for (const GraphValue v : node.operands) {
        if (v != kNoValue) last_reader_[v] = i;
      }
    }
    for (const GraphValue v : graph_.outputs()) {
      if (v != kNoValue) last_reader_[v] = graph_.size();
    }
  }
  bool is_read_behind(const RolledLoop& l, GraphValue v) const {
    return last_reader_[v] >= l.end();
  }

  static bool is_worth_it(const RolledLoop& l) {
    const auto before = static_cast<std::size_t>(std::ranges::count(l.is_before, true));
    return l.count >= kLeastSteps && (l.count - 1) * (l.period - before) >= kLeastSaved;
  }

  // A loop from a stretch. Repetitions at its ends whose operands have other sources are left out.
  std::optional<RolledLoop> loop_of(const Repeat& repeat) {
    const std::size_t own = (kStepNodes + repeat.period - 1) / repeat.period;
    // Steps of one loop are rows of another if both have equal numbers of repetitions.
    std::vector<std::size_t> units(units_.rbegin(), units_.rend());
    for (const std::size_t unit : {own, 2 * own}) {
      if (std::ranges::find(units, unit) == units.end()) units.push_back(unit);
    }
    constexpr std::array<std::array<std::size_t, 2>, 4> kTrims = {{{0, 0}, {0, 1}, {1, 0}, {1, 1}}};
    for (const std::size_t unit : units) {
      const std::size_t steps = repeat.count / unit, period = unit * repeat.period;
      for (const auto& [front, back] : kTrims) {
        if (steps < kLeastSteps + front + back) continue;
        std::optional<RolledLoop> loop =
            longest(repeat.first + front * period, period, steps - front - back);
        if (!loop) break;  // with less at its ends there is none either
        if (!settle(*loop)) continue;
        unit_ = unit;
        return loop;
      }
    }
    return std::nullopt;
  }

  // The longest prefix of the stretch whose steps have the same sources, if it has enough steps.
  std::optional<RolledLoop> longest(std::size_t first, std::size_t period,
                                    std::size_t count) const {
    while (count >= kLeastSteps) {
      RolledLoop loop = begin(first, period);
      while (loop.count < count && reads_alike(loop, loop.count)) ++loop.count;
      if (is_worth_it(loop)) return loop;
      const std::size_t done = std::max<std::size_t>(loop.count, 2) - 1;
      first += done * period;
      count -= done;
    }
    return std::nullopt;
  }

  RolledLoop begin(std::size_t first, std::size_t period) const {
    RolledLoop loop;
    loop.first = first;
    loop.period = period;
    loop.count = 1;
    loop.first_value = graph_.node(first).first_result;
    std::size_t operands = 0;
    for (std::size_t j = 0; j < period; ++j) {
      const Graph::Node node = graph_.node(first + j);
      loop.values += node.results;
      operands += node.operands.size();
    }
    loop.reads.resize(operands);
    loop.is_before.resize(period);
    return loop;
  }

  bool are_alike(const Graph::Node& a, const Graph::Node& b) const {
    if (&a.op != &b.op || a.operands.size() != b.operands.size() || a.results != b.results) {
      return false;
    }
    for (uint32_t r = 0; r < a.results; ++r) {
      if (graph_.type(a.first_result + r) != graph_.type(b.first_result + r)) return false;
    }
    for (std::size_t o = 0; o < a.operands.size(); ++o) {
      const GraphValue v = a.operands[o], w = b.operands[o];
      if ((v == kNoValue) != (w == kNoValue)) return false;
      if (v != kNoValue && graph_.type(v) != graph_.type(w)) return false;
    }
    return true;
  }

  // Whether step k has the same sources as the steps before it; records the sources in `reads`.
  bool reads_alike(RolledLoop& l, std::size_t k) const {
    std::size_t at = 0;
    for (std::size_t j = 0; j < l.period; ++j) {
      const Graph::Node first = graph_.node(l.first + j);
      const Graph::Node before = graph_.node(l.first + (k - 1) * l.period + j);
      const Graph::Node now = graph_.node(l.first + k * l.period + j);
      if (!are_alike(first, now)) return false;
      if (l.is_before[j] || !(first.attrs == now.attrs)) {
        // Detected in the second step, or not at all.
        if (k > 1 && !l.is_before[j]) return false;
        if (!reads_inputs_[l.first + j] || !reads_inputs_[l.first + k * l.period + j]) return false;
        l.is_before[j] = true;
        at += now.operands.size();
        continue;
      }
      for (std::size_t o = 0; o < now.operands.size(); ++o) {
        const GraphValue was = k > 1 ? before.operands[o] : kNoValue;
        if (!reads_alike(l, k, l.reads[at++].from, first.operands[o], was, now.operands[o])) {
          return false;
        }
      }
    }
    return true;
  }
  // Steps read earlier nodes only: a value that is not older than the stretch belongs to it.
  bool is_from_outside(const RolledLoop& l, GraphValue v) const {
    if (v == kNoValue || v < l.first_value) return true;
    const std::size_t node = node_of_[v - graph_.first_result()];
    return l.is_before[(node - l.first) % l.period];
  }
  // Checks one operand: in the first step, in the previous step (from the third step on), and now.
  bool reads_alike(const RolledLoop& l, std::size_t k, From& from, GraphValue first, GraphValue was,
                   GraphValue is) const {
    const auto is_outside = [&](GraphValue v) { return is_from_outside(l, v); };
    const bool is_second = k == 1;
    From now = From::kSame;
    if (is_outside(is)) {
      if (!is_outside(first)) return false;
      // A row stays a row, even if a step has the value of the first step.
      const bool is_row = (!is_second && from == From::kRow) || !are_one(first, is);
      now = is_row ? From::kRow : From::kSame;
      if (!is_second && from == From::kSame) from = now;
    } else {
      const std::size_t step = (is - l.first_value) / l.values;
      if (step == k) {
        now = From::kStep;
        if (is_outside(first) || is != l.value(first, k)) return false;
      } else if (step + 1 == k) {
        now = From::kCarried;
        if (!is_outside(first) || first == kNoValue) return false;
        if (!is_second && is != l.value(was, 1)) return false;
      } else {
        return false;
      }
    }
    if (is_second) from = now;
    return from == now;
  }

  // Completes the loop from the sources of its operands. False if it cannot be a loop.
  bool settle(RolledLoop& l) {
    find_carried(l);
    leave_last_step(l);
    return is_worth_it(l) && find_residuals(l) && find_outside(l);
  }

  // Calls f(operand of the first step, operand of step k, Read) for each operand.
  template <class F>
  void each_read(RolledLoop& l, std::size_t k, F&& f) const {
    std::size_t at = 0;
    for (std::size_t j = 0; j < l.period; ++j) {
      const auto first = graph_.node(l.first + j).operands;
      const auto other = graph_.node(l.first + k * l.period + j).operands;
      for (std::size_t o = 0; o < first.size(); ++o) f(first[o], other[o], l.reads[at++]);
    }
  }

  template <class T>
  static uint32_t place_in(std::vector<T>& list, const T& item) {
    const auto at = std::ranges::find(list, item) - list.begin();
    if (static_cast<std::size_t>(at) == list.size()) list.push_back(item);
    return static_cast<uint32_t>(at);
  }

  void find_carried(RolledLoop& l) const {
    each_read(l, 1, [&](GraphValue first, GraphValue second, RolledLoop::Read& read) {
      if (read.from == From::kStep) read.index = first;
      if (read.from == From::kCarried) {
        read.index = place_in(l.carried, RolledLoop::Carried{second, one(first)});
      }
    });
  }
  static bool is_carried(const RolledLoop& l, GraphValue result) {
    return std::ranges::find(l.carried, result, &RolledLoop::Carried::result) != l.carried.end();
  }

  // The number of steps whose instance of this result is read after the loop.
  std::size_t reads_behind(const RolledLoop& l, GraphValue result) const {
    std::size_t out = 0;
    for (std::size_t k = 0; k < l.count; ++k) out += is_read_behind(l, l.value(result, k)) ? 1 : 0;
    return out;
  }

  // If only the last instance of a result is read after the loop, and the result is not carried,
  // the scan would store all instances. Then the last step stays outside the loop.
  void leave_last_step(RolledLoop& l) const {
    for (GraphValue v = l.first_value; v < l.first_value + l.values; ++v) {
      if (is_from_outside(l, v) || is_carried(l, v) || !is_read_behind(l, l.value(v, l.count - 1)))
        continue;
      if (reads_behind(l, v) > 1) continue;
      --l.count;
      return;
    }
  }

  bool find_residuals(RolledLoop& l) const {
    for (GraphValue v = l.first_value; v < l.first_value + l.values; ++v) {
      if (is_from_outside(l, v)) continue;
      const std::size_t reads = reads_behind(l, v);
      const bool is_last = is_read_behind(l, l.value(v, l.count - 1));
      if (reads == 0 || (reads == 1 && is_last && is_carried(l, v))) continue;
      const int64_t bytes = graph_.type(v)->bytes() * static_cast<int64_t>(l.count);
      if (bytes > kMostCopiedRows && 2 * reads < l.count) return false;
      l.kept.push_back(v);
    }
    return true;
  }

  // Collects the values from outside: invariants and rows.
  bool find_outside(RolledLoop& l) {
    std::vector<RolledLoop::Row> found;
    std::size_t at = 0;
    for (std::size_t j = 0; j < l.period; ++j) {
      for (std::size_t o = 0; o < graph_.node(l.first + j).operands.size(); ++o, ++at) {
        RolledLoop::Read& read = l.reads[at];
        if (read.from != From::kSame && read.from != From::kRow) continue;
        RolledLoop::Row row;
        for (std::size_t k = 0; k < (read.from == From::kRow ? l.count : 1); ++k) {
          row.values.push_back(one(graph_.node(l.first + k * l.period + j).operands[o]));
        }
        const GraphValue first = row.values.front();
        const bool is_same =
            std::ranges::all_of(row.values, [&](GraphValue v) { return v == first; });
        read.from = is_same ? From::kSame : From::kRow;
        read.index = is_same ? place_in(l.same, first) : place_of(found, std::move(row));
      }
    }
    l.rows = std::move(found);
    return find_sources(l);
  }
  static uint32_t place_of(std::vector<RolledLoop::Row>& list, RolledLoop::Row row) {
    const auto at = std::ranges::find(list, row.values, &RolledLoop::Row::values) - list.begin();
    if (static_cast<std::size_t>(at) == list.size()) list.push_back(std::move(row));
    return static_cast<uint32_t>(at);
  }

  // Rows of an earlier loop in the same order (1), in reverse order (-1), or neither (0).
  int direction_of(const RolledLoop::Row& row) const {
    const auto first = rows_.find(row.values.front()), second = rows_.find(row.values[1]);
    if (first == rows_.end() || second == rows_.end()) return 0;
    const auto step =
        static_cast<int64_t>(second->second.row) - static_cast<int64_t>(first->second.row);
    if (step != 1 && step != -1) return 0;
    for (std::size_t k = 0; k < row.values.size(); ++k) {
      const auto found = rows_.find(row.values[k]);
      if (found == rows_.end() || found->second.loop != first->second.loop ||
          found->second.kept != first->second.kept ||
          static_cast<int64_t>(found->second.row) !=
              static_cast<int64_t>(first->second.row) + step * static_cast<int64_t>(k)) {
        return 0;
      }
    }
    return static_cast<int>(step);
  }

  bool find_sources(RolledLoop& l) const {
    std::vector<int> directions;
    for (const RolledLoop::Row& row : l.rows) directions.push_back(direction_of(row));
    l.is_reverse = std::ranges::count(directions, -1) > std::ranges::count(directions, 1);
    for (std::size_t r = 0; r < l.rows.size(); ++r) {
      RolledLoop::Row& row = l.rows[r];
      if (directions[r] == (l.is_reverse ? -1 : 1)) {
        const RowPlace place = rows_.at(l.is_reverse ? row.values.back() : row.values.front());
        row.loop = place.loop;
        row.kept = place.kept;
        row.first = place.row;
        continue;
      }
      const int64_t bytes = graph_.type(row.values.front())->bytes();
      if (bytes * static_cast<int64_t>(l.count) > kMostCopiedRows) return false;
    }
    return true;
  }

  void add(RolledLoop loop) {
    const auto number = static_cast<int32_t>(loops_.size());
    for (uint32_t i = 0; i < loop.kept.size(); ++i) {
      for (std::size_t k = 0; k < loop.count; ++k) {
        rows_[loop.value(loop.kept[i], k)] = {number, i, loop.row_of(k)};
      }
    }
    if (std::ranges::find(units_, unit_) == units_.end()) units_.push_back(unit_);
    loops_.push_back(std::move(loop));
  }

  const Graph& graph_;
  const std::vector<bool> reads_inputs_;  // by node: whether it reads inputs and constants alone
  RepeatFinder repeats_;
  std::vector<std::size_t> node_of_;      // by result of a node
  std::vector<GraphValue> one_of_;        // by constant: the first one of its bits
  std::vector<std::size_t> last_reader_;  // by value: a node; the number of nodes for an output
  std::vector<RolledLoop> loops_;
  std::unordered_map<GraphValue, RowPlace> rows_;  // kept values of loops
  std::vector<std::size_t> units_;                 // of loops: repetitions in a step
  std::size_t unit_ = 0;
};

}  // namespace

std::vector<RolledLoop> find_loops(const Graph& graph, const std::vector<bool>& stays) {
  return LoopFinder(graph, stays).find();
}

}  // namespace etude::internal
