// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/fit/callbacks.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/eager/profile.h"

namespace etude::nn {
namespace {

using Clock = std::chrono::steady_clock;
using etude::internal::check_options;

bool rises(const Monitored& what) {
  if (what.rises) return *what.rises;
  for (const char* end : {"loss", "error", "perplexity"}) {
    if (what.name.ends_with(end)) return false;
  }
  return true;
}

void stop(FitState& state, std::string why) {
  state.cancel = Cancel::kFit;
  state.history.why = std::move(why);
}

}  // namespace

namespace internal {

bool Monitor::improves(const EpochRecord& epoch) {
  const double value = number_of(epoch, what_.name);
  if (std::isnan(value)) return false;
  const double gain = best_ ? (rises(what_) ? value - *best_ : *best_ - value) : INFINITY;
  if (!(gain > what_.min_delta)) return false;
  best_ = value;
  return true;
}

void check_monitored(std::string_view owner, const Monitored& what, CallSite where) {
  check_options(owner, what, where);
}

Callback plateau(const PlateauOptions& options, const std::function<void(double)>& scale,
                 const std::function<double()>& now, CallSite where) {
  check_options("reduce_on_plateau", options, where);
  check_monitored("reduce_on_plateau", options.monitor, where);
  struct Run {
    Monitor monitor;
    int64_t waited = 0, rest = 0;
  };
  auto run = std::make_shared<Run>(Run{Monitor(options.monitor)});
  return [=](Event event, FitState& state) {
    if (event != Event::kEpochEnd) return;
    const bool improves = run->monitor.improves(state.history.epochs.back());
    if (run->rest > 0) {
      --run->rest;
      run->waited = 0;
      return;
    }
    run->waited = improves ? 0 : run->waited + 1;
    if (run->waited < options.patience) return;
    run->waited = 0;
    run->rest = options.cooldown;
    const double is = now(), wanted = std::max(is * options.factor, options.min_scale);
    if (wanted < is) scale(wanted / is);
  };
}

std::optional<double> RateSearcher::next() const {
  const auto i = static_cast<double>(out_.rates.size());
  const auto last = static_cast<double>(options_.steps - 1);
  if (i > last) return std::nullopt;
  return options_.low * std::pow(options_.high / options_.low, i / last);
}

bool RateSearcher::add(double loss) {
  if (!std::isfinite(loss)) return false;
  out_.rates.push_back(*next());
  mean_ = options_.smoothing * mean_ + (1 - options_.smoothing) * loss;
  const double weight = 1 - std::pow(options_.smoothing, out_.rates.size());
  out_.losses.push_back(mean_ / weight);
  return out_.losses.back() <=
         options_.divergence * *std::min_element(out_.losses.begin(), out_.losses.end());
}

// Slopes are taken over a fifth of the search, and not in its first tenth: there the mean is of few
// batches and mostly noise.
RateSearch RateSearcher::result() && {
  const std::size_t n = out_.rates.size(), reach = std::max<std::size_t>(n / 10, 1);
  double steepest = 0;
  for (std::size_t i = 2 * reach; i + reach < n; ++i) {
    const double slope = (out_.losses[i + reach] - out_.losses[i - reach]) /
                         std::log(out_.rates[i + reach] / out_.rates[i - reach]);
    if (slope >= steepest) continue;
    steepest = slope;
    out_.suggested = out_.rates[i];
  }
  return std::move(out_);
}

void require_rate(double rate, CallSite where) {
  etude::internal::located("find_rate", where, [&] {
    ETUDE_REQUIRE(rate > 0, "the rate of the optimiser is {}, but a rate above 0 is scaled", rate);
  });
}

}  // namespace internal

Callback early_stopping(const EarlyStoppingOptions& options, CallSite where) {
  check_options("early_stopping", options, where);
  internal::check_monitored("early_stopping", options.monitor, where);
  struct Run {
    internal::Monitor monitor;
    int64_t waited = 0;
  };
  auto run = std::make_shared<Run>(Run{internal::Monitor(options.monitor)});
  return [run, patience = options.patience](Event event, FitState& state) {
    if (event != Event::kEpochEnd) return;
    run->waited = run->monitor.improves(state.history.epochs.back()) ? 0 : run->waited + 1;
    if (run->waited < patience) return;
    stop(state, fmt::format("{} has not improved for {} epochs", run->monitor.name(), patience));
  };
}

namespace {

std::string header_of(const EpochRecord& epoch) {
  std::string out = "epoch";
  for (const auto& [name, value] : numbers_of(epoch)) out += "," + name;
  return out;
}

// The first line of a file, or nothing. A pipe would make it wait.
std::string first_line(const std::string& path) {
  std::string out;
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return out;
  if (std::FILE* file = std::fopen(path.c_str(), "r")) {
    for (int c = std::fgetc(file); c != EOF && c != '\n'; c = std::fgetc(file)) {
      out += static_cast<char>(c);
    }
    std::fclose(file);
  }
  return out;
}

class CsvLog {
 public:
  CsvLog(std::string path, bool append) : path_(std::move(path)), append_(append) {}

