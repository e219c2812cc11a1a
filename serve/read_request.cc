// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <span>
#include <system_error>
#include <type_traits>

#include "serve/datatype.h"
#include "serve/json_reader.h"
#include "serve/refuse.h"
#include "serve/request.h"

namespace etude::serve {
namespace {

using Kind = JsonReader::Kind;

// Reads an object. Calls read(key), which reads the value, for members with the keys of `known`.
// Skips other members, and null. throws: kInvalidArgument for a known key that occurs twice.
template <std::size_t N, class F>
void read_members(JsonReader& json, const char* const (&known)[N], std::string_view of, F&& read) {
  uint32_t seen = 0;
  json.object([&](const std::string& key) {
    const auto at = static_cast<std::size_t>(std::ranges::find(known, key) - std::begin(known));
    if (at == N) return json.skip();
    if ((seen >> at & 1) != 0) {
      refuse(ErrorCode::kInvalidArgument, "{} has '{}' twice", of, key);
    }
    seen |= uint32_t{1} << at;
    if (json.kind() == Kind::kNull) return json.skip();
    read(std::string_view(key));
  });
}

[[noreturn]] void refuse_value(JsonReader& json, std::string_view key, std::string_view of,
                               std::string_view needed) {
  refuse(ErrorCode::kInvalidArgument, "'{}' of {} is {}, but must be {}", key, of, json.shown(),
         needed);
}

std::string read_text(JsonReader& json, std::string_view key, std::string_view of,
                      const RequestLimits& limits) {
  if (json.kind() != Kind::kText) refuse_value(json, key, of, "a text");
  std::string out = json.text();
  if (out.size() > limits.text_bytes) {
    refuse(ErrorCode::kInvalidArgument, "'{}' of {} has {} bytes, but may have {}", key, of,
           out.size(), limits.text_bytes);
  }
  return out;
}

bool read_flag(JsonReader& json, std::string_view parameter, std::string_view of) {
  if (json.kind() == Kind::kFlag) return json.flag();
  refuse(ErrorCode::kInvalidArgument, "parameter '{}' of {} is {}, but must be true or false",
         parameter, of, json.shown());
}

// Whether the digits are a number of T, which is stored. A fraction or an exponent is none.
template <class T>
bool read_integer(std::string_view digits, T& out) {
  if (digits == "-0") digits = "0";
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return code == std::errc() && end == digits.data() + digits.size();
}

int64_t read_size(JsonReader& json, std::string_view parameter, std::string_view of) {
  const std::size_t begin = json.offset();
  int64_t out = -1;
  if (json.kind() == Kind::kNumber && read_integer(json.number(), out) && out >= 0) return out;
  json.go_to(begin);
  refuse(ErrorCode::kInvalidArgument, "parameter '{}' of {} is {}, but must be a number from 0",
         parameter, of, json.shown());
}

template <std::size_t N, class F>
void read_parameters(JsonReader& json, const char* const (&known)[N], std::string_view of,
                     F&& read) {
  if (json.kind() != Kind::kObject) refuse_value(json, "parameters", of, "an object");
  read_members(json, known, of, read);
}

std::vector<int64_t> read_shape(JsonReader& json, const std::string& of) {
  if (json.kind() != Kind::kList) {
    refuse(ErrorCode::kInvalidArgument, "{} has no 'shape', which is a list of sizes", of);
  }
  std::vector<int64_t> out;
  json.list([&] {
    const std::size_t begin = json.offset();
    int64_t size = 0;
    if (json.kind() != Kind::kNumber || !read_integer(json.number(), size)) {
      json.go_to(begin);
      refuse(ErrorCode::kInvalidArgument,
             "'shape' of {} has the size {}, but a size is a whole number", of, json.shown());
    }
    out.push_back(size);
    if (out.size() > static_cast<std::size_t>(kMaxRank)) {
      refuse(ErrorCode::kInvalidArgument, "{} has more than {} axes", of, kMaxRank);
    }
  });
  return out;
}

DType dtype_of_input(const std::string& datatype, const std::string& name) {
  const std::optional<DType> dtype = datatype_named(datatype);
  if (!dtype) {
    refuse(ErrorCode::kInvalidArgument, "input '{}' has the datatype '{}', but there are: {}", name,
           datatype.substr(0, 60), datatype_names());
  }
  return *dtype;
}

// The nearest number; an infinity if it is too large.
template <class F>
F read_real(std::string_view digits) {
  F out = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), out).ec == std::errc()) {
    return out;
  }
  const std::string copy(digits);  // out of range; strtod() finds on which side
  if constexpr (std::is_same_v<F, float>) {
    return std::strtof(copy.c_str(), nullptr);
  } else {
    return std::strtod(copy.c_str(), nullptr);
  }
}

