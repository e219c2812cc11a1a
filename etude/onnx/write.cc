// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/write.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <protozero/pbf_writer.hpp>

#include "etude/core/internal/host_door.h"
#include "etude/files/atomic_file.h"
#include "etude/files/crc32c.h"
#include "etude/version.h"

namespace etude::onnx::internal {
namespace {

using protozero::pbf_writer;
using Bytes = std::span<const uint8_t>;

// Field numbers of onnx.proto3, by message.
enum class ModelField : uint32_t {
  kIrVersion = 1,
  kProducer = 2,
  kProducerVersion = 3,
  kDoc = 6,
  kGraph = 7,
  kOpset = 8,
  kMetadata = 14
};
enum class GraphField : uint32_t { kNode = 1, kName = 2, kConstant = 5, kInput = 11, kOutput = 12 };
enum class NodeField : uint32_t {
  kInput = 1,
  kOutput = 2,
  kName = 3,
  kOp = 4,
  kAttribute = 5,
  kDoc = 6,
  kMetadata = 9
};
enum class AttributeField : uint32_t {
  kName = 1,
  kFloat = 2,
  kInt = 3,
  kText = 4,
  kGraph = 6,
  kInts = 8,
  kType = 20
};
enum class TensorField : uint32_t {
  kDims = 1,
  kType = 2,
  kName = 8,
  kRaw = 9,
  kExternal = 13,
  kLocation = 14
};

template <class Field>
constexpr protozero::pbf_tag_type tag(Field field) {
  return static_cast<protozero::pbf_tag_type>(field);
}

// Tensors of this size and above move to the external file.
constexpr int64_t kLeastExternal = 1024;

Bytes bytes_of(const Tensor& x) {
  const void* const at = etude::internal::host_elements(x);
  return {static_cast<const uint8_t*>(at), static_cast<std::size_t>(x.type()->bytes())};
}

// The place of a tensor in the external file.
struct Place {
  std::string file;
  uint64_t offset = 0, bytes = 0;
};

void write_entry(pbf_writer to, const std::pair<std::string, std::string>& entry) {
  to.add_string(1, entry.first);
  to.add_string(2, entry.second);
}

// The message of a tensor without its elements, or all of it if they are in another file.
std::string tensor_head(const Constant& constant, const std::optional<Place>& place) {
  std::string out;
  pbf_writer to(out);
  const Shape& shape = constant.value.shape();
  if (shape.rank() > 0) to.add_packed_int64(tag(TensorField::kDims), shape.begin(), shape.end());
  to.add_int32(tag(TensorField::kType), static_cast<int32_t>(type_number(constant.value.dtype())));
  to.add_string(tag(TensorField::kName), constant.name);
  if (!place) return out;
  const std::array<std::pair<std::string, std::string>, 3> entries = {
      {{"location", place->file},
       {"offset", std::to_string(place->offset)},
       {"length", std::to_string(place->bytes)}}};
  for (const auto& entry : entries) write_entry(pbf_writer(to, tag(TensorField::kExternal)), entry);
  to.add_enum(tag(TensorField::kLocation), 1);
  return out;
}

void write_port(pbf_writer to, const Port& port) {
  to.add_string(1, port.name);
  pbf_writer type(to, 2);
  pbf_writer tensor(type, 1);
  tensor.add_int32(1, static_cast<int32_t>(type_number(port.dtype)));
  if (port.axes.empty())
    tensor.add_message(2, std::string());  // an empty sub-writer would write nothing
  pbf_writer shape(tensor, 2);
  for (const Axis& axis : port.axes) {
    pbf_writer dim(shape, 1);
    if (axis.name.empty()) {
      dim.add_int64(1, axis.size);
    } else {
      dim.add_string(2, axis.name);
    }
  }
}

void write_graph(pbf_writer& to, const GraphModel& graph);

// The numbers of AttributeProto.AttributeType.
void write_attribute(pbf_writer to, const Attribute& attribute) {
  to.add_string(tag(AttributeField::kName), attribute.name);
  const auto type = [&](int32_t number) { to.add_enum(tag(AttributeField::kType), number); };
  if (const auto* real = std::get_if<double>(&attribute.value)) {
    to.add_float(tag(AttributeField::kFloat), static_cast<float>(*real));
    type(1);
  } else if (const auto* number = std::get_if<int64_t>(&attribute.value)) {
    to.add_int64(tag(AttributeField::kInt), *number);
    type(2);
  } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
    to.add_bytes(tag(AttributeField::kText), *text);
    type(3);
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&attribute.value)) {
    for (const int64_t each : *ints) to.add_int64(tag(AttributeField::kInts), each);
    type(7);
  } else {
    type(5);
    pbf_writer graph(to, tag(AttributeField::kGraph));
    write_graph(graph, *std::get<std::shared_ptr<GraphModel>>(attribute.value));
  }
}

void write_node(pbf_writer to, const Node& node) {
  for (const Value& input : node.inputs) to.add_string(tag(NodeField::kInput), input);
  for (const Value& output : node.outputs) to.add_string(tag(NodeField::kOutput), output);
  to.add_string(tag(NodeField::kName), node.name);
  to.add_string(tag(NodeField::kOp), node.op);
  for (const Attribute& attribute : node.attributes) {
    write_attribute(pbf_writer(to, tag(NodeField::kAttribute)), attribute);
  }
  if (!node.doc.empty()) to.add_string(tag(NodeField::kDoc), node.doc);
  for (const auto& each : node.metadata) {
    write_entry(pbf_writer(to, tag(NodeField::kMetadata)), each);
  }
}

