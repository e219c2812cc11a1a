// SPDX-License-Identifier: Apache-2.0
#include "etude/runtime/lazy_program.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/base/hash.h"
#include "etude/base/warning.h"
#include "etude/core/convert.h"
#include "etude/graph/builder.h"
#include "etude/passes/pipeline.h"
#include "etude/passes/roll.h"

namespace etude::internal {
namespace {

constexpr std::size_t kMostFamilies = 256;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::array<uint64_t, 2> bits_of(const Tensor& x) {
  std::array<uint64_t, 2> bits{};
  std::memcpy(bits.data(), TensorAccess::data(x), static_cast<std::size_t>(x.type()->bytes()));
  return bits;
}

// Whether programs are made for this number: those that rules are made of, and that passes know.
bool is_structure(const Tensor& x) {
  if (is_complex(x.dtype())) return false;
  double value = 0;
  convert_elements(&value, kFloat64, TensorAccess::data(x), x.dtype(), 1);
  return value == 0 || value == 1 || value == -1 || value == 2;
}

std::vector<LazyNumber> numbers_of(const LazySegment& segment) {
  std::vector<LazyNumber> out;
  for (const Tensor& x : segment.numbers) out.push_back({!is_structure(x), bits_of(x)});
  return out;
}

// The whole structure. Attributes are compared beside it: their hashes stand here.
std::vector<uint64_t> words_of(const LazySegment& s) {
  std::vector<uint64_t> words(3 + 2 * s.nodes.size() + s.operands.size() + s.inputs.size() +
                              s.numbers.size() + s.outputs.size());
  uint64_t* to = words.data();
  for (const std::size_t size : {s.nodes.size(), s.inputs.size(), s.numbers.size()}) *to++ = size;
  const uint32_t* operand = s.operands.data();
  for (std::size_t i = 0; i < s.nodes.size(); ++i) {
    const uint64_t count = s.first_operand[i + 1] - s.first_operand[i];
    *to++ = s.nodes[i]->op->index() | count << 32;
    *to++ = s.nodes[i]->attrs.hash();
    for (uint64_t k = 0; k < count; ++k) *to++ = *operand++;
  }
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    *to++ = s.inputs[i].type()->id() | uint64_t{s.given[i]} << 32;
  }
  for (const Tensor& x : s.numbers) *to++ = x.type()->id();
  for (const LazySegment::Output& y : s.outputs) *to++ = s.first_value[y.node] + y.result;
  ETUDE_CHECK(to == words.data() + words.size(), "the structure of a segment has other words");
  return words;
}

// The structure but for sizes and attributes: what the segments of a family have in common.
std::vector<uint64_t> common_words(const LazySegment& s, const std::vector<LazyNumber>& numbers) {
  const auto word_of = [](const Type* type) {
    const Device device = type->device();
    return static_cast<uint64_t>(type->dtype()) | static_cast<uint64_t>(type->rank()) << 8 |
           static_cast<uint64_t>(device.kind) << 16 | uint64_t{device.index} << 24;
  };
  std::vector<uint64_t> words = {s.nodes.size(), s.inputs.size(), s.numbers.size()};
  for (std::size_t i = 0; i < s.nodes.size(); ++i) {
    words.push_back(s.nodes[i]->op->index());
    words.push_back(s.first_operand[i + 1] - s.first_operand[i]);
  }
  words.insert(words.end(), s.operands.begin(), s.operands.end());
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    words.push_back(word_of(s.inputs[i].type()) | uint64_t{s.given[i]} << 32);
  }
  for (std::size_t i = 0; i < s.numbers.size(); ++i) {
    words.push_back(word_of(s.numbers[i].type()) | uint64_t{numbers[i].is_input} << 32);
    if (!numbers[i].is_input) {
      words.insert(words.end(), numbers[i].bits.begin(), numbers[i].bits.end());
    }
  }
  for (const LazySegment::Output& y : s.outputs) words.push_back(s.first_value[y.node] + y.result);
  return words;
}

