// SPDX-License-Identifier: Apache-2.0
// One version of a model that is loaded: its function, a queue of requests, and the threads that
// answer them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "etude/saved/program.h"
#include "serve/metadata.h"
#include "serve/metrics.h"
#include "serve/probe.h"
#include "serve/threads.h"
#include "serve/ticket.h"

namespace etude::serve {

struct ModelOptions {
  std::string function;  // empty: served_function() chooses
  int64_t max_rows = 1;  // rows of axis 0 that one call may have; 1: requests stay alone
  std::chrono::microseconds delay{0};  // how long a request waits for others
  int64_t queue = 256;                 // requests that may wait
  int64_t workers = 1;                 // calls of the model at the same time
  int64_t max_loop_steps = 0;          // saved::LoadOptions
};

// threads: thread-safe.
class Model {
 public:
  // throws: the errors of metadata_of() and of Threads.
  Model(std::string name, std::string version, const saved::Program& program,
        const ModelOptions& options, Metrics& metrics);
  // Answers waiting requests, then ends the threads. Must not run on one of them.
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  const ModelMetadata& metadata() const { return metadata_; }
  Joining joining() const { return joining_; }
  // Why requests are not joined; "" if they are, or if `max_rows` is 1.
  const std::string& joining_reason() const { return reason_; }
  // Why the shapes of outputs are not known; "" if they are.
  const std::string& sizes_reason() const { return sizes_reason_; }
  // The calls of the model that run at the same time: fewer than `workers` if the process gets no
  // further thread.
  std::size_t workers() const { return workers_->count(); }
  // Never null. Outlives the model where it is held.
  const std::shared_ptr<const std::vector<std::string>>& output_names() const {
    return output_names_;
  }
  // throws: the errors of check_input().
  void check(const std::string& input, DType dtype, std::span<const int64_t> shape) const {
    check_input(name_, metadata_, input, dtype, shape);
  }

  // Queues a request. False if the model takes none any more.
  // throws: the errors of check_inputs(); kUnavailable if the queue is full.
  bool submit(const std::shared_ptr<Ticket>& ticket);
  // Takes no more requests. Waiting requests are answered.
  void retire();

 private:
  void work();
  // Adds the requests of the next call; none at the end. Waits for them.
  void next_batch(std::vector<std::shared_ptr<Ticket>>& batch);
  bool has_probed_sizes(const io::NamedTensors& inputs) const;
  void take_fitting(std::vector<std::shared_ptr<Ticket>>& batch, int64_t& rows);
  void put_back_rest(std::vector<std::shared_ptr<Ticket>>& batch) noexcept;
  void run(std::vector<std::shared_ptr<Ticket>>& batch);
  void run_alone(const std::shared_ptr<Ticket>& ticket);
  Outcome call(const io::NamedTensors& inputs, const Cancellation& cancellation) const;
  void probe_joining();

  std::string name_, version_;
  saved::Function function_;
  ModelMetadata metadata_;
  std::shared_ptr<const std::vector<std::string>> output_names_;
  ModelOptions options_;
  Joining joining_ = Joining::kNone;
  std::string reason_, sizes_reason_;
  Counter &waiting_, &running_, &refused_, &calls_, &rows_;
  Histogram &seconds_, &batch_rows_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Ticket>> queue_;
  bool retired_ = false;
  std::optional<Threads> workers_;
};

}  // namespace etude::serve
