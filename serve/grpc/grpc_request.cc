// SPDX-License-Identifier: Apache-2.0
#include "serve/grpc/grpc_request.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "serve/datatype.h"
#include "serve/refuse.h"

namespace etude::serve {
namespace {

using Request = inference::ModelInferRequest;
using Input = Request::InferInputTensor;
using Wire = google::protobuf::internal::WireFormatLite;
using WireType = Wire::WireType;

// The contents that the protocol has for T.
template <class T>
const auto& contents_of(const inference::InferTensorContents& contents) {
  if constexpr (std::is_same_v<T, bool>) {
    return contents.bool_contents();
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return contents.int64_contents();
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return contents.uint64_contents();
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    return contents.int_contents();
  } else if constexpr (std::is_integral_v<T>) {
    return contents.uint_contents();
  } else if constexpr (std::is_same_v<T, float>) {
    return contents.fp32_contents();
  } else {
    return contents.fp64_contents();
  }
}

template <class T>
Tensor tensor_of_contents(const Input& input, const std::vector<int64_t>& shape, DType dtype) {
  const auto& values = contents_of<T>(input.contents());
  const int64_t count = element_count(shape, dtype, input.name());
  if (values.size() != count) {
    refuse(ErrorCode::kInvalidArgument,
           "input '{}' has {} contents of {}, but its shape {} needs {}", input.name(),
           values.size(), datatype_name(dtype), shape_text(shape), count);
  }
  return filled_tensor<T>(shape, [&](std::span<T> out) {
    for (int i = 0; i < values.size(); ++i) {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        if (!std::in_range<T>(values[i])) {
          refuse(ErrorCode::kInvalidArgument, "input '{}' has {} at position {}, which is no {}",
                 input.name(), values[i], i, datatype_name(dtype));
        }
      }
      out[static_cast<std::size_t>(i)] = static_cast<T>(values[i]);
    }
  });
}

void check_text(const std::string& text, std::string_view what, const RequestLimits& limits) {
  if (text.size() <= limits.text_bytes) return;
  refuse(ErrorCode::kInvalidArgument, "{} has {} bytes, but may have {}", what, text.size(),
         limits.text_bytes);
}

void check_count(int count, std::string_view what, const RequestLimits& limits) {
  if (static_cast<std::size_t>(count) <= limits.tensors) return;
  refuse(ErrorCode::kResourceExhausted, "the request has {} {}, but may have {}", count, what,
         limits.tensors);
}

Tensor tensor_of(const Input& input, const std::string* raw, const CheckInput& check,
                 const RequestLimits& limits) {
  check_text(input.name(), "the name of an input", limits);
  if (input.shape_size() > kMaxRank) {
    refuse(ErrorCode::kInvalidArgument, "input '{}' has more than {} axes", input.name(), kMaxRank);
  }
  const std::optional<DType> dtype = datatype_named(input.datatype());
  if (!dtype) {
    refuse(ErrorCode::kInvalidArgument, "input '{}' has the datatype '{}', but there are: {}",
           input.name(), input.datatype().substr(0, 60), datatype_names());
  }
  const std::vector<int64_t> shape(input.shape().begin(), input.shape().end());
  if (check) check(input.name(), *dtype, shape);
  if (raw != nullptr) {
    if (input.has_contents()) {
      refuse(ErrorCode::kInvalidArgument,
             "input '{}' has contents, but the request has raw_input_contents. Send one of them",
             input.name());
    }
    return tensor_of_bytes(*dtype, shape, *raw, input.name());
  }
  return with_element(*dtype, [&]<class T>(T) -> Tensor {
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      refuse(ErrorCode::kInvalidArgument, "input '{}' is {}, which needs raw_input_contents",
             input.name(), input.datatype());
    } else {
      return tensor_of_contents<T>(input, shape, *dtype);
    }
  });
}

// Counts the fields of a message and of the messages in it.
class PartCounter {
 public:
  PartCounter(google::protobuf::io::ZeroCopyInputStream& bytes, const RequestLimits& limits)
      : in_(&bytes), limits_(limits) {}

  // Returns false at bytes that are no message.
  bool count() { return count(Of::kRequest); }

 private:
  enum class Of : uint8_t { kRequest, kInput, kOutput, kContents, kOther };

  static Of inside(Of of, int field) {
    if (of == Of::kRequest && field == Request::kInputsFieldNumber) return Of::kInput;
    if (of == Of::kRequest && field == Request::kOutputsFieldNumber) return Of::kOutput;
    if (of == Of::kInput && field == Input::kContentsFieldNumber) return Of::kContents;
    return Of::kOther;
  }