GraphRef graph_of(const LazySegment& s, const std::vector<LazyNumber>& numbers) {
  using Draft = GraphBuilder::Draft;
  GraphBuilder builder("lazy");
  std::vector<Draft> inputs, constants, values, operands;
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    inputs.push_back(builder.add_input("x" + std::to_string(i), s.inputs[i].type()));
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    constants.push_back(numbers[i].is_input
                            ? builder.add_input("n" + std::to_string(i), s.numbers[i].type())
                            : builder.add_constant(s.numbers[i]));
  }
  for (std::size_t i = 0; i < s.nodes.size(); ++i) {
    const LazyNode& node = *s.nodes[i];
    operands.clear();
    for (uint32_t k = s.first_operand[i]; k < s.first_operand[i + 1]; ++k) {
      const uint32_t code = s.operands[k], index = code & LazySegment::kIndex;
      const uint32_t kind = code & ~LazySegment::kIndex;
      operands.push_back(kind == LazySegment::kInput    ? inputs[index]
                         : kind == LazySegment::kNumber ? constants[index]
                         : kind == LazySegment::kResult ? values[index]
                                                        : GraphBuilder::kNoDraft);
    }
    Types types;
    for (const LazyResult& r : node.results) types.push_back(r.type);
    const Draft first = builder.add_node(*node.op, node.attrs, operands, types, node.where);
    for (Draft r = 0; r < types.size(); ++r) values.push_back(first + r);
  }
  std::vector<Draft> outputs;
  for (const LazySegment::Output& y : s.outputs) {
    outputs.push_back(values[s.first_value[y.node] + y.result]);
  }
  return builder.finish(outputs);
}

}  // namespace

LazyPrograms& LazyPrograms::instance() {
  static LazyPrograms* made = new LazyPrograms;  // threads may outlive static objects
  return *made;
}

void forget_programs() { LazyPrograms::instance().clear(); }

LazyPrograms::Key LazyPrograms::hash(const std::vector<uint64_t>& words) {
  if (lazy_options().force_collisions) return {0, 0};
  Key key{0x9E3779B97F4A7C15ull, 0xC2B2AE3D27D4EB4Full};
  for (const uint64_t word : words) {
    key.low = (key.low ^ word) * 0x9FB21C651E98DF25ull;
    key.low ^= key.low >> 32;
    key.high = (key.high + word) * 0xD6E8FEB86659FD93ull;
    key.high ^= key.high >> 29;
  }
  return {mix(key.low), mix(key.high)};
}

LazyPrograms::List::iterator LazyPrograms::find(const Key& key, const std::vector<uint64_t>& words,
                                                const LazySegment& segment) {
  const auto [begin, end] = by_hash_.equal_range(key);
  for (auto at = begin; at != end; ++at) {
    const LazyProgramPlan& p = **at->second;
    const auto same_attrs = [&](std::size_t i) { return p.attrs[i] == segment.nodes[i]->attrs; };
    bool is_same = p.words == words;
    for (std::size_t i = 0; is_same && i < p.attrs.size(); ++i) is_same = same_attrs(i);
    if (is_same) return at->second;
    LazyLog::instance().count(LazyCount::kCollisions);
  }
  return programs_.end();
}

LazyProgramRef LazyPrograms::find_or_make(const LazySegment& segment) {
  LazyLog& log = LazyLog::instance();
  std::vector<uint64_t> words = words_of(segment);
  std::vector<LazyNumber> numbers = numbers_of(segment);
  const Key key = hash(words);
  LazyProgramRef before;
  {
    const std::lock_guard lock(mutex_);
    const auto found = find(key, words, segment);
    if (found != programs_.end()) {
      before = *found;
      bool fits = true;
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const LazyNumber& known = before->numbers[i];
        const bool differs = !known.is_input && known.bits != numbers[i].bits;
        if (differs) log.count(LazyCount::kPromotions);
        fits = fits && !differs;
        numbers[i].is_input = known.is_input || differs;
      }
      if (fits) {
        programs_.splice(programs_.begin(), programs_, found);
        log.count(LazyCount::kHits);
        return before;
      }
    }
  }
  LazyProgramRef made = make(segment, std::move(words), std::move(numbers), before);
  if (!made) return made;
  const std::lock_guard lock(mutex_);
  if (before) {  // its constants change: it will not be found again
    std::erase_if(by_hash_, [&](const auto& entry) {
      if (entry.second->get() != before.get()) return false;
      programs_.erase(entry.second);
      return true;
    });
  }
  insert(key, made);
  return made;
}

