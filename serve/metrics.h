// SPDX-License-Identifier: Apache-2.0
// Counters, gauges and histograms, written as the text format of Prometheus.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
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

// Counts one more while it exists.
class CountScope {
 public:
  explicit CountScope(Counter& counter) noexcept : counter_(counter) { counter_.add(1); }
  ~CountScope() { counter_.add(-1); }
  CountScope(const CountScope&) = delete;
  CountScope& operator=(const CountScope&) = delete;

 private:
  Counter& counter_;
};

// threads: thread-safe. A reader may see an observation in one of its sums and not in the other.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds);
  void observe(double x) noexcept;
  // Appends the lines of this histogram.
  void write(std::string& to, const std::string& name, const std::string& labels) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::atomic<int64_t>> counts_;  // by bound; the last one is above all
  std::atomic<double> sum_{0};
};

// threads: thread-safe. References stay valid as long as the object.
class Metrics {
 public:
  // The metric with this name and these labels. The first call sets help and kind. Keep the
  // reference where it is used often: each call takes a lock.
  Counter& counter(std::string_view name, std::string_view help, const Labels& labels = {});
  Counter& gauge(std::string_view name, std::string_view help, const Labels& labels = {});
  Histogram& histogram(std::string_view name, std::string_view help, std::span<const double> bounds,
                       const Labels& labels = {});
  // A gauge whose value is read when the text is written. `read` must not throw, and must be valid
  // until the last call of to_text() and values(); a second call replaces it.
  void read_gauge(std::string_view name, std::string_view help, std::function<int64_t()> read);
  std::string to_text() const;
  // The counters and gauges of one name with their labels, as the text writes them without braces.
  std::vector<std::pair<std::string, int64_t>> values(std::string_view name) const;

 private:
  struct Family {
    std::string help, kind;
    std::map<std::string, std::unique_ptr<Counter>> counters;  // by the text of the labels
    std::map<std::string, std::unique_ptr<Histogram>> histograms;
    std::function<int64_t()> read;
  };
  Family& family(std::string_view name, std::string_view help, std::string_view kind);
  Counter& number(std::string_view name, std::string_view help, std::string_view kind,
                  const Labels& labels);

  mutable std::mutex mutex_;
  std::map<std::string, Family, std::less<>> families_;
};

// Counters of one name with a label "code", such as the status of an answer, below 600. The lock of
// Metrics is taken once for each code. threads: thread-safe.
class CodeCounters {
 public:
  CodeCounters(Metrics& metrics, std::string name, std::string help)
      : metrics_(metrics), name_(std::move(name)), help_(std::move(help)) {}
  // Without memory for a first counter, an answer is not counted.
  void add(int code) noexcept;

 private:
  Metrics& metrics_;
  std::string name_, help_;
  std::array<std::atomic<Counter*>, 600> known_ = {};
};

// Adds gauges of this process: its resident memory, and its open files.
void add_process_gauges(Metrics& metrics);

}  // namespace etude::serve