// The elements of an input, in lists of any nesting: the text has row-major order.
template <class T>
class ElementReader {
 public:
  ElementReader(JsonReader& json, std::span<T> out, const std::string& name, DType dtype)
      : json_(json), out_(out), name_(name), dtype_(dtype) {}

  void read() {
    read_list();
    if (at_ != out_.size()) {
      refuse(ErrorCode::kInvalidArgument,
             "'data' of input '{}' has only {} numbers, but its shape needs {}", name_, at_,
             out_.size());
    }
  }

 private:
  void read_list() {
    json_.list([this] {
      const Kind kind = json_.kind();
      if (kind == Kind::kList) return read_list();  // the reader limits the levels
      if (at_ == out_.size()) {
        refuse(ErrorCode::kInvalidArgument,
               "'data' of input '{}' has more than {} numbers, but its shape needs {}", name_, at_,
               out_.size());
      }
      const std::size_t begin = json_.offset();
      if (!read_element(kind, out_[at_])) {
        json_.go_to(begin);
        refuse(ErrorCode::kInvalidArgument,
               "'data' of input '{}' has {} at position {}, which is no {}", name_, json_.shown(),
               at_, datatype_name(dtype_));
      }
      ++at_;
    });
  }

  bool read_element(Kind kind, T& out) {
    if constexpr (std::is_same_v<T, bool>) {
      if (kind == Kind::kFlag) {
        out = json_.flag();
        return true;
      }
      const std::string_view digits = kind == Kind::kNumber ? json_.number() : std::string_view();
      out = digits == "1";
      return out || digits == "0";
    } else {
      if (kind != Kind::kNumber) return false;
      const std::string_view digits = json_.number();
      if constexpr (std::is_integral_v<T>) {
        return read_integer(digits, out);
      } else {
        using Wide = std::conditional_t<std::is_same_v<T, float>, float, double>;
        out = static_cast<T>(read_real<Wide>(digits));
        return std::isfinite(static_cast<Wide>(out));
      }
    }
  }

  JsonReader& json_;
  std::span<T> out_;
  const std::string& name_;
  DType dtype_;
  std::size_t at_ = 0;
};

class InferReader {
 public:
  InferReader(std::string_view text, std::string_view binary, const CheckInput& check,
              const RequestLimits& limits)
      : json_(text, limits.depth), text_(text), binary_(binary), check_(check), limits_(limits) {}

  InferRequest read() {
    constexpr std::string_view kOf = "the request";
    if (json_.kind() != Kind::kObject) {
      refuse(ErrorCode::kInvalidArgument, "the request is {}, but must be an object with 'inputs'",
             json_.shown());
    }
    bool has_inputs = false;
    read_members(json_, {"id", "parameters", "inputs", "outputs"}, kOf, [&](std::string_view key) {
      if (key == "id") out_.id = read_text(json_, key, kOf, limits_);
      if (key == "parameters") read_request_parameters(kOf);
      if (key == "outputs") read_list(key, [this] { read_output(); });
      if (key == "inputs") {
        has_inputs = true;
        read_list(key, [this] { read_input(); });
      }
    });
    json_.finish();
    if (!has_inputs) refuse(ErrorCode::kInvalidArgument, "the request has no list 'inputs'");
    if (!binary_.empty()) {
      refuse(ErrorCode::kInvalidArgument,
             "the body has {} bytes after the data of its inputs. Does each binary input state "
             "'binary_data_size'?",
             binary_.size());
    }
    for (const std::size_t i : outputs_by_default_) out_.outputs[i].binary = out_.binary_outputs;
    return std::move(out_);
  }

