// SPDX-License-Identifier: Apache-2.0
#include "serve/metrics.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

namespace etude::serve {
namespace {

// {model="a",version="1"} as Prometheus quotes it; "" without labels.
std::string text_of(const Labels& labels) {
  std::string out;
  for (const auto& [key, value] : labels) {
    if (!out.empty()) out += ',';
    out += key + "=\"";
    for (const char c : value) {
      if (c == '\n') {
        out += "\\n";
        continue;
      }
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    out += '"';
  }
  return out;
}

// A failure leaves no entry without its value.
template <class T, class... A>
T& find_or_make(std::map<std::string, std::unique_ptr<T>>& all, const Labels& labels, A... args) {
  const std::string text = text_of(labels);
  const auto found = all.find(text);
  if (found != all.end()) return *found->second;
  return *all.emplace(text, std::make_unique<T>(args...)).first->second;
}

std::string braces(const std::string& labels) {
  return labels.empty() ? "" : fmt::format("{{{}}}", labels);
}

}  // namespace

Histogram::Histogram(std::span<const double> bounds)
    : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1) {}

void Histogram::observe(double x) noexcept {
  const auto at = std::ranges::lower_bound(bounds_, x) - bounds_.begin();
  counts_[static_cast<std::size_t>(at)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(x, std::memory_order_relaxed);
}

void Histogram::write(std::string& to, const std::string& name, const std::string& labels) const {
  const std::string before = labels.empty() ? "" : labels + ",";
  int64_t total = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    total += counts_[i].load(std::memory_order_relaxed);
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    fmt::format_to(std::back_inserter(to), "{}_bucket{{{}le=\"{}\"}} {}\n", name, before, bound,
                   total);
  }
  fmt::format_to(std::back_inserter(to), "{0}_sum{1} {2}\n{0}_count{1} {3}\n", name, braces(labels),
                 sum_.load(std::memory_order_relaxed), total);
}

Metrics::Family& Metrics::family(std::string_view name, std::string_view help,
                                 std::string_view kind) {
  auto found = families_.find(name);
  if (found == families_.end()) found = families_.emplace(name, Family{}).first;
  if (found->second.kind.empty()) {
    found->second.help = help;
    found->second.kind = kind;
  }
  return found->second;
}

Counter& Metrics::number(std::string_view name, std::string_view help, std::string_view kind,
                         const Labels& labels) {
  const std::lock_guard lock(mutex_);
  return find_or_make(family(name, help, kind).counters, labels);
}

Counter& Metrics::counter(std::string_view name, std::string_view help, const Labels& labels) {
  return number(name, help, "counter", labels);
}

Counter& Metrics::gauge(std::string_view name, std::string_view help, const Labels& labels) {
  return number(name, help, "gauge", labels);
}

Histogram& Metrics::histogram(std::string_view name, std::string_view help,
                              std::span<const double> bounds, const Labels& labels) {
  const std::lock_guard lock(mutex_);
  return find_or_make(family(name, help, "histogram").histograms, labels, bounds);
}

void Metrics::read_gauge(std::string_view name, std::string_view help,
                         std::function<int64_t()> read) {
  const std::lock_guard lock(mutex_);
  family(name, help, "gauge").read = std::move(read);
}

std::string Metrics::to_text() const {
  const std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& [name, family] : families_) {
    fmt::format_to(std::back_inserter(out), "# HELP {0} {1}\n# TYPE {0} {2}\n", name, family.help,
                   family.kind);
    if (family.read) fmt::format_to(std::back_inserter(out), "{} {}\n", name, family.read());
    for (const auto& [labels, counter] : family.counters) {
      fmt::format_to(std::back_inserter(out), "{}{} {}\n", name, braces(labels), counter->value());
    }
    for (const auto& [labels, histogram] : family.histograms) histogram->write(out, name, labels);
  }
  return out;
}

std::vector<std::pair<std::string, int64_t>> Metrics::values(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, int64_t>> out;
  const auto found = families_.find(name);
  if (found == families_.end()) return out;
  if (found->second.read) out.emplace_back("", found->second.read());
  for (const auto& [labels, counter] : found->second.counters) {
    out.emplace_back(labels, counter->value());
  }
  return out;
}

void CodeCounters::add(int code) noexcept {
  std::atomic<Counter*>& known = known_.at(static_cast<std::size_t>(code));
  Counter* counter = known.load(std::memory_order_acquire);
  try {
    if (counter == nullptr) {
      counter = &metrics_.counter(name_, help_, {{"code", std::to_string(code)}});
      known.store(counter, std::memory_order_release);
    }
    counter->add();
  } catch (const std::bad_alloc&) {  // the next one may be counted
  }
}

void add_process_gauges(Metrics& metrics) {
  metrics.read_gauge("process_resident_memory_bytes", "Resident memory of the server.", [] {
    // Sizes in pages: of the program, and resident.
    std::ifstream in("/proc/self/statm");
    int64_t program = 0, resident = 0;
    in >> program >> resident;
    return resident * static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
  });
  metrics.read_gauge("process_open_fds", "Open files and sockets of the server.", [] {
    std::error_code ignored;
    int64_t out = 0;
    for (std::filesystem::directory_iterator at("/proc/self/fd", ignored), end;
         !ignored && at != end; at.increment(ignored)) {
      ++out;
    }
    return out;
  });
}

}  // namespace etude::serve