// All of a graph but its constants.
void write_body(pbf_writer& to, const GraphModel& graph) {
  for (const Node& node : graph.nodes) write_node(pbf_writer(to, tag(GraphField::kNode)), node);
  to.add_string(tag(GraphField::kName), graph.name);
  for (const Port& port : graph.inputs) {
    write_port(pbf_writer(to, tag(GraphField::kInput)), port);
  }
  for (const Port& port : graph.outputs) {
    write_port(pbf_writer(to, tag(GraphField::kOutput)), port);
  }
}

// A graph in an attribute: its constants are small.
void write_graph(pbf_writer& to, const GraphModel& graph) {
  write_body(to, graph);
  for (const Constant& constant : graph.constants) {
    std::string tensor = tensor_head(constant, std::nullopt);
    const Bytes bytes = bytes_of(constant.value);
    pbf_writer(tensor).add_bytes(tag(TensorField::kRaw),
                                 reinterpret_cast<const char*>(bytes.data()), bytes.size());
    to.add_message(tag(GraphField::kConstant), tensor);
  }
}

// The version of the format that has this version of the ops.
int64_t ir_version(int64_t opset) { return opset >= 21 ? 10 : opset >= 19 ? 9 : 8; }

std::string model_head(const Model& model) {
  std::string out;
  pbf_writer to(out);
  to.add_int64(tag(ModelField::kIrVersion), ir_version(model.opset));
  to.add_string(tag(ModelField::kProducer), "etude");
  to.add_string(tag(ModelField::kProducerVersion), std::string(version()));
  if (!model.doc.empty()) to.add_string(tag(ModelField::kDoc), model.doc);
  {
    pbf_writer opset(to, tag(ModelField::kOpset));
    opset.add_string(1, "");
    opset.add_int64(2, model.opset);
  }
  for (const auto& entry : model.metadata) {
    write_entry(pbf_writer(to, tag(ModelField::kMetadata)), entry);
  }
  return out;
}

// The tag of a field with bytes, and their number.
template <class Field>
std::string field_head(Field field, uint64_t bytes) {
  std::string out;
  const auto add = [&](uint64_t number) {
    for (; number >= 0x80; number >>= 7) out += static_cast<char>(number | 0x80);
    out += static_cast<char>(number);
  };
  add(uint64_t{static_cast<uint32_t>(field)} << 3 | 2);
  add(bytes);
  return out;
}

// A constant of the model: its message without the elements, and the elements.
struct Written {
  std::string head;
  Bytes bytes;
  uint64_t size() const { return head.size() + bytes.size(); }
};

bool is_external(const Constant& constant) {
  return constant.value.type()->bytes() >= kLeastExternal;
}

// Writes the large constants to a second file in the folder of `file`; returns its name.
std::string write_external(const std::filesystem::path& file, const GraphModel& graph) {
  uint32_t checksum = 0;
  for (const Constant& constant : graph.constants) {
    if (is_external(constant)) {
      checksum = etude::internal::crc32c(checksum, bytes_of(constant.value));
    }
  }
  const std::string name = fmt::format("{}.{:08x}.data", file.filename().string(), checksum);
  etude::internal::AtomicFile to(file.parent_path() / name);
  for (const Constant& constant : graph.constants) {
    if (is_external(constant)) to.write(bytes_of(constant.value));
  }
  to.commit();
  return name;
}

std::vector<Written> written_constants(const GraphModel& graph, const std::string& external) {
  std::vector<Written> out;
  uint64_t offset = 0;
  for (const Constant& constant : graph.constants) {
    const Bytes bytes = bytes_of(constant.value);
    if (!external.empty() && is_external(constant)) {
      out.push_back({tensor_head(constant, Place{external, offset, bytes.size()}), {}});
      offset += bytes.size();
    } else {
      std::string head = tensor_head(constant, std::nullopt);
      head += field_head(TensorField::kRaw, bytes.size());
      out.push_back({std::move(head), bytes});
    }
  }
  return out;
}

}  // namespace

int64_t type_number(DType dtype) {
  switch (dtype) {
    case kBool:
      return 9;
    case kInt8:
      return 3;
    case kInt16:
      return 5;
    case kInt32:
      return 6;
    case kInt64:
      return 7;
    case kUInt8:
      return 2;
    case kUInt16:
      return 4;
    case kUInt32:
      return 12;
    case kUInt64:
      return 13;
    case kFloat16:
      return 10;
    case kBFloat16:
      return 16;
    case kFloat32:
      return 1;
    case kFloat64:
      return 11;
    case kComplex64:
      return 14;
    case kComplex128:
      return 15;
  }
  return 0;
}

void write_model(const std::filesystem::path& file, const Model& model, int64_t external_bytes) {
  int64_t bytes = 0;
  for (const Constant& constant : model.graph.constants) bytes += constant.value.type()->bytes();
  const std::string external = bytes > external_bytes ? write_external(file, model.graph) : "";
  const std::vector<Written> constants = written_constants(model.graph, external);
  std::string body;
  pbf_writer to(body);
  write_body(to, model.graph);
  uint64_t size = body.size();
  for (const Written& each : constants) {
    size += field_head(GraphField::kConstant, each.size()).size() + each.size();
  }
  etude::internal::AtomicFile out(file);
  out.write(model_head(model) + field_head(ModelField::kGraph, size) + body);
  for (const Written& each : constants) {
    out.write(field_head(GraphField::kConstant, each.size()) + each.head);
    if (!each.bytes.empty()) out.write(each.bytes);
  }
  out.commit();
}

}  // namespace etude::onnx::internal
