// SPDX-License-Identifier: Apache-2.0
#include "etude/lazy/program.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/base/internal/hash.h"
#include "etude/base/warning.h"
#include "etude/core/op/tier.h"
#include "etude/passes/decisions.h"
#include "etude/passes/pipeline.h"
#include "etude/passes/roll.h"
#include "etude/passes/switches.h"
#include "etude/plan/background.h"
#include "etude/variables/init_scope.h"

namespace etude::internal {
namespace {

constexpr std::size_t kMostSymbolicGraphs = 256;
constexpr int kMostWaiting = 64;  // requested programs

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Whether programs are made in the background. They are made at once if a tier is fixed to machine
// code (codegen/compiler.h), if passes are switched off here, or if decisions have a listener.
bool makes_behind() {
  const bool wants_code = fixed_tier() > Tier::kNone;
  return lazy_options().background && !wants_code && !wants_decisions() && !has_switches_here();
}

}  // namespace

LazyPrograms& LazyPrograms::instance() {
  static LazyPrograms* made = new LazyPrograms;  // threads may outlive static objects
  return *made;
}

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
  LazyProgramRef before, like;
  uint64_t generation = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = find(key, words, segment);
    if (found != programs_.end()) {
      before = *found;
      bool fits = true;
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        LazyNumber& number = numbers[i];
        const LazyNumber& known = before->numbers[i];
        const bool differs = !known.is_input && known.bits != number.bits;
        if (differs) log.count(LazyCount::kPromotions);
        fits = fits && !differs;
        number.is_input = known.is_input || differs;
      }
      if (fits) {
        programs_.splice(programs_.begin(), programs_, found);
        log.count(LazyCount::kHits);
        return before;
      }
    }
    like = before || programs_.empty() ? before : programs_.front();
    generation = generation_;
  }
  auto program = make_ref<LazyProgramPlan>();
  program->words = std::move(words);
  program->numbers = std::move(numbers);
  for (const LazyNode* node : segment.nodes) program->attrs.push_back(node->attrs);
  program->where = segment.where;
  auto order =
      std::make_shared<const Order>(Order{LazyStructure(segment), program, like, generation});
  const bool is_behind = makes_behind();
  // With so many requests waiting, a new one would come too late: the calls run one by one this
  // time.
  if (is_behind && waiting_.load() >= kMostWaiting) return program;
  std::string warning;
  if (!is_behind && !make(*order, warning)) {
    if (!warning.empty()) warn(warning);
    return {};
  }
  {
    const std::lock_guard lock(mutex_);
    if (before) remove(*before);  // its constants change: it will not be found again
    insert(key, program);
  }
  if (!is_behind) return program;
  waiting_.fetch_add(1);
  if (!run_in_background([order] { instance().make_in_background(*order); }))
    make_in_background(*order);
  return program;
}

void LazyPrograms::remove(const LazyProgramPlan& program) {
  const auto [begin, end] = by_hash_.equal_range(hash(program.words));
  const auto entry = std::find_if(
      begin, end, [&](const auto& candidate) { return candidate.second->get() == &program; });
  if (entry == end) return;
  programs_.erase(entry->second);
  by_hash_.erase(entry);
}

void LazyPrograms::insert(const Key& key, const LazyProgramRef& program) {
  programs_.push_front(program);
  by_hash_.emplace(key, programs_.begin());
  const std::size_t most = std::max<std::size_t>(1, lazy_options().max_programs);
  while (programs_.size() > most) remove(*programs_.back());
}

LazySymbolicGraph* LazyPrograms::find_symbolic(const std::vector<uint64_t>& words) {
  const auto known = std::ranges::find(symbolic_graphs_, words, &LazySymbolicGraph::words);
  if (known == symbolic_graphs_.end()) return nullptr;
  symbolic_graphs_.splice(symbolic_graphs_.begin(), symbolic_graphs_, known);
  return &symbolic_graphs_.front();
}

// A number that happens to be 2 at these sizes, and so a constant, may be an input of the symbolic
// graph.
bool LazyPrograms::plan_with_input(Made& made, const LazyStructure& structure) {
  constexpr std::size_t kMostTried = 8;
  std::size_t tried = 0;
  for (std::size_t i = 0; i < made.numbers.size() && tried < kMostTried; ++i) {
    if (made.numbers[i].is_input) continue;
    ++tried;
    std::vector<LazyNumber> numbers = made.numbers;
    numbers[i].is_input = true;
    LazySymbolicGraph* const symbolic = find_symbolic(structure.common_words(numbers));
    if (symbolic == nullptr) continue;
    GraphRef graph = structure.graph(numbers);
    made.planned = symbolic->serve(graph);
    if (!made.planned) continue;
    made.numbers = std::move(numbers);
    made.graph = std::move(graph);
    return true;
  }
  return false;
}

bool LazyPrograms::may_compile(CallSite where, std::string& warning) {
  const std::size_t most = lazy_options().max_compiles;
  const std::string at = line_text(where);
  if (most == 0 || at.empty()) return true;
  const std::lock_guard lock(mutex_);
  std::size_t& count = compiles_by_line_[at];
  if (count > most) return false;
  if (++count <= most) return true;
  warning = fmt::format(
      "lazy calls that end at {} were compiled {} times; from now on new sequences run call by "
      "call. The last reason was: {}. Keep changing numbers in tensors, or raise "
      "LazyOptions::max_compiles",
      at, most, latest_reason_);
  return false;
}

