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

// JsonWriter::value() would write 1.0 for 1, and takes ten times as long.
void write_data(JsonWriter& json, const std::string& name, const Tensor& x) {
  with_element(x.dtype(), [&]<class T>(T) {
    std::array<char, 32> buffer;
    json.list(x.data<T>(), [&](T value) { json.raw(number_text(value, name, buffer)); });
  });
}

}  // namespace

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

InferBody write_infer(const InferRequest& request, const InferResult& result) {
  JsonWriter json(JsonWriter::Texts::kReplaced);
  std::vector<const Tensor*> binary;
  std::size_t i = 0;
  const auto write_output = [&](const std::pair<std::string, Tensor>& output) {
    const auto& [name, x] = output;
    const bool is_binary =
        request.outputs.empty() ? request.binary_outputs : request.outputs[i].binary;
    ++i;
    json.member("name", name);
    json.member("datatype", datatype_name(x.dtype()));
    json.member("shape", [&] { json.list(x.shape()); });
    if (!is_binary) return json.member("data", [&] { write_data(json, name, x); });
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
