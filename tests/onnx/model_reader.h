// SPDX-License-Identifier: Apache-2.0
// Reads the parts of an ONNX file that tests look at, by the field numbers of onnx.proto3.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <protozero/pbf_reader.hpp>

namespace etude::onnx_test {

inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct ReadNode {
  std::string op, doc;
};
struct ReadModel {
  int64_t ir_version = 0, opset = 0;
  std::string producer, version, doc;
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::string> inputs, outputs;  // "float32[n,4]" as "1[n,4]"
  std::map<std::string, std::vector<int64_t>> constants;
  std::map<std::string, std::string> locations;  // of constants in another file
  std::vector<ReadNode> nodes;

  std::size_t count(const std::string& op) const {
    std::size_t out = 0;
    for (const ReadNode& node : nodes) out += node.op == op ? 1 : 0;
    return out;
  }
};

inline std::string read_type(protozero::pbf_reader type) {
  std::string out;
  type.next(1);
  protozero::pbf_reader tensor = type.get_message();
  while (tensor.next()) {
    if (tensor.tag() == 1) {
      out = std::to_string(tensor.get_int32()) + "[";
    } else {
      protozero::pbf_reader shape = tensor.get_message();
      while (shape.next(1)) {
        protozero::pbf_reader dim = shape.get_message();
        dim.next();
        if (out.back() != '[') out += ",";
        out += dim.tag() == 1 ? std::to_string(dim.get_int64()) : dim.get_string();
      }
    }
  }
  return out + "]";
}
inline void read_port(protozero::pbf_reader port, std::map<std::string, std::string>& to) {
  std::string name;
  while (port.next()) {
    if (port.tag() == 1) {
      name = port.get_string();
    } else {
      to[name] = read_type(port.get_message());
    }
  }
}
inline void read_constant(protozero::pbf_reader tensor, ReadModel& to) {
  std::vector<int64_t> dims;
  std::string name, location;
  while (tensor.next()) {
    if (tensor.tag() == 1) {
      for (const int64_t size : tensor.get_packed_int64()) dims.push_back(size);
    } else if (tensor.tag() == 8) {
      name = tensor.get_string();
    } else if (tensor.tag() == 13) {
      protozero::pbf_reader entry = tensor.get_message();
      entry.next(1);
      const std::string key = entry.get_string();
      entry.next(2);
      if (key == "location") location = entry.get_string();
    } else {
      tensor.skip();
    }
  }
  to.constants[name] = dims;
  if (!location.empty()) to.locations[name] = location;
}
inline ReadNode read_node(protozero::pbf_reader node) {
  ReadNode out;
  while (node.next()) {
    if (node.tag() == 4) {
      out.op = node.get_string();
    } else if (node.tag() == 6) {
      out.doc = node.get_string();
    } else {
      node.skip();
    }
  }
  return out;
}
inline void read_graph(protozero::pbf_reader graph, ReadModel& to) {
  while (graph.next()) {
    if (graph.tag() == 1) {
      to.nodes.push_back(read_node(graph.get_message()));
    } else if (graph.tag() == 5) {
      read_constant(graph.get_message(), to);
    } else if (graph.tag() == 11) {
      read_port(graph.get_message(), to.inputs);
    } else if (graph.tag() == 12) {
      read_port(graph.get_message(), to.outputs);
    } else {
      graph.skip();
    }
  }
}

inline ReadModel read_model(const std::filesystem::path& file) {
  const std::string bytes = content_of(file);
  protozero::pbf_reader model(bytes);
  ReadModel out;
  while (model.next()) {
    switch (model.tag()) {
      case 1:
        out.ir_version = model.get_int64();
        break;
      case 2:
        out.producer = model.get_string();
        break;
      case 3:
        out.version = model.get_string();
        break;
      case 6:
        out.doc = model.get_string();
        break;
      case 7:
        read_graph(model.get_message(), out);
        break;
      case 8: {
        protozero::pbf_reader opset = model.get_message();
        while (opset.next()) {
          if (opset.tag() == 2) {
            out.opset = opset.get_int64();
          } else {
            opset.skip();
          }
        }
        break;
      }
      case 14: {
        protozero::pbf_reader entry = model.get_message();
        entry.next(1);
        const std::string key = entry.get_string();
        entry.next(2);
        out.metadata[key] = entry.get_string();
        break;
      }
      default:
        model.skip();
    }
  }
  return out;
}

}  // namespace etude::onnx_test