 private:
  struct Input {
    std::string name, datatype;
    bool has_name = false, has_datatype = false;
    std::optional<std::vector<int64_t>> shape;
    std::optional<int64_t> binary_bytes;
    std::optional<std::size_t> data;  // its offset in the text
    Tensor tensor;
    std::string title() const { return has_name ? "input '" + name + "'" : "an input"; }
  };

  void read_request_parameters(std::string_view of) {
    read_parameters(json_, {"binary_data_output", "timeout"}, of, [&](std::string_view key) {
      if (key == "timeout") out_.timeout_us = read_size(json_, key, of);
      if (key == "binary_data_output") out_.binary_outputs = read_flag(json_, key, of);
    });
  }

  // A list of objects. `read` reads one of them.
  template <class F>
  void read_list(std::string_view key, F&& read) {
    if (json_.kind() != Kind::kList) {
      refuse(ErrorCode::kInvalidArgument, "the request has no list '{}'", key);
    }
    std::size_t count = 0;
    json_.list([&] {
      if (json_.kind() != Kind::kObject) {
        refuse(ErrorCode::kInvalidArgument, "the list '{}' has {}, but must have objects", key,
               json_.shown());
      }
      if (++count > limits_.tensors) {
        refuse(ErrorCode::kResourceExhausted, "the list '{}' has more than {} objects", key,
               limits_.tensors);
      }
      read();
    });
  }

  void read_input() {
    Input input;
    read_members(json_, {"name", "datatype", "shape", "parameters", "data"}, "an input",
                 [&](std::string_view key) { read_member(key, input); });
    if (!input.tensor.has_value()) check(input);
    if (input.binary_bytes.has_value() == input.data.has_value()) {
      refuse(ErrorCode::kInvalidArgument,
             "{} has {}. Write a list 'data', or send binary data with the parameter "
             "'binary_data_size' and the header Inference-Header-Content-Length",
             input.title(), input.data ? "'data' and binary data" : "no data");
    }
    if (input.binary_bytes) {
      read_binary(input);
    } else if (!input.tensor.has_value()) {  // its datatype or its shape came after its data
      const std::size_t end = json_.offset();
      json_.go_to(*input.data);
      read_data(input);
      json_.go_to(end);
    }
    if (!out_.inputs.emplace(input.name, std::move(input.tensor)).second) {
      refuse(ErrorCode::kInvalidArgument, "input '{}' is given twice", input.name);
    }
  }

  void read_member(std::string_view key, Input& input) {
    if (key == "name") {
      input.name = read_text(json_, key, input.title(), limits_);
      input.has_name = true;
    } else if (key == "datatype") {
      input.datatype = read_text(json_, key, input.title(), limits_);
      input.has_datatype = true;
    } else if (key == "shape") {
      input.shape = read_shape(json_, input.title());
    } else if (key == "parameters") {
      const std::string of = input.title();
      read_parameters(json_, {"binary_data_size", kSharedMemory}, of,
                      [&](std::string_view parameter) {
                        if (parameter == kSharedMemory) refuse_shared_memory(of);
                        input.binary_bytes = read_size(json_, parameter, of);
                      });
    } else {
      input.data = json_.offset();
      if (input.has_name && input.has_datatype && input.shape) {
        check(input);
        read_data(input);
      } else {
        json_.skip();
      }
    }
  }

