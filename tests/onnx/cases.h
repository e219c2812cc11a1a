// SPDX-License-Identifier: Apache-2.0
// Models with their expected results, in a folder that models_test.py reads: ONNX files, cases.json
// and tensors.safetensors.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "etude/io/safetensors.h"

namespace etude::onnx_cases {

// Inputs and results of one run, by the names in the model.
struct Run {
  io::NamedTensors inputs, results;
};

class Cases {
 public:
  explicit Cases(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // The file for the model of a case. `label` names it in messages.
  std::filesystem::path file(const std::string& label);
  // The expected results of the model of the last file().
  void add(const std::vector<Run>& runs);
  void write() const;
  std::size_t size() const { return labels_.size(); }
  const std::string& label(std::size_t i) const { return labels_[i]; }
  std::filesystem::path file_of(std::size_t i) const;
  const std::vector<Run>& runs(std::size_t i) const { return runs_[i]; }

 private:
  std::filesystem::path folder_;
  std::vector<std::string> labels_, texts_;
  std::vector<std::vector<Run>> runs_;
  io::NamedTensors tensors_;
};

// Loads all models again and runs them. Returns a line for each op or model whose results are not
// equal to the bit, or that is refused.
std::vector<std::string> round_trip_lines(const Cases& cases);

// Samples of all op records. Returns the ops that are refused, a line for each reason.
std::vector<std::string> add_op_cases(Cases& to, int64_t opset);
// All layers, at several sizes of a batch.
void add_layer_cases(Cases& to, int64_t opset);
// Whole models, functions with control flow, structures.
void add_model_cases(Cases& to, int64_t opset);

}  // namespace etude::onnx_cases
