// SPDX-License-Identifier: Apache-2.0
// An ONNX model as data: nodes on named values, before it is written. Conversions add nodes
// (conversions.h), sizes.h combines the models for several sizes, tidy.h simplifies the model, and
// write.h writes it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "etude/core/dtype.h"
#include "etude/core/tensor.h"
#include "etude/core/type.h"
#include "etude/graph/graph.h"

namespace etude::onnx::internal {

// The name of a value; "" for an absent operand.
using Value = std::string;

struct GraphModel;
struct Formula;

struct Attribute {
  std::string name;
  std::variant<int64_t, double, std::string, std::vector<int64_t>, std::shared_ptr<GraphModel>>
      value;
};

struct Node {
  std::string op;    // "Conv"
  std::string name;  // unique in the model
  std::string doc;   // the user's line
  std::vector<Value> inputs, outputs;
  std::vector<Attribute> attributes;
  // Not null: a call that several nodes replace when the model is written (formula.h). `op` is its
  // name then.
  std::shared_ptr<Formula> formula = {};
  std::vector<std::pair<std::string, std::string>> metadata = {};
};

// An axis of an input or output: a size, or a name for a size that may vary.
struct Axis {
  int64_t size = 0;
  std::string name = {};  // not empty: the size varies
};
struct Port {
  std::string name;
  DType dtype = kFloat32;
  std::vector<Axis> axes;
};
// An initialiser.
struct Constant {
  Value name;
  Tensor value;
};

struct GraphModel {
  std::string name;
  std::vector<Port> inputs, outputs;
  std::vector<Constant> constants;
  std::vector<Node> nodes;  // operands come first
};

// The nodes of a call. Their inputs are the inputs of the node that has the formula.
struct Formula {
  GraphRef call;     // a graph of the call alone
  std::string text;  // the call for the metadata; "": it is not the same at all sizes
  GraphModel nodes;
  bool is_elementwise = false;
};

struct Model {
  int64_t opset = 17;
  GraphModel graph;
  std::string doc;
  std::vector<std::pair<std::string, std::string>> metadata;
};

Port port_of(std::string name, const Type* type);
// The graphs in the attributes of a node.
std::vector<GraphModel*> graphs_of(Node& node);
// Whether two tensors have the same type and bits.
bool is_same(const Tensor& a, const Tensor& b);

}  // namespace etude::onnx::internal
