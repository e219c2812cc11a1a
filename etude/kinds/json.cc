// SPDX-License-Identifier: Apache-2.0
#include "etude/io/json.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/files/json_tree.h"
#include "etude/files/read_budget.h"
#include "etude/kinds/kinds.h"

namespace etude::kinds {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Description& description, const std::string& path);

// The numbers that JSON lacks are texts, which parameters of type float take.
Json number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json json_of(const Value& value, const std::string& path) {
  switch (value.form()) {
    case Value::Form::kNone:
      return nullptr;
    case Value::Form::kBool:
      return value.flag();
    case Value::Form::kInt:
      return value.integer();
    case Value::Form::kReal:
      return number_json(value.real());
    case Value::Form::kText:
      return value.text();
    case Value::Form::kDType:
      return std::string(etude::name(value.dtype()));
    case Value::Form::kTensor:
      return Json{{"tensor", Json::parse(io::to_json(value.tensor()))}};
    case Value::Form::kList: {
      Json out = Json::array();
      for (const Value& element : value.list()) out.push_back(json_of(element, path));
      return out;
    }
    case Value::Form::kDescription:
      return json_of(value.description(), path);
    case Value::Form::kMade:
      break;
  }
  ETUDE_REQUIRE_CODE(kFailedPrecondition, value.made().is_described(),
                     "'{}' holds an object of the program, such as a function, which a description "
                     "cannot contain. Give an object of kinds::make, or its name",
                     path);
  return json_of(value.made().description(), path);
}

Json json_of(const Description& description, const std::string& path) {
  if (description.values.empty() && !path.empty()) return description.kind;
  Json out = {{"kind", description.kind}};
  for (const Named& entry : description.values) {
    out[entry.name] = json_of(entry.value, path.empty() ? entry.name : path + "." + entry.name);
  }
  return out;
}

// Refuses a repeated key: the parser would drop one value.
class Guard {
 public:
  bool operator()(Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      keys_.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys_.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto key = parsed.get<std::string>();
      ETUDE_REQUIRE_CODE(kDataLoss, keys_.back().insert(key).second, "\"{}\" is there twice",
                         key.substr(0, 40));
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;
};

Description description_of(const Json& json);

Value value_of(const Json& json) {
  switch (json.type()) {
    case Json::value_t::null:
      return {};
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      return json.get<int64_t>();
    case Json::value_t::number_unsigned:
      ETUDE_REQUIRE_CODE(kDataLoss, json.get<uint64_t>() <= uint64_t{INT64_MAX},
                         "{} is larger than an integer of 64 bits", json.get<uint64_t>());
      return json.get<int64_t>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return json.get<std::string>();
    case Json::value_t::array: {
      Values out;
      for (const Json& element : json) out.push_back(value_of(element));
      return out;
    }
    default:
      break;
  }
  const auto tensor = json.find("tensor");
  if (tensor != json.end() && json.size() == 1) return io::from_json(tensor->dump());
  return description_of(json);
}

Description description_of(const Json& json) {
  const auto kind = json.is_object() ? json.find("kind") : json.end();
  ETUDE_REQUIRE_CODE(kDataLoss, json.is_object() && kind != json.end() && kind->is_string(),
                     "an object needs a text \"kind\", but this is {}",
                     json.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60));
  Description out{kind->get<std::string>(), {}};
  for (const auto& [key, value] : json.items()) {
    if (key != "kind") out.values.push_back({key, value_of(value)});
  }
  return out;
}

Description parsed(std::string_view text) {
  etude::internal::ReadBudget budget("the description", text.size());
  etude::internal::count_json(text, budget);
  Guard guard;
  const auto watch = [&guard](int, Json::parse_event_t event, Json& value) {
    return guard(event, value);
  };
  try {
    const etude::internal::JsonTree<Json> tree(Json::parse(text, watch));
    const Json& json = tree.root();
    if (json.is_string()) return {json.get<std::string>(), {}};
    return description_of(json);
  } catch (const Json::exception& error) {
    ETUDE_THROW(kDataLoss, "this is not JSON: {}", error.what());
  }
}

}  // namespace

std::string to_json(const Description& description, CallSite where) {
  return etude::internal::located("kinds::to_json", where, [&] {
    try {
      return etude::internal::JsonTree<Json>(json_of(description, "")).root().dump();
    } catch (const Json::exception& error) {
      ETUDE_THROW(kInvalidArgument, "a text is not UTF-8: {}", error.what());
    }
  });
}

Description from_json(std::string_view text, CallSite where) {
  const Description given =
      etude::internal::located("kinds::from_json", where, [&] { return parsed(text); });
  return describe(given.kind, {}, given.values, where);
}

}  // namespace etude::kinds
