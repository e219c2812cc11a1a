// SPDX-License-Identifier: Apache-2.0
// Functions with their results, as models in a folder that a test in Python reads: model files,
// cases.json and tensors.safetensors. tests/stablehlo/ has the same cases in another form.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/core/tensor.h"
#include "etude/io/safetensors.h"
#include "etude/saved/saved.h"
#include "etude/saved/source.h"

namespace etude::onnx_cases {

// Inputs and results of one run, by the names in the model.
struct Run {
  io::NamedTensors inputs, results;
};

class Cases {
 public:
  // The form in which functions are written.
  struct Form {
    std::string extension;  // ".onnx"
    bool takes_complex = false;
    // Adds the cases of a function that was called for these runs.
    std::function<void(Cases& to, const std::string& label, const saved::Entry& function,
                       const std::vector<Run>& runs)>
        add;
    // Writes the model of a source to the file of a new case. Adds no case if that is refused.
    std::function<void(Cases& to, const std::string& label, const saved::internal::Source& source)>
        write;
  };

  Cases(std::filesystem::path folder, Form form)
      : folder_(std::move(folder)), form_(std::move(form)) {}

  const Form& form() const { return form_; }
  void add_function(const std::string& label, const saved::Entry& function,
                    const std::vector<Run>& runs) {
    form_.add(*this, label, function, runs);
  }

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
  Form form_;
  std::vector<std::string> labels_, texts_;
  std::vector<std::vector<Run>> runs_;
  io::NamedTensors tensors_;
};

// Loads all models of ONNX again and runs them. Returns a line for each op or model whose results
// are not equal to the bit, or that is refused.
std::vector<std::string> round_trip_lines(const Cases& cases);

// Samples of all op records. Returns the ops that are refused, a line for each reason.
std::vector<std::string> add_op_cases(Cases& to);
// All layers, at several sizes of a batch.
void add_layer_cases(Cases& to);
// Whole models, functions with control flow, structures.
void add_model_cases(Cases& to);

// Compares the lines with a checked list, and prints the differences and the advice. Returns a
// status. ETUDE_UPDATE=1 writes the list.
int check_list(const std::filesystem::path& list, std::string_view head,
               const std::vector<std::string>& lines, std::string_view advice);

}  // namespace etude::onnx_cases
