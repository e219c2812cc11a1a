// SPDX-License-Identifier: Apache-2.0
// Inputs and attributes of a node, with checks.
#include <algorithm>
#include <set>

#include "etude/base/edit_distance.h"
#include "etude/core/context/context.h"
#include "etude/onnx/import/importer.h"
#include "etude/onnx/import/names.h"

namespace etude::onnx::importing {

std::vector<std::string_view> words_of(std::string_view list) {
  std::vector<std::string_view> out;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    if (end > 0) out.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return out;
}

std::string listed(const std::vector<std::string>& names, std::string_view between) {
  std::vector<std::string> cut;
  for (const std::string& name : names) cut.push_back(fmt::format("{:.100}", name));
  return fmt::format("{:.1000}", fmt::format("{}", fmt::join(cut, between)));
}

std::string nearest_listed(std::string_view name, const std::vector<std::string_view>& names) {
  if (names.empty()) return "none";
  std::vector<std::string_view> cut;  // names of a file may have megabytes
  for (const std::string_view each : names) cut.push_back(each.substr(0, 100));
  return fmt::format("{}", fmt::join(etude::internal::nearest_names(name, cut, false), ", "));
}

int64_t NodeCall::opset() const { return importer_.opset(); }

void NodeCall::fail(ErrorCode code, const std::string& text) const {
  throw NodeError(code, fmt::format("{}: {}", importer_.title(node_), text));
}

std::string NodeCall::input_name(std::size_t i) const {
  const std::vector<std::string_view> names = words_of(row_.inputs);
  std::string_view name = names.empty() ? "" : names[std::min(i, names.size() - 1)];
  while (name.ends_with('.') || name.ends_with('?')) name.remove_suffix(1);
  return std::string(name);
}

const Value& NodeCall::value(std::size_t i) const {
  require(has(i), "the input '{}' is missing", input_name(i));
  return inputs_[i];
}

std::vector<Tensor> NodeCall::all() const {
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < inputs_.size(); ++i) out.push_back(x(i));
  return out;
}

Tensor NodeCall::known(std::size_t i) const {
  const Value& given = value(i);
  if (given.known.has_value()) return given.known;
  std::string advice = "Save the model with a constant there";
  if (!given.inputs.empty()) {
    advice = fmt::format(
        "Pass values for these inputs of the model: LoadOptions::constants = "
        "{{{{\"{}\", ...}}}}",
        listed(given.inputs, "\", ...}, {\""));
  }
  throw UnknownValue(
      ErrorCode::kFailedPrecondition,
      fmt::format("{}: the input '{}' ('{:.200}') has to be known when the model is loaded, since "
                  "sizes or the order of calls depend on it. {}",
                  importer_.title(node_), input_name(i), node_.inputs[i], advice));
}

std::vector<int64_t> NodeCall::ints(std::size_t i) const {
  const BottomScope at_once(eager_context());
  return as_dtype(known(i), kInt64).to_vector<int64_t>();
}
std::vector<double> NodeCall::reals(std::size_t i) const {
  const BottomScope at_once(eager_context());
  return as_dtype(known(i), kFloat64).to_vector<double>();
}
int64_t NodeCall::integer(std::size_t i) const {
  const std::vector<int64_t> all = ints(i);
  require(all.size() == 1, "the input '{}' has {} elements, but one is needed", input_name(i),
          all.size());
  return all[0];
}
double NodeCall::real(std::size_t i) const {
  const std::vector<double> all = reals(i);
  require(all.size() == 1, "the input '{}' has {} elements, but one is needed", input_name(i),
          all.size());
  return all[0];
}
bool NodeCall::flag(std::size_t i) const { return real(i) != 0; }

const FileAttribute* NodeCall::find(std::string_view name) const {
  const auto found = std::ranges::find(node_.attributes, name, &FileAttribute::name);
  return found == node_.attributes.end() ? nullptr : &*found;
}

const FileAttribute& NodeCall::attribute(std::string_view name) const {
  const FileAttribute* const found = find(name);
  require(found != nullptr, "the attribute '{}' is missing", name);
  require(found->reference.empty(),
          "the attribute '{}' refers to an attribute '{:.100}' of a function, but the node is in "
          "no function",
          name, found->reference);
  if (!found->refusal.empty()) {
    refuse("the attribute '{}' cannot be imported: {}", name, found->refusal);
  }
  return *found;
}

template <class T>
const T& NodeCall::typed(std::string_view name, const char* kind) const {
  const T* const value = std::get_if<T>(&attribute(name).value);
  require(value != nullptr, "the attribute '{}' is not {}", name, kind);
  return *value;
}

int64_t NodeCall::integer(std::string_view name) const {
  return typed<int64_t>(name, "an integer");
}
int64_t NodeCall::integer(std::string_view name, int64_t otherwise) const {
  return has(name) ? integer(name) : otherwise;
}
double NodeCall::real(std::string_view name, double otherwise) const {
  return has(name) ? typed<double>(name, "a float") : otherwise;
}
std::string NodeCall::text(std::string_view name) const {
  return typed<std::string>(name, "a text");
}
std::string NodeCall::text(std::string_view name, std::string otherwise) const {
  return has(name) ? text(name) : std::move(otherwise);
}
std::vector<int64_t> NodeCall::ints(std::string_view name) const {
  return typed<std::vector<int64_t>>(name, "a list of integers");
}
std::vector<int64_t> NodeCall::ints(std::string_view name, std::vector<int64_t> otherwise) const {
  return has(name) ? ints(name) : std::move(otherwise);
}
std::vector<double> NodeCall::reals(std::string_view name) const {
  return has(name) ? typed<std::vector<double>>(name, "a list of floats") : std::vector<double>();
}
std::vector<std::string> NodeCall::texts(std::string_view name) const {
  return has(name) ? typed<std::vector<std::string>>(name, "a list of texts")
                   : std::vector<std::string>();
}
Tensor NodeCall::tensor(std::string_view name) const { return typed<Tensor>(name, "a tensor"); }
const FileGraph& NodeCall::graph(std::string_view name) const {
  return *typed<std::shared_ptr<FileGraph>>(name, "a graph");
}

DType NodeCall::dtype_of_number(int64_t number) const {
  const std::optional<DType> out = importing::dtype_of(number);
  if (!out) refuse("its dtype is {}, which Etude lacks", dtype_text(number));
  return *out;
}
DType NodeCall::dtype(std::string_view name, DType otherwise) const {
  const int64_t number = integer(name, 0);
  return number == 0 ? otherwise : dtype_of_number(number);
}

int64_t NodeCall::axis(int64_t given, int rank) const {
  require(given >= -rank && given < rank, "axis {} is outside of the {} axes of its operand", given,
          rank);
  return given < 0 ? given + rank : given;
}
std::vector<int64_t> NodeCall::axes(std::vector<int64_t> given, int rank) const {
  std::set<int64_t> seen;
  for (int64_t& each : given) {
    each = axis(each, rank);
    require(seen.insert(each).second, "axis {} is listed twice", each);
  }
  return given;
}

}  // namespace etude::onnx::importing