  void write(const EpochRecord& epoch) {
    const std::string header = header_of(epoch);
    if (header_.empty() && append_) header_ = first_line(path_);
    const bool is_new = header_.empty();
    ETUDE_REQUIRE_CODE(kFailedPrecondition, is_new || header == header_,
                       "csv_log: '{}' has the columns {}, but this epoch has {}", path_, header_,
                       header);
    std::string text = is_new ? header + "\n" : "";
    text += std::to_string(epoch.epoch + 1);
    for (const auto& [name, value] : numbers_of(epoch)) text += fmt::format(",{:.9g}", value);
    put(text + "\n", is_new ? "w" : "a");
    header_ = header;
  }

 private:
  void put(const std::string& text, const char* mode) const {
    std::FILE* file = std::fopen(path_.c_str(), mode);
    const bool is_open = file != nullptr;
    bool is_written = is_open && std::fputs(text.c_str(), file) >= 0;
    if (is_open) is_written = std::fclose(file) == 0 && is_written;
    ETUDE_REQUIRE_CODE(kFailedPrecondition, is_written,
                       "csv_log: cannot write '{}'. Give a folder that is there and has room",
                       path_);
  }

  std::string path_, header_;
  bool append_;
};

}  // namespace

Callback csv_log(std::string path, const CsvLogOptions& options) {
  return [log = std::make_shared<CsvLog>(std::move(path), options.append)](Event event,
                                                                           FitState& state) {
    if (event == Event::kEpochEnd) log->write(state.history.epochs.back());
  };
}

Callback time_limit(double seconds, CallSite where) {
  etude::internal::check_range("time_limit", "seconds", seconds, above(0), where);
  return [seconds, start = std::make_shared<Clock::time_point>()](Event event, FitState& state) {
    if (event == Event::kFitStart) *start = Clock::now();
    if (event != Event::kBatchEnd) return;
    if (std::chrono::duration<double>(Clock::now() - *start).count() < seconds) return;
    stop(state, fmt::format("the time limit of {} s was reached", seconds));
  };
}

Callback profile_steps(std::string path, const ProfileStepsOptions& options, CallSite where) {
  check_options("profile_steps", options, where);
  struct Run {
    int64_t batch = 0;
    std::optional<ProfileScope> scope;
  };
  return [run = std::make_shared<Run>(), path = std::move(path), options](Event event, FitState&) {
    if (event == Event::kBatchStart && run->batch == options.first) run->scope.emplace();
    if (event == Event::kBatchEnd) ++run->batch;
    const bool ends = run->batch == options.first + options.steps || event == Event::kFitEnd;
    if (!ends || !run->scope) return;
    run->scope->profile().write_trace(path);
    run->scope.reset();
  };
}

}  // namespace etude::nn