  // Checks all but the data.
  void check(const Input& input) const {
    if (!input.has_name) {
      refuse(ErrorCode::kInvalidArgument, "an input has no 'name', which is a text");
    }
    if (!input.has_datatype) {
      refuse(ErrorCode::kInvalidArgument, "{} has no 'datatype', which is a text", input.title());
    }
    const DType dtype = dtype_of_input(input.datatype, input.name);
    if (!input.shape) {
      refuse(ErrorCode::kInvalidArgument, "{} has no 'shape', which is a list of sizes",
             input.title());
    }
    if (check_) check_(input.name, dtype, *input.shape);
  }

  void read_binary(Input& input) {
    const auto bytes = static_cast<uint64_t>(*input.binary_bytes);
    if (bytes > binary_.size()) {
      refuse(ErrorCode::kInvalidArgument,
             "input '{}' has binary_data_size {}, but the body has only {} bytes left", input.name,
             bytes, binary_.size());
    }
    input.tensor = tensor_of_bytes(dtype_of_input(input.datatype, input.name), *input.shape,
                                   binary_.substr(0, bytes), input.name);
    binary_.remove_prefix(bytes);
  }

  void read_data(Input& input) {
    if (json_.kind() != Kind::kList) refuse_value(json_, "data", input.title(), "a list");
    const DType dtype = dtype_of_input(input.datatype, input.name);
    const int64_t count = element_count(*input.shape, dtype, input.name);
    // An element takes a digit and a comma or bracket.
    if (static_cast<uint64_t>(count) > (text_.size() - json_.offset()) / 2) {
      refuse(ErrorCode::kInvalidArgument,
             "input '{}' has shape {}, but the request is too short for its data", input.name,
             shape_text(*input.shape));
    }
    with_element(dtype, [&]<class T>(T) {
      input.tensor = filled_tensor<T>(*input.shape, [&](std::span<T> all) {
        ElementReader<T>(json_, all, input.name, dtype).read();
      });
    });
  }

  void read_output() {
    std::string name;
    bool has_name = false;
    std::optional<bool> binary;
    const auto title = [&] { return has_name ? "output '" + name + "'" : "an output"; };
    read_members(json_, {"name", "parameters"}, "an output", [&](std::string_view key) {
      if (key == "name") {
        name = read_text(json_, key, title(), limits_);
        has_name = true;
        return;
      }
      const std::string of = title();
      read_parameters(
          json_, {"binary_data", "classification", kSharedMemory}, of, [&](std::string_view each) {
            if (each == kSharedMemory) refuse_shared_memory(of);
            if (each == "classification") {
              refuse(
                  ErrorCode::kUnimplemented,
                  "{} has the parameter 'classification', an extension that this server does not "
                  "have",
                  of);
            }
            binary = read_flag(json_, each, of);
          });
    });
    if (!has_name) {
      refuse(ErrorCode::kInvalidArgument, "an output has no 'name', which is a text");
    }
    if (!binary) outputs_by_default_.push_back(out_.outputs.size());
    out_.outputs.push_back({name, binary.value_or(false)});
  }

  JsonReader json_;
  std::string_view text_, binary_;
  const CheckInput& check_;
  const RequestLimits& limits_;
  InferRequest out_;
  std::vector<std::size_t> outputs_by_default_;  // they do not state `binary_data`
};

}  // namespace

InferRequest read_infer(std::string_view body, std::optional<std::size_t> header_length,
                        const CheckInput& check, const RequestLimits& limits) {
  const std::size_t length = header_length.value_or(body.size());
  if (length > body.size()) {
    refuse(ErrorCode::kInvalidArgument,
           "the header Inference-Header-Content-Length is {}, but the body has only {} bytes",
           length, body.size());
  }
  if (length > limits.json_bytes) {
    refuse(ErrorCode::kResourceExhausted,
           "the JSON of the request has {} bytes, but may have {}. Send tensors as binary data, or "
           "start the server with a larger --json-limit",
           length, limits.json_bytes);
  }
  return InferReader(body.substr(0, length), body.substr(length), check, limits).read();
}

}  // namespace etude::serve