bool LazyPrograms::plan(Made& made, const LazyStructure& structure) {
  if (lazy_options().symbolic_shapes) {
    const std::lock_guard lock(symbolic_mutex_);
    std::vector<uint64_t> words = structure.common_words(made.numbers);
    LazySymbolicGraph* symbolic = find_symbolic(words);
    if (symbolic != nullptr) made.planned = symbolic->serve(made.graph);
    made.is_compiled = !made.planned && !plan_with_input(made, structure);
    if (made.is_compiled && !may_compile(structure.where, made.warning)) return false;
    if (made.is_compiled) {
      if (symbolic == nullptr) {
        symbolic = &symbolic_graphs_.emplace_front(std::move(words));
        if (symbolic_graphs_.size() > kMostSymbolicGraphs) symbolic_graphs_.pop_back();
      }
      made.planned = symbolic->extend(made.graph);
    }
  } else if (!may_compile(structure.where, made.warning)) {
    return false;
  }
  made.has_symbolic = static_cast<bool>(made.planned);
  if (!made.has_symbolic) {
    made.planned = run_passes(lazy_options().roll ? *roll_repeats(*made.graph) : *made.graph);
  }
  made.plan = Plan::of_passed(*made.planned, structure.given);
  return true;
}

bool LazyPrograms::make(const Order& order, std::string& warning) {
  const auto start = std::chrono::steady_clock::now();
  Made made;
  made.numbers = order.program->numbers;
  made.graph = order.structure.graph(made.numbers);
  if (!plan(made, order.structure)) {
    warning = std::move(made.warning);
    LazyLog::instance().count(LazyCount::kOverLimit);
    return false;
  }
  note_made(order, made, seconds_since(start));
  return true;
}

void LazyPrograms::note_made(const Order& order, const Made& made, double seconds) {
  LazyProgramPlan& program = *order.program;
  const std::size_t nodes = node_count(*made.planned);
  GraphRef like;
  uint64_t like_number = 0;
  if (order.like) {
    const std::lock_guard lock(mutex_);
    like = order.like->graph;
    like_number = order.like->number;
  }
  std::string reason =
      !like ? "it is the first"
            : fmt::format("like program {} but {}", like_number, difference(*made.graph, *like));
  if (!made.is_compiled) {
    reason = "of a symbolic graph: " + reason;
  } else if (made.has_symbolic) {
    reason += "; its symbolic graph serves further sizes";
  }
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = program.number = ++made_;
    program.numbers = made.numbers;
    program.graph = made.graph;
    program.planned = made.planned;
    program.planned_nodes = nodes;
    program.plan = made.plan;
    program.compile_seconds = seconds;
    program.reason = reason;
    program.state.store(LazyProgramPlan::State::kReady, std::memory_order_release);
    if (made.is_compiled) latest_reason_ = reason;
  }
  LazyLog& log = LazyLog::instance();
  log.count(made.is_compiled ? LazyCount::kMisses : LazyCount::kHits);
  log.count(made.is_compiled ? LazyCount::kCompiles : LazyCount::kSymbolicHits);
  if (!made.is_compiled) return;
  const std::string at = line_text(program.where);
  log.note_compile(seconds,
                   fmt::format("compile {}{}{}: {}", number, at.empty() ? "" : " at ", at, reason));
}

void LazyPrograms::make_in_background(const Order& order) noexcept {
  waiting_.fetch_sub(1);
  std::string warning;
  std::optional<Error> failure;
  try {
    make_alone(order, warning, failure);
    // Without locks: a handler of warnings may wait for programs.
    if (failure) warn_failed_program(*failure);
    if (!warning.empty()) warn(warning);
  } catch (...) {  // of a handler, and no call waits for this program
  }
}

void LazyPrograms::make_alone(const Order& order, std::string& warning,
                              std::optional<Error>& failure) {
  const std::lock_guard one_at_a_time(background_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (order.generation != generation_) return;
  }
  try {
    lazy_this_thread();  // now, so that its first call is not recorded
    const OutsideScope outside;
    if (make(order, warning)) return;
  } catch (const Error& error) {
    failure = error;
  } catch (const std::exception&) {
  }
  order.program->state.store(LazyProgramPlan::State::kFailed, std::memory_order_release);
  // It would fail again, unless memory was short.
  if (failure && failure->code() != ErrorCode::kResourceExhausted) return;
  const std::lock_guard lock(mutex_);
  remove(*order.program);
}

void LazyPrograms::clear(FunctionRef<void()> change) {
  const std::lock_guard none_is_made(background_mutex_);
  List old;
  std::list<LazySymbolicGraph> symbolic_graphs;
  {
    const std::lock_guard lock(symbolic_mutex_);
    symbolic_graphs.swap(symbolic_graphs_);
  }
  const std::lock_guard lock(mutex_);
  ++generation_;
  by_hash_.clear();
  compiles_by_line_.clear();
  old.swap(programs_);
  change();
}

std::vector<LazyProgramRef> LazyPrograms::all() {
  const std::lock_guard lock(mutex_);
  std::vector<LazyProgramRef> out;
  std::ranges::copy_if(programs_, std::back_inserter(out), &LazyProgramPlan::is_ready,
                       [](const LazyProgramRef& p) -> const LazyProgramPlan& { return *p; });
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
