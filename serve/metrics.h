// SPDX-License-Identifier: Apache-2.0
// Counters, gauges and histograms, written as the text format of Prometheus.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace etude::serve {

using Labels = std::vector<std::pair<std::string, std::string>>;

// threads: thread-safe.
class Counter {
 public:
  void add(int64_t n = 1) noexcept { value_.fetch_add(n, std::memory_order_relaxed); }
  void set(int64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }
  int64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// threads: thread-safe.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds);
  void observe(double x);
  // Appends the lines of this histogram.
  void write(std::string& to, const std::string& name, const std::string& labels) const;

 private:
  std::vector<double> bounds_;
  mutable std::mutex mutex_;
  std::vector<int64_t> counts_;  // by bound; the last one is above all
  double sum_ = 0;
};

// threads: thread-safe. References stay valid as long as the object.
class Metrics {
 public:
  // The metric with this name and these labels. The first call sets help and kind.
  Counter& counter(std::string_view name, std::string_view help, const Labels& labels = {});
  Counter& gauge(std::string_view name, std::string_view help, const Labels& labels = {});
  Histogram& histogram(std::string_view name, std::string_view help, std::span<const double> bounds,
                       const Labels& labels = {});
  std::string to_text() const;

 private:
  struct Family {
    std::string help, kind;
    std::map<std::string, std::unique_ptr<Counter>> counters;  // by the text of the labels
    std::map<std::string, std::unique_ptr<Histogram>> histograms;
  };
  Family& family(std::string_view name, std::string_view help, std::string_view kind);
  Counter& number(std::string_view name, std::string_view help, std::string_view kind,
                  const Labels& labels);

  mutable std::mutex mutex_;
  std::map<std::string, Family, std::less<>> families_;
};

}  // namespace etude::serve
