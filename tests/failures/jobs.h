// SPDX-License-Identifier: Apache-2.0
// Jobs that fail at each of their allocations.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "etude/etude.h"
#include "tests/failures/injection.h"
#include "tests/temp_folder.h"

namespace etude::failures {

// A fresh start of a job. `go` runs it and returns its result; `state` returns all values that `go`
// may change. A failed `go` must not change them, and after it, `go` succeeds.
struct Run {
  std::function<std::string()> go;
  std::function<std::string()> state = [] { return std::string(); };
};

struct Job {
  std::string name;
  std::function<Run()> start;
  // The states between the steps of a job of several steps, such as an epoch. A failure may leave
  // the job after any of them.
  std::function<std::vector<std::string>()> between = nullptr;
  bool starts_anew = false;   // the next try is a fresh start
  bool loses_values = false;  // a look at the state may throw, since lazy calls had no memory
  What fails = What::kAllocation;
};

std::vector<Job> eager_jobs();
std::vector<Job> staged_jobs();
std::vector<Job> lazy_jobs();
std::vector<Job> derivative_jobs();
std::vector<Job> training_jobs();
std::vector<Job> update_jobs();
std::vector<Job> saved_jobs();
std::vector<Job> saving_program_jobs();
std::vector<Job> serve_jobs();  // none without etude-serve
std::vector<Job> saving_jobs();
std::vector<Job> reading_jobs();
std::vector<Job> all_jobs();

// All bits of the elements, as text.
inline std::string bits(const Tensor& x) {
  std::string text = x.has_value() ? "" : "absent";
  if (!x.has_value()) return text;
  char number[40];
  for (const double v : x.to_vector<double>()) {
    std::snprintf(number, sizeof(number), "%a ", v);
    text += number;
  }
  return text;
}

// 1, 2, 3, ... of this shape.
inline Tensor counted(const Shape& shape, DType dtype = kFloat32) {
  return reshape(astype(arange(shape.count()), dtype), shape) + 1;
}

template <class F>
Job plain_job(std::string name, F f) {
  return {std::move(name), [f] { return Run{[f] { return std::string(f()); }}; }};
}

// The same job; the allocations of all threads fail.
inline Job anywhere(Job job) {
  job.fails = What::kAllocationAnywhere;
  return job;
}

}  // namespace etude::failures
