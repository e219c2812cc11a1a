// SPDX-License-Identifier: Apache-2.0
#include "etude/lazy/metrics.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/base/warning.h"
#include "etude/lazy/log.h"
#include "etude/lazy/program.h"

namespace etude {
namespace internal {
namespace {

constexpr std::size_t kKept = 4096;   // runs, and compiles, that are remembered
constexpr int64_t kManyLooks = 1000;  // at one line; then a warning
using Counted = std::map<std::string, int64_t>;

template <class T>
void keep(std::deque<T>& list, T item) {
  list.push_back(std::move(item));
  if (list.size() > kKept) list.pop_front();
}

}  // namespace

LazyLog& LazyLog::instance() {
  static LazyLog* made = new LazyLog;  // threads may outlive static objects
  return *made;
}

void LazyLog::note_eager(std::string_view op) {
  count(LazyCount::kEagerCalls);
  const std::lock_guard lock(mutex);
  ++eager[std::string(op)];
}

void LazyLog::note_observation(CallSite where) {
  const std::string at = line_text(where);
  int64_t looks = 0;
  {
    const std::lock_guard lock(mutex);
    looks = ++observed[at.empty() ? "an unknown line" : at];
  }
  if (looks != kManyLooks || at.empty()) return;
  warn(fmt::format(
      "a pending value was observed {} times at {}; each look cuts the trace. Keep it on the "
      "device, or read it every k steps",
      looks, at));
}

void LazyLog::note_run(int64_t nodes, double seconds) {
  const std::lock_guard lock(mutex);
  keep(runs, {nodes, seconds});
  ++runs_seen;
}

void LazyLog::note_compile(double seconds, std::string text) {
  const std::lock_guard lock(mutex);
  keep(compiles, {seconds, std::move(text)});
  ++compiles_seen;
}

std::string line_text(CallSite where) {
  if (!where.known()) return "";
  const std::string_view file = where.file;
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), where.line);
}

namespace {

LazyCounts counts_now() {
  flush_lazy_counts();
  std::array<int64_t, kLazyCounts> out{};
  LazyLog& log = LazyLog::instance();
  for (std::size_t i = 0; i < kLazyCounts; ++i) {
    out[i] = log.counts[i].load(std::memory_order_relaxed);
  }
  return std::bit_cast<LazyCounts>(out);
}

Counted since(const std::map<std::string, int64_t, std::less<>>& now, const Counted& start) {
  Counted out;
  for (const auto& [key, n] : now) {
    const auto before = start.find(key);
    const int64_t more = n - (before == start.end() ? 0 : before->second);
    if (more > 0) out.emplace(key, more);
  }
  return out;
}

// The entries from number `first` on, of `seen` in all, that are still there.
template <class T>
std::vector<T> latest(const std::deque<T>& list, uint64_t seen, uint64_t first) {
  const auto n = static_cast<std::ptrdiff_t>(std::min<uint64_t>(seen - first, list.size()));
  return std::vector<T>(list.end() - n, list.end());
}

template <class T>
LazyTimes times_of(const std::vector<T>& list, int64_t count) {
  std::vector<double> s;
  for (const T& item : list) s.push_back(item.seconds);
  if (s.empty()) return {};
  std::ranges::sort(s);
  return {count, s[s.size() / 2], s[s.size() * 9 / 10], s.back(),
          std::accumulate(s.begin(), s.end(), 0.0)};
}

std::vector<LazyRun> runs_since(uint64_t first) {
  LazyLog& log = LazyLog::instance();
  const std::lock_guard lock(log.mutex);
  return latest(log.runs, log.runs_seen, first);
}

std::vector<LazyCompile> compiles_since(uint64_t first) {
  LazyLog& log = LazyLog::instance();
  const std::lock_guard lock(log.mutex);
  return latest(log.compiles, log.compiles_seen, first);
}

std::string table_of(std::string_view title, const Counted& counted) {
  std::string out;
  for (const auto& [key, n] : counted) out += fmt::format("  {} {}: {}\n", title, key, n);
  return out;
}

std::string times_text(std::string_view name, const LazyTimes& t) {
  return fmt::format("  {}: {} times, median {:.3f} ms, 90% {:.3f} ms, most {:.3f} ms\n", name,
                     t.count, t.median * 1e3, t.p90 * 1e3, t.max * 1e3);
}

}  // namespace
}  // namespace internal

