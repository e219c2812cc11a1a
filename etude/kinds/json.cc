// SPDX-License-Identifier: Apache-2.0
#include "etude/io/json.h"

#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/files/json_tree.h"
#include "etude/files/json_writer.h"
#include "etude/files/read_budget.h"
#include "etude/kinds/kinds.h"

namespace etude::kinds {
namespace {

using Json = nlohmann::json;
using etude::internal::JsonTree;
using etude::internal::JsonWriter;

// Writes descriptions. `path`: of a parameter, for errors.
class Writer {
 public:
  std::string text(const Description& description) {
    write(description, "");
    return out_.text();
  }

 private:
  // The numbers that JSON lacks are texts, which parameters of type float take.
  void number(double x) {
    if (std::isfinite(x)) return out_.value(x);
    out_.value(std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
  }

  void write(const Value& value, const std::string& path) {
    switch (value.form()) {
      case Value::Form::kNone:
        return out_.value(nullptr);
      case Value::Form::kBool:
        return out_.value(value.flag());
      case Value::Form::kInt:
        return out_.value(value.integer());
      case Value::Form::kReal:
        return number(value.real());
      case Value::Form::kText:
        return out_.value(value.text());
      case Value::Form::kDType:
        return out_.value(etude::name(value.dtype()));
      case Value::Form::kTensor:
        return out_.object(
            [&] { out_.member("tensor", [&] { out_.raw(io::to_json(value.tensor())); }); });
      case Value::Form::kList:
        return out_.list(value.list(), [&](const Value& element) { write(element, path); });
      case Value::Form::kDescription:
        return write(value.description(), path);
      case Value::Form::kMade:
        break;
    }
    ETUDE_REQUIRE_CODE(kFailedPrecondition, value.made().is_described(),
                       "'{}' holds an object of the program, such as a function, which a "
                       "description cannot contain. Give an object of kinds::make, or its name",
                       path);
    write(value.made().description(), path);
  }

  void write(const Description& description, const std::string& path) {
    if (description.values.empty() && !path.empty()) return out_.value(description.kind);
    out_.object([&] {
      out_.member("kind", description.kind);
      for (const Named& entry : description.values) {
        const std::string inner = path.empty() ? entry.name : path + "." + entry.name;
        out_.member(entry.name, [&] { write(entry.value, inner); });
      }
    });
  }

  JsonWriter out_;
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
  const JsonTree<Json> tree(text);
  ETUDE_REQUIRE_CODE(kDataLoss, tree.repeated_key().empty(), "\"{:.40}\" is there twice",
                     tree.repeated_key());
  ETUDE_REQUIRE_CODE(kDataLoss, tree.error().empty(), "this is not JSON: {}", tree.error());
  const Json& json = tree.root();
  if (json.is_string()) return {json.get<std::string>(), {}};
  return description_of(json);
}

}  // namespace

std::string to_json(const Description& description, CallSite where) {
  return etude::internal::located("kinds::to_json", where, [&] {
    try {
      return Writer().text(description);
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
