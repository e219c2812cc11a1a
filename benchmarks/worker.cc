// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/worker.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string_view>

#include <nlohmann/json.hpp>
#include <time.h>

#include "benchmarks/probes.h"

namespace etude::bench {
namespace {

using json = nlohmann::ordered_json;  // workloads keep their order
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int64_t status_kb(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key + ":", 0) == 0) return std::stoll(line.substr(key.size() + 1));
  }
  return 0;
}

struct Ready {
  const Workload* workload = nullptr;
  std::unique_ptr<Instance> instance;
  std::vector<double> checksum;
  int inner = 1;
};

class Server {
 public:
  Server(Peer peer, std::vector<Workload> workloads)
      : start_kb_(status_kb("VmRSS")), peer_(std::move(peer)), workloads_(std::move(workloads)) {}

  using Make = std::function<std::unique_ptr<Instance>()>;

  const std::vector<Workload>& workloads() const { return workloads_; }

  json answer(const std::string& line) {
    std::istringstream words(line);
    std::string name, option;
    words >> name;
    std::map<std::string, std::string> options;
    while (words >> option) {
      const std::size_t equals = option.find('=');
      options[option.substr(0, equals)] =
          equals == std::string::npos ? "" : option.substr(equals + 1);
    }
    if (name == ":hello") return hello();
    if (name == ":rss") {
      return {
          {"rss_kb", status_kb("VmRSS")}, {"peak_kb", status_kb("VmHWM")}, {"start_kb", start_kb_}};
    }
    if (name == ":probes") {
      return {{"gflops", probe_gflops()}, {"copy_gb", probe_copy_gb()}};
    }
    if (name == ":drop") {
      ready_.clear();
      return {{"ok", true}};
    }
    return measure(name, options);
  }

 private:
  json hello() const {
    json names = json::object();
    for (const Workload& w : workloads_) {
      names[w.name] = w.make ? json{"eager"} : json::array();
      if (w.staged) names[w.name].push_back("staged");
      if (w.lazy) names[w.name].push_back("lazy");
    }
    return {{"peer", peer_.name},
            {"version", peer_.version},
            {"rss_kb", status_kb("VmRSS")},
            {"workloads", names}};
  }

  json measure(const std::string& name, std::map<std::string, std::string>& options) {
    const auto found = std::find_if(workloads_.begin(), workloads_.end(),
                                    [&](const Workload& w) { return w.name == name; });
    if (found == workloads_.end()) return {{"error", "no workload is called '" + name + "'"}};
    const std::string& mode = options["mode"];
    const Make* make = mode == "eager"    ? &found->make
                       : mode == "staged" ? &found->staged
                       : mode == "lazy"   ? &found->lazy
                                          : nullptr;
    if (make == nullptr || !*make) return {{"skip", name + " has no mode " + mode}};
    try {
      if (options.contains("first")) return first_call(*make);
      Ready& ready = prepared(*found, *make, mode);
      if (options.contains("setup")) return {{"checksum", ready.checksum}, {"first_call", nullptr}};
      return timed(ready, options.contains("ms") ? std::stod(options["ms"]) : 100);
    } catch (const std::exception& error) {
      return {{"error", error.what()}};
    }
  }

  static json first_call(const Make& make) {
    const std::unique_ptr<Instance> instance = make();
    const Clock::time_point start = Clock::now();
    instance->run();
    return {{"first_call", seconds_since(start)}};
  }

  Ready& prepared(const Workload& workload, const Make& make, const std::string& mode) {
    Ready& ready = ready_[workload.name + ":" + mode];
    if (ready.instance) return ready;
    ready.checksum = make()->check();  // its memory is freed before the next one is made
    for (std::size_t i = 0; i < workload.expected.size(); ++i) {
      const double want = workload.expected[i], got = ready.checksum.at(i);
      if (!(std::abs(got - want) <= workload.tolerance * std::max(std::abs(want), 1e-3))) {
        std::ostringstream text;
        text << workload.name << ": check value " << i << " is " << got << ", but must be " << want;
        throw std::runtime_error(text.str());
      }
    }
    ready.workload = &workload;
    std::unique_ptr<Instance> instance = make();
    instance->run();
    count_inner(ready, *instance);
    if (peer_.settle != nullptr) {
      // The timing is for the steady state: machine code comes after some runs, and better code
      // later.
      for (int round = 0; round < 3; ++round) {
        const Clock::time_point start = Clock::now();
        while (seconds_since(start) < 15e-3) instance->run();
        peer_.settle();
      }
      count_inner(ready, *instance);
    }
    ready.instance = std::move(instance);
    return ready;
  }

