// SPDX-License-Identifier: Apache-2.0
// A model as the content of a saved function: its inputs and initialisers, and its graphs at the
// sizes for which it is traced. Used by load.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "etude/onnx/import/file.h"
#include "etude/onnx/import/importer.h"
#include "etude/onnx/onnx.h"
#include "etude/saved/content.h"

namespace etude::onnx::importing {

// An argument of the function. A size below 0 is open: -1 - the index of its name.
struct Argument {
  std::string name;  // in the model
  std::string path;  // of the argument: a name without '/'
  DType dtype = kFloat32;
  std::vector<int64_t> sizes;
};

// An initialiser that is a Variable.
struct State {
  const FileConstant* constant = nullptr;
  std::string path;
  bool is_trainable = true;
};

class ModelImporter {
 public:
  ModelImporter(const FileModel& model, std::string file, uint64_t file_bytes,
                const LoadOptions& options)
      : model_(model),
        file_(std::move(file)),
        file_bytes_(file_bytes),
        budget_(file_bytes),
        options_(options) {}

  saved::internal::Content import();

 private:
  void check_opset() const;
  void add_constants();
  void add_arguments();
  void add_argument(const FilePort& port);
  DType input_dtype(const FilePort& port) const;
  // The value of the option `constants` for an input, in the dtype of the input.
  Tensor fixed_value(const FilePort& port, const Tensor& given) const;
  int64_t open_size(const std::string& name);
  void require_known_options() const;

  // The graph at sizes for the open sizes.
  GraphRef trace(const std::vector<int64_t>& sizes) const;
  std::vector<Tensor> run(std::span<const Tensor> inputs) const;
  GraphRef first_trace(const std::vector<int64_t>& sizes);
  void drop_unread_states(const Graph& graph);
  saved::internal::SavedGraph saved_graph() const;
  void add_main(saved::internal::SavedFunction& to);
  void add_special(saved::internal::SavedFunction& to) const;
  // The graph of these points, or the reason why there is none. `first`: the trace at the first
  // point if it is known.
  std::optional<saved::internal::SavedGraph> graph_at(
      const std::vector<std::vector<int64_t>>& points, std::string& reason,
      GraphRef first = {}) const;
  void add_state(saved::internal::Content& to) const;

  const FileModel& model_;
  const std::string file_;
  const uint64_t file_bytes_;
  mutable ImportBudget budget_;  // each trace takes of it
  const LoadOptions& options_;
  std::unordered_map<std::string, const FileConstant*> constants_;
  std::vector<Argument> arguments_;
  io::NamedTensors fixed_;  // inputs that are no arguments
  std::vector<State> states_;
  std::vector<std::string> sizes_;  // names of the open sizes
  std::unordered_map<std::string, std::size_t> size_numbers_;
  std::vector<std::string> results_;  // paths of the results
  std::vector<std::vector<int64_t>> points_;
};

}  // namespace etude::onnx::importing