using internal::LazyLog;

void LazyMetrics::reset() {
  start_ = internal::counts_now();
  LazyLog& log = LazyLog::instance();
  const std::lock_guard lock(log.mutex);
  start_eager_ = {log.eager.begin(), log.eager.end()};
  start_observed_ = {log.observed.begin(), log.observed.end()};
  first_run_ = log.runs_seen;
  first_compile_ = log.compiles_seen;
}

LazyCounts LazyMetrics::counts() const {
  using Numbers = std::array<int64_t, internal::kLazyCounts>;
  auto now = std::bit_cast<Numbers>(internal::counts_now());
  const auto start = std::bit_cast<Numbers>(start_);
  for (std::size_t i = 0; i < now.size(); ++i) now[i] -= start[i];
  return std::bit_cast<LazyCounts>(now);
}

std::map<std::string, int64_t> LazyMetrics::eager_ops() const {
  LazyLog& log = LazyLog::instance();
  const std::lock_guard lock(log.mutex);
  return internal::since(log.eager, start_eager_);
}

std::map<std::string, int64_t> LazyMetrics::observed() const {
  LazyLog& log = LazyLog::instance();
  const std::lock_guard lock(log.mutex);
  return internal::since(log.observed, start_observed_);
}

std::vector<int64_t> LazyMetrics::segments() const {
  std::vector<int64_t> out;
  for (const internal::LazyRun& run : internal::runs_since(first_run_)) out.push_back(run.nodes);
  return out;
}

LazyTimes LazyMetrics::compile_times() const {
  return internal::times_of(internal::compiles_since(first_compile_), counts().compiles);
}

LazyTimes LazyMetrics::execute_times() const {
  return internal::times_of(internal::runs_since(first_run_), counts().executes);
}

std::vector<std::string> LazyMetrics::compiles() const {
  std::vector<std::string> out;
  for (auto& compile : internal::compiles_since(first_compile_)) {
    out.push_back(std::move(compile.text));
  }
  return out;
}

std::string LazyMetrics::to_string() const {
  const LazyCounts c = counts();
  std::string out = fmt::format(
      "lazy: {} calls recorded ({} as expected), {} dropped, {} run in {} segments\n"
      "  programs: {} compiled, {} hits ({} of further sizes), {} misses, {} collisions, {} "
      "promotions\n"
      "  cuts: {} by a look, {} by a barrier, {} automatic, {} by the end of a scope\n"
      "  observations: {}, {} of them from another thread; donations: {}; fallbacks: {}; before "
      "their program was ready: {}; beyond the limit of compiles: {}\n",
      c.recorded, c.followed, c.dropped, c.nodes, c.executes, c.compiles, c.hits, c.symbolic_hits,
      c.misses, c.collisions, c.promotions, c.observation_cuts, c.barrier_cuts, c.automatic_cuts,
      c.scope_cuts, c.observations, c.observed_elsewhere, c.donations, c.fallbacks, c.unready,
      c.over_limit);
  out += internal::times_text("compiles", compile_times());
  out += internal::times_text("runs", execute_times());
  out += internal::table_of("run at once:", eager_ops());
  out += internal::table_of("observed at", observed());
  for (const std::string& line : compiles()) out += "  " + line + "\n";
  return out;
}

std::vector<LazyProgram> LazyMetrics::programs() {
  std::vector<LazyProgram> out;
  for (const internal::LazyProgramRef& p : internal::LazyPrograms::instance().all()) {
    out.push_back({p->number, p->graph->size(), p->planned_nodes,
                   p->uses.load(std::memory_order_relaxed), p->compile_seconds,
                   p->plan->arena_bytes(), internal::line_text(p->where), p->reason});
  }
  return out;
}

std::string LazyMetrics::explain(std::size_t a, std::size_t b) {
  GraphRef first, second;
  for (const internal::LazyProgramRef& p : internal::LazyPrograms::instance().all()) {
    if (p->number == a) first = p->graph;
    if (p->number == b) second = p->graph;
  }
  ETUDE_REQUIRE_CODE(kNotFound, first && second,
                     "there is no program {} any more. LazyMetrics::programs() lists the kept "
                     "programs",
                     first ? b : a);
  return internal::difference(*second, *first);
}

}  // namespace etude
