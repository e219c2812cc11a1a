// SPDX-License-Identifier: Apache-2.0
// The content of an ONNX file, as data. Nothing in the file is trusted: read_file() checks the wire
// format, counts memory and levels against the limits of read_limits.h, and follows no path that
// leads out of the folder of the file. importer.h runs the model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "etude/core/dtype.h"
#include "etude/core/tensor.h"

namespace etude::onnx::importing {

struct FileGraph;

struct FileAttribute {
  using Value =
      std::variant<std::monostate, int64_t, double, std::string, Tensor, std::shared_ptr<FileGraph>,
                   std::vector<int64_t>, std::vector<double>, std::vector<std::string>>;
  std::string name;
  Value value;
  std::string refusal = {};    // not empty: why the value cannot be used
  std::string reference = {};  // in a function: the attribute of its calls that is the value
};

struct FileNode {
  std::string op, domain, overload, name, doc;
  std::vector<std::string> inputs, outputs;
  std::vector<FileAttribute> attributes;
  // Metadata (formula.h): of the first node of a formula, and of a reduction.
  std::string call = {}, call_nodes = {}, order = {};
};

// A size of an input: a number, a name, or neither.
struct FileAxis {
  int64_t size = kAny;
  std::string name = {};
};
struct FilePort {
  std::string name;
  int64_t dtype = 0;            // the number of TensorProto.DataType
  std::string other_kind = {};  // "a sequence": not empty if it is no tensor
  std::optional<std::vector<FileAxis>> axes = {};
};

// A constant with its elements, or the reason why it has none, such as a dtype of strings.
struct FileConstant {
  std::string name;
  Tensor value;
  std::string refusal = {};
};

struct FileGraph {
  std::string name;
  std::vector<FileNode> nodes;
  std::vector<FilePort> inputs, outputs;
  std::vector<FileConstant> constants;
};

// A function that the file defines. Nodes call it as an operator.
struct FileFunction {
  std::string name, domain, overload;
  int64_t opset = 0;  // of the domain ai.onnx; 0: the file states none
  std::vector<std::string> inputs, outputs;
  std::vector<FileAttribute> defaults;  // of attributes that a call may leave out
  std::vector<FileNode> nodes;
};

struct FileModel {
  int64_t ir_version = 0;
  int64_t opset = 0;  // of the domain ai.onnx; 0: the file states none
  std::string producer, doc;
  std::map<std::string, std::string> metadata;
  std::vector<FileFunction> functions;
  FileGraph graph;
};

// Reads a model. `bytes` is the content of the file `file`, whose folder may hold external data.
//
// throws: kDataLoss, with file and offset, for bytes that are no model; kResourceExhausted beyond
//   read_limits(); kNotFound, kInvalidArgument and kDataLoss for external data that is missing,
//   outside of the folder or too short.
FileModel read_file(const std::filesystem::path& file, std::span<const uint8_t> bytes);

// The dtype of a number of TensorProto.DataType; none for strings and for dtypes that Etude lacks.
std::optional<DType> dtype_of(int64_t number);
// The name of that number: "FLOAT8E4M3FN".
std::string dtype_text(int64_t number);

}  // namespace etude::onnx::importing
