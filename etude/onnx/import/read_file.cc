// SPDX-License-Identifier: Apache-2.0
// Reads the messages of onnx.proto3.
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <protozero/pbf_reader.hpp>

#include "etude/base/check.h"
#include "etude/files/read_budget.h"
#include "etude/onnx/formula.h"
#include "etude/onnx/import/file.h"
#include "etude/onnx/import/tensor_message.h"

namespace etude::onnx::importing {
namespace {

constexpr std::string_view kDTypes[] = {
    "UNDEFINED",      "FLOAT",    "UINT8",        "INT8",           "UINT16",
    "INT16",          "INT32",    "INT64",        "STRING",         "BOOL",
    "FLOAT16",        "DOUBLE",   "UINT32",       "UINT64",         "COMPLEX64",
    "COMPLEX128",     "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2",
    "FLOAT8E5M2FNUZ", "UINT4",    "INT4",         "FLOAT4E2M1",     "FLOAT8E8M0",
    "UINT2",          "INT2"};

class ModelReader {
 public:
  ModelReader(MessageFile& file) : file_(file) {}  // NOLINT(google-explicit-constructor)

  FileModel model(Fields in) {
    FileModel out;
    bool has_graph = false;
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          out.ir_version = in.integer();
          break;
        case 2:
          out.producer = in.text();
          break;
        case 6:
          out.doc = in.text();
          break;
        case 7:
          graph(in.message(), out.graph, 1);
          has_graph = true;
          break;
        case 8:
          opset(in.message(), out.opset);
          break;
        case 14:
          out.metadata.insert(MessageFile::entry(in.message()));
          break;
        case 25:
          file_.need_item(in, sizeof(FileFunction));
          out.functions.push_back(function(in.message()));
          break;
        default:
          in.skip();
      }
    }
    if (!has_graph) in.fault("the file has no graph, so it is no model of ONNX");
    return out;
  }

 private:
  static void opset(Fields in, int64_t& to) {
    std::string domain;
    int64_t version = 0;
    while (in.next()) {
      if (in.tag() == 1) {
        domain = in.text();
      } else if (in.tag() == 2) {
        version = in.integer();
      } else {
        in.skip();
      }
    }
    if (domain.empty() || domain == "ai.onnx") to = version;
  }

  FileFunction function(Fields in) {
    FileFunction out;
    while (in.next()) {
      file_.need_item(in);
      switch (in.tag()) {
        case 1:
          out.name = in.text();
          break;
        case 4:
          out.inputs.push_back(in.text());
          break;
        case 5:
          out.outputs.push_back(in.text());
          break;
        case 7:
          file_.need_item(in, sizeof(FileNode));
          out.nodes.push_back(node(in.message(), 1));
          break;
        case 9:
          opset(in.message(), out.opset);
          break;
        case 10:
          out.domain = in.text();
          break;
        case 11:
          file_.need_item(in, sizeof(FileAttribute));
          out.defaults.push_back(attribute(in.message(), 1));
          break;
        case 13:
          out.overload = in.text();
          break;
        default:
          in.skip();
      }
    }
    return out;
  }

  void graph(Fields in, FileGraph& to, int64_t depth) {
    file_.need_depth(depth, in);
    while (in.next()) {
      file_.need_item(in);
      switch (in.tag()) {
        case 1:
          file_.need_item(in, sizeof(FileNode));
          to.nodes.push_back(node(in.message(), depth));
          break;
        case 2:
          to.name = in.text();
          break;
        case 5:
          to.constants.push_back(file_.constant(in.message()));
          break;
        case 11:
          file_.need_item(in, sizeof(FilePort));
          to.inputs.push_back(port(in.message()));
          break;
        case 12:
          file_.need_item(in, sizeof(FilePort));
          to.outputs.push_back(port(in.message()));
          break;
        case 15:
          to.constants.push_back(
              {sparse_name(in.message()), {}, "it is a sparse tensor. Save it as a dense tensor"});
          break;
        default:
          in.skip();
      }
    }
  }

  // The name of a sparse tensor is the name of its values.
  std::string sparse_name(Fields in) {
    std::string out;
    while (in.next()) {
      if (in.tag() == 1) {
        Fields values = in.message();
        while (values.next()) {
          if (values.tag() == 8) {
            out = values.text();
          } else {
            values.skip();
          }
        }
      } else {
        in.skip();
      }
    }
    return out;
  }

  FileNode node(Fields in, int64_t depth) {
    FileNode out;
    while (in.next()) {
      file_.need_item(in);
      switch (in.tag()) {
        case 1:
          out.inputs.push_back(in.text());
          break;
        case 2:
          out.outputs.push_back(in.text());
          break;
        case 3:
          out.name = in.text();
          break;
        case 4:
          out.op = in.text();
          break;
        case 5:
          file_.need_item(in, sizeof(FileAttribute));
          out.attributes.push_back(attribute(in.message(), depth));
          break;
        case 6:
          out.doc = in.text();
          break;
        case 7:
          out.domain = in.text();
          break;
        case 8:
          out.overload = in.text();
          break;
        case 9: {
          auto [key, value] = MessageFile::entry(in.message());
          if (key == internal::kCallKey) out.call = std::move(value);
          if (key == internal::kNodesKey) out.call_nodes = std::move(value);
          if (key == internal::kOrderKey) out.order = std::move(value);
          break;
        }
        default:
          in.skip();
      }
    }
    return out;
  }