  static void count_inner(Ready& ready, Instance& instance) {
    for (ready.inner = 1;; ready.inner *= 2) {
      const Clock::time_point start = Clock::now();
      for (int i = 0; i < ready.inner; ++i) instance.run();
      if (seconds_since(start) >= 3e-3) break;
    }
  }

  static json timed(Ready& ready, double budget_ms) {
    std::vector<double> samples;
    const Clock::time_point start = Clock::now();
    while (samples.size() < 3 || seconds_since(start) * 1e3 < budget_ms) {
      const double begin = sample_seconds();
      for (int i = 0; i < ready.inner; ++i) ready.instance->run();
      samples.push_back((sample_seconds() - begin) / (ready.inner * ready.workload->units));
      if (samples.size() >= 1 && seconds_since(start) * 1e3 > 10 * budget_ms) break;
    }
    std::sort(samples.begin(), samples.end());
    const auto at = [&](double q) {
      return samples[static_cast<std::size_t>(q * static_cast<double>(samples.size() - 1) + 0.5)];
    };
    json out = {{"median", at(0.5)},   {"p10", at(0.1)},       {"p90", at(0.9)},
                {"n", samples.size()}, {"inner", ready.inner}, {"checksum", ready.checksum}};
    for (const auto& [name, value] : ready.instance->details()) out[name] = value;
    return out;
  }

  int64_t start_kb_;
  Peer peer_;
  std::vector<Workload> workloads_;
  std::map<std::string, Ready> ready_;
};

int serve(Server& server) {
  for (std::string line; std::getline(std::cin, line);) {
    if (line.empty()) continue;
    if (line == ":quit") {
      std::cout << json{{"ok", true}} << std::endl;
      return 0;
    }
    std::cout << server.answer(line) << std::endl;
  }
  return 0;
}

}  // namespace

double sample_seconds() {
  static const char* const name = std::getenv("BENCH_CLOCK");
  static const bool is_processor = name != nullptr && std::string_view(name) == "processor";
  timespec now;
  clock_gettime(is_processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int run_worker(int argc, char** argv, const Peer& peer, std::vector<Workload> workloads) {
  Server server(peer, std::move(workloads));
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "--serve") return serve(server);
  if (first == "--help") {
    std::cout << "usage: " << argv[0] << " [--serve] [WORKLOAD[:staged|:lazy]...]\n";
    return 0;
  }
  bool fine = true, has_run = false;
  const auto is_asked = [&](const std::string& name) {
    return std::find(argv + 1, argv + argc, name) != argv + argc;
  };
  const auto run = [&](const Workload& w, const std::string& mode) {
    const json result = server.answer(w.name + " mode=" + mode + " ms=300");
    fine = fine && !result.contains("error");
    has_run = true;
    std::cout << w.name << (mode == "eager" ? "" : " " + mode) << " " << result << "\n";
  };
  for (const Workload& w : server.workloads()) {
    if (w.make && (argc < 2 || is_asked(w.name))) run(w, "eager");
    const bool is_only_staged = !w.make && is_asked(w.name);
    if (w.staged && (argc < 2 || is_asked(w.name + ":staged") || is_only_staged)) run(w, "staged");
    if (w.lazy && is_asked(w.name + ":lazy")) run(w, "lazy");
  }
  if (!has_run) std::cerr << argv[0] << ": no workload has this name and mode; see --help\n";
  return fine && has_run ? 0 : 1;
}

}  // namespace etude::bench
