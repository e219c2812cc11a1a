// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>

#include "etude/files/json_tree.h"
#include "serve/datatype.h"
#include "serve/refuse.h"
#include "serve/request.h"

namespace etude::serve {
namespace {

using Json = nlohmann::json;

// A parser must not meet deep brackets: it keeps a stack.
void check_depth(std::string_view text, int limit) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      in_text = c != '"';
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > limit) {
        refuse(ErrorCode::kResourceExhausted,
               "the JSON of the request is nested deeper than {}, at byte {}", limit, i);
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

etude::internal::JsonTree<Json> parse(std::string_view text, const RequestLimits& limits) {
  if (text.size() > limits.json_bytes) {
    refuse(ErrorCode::kResourceExhausted,
           "the JSON of the request has {} bytes, but may have {}. Send tensors as binary data, or "
           "start the server with a larger --json-limit",
           text.size(), limits.json_bytes);
  }
  check_depth(text, limits.depth);
  etude::internal::JsonTree<Json> tree(text);
  if (!tree.error().empty()) {
    refuse(ErrorCode::kInvalidArgument, "the request is no JSON: {}", tree.error());
  }
  return tree;
}

// A text for messages: at most 60 bytes of a value.
std::string shown(const Json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  return value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60);
}

const Json* field(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_field(const Json& object, const char* key, std::string_view of) {
  const Json* value = field(object, key);
  if (value == nullptr) {
    refuse(ErrorCode::kInvalidArgument, "{} has no '{}', which is a text", of, key);
  }
  if (!value->is_string()) {
    refuse(ErrorCode::kInvalidArgument, "'{}' of {} is {}, but must be a text", key, of,
           shown(*value));
  }
  return value->get<std::string>();
}

// A parameter of a request, an input or an output; null if it is not given.
const Json* parameter(const Json& object, const char* key, std::string_view of) {
  const Json* parameters = field(object, "parameters");
  if (parameters == nullptr) return nullptr;
  if (!parameters->is_object()) {
    refuse(ErrorCode::kInvalidArgument, "'parameters' of {} is {}, but must be an object", of,
           shown(*parameters));
  }
  return field(*parameters, key);
}

bool flag_parameter(const Json& object, const char* key, std::string_view of, bool otherwise) {
  const Json* value = parameter(object, key, of);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) {
    refuse(ErrorCode::kInvalidArgument, "parameter '{}' of {} is {}, but must be true or false",
           key, of, shown(*value));
  }
  return value->get<bool>();
}

std::optional<int64_t> size_parameter(const Json& object, const char* key, std::string_view of) {
  const Json* value = parameter(object, key, of);
  if (value == nullptr) return std::nullopt;
  const bool fits = value->is_number_unsigned() &&
                    value->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
  if (!fits) {
    refuse(ErrorCode::kInvalidArgument, "parameter '{}' of {} is {}, but must be a number from 0",
           key, of, shown(*value));
  }
  return value->get<int64_t>();
}

std::vector<int64_t> shape_of(const Json& input, const std::string& name) {
  const Json* shape = field(input, "shape");
  if (shape == nullptr || !shape->is_array()) {
    refuse(ErrorCode::kInvalidArgument, "input '{}' has no 'shape', which is a list of sizes",
           name);
  }
  std::vector<int64_t> out;
  for (const Json& size : *shape) {
    const bool fits = size.is_number_integer() &&
                      !(size.is_number_unsigned() &&
                        size.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()});
    if (!fits) {
      refuse(ErrorCode::kInvalidArgument,
             "'shape' of input '{}' has the size {}, but a size is a "
             "whole number",
             name, shown(size));
    }
    out.push_back(size.get<int64_t>());
  }
  return out;
}

DType dtype_of_input(const Json& input, const std::string& name) {
  const std::string datatype = text_field(input, "datatype", "input '" + name + "'");
  const std::optional<DType> dtype = datatype_named(datatype);
  if (!dtype) {
    refuse(ErrorCode::kInvalidArgument, "input '{}' has the datatype '{}', but there are: {}", name,
           datatype.substr(0, 60), datatype_names());
  }
  return *dtype;
}

// The numbers of an input, in lists of any nesting: the text has row-major order.
template <class T>
class NumberReader {
 public:
  NumberReader(std::span<T> out, const std::string& name, DType dtype)
      : out_(out), name_(name), dtype_(dtype) {}

  void read(const Json& data) {
    if (data.is_array()) {
      for (const Json& each : data) read(each);  // check_depth() has bounded this
      return;
    }
    if (at_ == out_.size()) refuse_count(false);
    out_[at_++] = value(data);
  }
  void finish() const {
    if (at_ != out_.size()) refuse_count(true);
  }

 private:
  T value(const Json& data) const {
    if constexpr (std::is_same_v<T, bool>) {
      if (data.is_boolean()) return data.get<bool>();
      if (data.is_number_unsigned() && data.get<uint64_t>() <= 1) return data.get<uint64_t>() == 1;
    } else if constexpr (std::is_integral_v<T>) {
      if (data.is_number_unsigned() && std::in_range<T>(data.get<uint64_t>())) {
        return static_cast<T>(data.get<uint64_t>());
      }
      if (data.is_number_integer() && !data.is_number_unsigned() &&
          std::in_range<T>(data.get<int64_t>())) {
        return static_cast<T>(data.get<int64_t>());
      }
    } else if (data.is_number()) {
      const double number = data.get<double>();
      // A finite number that becomes infinite is too large for the datatype.
      const T rounded =
          static_cast<T>(static_cast<std::conditional_t<sizeof(T) == 8, double, float>>(number));
      if (std::isfinite(static_cast<double>(static_cast<float>(rounded))) || sizeof(T) == 8) {
        return rounded;
      }
    }
    refuse(ErrorCode::kInvalidArgument,
           "'data' of input '{}' has {} at position {}, which is no {}", name_, shown(data), at_,
           datatype_name(dtype_));
  }
  [[noreturn]] void refuse_count(bool few) const {
    refuse(ErrorCode::kInvalidArgument,
           "'data' of input '{}' has {} {} numbers, but its shape needs {}", name_,
           few ? "only" : "more than", at_, out_.size());
  }