  bool count(Of of) {
    while (const uint32_t tag = in_.ReadTag()) {
      const WireType type = Wire::GetTagWireType(tag);
      if (of != Of::kContents || type == Wire::WIRETYPE_LENGTH_DELIMITED) ++parts_;
      if (parts_ > limits_.parts) {
        refuse(ErrorCode::kResourceExhausted,
               "the request has more than {} fields. Send tensors as raw_input_contents",
               limits_.parts);
      }
      if (!pass(type, inside(of, Wire::GetTagFieldNumber(tag)))) return false;
    }
    return in_.ConsumedEntireMessage();
  }

  // The value of a field.
  bool pass(WireType type, Of of) {
    uint64_t number = 0;
    switch (type) {
      case Wire::WIRETYPE_VARINT:
        return in_.ReadVarint64(&number);
      case Wire::WIRETYPE_FIXED64:
        return in_.Skip(8);
      case Wire::WIRETYPE_FIXED32:
        return in_.Skip(4);
      case Wire::WIRETYPE_LENGTH_DELIMITED:
        break;
      default:  // groups, which the protocol does not have
        return false;
    }
    int size = 0;
    if (!in_.ReadVarintSizeAsInt(&size)) return false;
    if (of == Of::kOther) return in_.Skip(size);
    const auto outer = in_.PushLimit(size);
    if (!count(of)) return false;
    in_.PopLimit(outer);
    return true;
  }

  google::protobuf::io::CodedInputStream in_;
  const RequestLimits& limits_;
  std::size_t parts_ = 0;
};

}  // namespace

void check_parts(google::protobuf::io::ZeroCopyInputStream& bytes, const RequestLimits& limits) {
  static_cast<void>(PartCounter(bytes, limits).count());
}

InferRequest read_infer(const inference::ModelInferRequest& message, const CheckInput& check,
                        const RequestLimits& limits) {
  check_text(message.id(), "the id of the request", limits);
  check_count(message.inputs_size(), "inputs", limits);
  check_count(message.outputs_size(), "outputs", limits);
  InferRequest out;
  out.id = message.id();
  for (const Input& input : message.inputs()) {  // it has no contents
    if (!input.parameters().contains(kSharedMemory)) continue;
    refuse_shared_memory("input '" + input.name().substr(0, limits.text_bytes) + "'");
  }
  const bool raw = message.raw_input_contents_size() > 0;
  if (raw && message.raw_input_contents_size() != message.inputs_size()) {
    refuse(ErrorCode::kInvalidArgument,
           "the request has {} inputs, but {} raw_input_contents; it needs one for each, or none",
           message.inputs_size(), message.raw_input_contents_size());
  }
  for (int i = 0; i < message.inputs_size(); ++i) {
    const Input& input = message.inputs(i);
    Tensor x = tensor_of(input, raw ? &message.raw_input_contents(i) : nullptr, check, limits);
    if (!out.inputs.emplace(input.name(), std::move(x)).second) {
      refuse(ErrorCode::kInvalidArgument, "input '{}' is given twice", input.name());
    }
  }
  for (const auto& output : message.outputs()) {
    check_text(output.name(), "the name of an output", limits);
    if (output.parameters().contains(kSharedMemory)) {
      refuse_shared_memory("output '" + output.name() + "'");
    }
    if (output.parameters().contains("classification")) {
      refuse(ErrorCode::kUnimplemented,
             "output '{}' has the parameter 'classification', an extension that this server does "
             "not have",
             output.name());
    }
    out.outputs.push_back({output.name(), true});
  }
  const auto timeout = message.parameters().find("timeout");
  if (timeout != message.parameters().end()) {
    const inference::InferParameter& value = timeout->second;
    if (value.parameter_choice_case() != inference::InferParameter::kInt64Param ||
        value.int64_param() < 0) {
      refuse(ErrorCode::kInvalidArgument,
             "parameter 'timeout' of the request must be a number of microseconds from 0");
    }
    out.timeout_us = value.int64_param();
  }
  return out;
}

void write_infer(const std::string& id, const InferResult& result,
                 inference::ModelInferResponse& to) {
  to.set_model_name(result.model);
  to.set_model_version(result.version);
  to.set_id(id);
  for (const auto& [name, x] : result.outputs) {
    auto* output = to.add_outputs();
    output->set_name(name);
    output->set_datatype(std::string(datatype_name(x.dtype())));
    for (const int64_t size : x.shape()) output->add_shape(size);
    const std::string_view bytes = bytes_of(x);
    to.add_raw_output_contents(bytes.data(), bytes.size());
  }
}

}  // namespace etude::serve
