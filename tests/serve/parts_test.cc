// SPDX-License-Identifier: Apache-2.0
// The parts of the server without sockets: metrics, joined requests, tickets and their deadlines.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "etude/ops.h"
#include "serve/joining.h"
#include "serve/load_queue.h"
#include "serve/metrics.h"
#include "serve/probe.h"
#include "serve/shutdown.h"
#include "serve/threads.h"
#include "serve/ticket.h"

namespace etude::serve {
namespace {

TEST(Metrics, TextOfPrometheus) {
  Metrics metrics;
  metrics.counter("a_total", "A thing.", {{"model", "x\"\\\n"}}).add(3);
  constexpr double kBounds[] = {0.5, 1};
  Histogram& h = metrics.histogram("b", "B.", kBounds);
  h.observe(0.5);
  h.observe(0.7);
  h.observe(9);
  EXPECT_EQ(metrics.to_text(),
            "# HELP a_total A thing.\n# TYPE a_total counter\na_total{model=\"x\\\"\\\\\\n\"} 3\n"
            "# HELP b B.\n# TYPE b histogram\nb_bucket{le=\"0.5\"} 1\nb_bucket{le=\"1\"} 2\n"
            "b_bucket{le=\"+Inf\"} 3\nb_sum 10.2\nb_count 3\n");
}

TEST(Metrics, CountsByCodeAndReadsGauges) {
  Metrics metrics;
  CodeCounters codes(metrics, "c_total", "C.");
  int64_t value = 4;
  metrics.read_gauge("g", "G.", [&] { return value; });
  codes.add(404);
  codes.add(0);
  codes.add(404);
  value = 5;
  EXPECT_EQ(metrics.to_text(),
            "# HELP c_total C.\n# TYPE c_total counter\nc_total{code=\"0\"} 1\n"
            "c_total{code=\"404\"} 2\n# HELP g G.\n# TYPE g gauge\ng 5\n");
}

TEST(Metrics, CountsOfSeveralThreads) {
  Metrics metrics;
  CodeCounters codes(metrics, "c_total", "C.");
  constexpr double kBounds[] = {1};
  Histogram& h = metrics.histogram("h", "H.", kBounds);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 1000; ++k) {
        codes.add(200 + k % 3);
        h.observe(k % 2 == 0 ? 0.5 : 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = metrics.to_text();
  EXPECT_NE(text.find("c_total{code=\"200\"} 1336\n"), std::string::npos) << text;
  EXPECT_NE(text.find("h_bucket{le=\"1\"} 2000\nh_bucket{le=\"+Inf\"} 4000\nh_sum 5000\n"),
            std::string::npos)
      << text;
}

TEST(Metrics, GaugesOfTheProcess) {
  Metrics metrics;
  add_process_gauges(metrics);
  const std::string text = metrics.to_text();
  EXPECT_EQ(text.find("process_resident_memory_bytes 0\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("process_open_fds 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nprocess_open_fds "), std::string::npos) << text;
}

TEST(Metrics, WhatIsRunning) {
  Metrics metrics;
  EXPECT_EQ(still_running(metrics), "no load, call or connection; does a folder of models answer?");
  Counter& calls = metrics.gauge("etude_serve_running", "R.", {{"model", "a"}, {"version", "2"}});
  metrics.read_gauge("etude_serve_http_connections", "C.", [] { return int64_t{3}; });
  {
    const CountScope loading(metrics.gauge("etude_serve_loading", "L.", {{"model", "b"}}));
    const CountScope one(calls), two(calls);
    EXPECT_EQ(still_running(metrics),
              "loads of model=\"b\": 1, calls of model=\"a\",version=\"2\": 2, "
              "connections of HTTP: 3");
  }
  EXPECT_EQ(still_running(metrics), "connections of HTTP: 3");
  EXPECT_TRUE(metrics.values("none").empty());
}

TEST(Threads, StopEndsAWait) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::atomic<int> ended = 0;
  {
    const Threads threads("a test", 3, [&](const Threads::Stop& stop) {
      std::unique_lock lock(mutex);
      changed.wait(lock, stop, [] { return false; });
      ++ended;
    });
    EXPECT_EQ(threads.count(), 3U);
  }
  EXPECT_EQ(ended, 3);
}

TEST(LoadQueue, RunsJobsInOrderAndRefusesTooMany) {
  std::promise<void> begun, end;
  const std::shared_future<void> ended = end.get_future().share();
  std::vector<int> ran;
  {
    LoadQueue queue;
    queue.add([&begun, ended] {
      begun.set_value();
      ended.wait();
    });
    begun.get_future().wait();
    for (int i = 0; i < 64; ++i) queue.add([&ran, i] { ran.push_back(i); });
    try {
      queue.add([] {});
      ADD_FAILURE() << "the queue takes a 65th job";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
      EXPECT_EQ(error.text(), "64 requests to load or unload models are waiting. Ask again later");
    }
    end.set_value();
  }
  ASSERT_EQ(ran.size(), 64U);
  EXPECT_TRUE(std::ranges::is_sorted(ran));
}

ModelMetadata one_input() {
  ModelMetadata out;
  out.inputs = {{"x", kFloat32, {-1, 4}, true}};
  out.outputs = {{"y", kFloat32, {-1, 4}, true}};
  out.has_batch_axis = true;
  return out;
}

TEST(Joining, JoinsAndSplits) {
  const io::NamedTensors a{{"x", Tensor({{1.0, 2.0}})}}, b{{"x", Tensor({{3.0, 4.0}, {5.0, 6.0}})}};
  const io::NamedTensors* all[] = {&a, &b};
  EXPECT_TRUE(fit_together(a, b));
  EXPECT_FALSE(fit_together(a, {{"x", Tensor({{1.0, 2.0, 3.0}})}}));
  EXPECT_FALSE(fit_together(a, {{"z", Tensor({{1.0, 2.0}})}}));
  const io::NamedTensors joined = join(all);
  EXPECT_EQ(rows_of(joined), 3);
  constexpr int64_t kRows[] = {1, 2};
  const std::vector<io::NamedTensors> parts = split(joined, kRows);
  EXPECT_TRUE(same_value(parts[0].at("x"), a.at("x")));
  EXPECT_TRUE(same_value(parts[1].at("x"), b.at("x")));
  EXPECT_EQ(rows_of({{"x", Tensor(1.0F)}}), -1);
  EXPECT_EQ(rows_of({{"x", Tensor({1.0})}, {"y", Tensor({1.0, 2.0})}}), -1);
}

TEST(Joining, CallsHaveFewNumbersOfRows) {
  const auto count = [](const std::vector<int64_t>& rows, int64_t most) {
    return requests_of_call(rows, most);
  };
  EXPECT_EQ(count(std::vector<int64_t>(1, 1), 64), 1U);
  EXPECT_EQ(count(std::vector<int64_t>(5, 1), 64), 4U);
  EXPECT_EQ(count(std::vector<int64_t>(5, 1), 5), 5U);  // the most
  EXPECT_EQ(count(std::vector<int64_t>(7, 1), 64), 6U);
  EXPECT_EQ(count(std::vector<int64_t>(47, 1), 64), 32U);
  EXPECT_EQ(count(std::vector<int64_t>(63, 1), 64), 48U);
  EXPECT_EQ(count({5}, 64), 1U);
  EXPECT_EQ(count({5, 2, 1, 1}, 64), 3U);
  EXPECT_EQ(count({5, 2}, 64), 2U);
}

TEST(Joining, FindsRowsThatDependOnOthers) {
  const auto f = [](const io::NamedTensors& in) -> io::NamedTensors {
    return {{"y", in.at("x") * 2.0}};
  };
  const auto centred = [](const io::NamedTensors& in) -> io::NamedTensors {
    return {{"y", in.at("x") - mean(in.at("x"), {.axis = {0}, .keepdims = true})}};
  };
  const auto close = [](const io::NamedTensors& in) -> io::NamedTensors {
    return {{"y", in.at("x") * (rows_of(in) > 3 ? 1.0 + 1e-6 : 1.0)}};
  };
  for (const int64_t most : {2, 3, 8}) {
    EXPECT_EQ(compare_joined(one_input(), most, f), Joining::kEqual);
    EXPECT_EQ(compare_joined(one_input(), most, centred), Joining::kNone);
  }
  EXPECT_EQ(compare_joined(one_input(), 8, close), Joining::kClose);
}

TEST(Joining, CallsTheLargestNumberOfRows) {
  int64_t largest = 0;
  const auto other_bits = [&](const io::NamedTensors& in) -> io::NamedTensors {
    largest = std::max(largest, rows_of(in));
    return {{"y", in.at("x") * (rows_of(in) >= 64 ? 1.0 + 1e-6 : 1.0)}};
  };
  EXPECT_EQ(compare_joined(one_input(), 64, other_bits), Joining::kClose);
  EXPECT_EQ(largest, 64);
  EXPECT_EQ(compare_joined(one_input(), 63, other_bits), Joining::kEqual);
}

TEST(Joining, CallsWithLargeNumbers) {
  // Rows depend on each other only if there is a number above 20.
  const auto clipped = [](const io::NamedTensors& in) -> io::NamedTensors {
    const Tensor x = astype(in.at("x"), kFloat32);
    return {{"y", x - maximum(max(x, {.axis = {0}, .keepdims = true}) - 20.0, 0.0)}};
  };
  // As an index into three rows.
  const auto index = [](const io::NamedTensors& in) -> io::NamedTensors {
    if (max(in.at("x")).item<int64_t>() > 2) throw Error(ErrorCode::kOutOfRange, "no row");
    return {{"y", in.at("x") + 1}};
  };
  ModelMetadata integers = one_input();
  integers.inputs[0].dtype = kInt64;
  EXPECT_EQ(compare_joined(one_input(), 8, clipped), Joining::kNone);
  EXPECT_EQ(compare_joined(integers, 8, clipped), Joining::kNone);
  EXPECT_EQ(compare_joined(integers, 8, index), Joining::kEqual);
}

TEST(Probe, FindsTheSizesOfOutputs) {
  ModelMetadata metadata = one_input();
  metadata.outputs = {{.name = "y", .is_known = false}};
  const ModelCall pairs = [](const io::NamedTensors& in) -> io::NamedTensors {
    const Tensor& x = in.at("x");
    return {{"y", matmul(x, x, {.transpose_y = true})}};
  };
  EXPECT_EQ(find_output_sizes(metadata, pairs), "");
  EXPECT_EQ(metadata.outputs[0].shape, (std::vector<int64_t>{-1, -1}));
  EXPECT_FALSE(metadata.has_batch_axis);
  metadata = one_input();
  metadata.outputs[0].is_known = false;
  const ModelCall rows = [](const io::NamedTensors& in) -> io::NamedTensors {
    return {{"y", in.at("x") * 2.0}};
  };
  EXPECT_EQ(find_output_sizes(metadata, rows), "");
  EXPECT_EQ(metadata.outputs[0].shape, (std::vector<int64_t>{-1, 4}));
  EXPECT_TRUE(metadata.has_batch_axis);
  metadata.outputs[0].is_known = false;
  const ModelCall fails = [](const io::NamedTensors&) -> io::NamedTensors {
    throw Error(ErrorCode::kInvalidArgument, "no");
  };
  EXPECT_EQ(find_output_sizes(metadata, fails), "no");
  EXPECT_FALSE(metadata.has_batch_axis);
}

TEST(Ticket, AnswersOnce) {
  int answers = 0;
  Ticket ticket({}, Clock::now(), [&](Outcome) { ++answers; });
  EXPECT_TRUE(ticket.answer(io::NamedTensors{}));
  EXPECT_FALSE(ticket.answer(io::NamedTensors{}));
  ticket.abandon();
  EXPECT_EQ(answers, 1);
}

TEST(Ticket, TheLastToLeaveCancelsTheCall) {
  const auto run = std::make_shared<JointRun>();
  Ticket a({}, Clock::now(), [](Outcome) {}), b({}, Clock::now(), [](Outcome) {});
  EXPECT_TRUE(a.join(run));
  EXPECT_TRUE(b.join(run));
  a.abandon();
  EXPECT_FALSE(run->cancellation.is_cancelled());
  b.abandon();
  EXPECT_TRUE(run->cancellation.is_cancelled());
  EXPECT_FALSE(a.join(run));
}

TEST(Deadlines, AnswerWithAnError) {
  Deadlines deadlines;
  std::promise<std::string> text;
  const auto ticket = std::make_shared<Ticket>(
      io::NamedTensors{}, Clock::now() + std::chrono::milliseconds(20),
      [&](Outcome outcome) { text.set_value(std::get<Error>(outcome).text()); });
  deadlines.add(ticket);
  const std::string told = text.get_future().get();
  constexpr std::string_view kBegin = "the deadline of the request has passed, after ";
  ASSERT_NE(told.find(kBegin), std::string::npos) << told;
  const double waited_s = std::stod(told.substr(told.find(kBegin) + kBegin.size()));
  EXPECT_TRUE(waited_s >= 0.02 && waited_s < 20) << told;
}

}  // namespace
}  // namespace etude::serve