  std::span<T> out_;
  const std::string& name_;
  DType dtype_;
  std::size_t at_ = 0;
};

class InferReader {
 public:
  InferReader(std::string_view binary, std::size_t json_bytes)
      : binary_(binary), json_bytes_(json_bytes) {}

  InferRequest read(const Json& json) {
    if (!json.is_object()) {
      refuse(ErrorCode::kInvalidArgument, "the request is {}, but must be an object with 'inputs'",
             shown(json));
    }
    InferRequest out;
    if (field(json, "id") != nullptr) out.id = text_field(json, "id", "the request");
    out.binary_outputs = flag_parameter(json, "binary_data_output", "the request", false);
    out.timeout_us = size_parameter(json, "timeout", "the request");
    for (const Json& input : list(json, "inputs", true)) add_input(input, out);
    if (!binary_.empty()) {
      refuse(ErrorCode::kInvalidArgument,
             "the body has {} bytes after the data of its inputs. Does each binary input state "
             "'binary_data_size'?",
             binary_.size());
    }
    for (const Json& output : list(json, "outputs", false)) add_output(output, out);
    return out;
  }

 private:
  static const Json& list(const Json& json, const char* key, bool required) {
    static const Json none = Json::array();
    const Json* value = field(json, key);
    if (value == nullptr && !required) return none;
    if (value == nullptr || !value->is_array()) {
      refuse(ErrorCode::kInvalidArgument, "the request has no list '{}'", key);
    }
    for (const Json& each : *value) {
      if (!each.is_object()) {
        refuse(ErrorCode::kInvalidArgument, "the list '{}' has {}, but must have objects", key,
               shown(each));
      }
    }
    return *value;
  }

  void add_input(const Json& input, InferRequest& out) {
    const std::string name = text_field(input, "name", "an input");
    const DType dtype = dtype_of_input(input, name);
    const std::vector<int64_t> shape = shape_of(input, name);
    const std::string of = "input '" + name + "'";
    const std::optional<int64_t> bytes = size_parameter(input, "binary_data_size", of);
    const Json* data = field(input, "data");
    if (bytes.has_value() == (data != nullptr)) {
      refuse(ErrorCode::kInvalidArgument,
             "input '{}' has {}. Write a list 'data', or send binary data with the parameter "
             "'binary_data_size' and the header Inference-Header-Content-Length",
             name, bytes ? "'data' and binary data" : "no data");
    }
    Tensor x = bytes ? binary_input(dtype, shape, static_cast<uint64_t>(*bytes), name)
                     : json_input(dtype, shape, *data, name);
    if (!out.inputs.emplace(name, std::move(x)).second) {
      refuse(ErrorCode::kInvalidArgument, "input '{}' is given twice", name);
    }
  }

  Tensor binary_input(DType dtype, const std::vector<int64_t>& shape, uint64_t bytes,
                      const std::string& name) {
    if (bytes > binary_.size()) {
      refuse(ErrorCode::kInvalidArgument,
             "input '{}' has binary_data_size {}, but the body has only {} bytes left", name, bytes,
             binary_.size());
    }
    Tensor out = tensor_of_bytes(dtype, shape, binary_.substr(0, bytes), name);
    binary_.remove_prefix(bytes);
    return out;
  }

  Tensor json_input(DType dtype, const std::vector<int64_t>& shape, const Json& data,
                    const std::string& name) const {
    if (!data.is_array()) {
      refuse(ErrorCode::kInvalidArgument, "'data' of input '{}' is {}, but must be a list", name,
             shown(data));
    }
    const int64_t count = element_count(shape, dtype, name);
    if (static_cast<uint64_t>(count) > json_bytes_) {  // an element takes a byte or more
      refuse(ErrorCode::kInvalidArgument,
             "input '{}' has shape {}, but the request is too short for its data", name,
             shape_text(shape));
    }
    return with_element(dtype, [&]<class T>(T) {
      return filled_tensor<T>(shape, count, [&](std::span<T> all) {
        NumberReader<T> reader(all, name, dtype);
        reader.read(data);
        reader.finish();
      });
    });
  }

  static void add_output(const Json& output, InferRequest& out) {
    const std::string name = text_field(output, "name", "an output");
    const std::string of = "output '" + name + "'";
    if (parameter(output, "classification", of) != nullptr) {
      refuse(ErrorCode::kUnimplemented,
             "output '{}' has the parameter 'classification', an extension that this server does "
             "not have",
             name);
    }
    out.outputs.push_back({name, flag_parameter(output, "binary_data", of, out.binary_outputs)});
  }

  std::string_view binary_;
  std::size_t json_bytes_;
};

}  // namespace

InferRequest read_infer(std::string_view body, std::optional<std::size_t> header_length,
                        const RequestLimits& limits) {
  const std::size_t length = header_length.value_or(body.size());
  if (length > body.size()) {
    refuse(ErrorCode::kInvalidArgument,
           "the header Inference-Header-Content-Length is {}, but the body has only {} bytes",
           length, body.size());
  }
  const etude::internal::JsonTree<Json> json = parse(body.substr(0, length), limits);
  return InferReader(body.substr(length), length).read(json.root());
}

}  // namespace etude::serve