void LazyPrograms::insert(const Key& key, const LazyProgramRef& program) {
  programs_.push_front(program);
  by_hash_.emplace(key, programs_.begin());
  while (programs_.size() > std::max<std::size_t>(1, lazy_options().max_programs)) {
    const auto last = std::prev(programs_.end());
    std::erase_if(by_hash_, [&](const auto& entry) { return entry.second == last; });
    programs_.erase(last);
  }
}

LazyFamily* LazyPrograms::find_family(const std::vector<uint64_t>& words) {
  const auto known = std::ranges::find(families_, words, &LazyFamily::words);
  if (known == families_.end()) return nullptr;
  families_.splice(families_.begin(), families_, known);
  return &families_.front();
}

// A number that happens to be 2 at these sizes, and so a constant, may be an input of the family.
bool LazyPrograms::plan_with_input(LazyProgramPlan& made, const LazySegment& segment) {
  constexpr std::size_t kMostTried = 8;
  std::size_t tried = 0;
  for (std::size_t i = 0; i < made.numbers.size() && tried < kMostTried; ++i) {
    if (made.numbers[i].is_input) continue;
    ++tried;
    std::vector<LazyNumber> numbers = made.numbers;
    numbers[i].is_input = true;
    LazyFamily* const family = find_family(common_words(segment, numbers));
    if (family == nullptr) continue;
    GraphRef graph = graph_of(segment, numbers);
    made.planned = family->serve(graph);
    if (!made.planned) continue;
    made.numbers = std::move(numbers);
    made.graph = std::move(graph);
    return true;
  }
  return false;
}

bool LazyPrograms::may_compile(CallSite where) {
  const std::size_t most = lazy_options().max_compiles;
  const std::string at = line_text(where);
  if (most == 0 || at.empty()) return true;
  const std::lock_guard lock(mutex_);
  std::size_t& count = compiles_by_line_[at];
  if (count > most) return false;
  if (++count <= most) return true;
  warn(fmt::format(
      "lazy calls that end at {} were compiled {} times; from now on those that are new run one by "
      "one. The last one was {}. Keep what changes in tensors, or raise LazyOptions::max_compiles",
      at, most, latest_reason_));
  return false;
}

std::optional<bool> LazyPrograms::plan(LazyProgramPlan& made, const LazySegment& segment) {
  bool runs_passes = true;
  if (lazy_options().families) {
    const std::lock_guard lock(families_mutex_);
    std::vector<uint64_t> words = common_words(segment, made.numbers);
    LazyFamily* family = find_family(words);
    if (family != nullptr) made.planned = family->serve(made.graph);
    runs_passes = !made.planned && !plan_with_input(made, segment);
    if (runs_passes && !may_compile(segment.where)) return std::nullopt;
    if (runs_passes) {
      if (family == nullptr) {
        family = &families_.emplace_front(std::move(words));
        if (families_.size() > kMostFamilies) families_.pop_back();
      }
      made.planned = family->extend(made.graph);
    }
  } else if (!may_compile(segment.where)) {
    return std::nullopt;
  }
  made.has_family = static_cast<bool>(made.planned);
  if (!made.has_family) {
    made.planned = run_passes(lazy_options().roll ? *roll_repeats(*made.graph) : *made.graph);
  }
  made.planned_nodes = node_count(*made.planned);
  made.plan = Plan::of_passed(*made.planned, segment.given);
  return runs_passes;
}

