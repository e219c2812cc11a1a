// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/files/json_writer.h"
#include "serve/datatype.h"
#include "serve/refuse.h"
#include "serve/request.h"

namespace etude::serve {
namespace {

using etude::internal::JsonWriter;

// The shortest text that reads back equal, in `buffer`.
template <class T>
std::string_view number_text(T value, std::string_view output, std::array<char, 32>& buffer) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return {buffer.data(), fmt::format_to(buffer.data(), "{}", value)};
  } else {
    using Wide = std::conditional_t<sizeof(T) == 8, double, float>;
    const auto wide = static_cast<Wide>(value);
    if (!std::isfinite(wide)) {
      refuse(ErrorCode::kInvalidArgument,
             "output '{}' has the value {}, which JSON cannot write. Ask for binary data: "
             "\"parameters\": {{\"binary_data\": true}}",
             output, wide);
    }
    return {buffer.data(), fmt::format_to(buffer.data(), "{}", wide)};
  }
}

// The bytes of an answer, for a Reserve.
class Growth {
 public:
  explicit Growth(const Reserve& reserve) : reserve_(reserve) {}
  // Bytes that will be written.
  void expect(int64_t bytes) {
    if (reserve_ && bytes > 0) reserve_(bytes);
    expected_ += bytes;
  }
  // Bytes that are written. Reserves by steps, since all requests share the budget.
  void add(std::size_t bytes) {
    constexpr int64_t kStep = 64 << 10;
    written_ += static_cast<int64_t>(bytes);
    if (written_ > expected_) expect(written_ - expected_ + std::min(kStep, written_));
  }

 private:
  const Reserve& reserve_;
  int64_t expected_ = 0, written_ = 0;
};

// JsonWriter::value() would write 1.0 for 1, and takes ten times as long.
void write_data(JsonWriter& json, const std::string& name, const Tensor& x, Growth& growth) {
  with_element(x.dtype(), [&]<class T>(T) {
    std::array<char, 32> buffer;
    json.list(x.data<T>(), [&](T value) {
      const std::string_view text = number_text(value, name, buffer);
      growth.add(text.size() + 1);
      json.raw(text);
    });
  });
}

bool is_binary(const InferRequest& request, std::size_t output) {
  return request.outputs.empty() ? request.binary_outputs : request.outputs[output].binary;
}

// The bytes of all data: a number and a comma have at least two.
int64_t least_bytes(const InferRequest& request, const InferResult& result) {
  int64_t out = 0;
  for (std::size_t i = 0; i < result.outputs.size(); ++i) {
    const Tensor& x = result.outputs[i].second;
    out += is_binary(request, i) ? static_cast<int64_t>(x.nbytes()) : 2 * x.size();
  }
  return out;
}

}  // namespace

void refuse_shared_memory(std::string_view of) {
  refuse(ErrorCode::kUnimplemented,
         "{} has the parameter '{}', but this server does not support shared memory. Send tensors "
         "in the request, and read them from the answer",
         of, kSharedMemory);
}

void check_outputs(const std::string& model, const std::vector<WantedOutput>& wanted,
                   const std::vector<std::string>& names) {
  std::set<std::string_view> seen;
  for (const WantedOutput& each : wanted) {
    if (std::ranges::find(names, each.name) == names.end()) {
      refuse(ErrorCode::kInvalidArgument, "model '{}' has no output '{}'. Its outputs: {}", model,
             each.name, fmt::join(names, ", "));
    }
    if (!seen.insert(each.name).second) {
      refuse(ErrorCode::kInvalidArgument, "the request wants output '{}' twice", each.name);
    }
  }
}

std::vector<std::pair<std::string, Tensor>> wanted_outputs(const std::vector<WantedOutput>& wanted,
                                                           const std::vector<std::string>& names,
                                                           const io::NamedTensors& all) {
  std::vector<std::pair<std::string, Tensor>> out;
  for (const WantedOutput& each : wanted) {
    const auto found = all.find(each.name);
    if (found == all.end()) {
      refuse(ErrorCode::kInvalidArgument, "the graph for these inputs has no output '{}'",
             each.name);
    }
    out.emplace_back(*found);
  }
  if (!wanted.empty()) return out;
  for (const std::string& name : names) {
    const auto found = all.find(name);
    if (found != all.end()) out.emplace_back(name, found->second);
  }
  return out;
}

InferBody write_infer(const InferRequest& request, const InferResult& result,
                      const Reserve& reserve) {
  Growth growth(reserve);
  growth.expect(least_bytes(request, result));
  JsonWriter json(JsonWriter::Texts::kReplaced);
  std::vector<const Tensor*> binary;
  std::size_t i = 0;
  const auto write_output = [&](const std::pair<std::string, Tensor>& output) {
    const auto& [name, x] = output;
    const bool binary_data = is_binary(request, i++);
    json.member("name", name);
    json.member("datatype", datatype_name(x.dtype()));
    json.member("shape", [&] { json.list(x.shape()); });
    if (!binary_data) return json.member("data", [&] { write_data(json, name, x, growth); });
    growth.add(static_cast<std::size_t>(x.nbytes()));
    json.member("parameters",
                [&] { json.object([&] { json.member("binary_data_size", x.nbytes()); }); });
    binary.push_back(&x);
  };
  json.object([&] {
    json.member("model_name", result.model);
    json.member("model_version", result.version);
    if (!request.id.empty()) json.member("id", request.id);
    json.member("outputs", [&] {
      json.list(result.outputs,
                [&](const auto& output) { json.object([&] { write_output(output); }); });
    });
  });
  InferBody out{json.text(), std::nullopt};
  if (binary.empty()) return out;
  out.header_length = out.text.size();
  std::size_t bytes = out.text.size();
  for (const Tensor* x : binary) bytes += static_cast<std::size_t>(x->nbytes());
  out.text.reserve(bytes);
  for (const Tensor* x : binary) out.text += bytes_of(*x);
  return out;
}

}  // namespace etude::serve