  // The field of a value determines its kind. An attribute without a value has the zero of its
  // type, since writers leave out zeros and empty lists.
  FileAttribute attribute(Fields in, int64_t depth) {
    FileAttribute out;
    int64_t type = 0;
    std::vector<int64_t> ints;
    std::vector<double> reals;
    std::vector<std::string> texts;
    while (in.next()) {
      file_.need_item(in);
      switch (in.tag()) {
        case 1:
          out.name = in.text();
          break;
        case 2:
          out.value = decimal(in.real());
          break;
        case 3:
          out.value = in.integer();
          break;
        case 4:
          out.value = in.text();
          break;
        case 5: {
          FileConstant constant = file_.constant(in.message());
          out.refusal = constant.refusal;
          out.value = std::move(constant.value);
          break;
        }
        case 6: {
          auto inner = std::make_shared<FileGraph>();
          graph(in.message(), *inner, depth + 1);
          out.value = std::move(inner);
          break;
        }
        case 7:
          file_.reals(in, reals);
          break;
        case 8:
          file_.integers(in, ints);
          break;
        case 9:
          texts.push_back(in.text());
          break;
        case 20:
          type = in.integer();
          break;
        case 21:
          out.reference = in.text();
          break;
        default:
          out.refusal = out.refusal.empty() ? refusal_of(in.tag()) : out.refusal;
          in.skip();
      }
    }
    fill(out, type, std::move(ints), std::move(reals), std::move(texts));
    return out;
  }

  // The number with the fewest digits that is this float: 0.001, not 0.0010000000474974513.
  static double decimal(float value) {
    std::array<char, 64> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    double out = static_cast<double>(value);
    if (std::isfinite(value)) std::from_chars(text.data(), end, out);
    return out;
  }

  // Why a value in this field is not imported; "" for fields without a value.
  static const char* refusal_of(uint32_t tag) {
    const bool is_value =
        tag == 10 || tag == 11 || tag == 14 || tag == 15 || tag == 22 || tag == 23;
    return is_value ? "it is a list of tensors or graphs, a type or a sparse tensor" : "";
  }

  static void fill(FileAttribute& out, int64_t type, std::vector<int64_t> ints,
                   std::vector<double> reals, std::vector<std::string> texts) {
    if (!ints.empty() || type == 7) {
      out.value = std::move(ints);
    } else if (!reals.empty() || type == 6) {
      out.value = std::move(reals);
    } else if (!texts.empty() || type == 8) {
      out.value = std::move(texts);
    } else if (std::holds_alternative<std::monostate>(out.value) && out.refusal.empty()) {
      if (type == 1) out.value = 0.0;
      if (type == 2) out.value = int64_t{0};
      if (type == 3) out.value = std::string();
    }
  }

  FilePort port(Fields in) {
    FilePort out;
    while (in.next()) {
      if (in.tag() == 1) {
        out.name = in.text();
      } else if (in.tag() == 2) {
        type(in.message(), out);
      } else {
        in.skip();
      }
    }
    return out;
  }

  void type(Fields in, FilePort& to) {
    while (in.next()) {
      switch (in.tag()) {
        case 1:
          tensor_type(in.message(), to);
          break;
        case 4:
          to.other_kind = "a sequence";
          in.skip();
          break;
        case 5:
          to.other_kind = "a map";
          in.skip();
          break;
        case 8:
          to.other_kind = "a sparse tensor";
          in.skip();
          break;
        case 9:
          to.other_kind = "an optional value";
          in.skip();
          break;
        default:
          in.skip();
      }
    }
  }

  void tensor_type(Fields in, FilePort& to) {
    while (in.next()) {
      if (in.tag() == 1) {
        to.dtype = in.integer();
      } else if (in.tag() == 2) {
        to.axes.emplace();
        Fields shape = in.message();
        while (shape.next()) {
          if (shape.tag() == 1) {
            to.axes->push_back(axis(shape.message()));
          } else {
            shape.skip();
          }
        }
      } else {
        in.skip();
      }
    }
  }

  FileAxis axis(Fields in) {
    file_.need_item(in);
    FileAxis out;
    while (in.next()) {
      if (in.tag() == 1) {
        out.size = in.integer();
        if (out.size < 0) out.size = kAny;
      } else if (in.tag() == 2) {
        out.name = in.text();
      } else {
        in.skip();
      }
    }
    return out;
  }

  MessageFile& file_;
};

}  // namespace

std::string dtype_text(int64_t number) {
  const bool is_known = number >= 0 && number < static_cast<int64_t>(std::size(kDTypes));
  return is_known ? std::string(kDTypes[number]) : fmt::format("number {}", number);
}

FileModel read_file(const std::filesystem::path& file, std::span<const uint8_t> bytes) {
  MessageFile messages(file, bytes);
  return messages.guarded([&] { return ModelReader(messages).model(messages.fields()); });
}

}  // namespace etude::onnx::importing