LazyProgramRef LazyPrograms::make(const LazySegment& segment, std::vector<uint64_t> words,
                                  std::vector<LazyNumber> numbers, LazyProgramRef like) {
  const auto start = std::chrono::steady_clock::now();
  LazyLog& log = LazyLog::instance();
  auto made = make_ref<LazyProgramPlan>();
  made->words = std::move(words);
  made->numbers = std::move(numbers);
  for (const LazyNode* node : segment.nodes) made->attrs.push_back(node->attrs);
  made->graph = graph_of(segment, made->numbers);
  const std::optional<bool> is_compiled = plan(*made, segment);
  if (!is_compiled) {
    log.count(LazyCount::kOverLimit);
    return {};
  }
  made->where = segment.where;
  made->compile_seconds = seconds_since(start);
  {
    const std::lock_guard lock(mutex_);
    made->number = ++made_;
    if (!like && !programs_.empty()) like = programs_.front();
  }
  made->reason = !like ? "it is the first"
                       : fmt::format("like program {} but {}", like->number,
                                     difference(*made->graph, *like->graph));
  if (!*is_compiled) {
    log.count(LazyCount::kHits);
    log.count(LazyCount::kFamilyHits);
    made->reason = "of a family: " + made->reason;
    return made;
  }
  if (made->has_family) made->reason += "; its family serves further sizes";
  log.count(LazyCount::kMisses);
  log.count(LazyCount::kCompiles);
  {
    const std::lock_guard lock(mutex_);
    latest_reason_ = made->reason;
  }
  const std::string at = line_text(segment.where);
  log.note_compile(made->compile_seconds, fmt::format("compile {}{}{}: {}", made->number,
                                                      at.empty() ? "" : " at ", at, made->reason));
  return made;
}

void LazyPrograms::clear() {
  List old;
  std::list<LazyFamily> families;
  {
    const std::lock_guard lock(families_mutex_);
    families.swap(families_);
  }
  const std::lock_guard lock(mutex_);
  by_hash_.clear();
  compiles_by_line_.clear();
  old.swap(programs_);
}

std::vector<LazyProgramRef> LazyPrograms::all() {
  const std::lock_guard lock(mutex_);
  std::vector<LazyProgramRef> out(programs_.begin(), programs_.end());
  std::ranges::sort(out, {}, [](const LazyProgramRef& p) { return p->number; });
  return out;
}

namespace {

std::string call_text(const Graph& graph, const Graph::Node& node) {
  const Type* type = node.results > 0 ? graph.type(node.first_result) : nullptr;
  const std::string attrs = node.attrs.to_string();
  return fmt::format("{} '{}'{}{}", type == nullptr ? "nothing" : type->to_string(), node.op.name(),
                     attrs.empty() ? "" : " with ", attrs);
}

std::string at_line(CallSite where) {
  const std::string at = line_text(where);
  return at.empty() ? "" : "; line " + at;
}

}  // namespace

std::string difference(const Graph& now, const Graph& before) {
  const std::size_t n = std::min(now.size(), before.size());
  for (std::size_t i = 0; i < n; ++i) {
    const Graph::Node a = now.node(i), b = before.node(i);
    const std::string is = call_text(now, a), was = call_text(before, b);
    if (is != was) return fmt::format("node {} is {}, was {}{}", i, is, was, at_line(a.where));
    if (!std::ranges::equal(a.operands, b.operands) &&
        now.inputs().size() == before.inputs().size()) {
      return fmt::format("node {} '{}' has other operands{}", i, a.op.name(), at_line(a.where));
    }
  }
  if (now.size() != before.size()) {
    return fmt::format("it has {} nodes, was {}", now.size(), before.size());
  }
  for (std::size_t i = 0; i < std::min(now.inputs().size(), before.inputs().size()); ++i) {
    const Type *is = now.inputs()[i].type, *was = before.inputs()[i].type;
    if (is != was)
      return fmt::format("input {} is {}, was {}", i, is->to_string(), was->to_string());
  }
  if (now.inputs().size() != before.inputs().size()) {
    return fmt::format("it has {} inputs, was {}", now.inputs().size(), before.inputs().size());
  }
  if (!std::ranges::equal(now.outputs(), before.outputs())) return "other results are still held";
  return "other inputs may be given away";
}

}  // namespace etude::internal
