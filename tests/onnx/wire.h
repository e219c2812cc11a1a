// SPDX-License-Identifier: Apache-2.0
// Messages of ONNX by the field numbers of onnx.proto3, for models that no writer of models makes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <protozero/pbf_writer.hpp>

namespace etude::onnx_test::wire {

using Texts = std::vector<std::string>;

// A field of a message: its number, and a number or bytes.
inline std::string number(uint32_t field, int64_t value) {
  std::string out;
  protozero::pbf_writer(out).add_int64(field, value);
  return out;
}
inline std::string bytes(uint32_t field, const std::string& value) {
  std::string out;
  protozero::pbf_writer(out).add_bytes(field, value);
  return out;
}

inline std::string joined(const Texts& parts) {
  std::string out;
  for (const std::string& part : parts) out += part;
  return out;
}

// A TensorProto.
inline std::string tensor(const std::string& name, int64_t dtype, const std::vector<int64_t>& dims,
                          const std::string& raw) {
  std::string out;
  for (const int64_t size : dims) out += number(1, size);
  return out + number(2, dtype) + bytes(8, name) + bytes(9, raw);
}
inline std::string ints(const std::string& name, const std::vector<int64_t>& values) {
  const auto count = static_cast<int64_t>(values.size());
  return tensor(name, 7, {count},
                {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)});
}

// Attributes by the field of their value.
inline std::string attribute(const std::string& name, const std::string& value) {
  return bytes(5, bytes(1, name) + value);
}
inline std::string integer(const std::string& name, int64_t value) {
  return attribute(name, number(3, value) + number(20, 2));
}
inline std::string graph_attribute(const std::string& name, const std::string& graph) {
  return attribute(name, bytes(6, graph) + number(20, 5));
}

// A NodeProto; `rest` has attributes and other fields.
inline std::string node(const std::string& op, const Texts& inputs, const Texts& outputs,
                        const std::string& rest = "") {
  std::string out;
  for (const std::string& input : inputs) out += bytes(1, input);
  for (const std::string& output : outputs) out += bytes(2, output);
  return out + bytes(3, "node_" + op) + bytes(4, op) + rest;
}

// A ValueInfoProto of a tensor.
inline std::string port(const std::string& name, const std::vector<int64_t>& sizes,
                        int64_t dtype = 1) {
  std::string shape;
  for (const int64_t size : sizes) shape += bytes(1, number(1, size));
  return bytes(1, name) + bytes(2, bytes(1, number(1, dtype) + bytes(2, shape)));
}
inline std::string open_port(const std::string& name) { return bytes(1, name); }

// A GraphProto.
struct Graph {
  Texts nodes, inputs, outputs, constants = {};

  std::string text() const {
    std::string out;
    for (const std::string& each : nodes) out += bytes(1, each);
    out += bytes(2, "graph");
    for (const std::string& each : constants) out += bytes(5, each);
    for (const std::string& each : inputs) out += bytes(11, each);
    for (const std::string& each : outputs) out += bytes(12, each);
    return out;
  }
};

// A ModelProto; `rest` has functions and other fields.
inline std::string model(const Graph& graph, int64_t opset = 17, const std::string& rest = "") {
  return number(1, 8) + bytes(7, graph.text()) + bytes(8, number(2, opset)) + rest;
}

// A FunctionProto of the domain "own".
inline std::string function(const std::string& name, const Texts& inputs, const Texts& outputs,
                            const Texts& nodes, const std::string& rest = "") {
  std::string out = bytes(1, name);
  for (const std::string& input : inputs) out += bytes(4, input);
  for (const std::string& output : outputs) out += bytes(5, output);
  for (const std::string& each : nodes) out += bytes(7, each);
  return bytes(25, out + bytes(9, number(2, 17)) + bytes(10, "own") + rest);
}
// The domain of a node, and an attribute that refers to an attribute of the function.
inline std::string own() { return bytes(7, "own"); }
inline std::string reference(const std::string& name, const std::string& to) {
  return attribute(name, bytes(21, to) + number(20, 2));
}

}  // namespace etude::onnx_test::wire
