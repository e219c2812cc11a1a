// SPDX-License-Identifier: Apache-2.0
#include "serve/model.h"

#include <algorithm>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "etude/core/context/ambient.h"
#include "serve/joining.h"
#include "serve/refuse.h"

namespace etude::serve {
namespace {

constexpr double kSeconds[] = {1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1, 3, 10, 30};
constexpr double kRowCounts[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

// Whether there is memory for one more.
bool has_room(std::vector<std::shared_ptr<Ticket>>& batch) noexcept {
  try {
    if (batch.size() == batch.capacity()) batch.reserve(std::max<std::size_t>(1, 2 * batch.size()));
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

std::shared_ptr<const std::vector<std::string>> names_of(const std::vector<TensorMetadata>& all) {
  auto out = std::make_shared<std::vector<std::string>>();
  for (const TensorMetadata& each : all) out->push_back(each.name);
  return out;
}

}  // namespace

Model::Model(std::string name, std::string version, const saved::Program& program,
             const ModelOptions& options, Metrics& metrics)
    : name_(std::move(name)),
      version_(std::move(version)),
      function_(served_function(program, options.function)),
      metadata_(metadata_of(program, function_)),
      output_names_(names_of(metadata_.outputs)),
      options_(options),
      waiting_(metrics.gauge("etude_serve_waiting", "Requests in the queue of a model.",
                             {{"model", name_}, {"version", version_}})),
      running_(metrics.gauge("etude_serve_running", "Calls of a model that are running.",
                             {{"model", name_}, {"version", version_}})),
      refused_(metrics.counter("etude_serve_queue_full_total",
                               "Requests that were refused since the queue was full.",
                               {{"model", name_}, {"version", version_}})),
      calls_(metrics.counter("etude_serve_calls_total", "Calls of a model.",
                             {{"model", name_}, {"version", version_}})),
      rows_(metrics.counter("etude_serve_requests_total", "Requests that a model has answered.",
                            {{"model", name_}, {"version", version_}})),
      seconds_(metrics.histogram("etude_serve_request_seconds",
                                 "Time from the queue to the answer of a request.", kSeconds,
                                 {{"model", name_}, {"version", version_}})),
      batch_rows_(metrics.histogram("etude_serve_joined_requests",
                                    "Requests that one call has answered.", kRowCounts,
                                    {{"model", name_}, {"version", version_}})) {
  const PhaseScope phase(Phase::kInference);
  sizes_reason_ = find_output_sizes(
      metadata_, [this](const io::NamedTensors& inputs) { return function_.call_named(inputs); });
  if (options_.max_rows > 1) probe_joining();
  workers_.emplace("calls of model '" + name_ + "'", std::max<int64_t>(options_.workers, 1),
                   [this](const auto&) { work(); });
}

Model::~Model() {
  retire();
  workers_->join();
}

void Model::retire() {
  {
    const std::lock_guard lock(mutex_);
    retired_ = true;
  }
  changed_.notify_all();
}

// A graph for all sizes comes with special graphs for the sizes 0 and 1, which the probe did not
// call.
bool Model::has_probed_sizes(const io::NamedTensors& inputs) const {
  return std::ranges::all_of(metadata_.inputs, [&](const TensorMetadata& each) {
    const Shape& shape = inputs.at(each.name).shape();
    for (std::size_t i = 1; i < each.shape.size(); ++i) {
      if (each.shape[i] < 0 && shape[static_cast<int>(i)] < 2) return false;
    }
    return true;
  });
}

bool Model::submit(const std::shared_ptr<Ticket>& ticket) {
  check_inputs(name_, metadata_, ticket->inputs());
  {
    const std::lock_guard lock(mutex_);
    if (retired_) return false;
    if (static_cast<int64_t>(queue_.size()) >= options_.queue) {
      std::erase_if(queue_, [](const auto& waiting) { return waiting->is_answered(); });
    }
    if (static_cast<int64_t>(queue_.size()) >= options_.queue) {
      refused_.add();
      refuse(ErrorCode::kUnavailable,
             "model '{}' has {} requests in its queue, which is its limit (--queue). Ask again "
             "later",
             name_, queue_.size());
    }
    queue_.push_back(ticket);
    waiting_.set(static_cast<int64_t>(queue_.size()));
  }
  changed_.notify_all();  // a worker that waits for fitting requests may leave this one to another
  return true;
}

// Rows depend on each other in a function that, for example, subtracts the mean of its batch. Its
// signature does not show this, so the function is called. That is a check by samples, no proof.
void Model::probe_joining() {
  if (metadata_.graphs > 1) {
    reason_ = fmt::format(
        "function '{}' has {} graphs, and rows may depend on each other in some of them. Save it "
        "with one graph for all batch sizes",
        function_.name(), metadata_.graphs);
    return;
  }
  if (!metadata_.has_batch_axis) {
    reason_ = fmt::format(
        "function '{}' has no open size that is axis 0 of all inputs and outputs. Save it with a "
        "graph for all batch sizes",
        function_.name());
    return;
  }
  try {
    joining_ = compare_joined(metadata_, options_.max_rows, [this](const io::NamedTensors& inputs) {
      return function_.call_named(inputs);
    });
    if (joining_ == Joining::kNone) {
      reason_ = fmt::format("the results of function '{}' for a row depend on the other rows",
                            function_.name());
    }
  } catch (const std::exception& error) {
    reason_ = fmt::format("a call with random rows failed: {}", error_of(error).text());
  }
}

void Model::work() {
  std::vector<std::shared_ptr<Ticket>> batch;
  for (;;) {
    batch.clear();
    next_batch(batch);
    if (batch.empty()) return;
    try {
      run(batch);
    } catch (const std::exception& error) {  // such as no memory
      for (const std::shared_ptr<Ticket>& each : batch) each->answer(error_of(error));
    }
  }
}

void Model::next_batch(std::vector<std::shared_ptr<Ticket>>& batch) {
  std::unique_lock lock(mutex_);
  while (batch.empty()) {
    changed_.wait(lock, [this] { return retired_ || !queue_.empty(); });
    if (queue_.empty()) return;
    if (!has_room(batch)) {
      changed_.wait_for(lock, std::chrono::milliseconds(10));
      continue;
    }
    if (!queue_.front()->is_answered()) batch.push_back(queue_.front());
    queue_.pop_front();
    waiting_.set(static_cast<int64_t>(queue_.size()));
  }
  if (joining_ != Joining::kNone && has_probed_sizes(batch[0]->inputs())) {
    int64_t rows = rows_of(batch[0]->inputs());
    const Clock::time_point until = batch[0]->queued_at() + options_.delay;
    take_fitting(batch, rows);
    while (rows < options_.max_rows && !retired_ && Clock::now() < until) {
      if (changed_.wait_until(lock, until) == std::cv_status::timeout) break;
      take_fitting(batch, rows);
    }
    put_back_rest(batch);
  }
  waiting_.set(static_cast<int64_t>(queue_.size()));
}

void Model::take_fitting(std::vector<std::shared_ptr<Ticket>>& batch, int64_t& rows) {
  if (rows < 1) return;
  for (auto at = queue_.begin(); at != queue_.end() && rows < options_.max_rows;) {
    const io::NamedTensors& inputs = (*at)->inputs();
    const int64_t more = rows_of(inputs);
    if ((*at)->is_answered()) {
      at = queue_.erase(at);
    } else if (more > 0 && rows + more <= options_.max_rows &&
               fit_together(batch[0]->inputs(), inputs) && has_room(batch)) {
      rows += more;
      batch.push_back(*at);
      at = queue_.erase(at);
    } else {
      ++at;
    }
  }
}

// Leaves the requests beyond a usual number of rows to the next call. Without memory for that, this
// call answers them too.
void Model::put_back_rest(std::vector<std::shared_ptr<Ticket>>& batch) noexcept {
  try {
    std::vector<int64_t> rows;
    for (const std::shared_ptr<Ticket>& each : batch) rows.push_back(rows_of(each->inputs()));
    const std::size_t kept = requests_of_call(rows, options_.max_rows);
    if (kept == batch.size()) return;
    for (; batch.size() > kept; batch.pop_back()) queue_.push_front(batch.back());
  } catch (const std::bad_alloc&) {  // each request is in the batch or in the queue
  }
  changed_.notify_all();
}

Outcome Model::call(const io::NamedTensors& inputs, const Cancellation& cancellation) const {
  const CountScope running(running_);
  const PhaseScope phase(Phase::kInference);
  const CancelScope scope(cancellation);
  try {
    return function_.call_named(inputs);
  } catch (const std::exception& error) {
    const Error known = error_of(error);
    return Error(known.code(), fmt::format("model '{}': {}", name_, known.text()));
  }
}

void Model::run_alone(const std::shared_ptr<Ticket>& ticket) {
  const auto run = std::make_shared<JointRun>();
  if (!ticket->join(run)) return;
  calls_.add();
  batch_rows_.observe(1);
  Outcome outcome = call(ticket->inputs(), run->cancellation);
  if (ticket->answer(std::move(outcome))) rows_.add();
  seconds_.observe(std::chrono::duration<double>(Clock::now() - ticket->queued_at()).count());
}

void Model::run(std::vector<std::shared_ptr<Ticket>>& batch) {
  if (batch.size() == 1) return run_alone(batch[0]);
  const auto run = std::make_shared<JointRun>();
  std::erase_if(batch, [&](const auto& ticket) { return !ticket->join(run); });
  if (batch.empty()) return;
  std::vector<const io::NamedTensors*> inputs;
  std::vector<int64_t> rows;
  for (const std::shared_ptr<Ticket>& each : batch) {
    inputs.push_back(&each->inputs());
    rows.push_back(rows_of(each->inputs()));
  }
  std::vector<io::NamedTensors> results;
  try {
    const Outcome outcome = call(join(inputs), run->cancellation);
    if (const auto* values = std::get_if<io::NamedTensors>(&outcome))
      results = split(*values, rows);
  } catch (const std::exception&) {
    results.clear();  // such as too little memory for the joined call
  }
  calls_.add();
  batch_rows_.observe(static_cast<double>(batch.size()));
  if (results.empty()) {  // one request must not fail another
    for (const std::shared_ptr<Ticket>& each : batch) run_alone(each);
    return;
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch[i]->answer(std::move(results[i]))) rows_.add();
    seconds_.observe(std::chrono::duration<double>(Clock::now() - batch[i]->queued_at()).count());
  }
}

}  // namespace etude::serve
