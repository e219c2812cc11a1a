// SPDX-License-Identifier: Apache-2.0
// The rows of the table of saved functions, for all programs that compute them: models, batches,
// inputs, and files of answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/worker.h"
#include "benchmarks/workloads/values.h"

namespace etude::bench {

struct SavedModel {
  std::string name;
  std::vector<int64_t> example;  // the shape of one example
};
inline const std::vector<SavedModel>& saved_models() {
  static const std::vector<SavedModel> kAll = {{"lenet", {28, 28, 1}},
                                               {"resnet56", {32, 32, 3}},
                                               {"transformer", {128, 256}},
                                               {"lstm", {50, 128}}};
  return kAll;
}
inline constexpr int64_t kSavedBatches[] = {1, 32};

// A model and a number of examples.
struct SavedRow {
  SavedModel model;
  int64_t batch = 1;

  std::string name() const { return model.name + "_" + std::to_string(batch); }
  std::vector<int64_t> shape() const {
    std::vector<int64_t> out = {batch};
    out.insert(out.end(), model.example.begin(), model.example.end());
    return out;
  }
  std::vector<float> input() const {
    std::size_t count = 1;
    for (const int64_t size : shape()) count *= static_cast<std::size_t>(size);
    return hashed_values(1, count);
  }
};

// The folder with the models and the answers.
inline std::string saved_folder() {
  const char* folder = std::getenv("BENCH_SAVED");
  if (folder == nullptr) throw std::runtime_error("BENCH_SAVED must name the folder of the models");
  return folder;
}

// Writes the answer of a system, which table.py compares with the other answers. Returns its
// digest.
inline std::vector<double> store_answer(const SavedRow& row, const std::string& system,
                                        const std::vector<float>& answer) {
  std::ofstream file(saved_folder() + "/" + row.name() + "." + system + ".f32", std::ios::binary);
  file.write(reinterpret_cast<const char*>(answer.data()),
             static_cast<std::streamsize>(answer.size() * sizeof(float)));
  if (!file.flush()) throw std::runtime_error("the answer of " + row.name() + " cannot be written");
  std::vector<double> out;
  add_digest(out, answer);
  return out;
}

// A workload for each row that `make` computes; null: the row is left out.
inline std::vector<Workload> saved_workloads(
    const std::function<std::function<std::unique_ptr<Instance>()>(const SavedRow&)>& make) {
  std::vector<Workload> out;
  for (const SavedModel& model : saved_models()) {
    for (const int64_t batch : kSavedBatches) {
      const SavedRow row{model, batch};
      if (auto made = make(row)) out.push_back({.name = row.name(), .make = std::move(made)});
    }
  }
  return out;
}

}  // namespace etude::bench
