// SPDX-License-Identifier: Apache-2.0
// Values as they are given become complete descriptions: names are found, types and ranges checked,
// defaults added. Then objects are made of them.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cxxabi.h>

#include "etude/base/check.h"
#include "etude/base/edit_distance.h"
#include "etude/core/call/call_scope.h"
#include "etude/kinds/kinds.h"
#include "etude/kinds/similar.h"
#include "etude/kinds/table.h"
#include "etude/nn/erased_layer.h"

namespace etude::kinds {

std::string listed(std::span<const std::string_view> names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::string similar(std::string_view name, std::span<const std::string_view> names) {
  const std::vector<std::string_view> best = etude::internal::nearest_names(name, names, true);
  return best.empty() ? "" : ". Similar: " + listed(best);
}

std::string type_name(const std::type_info& type) {
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &failed), std::free);
  return failed == 0 ? text.get() : type.name();
}

namespace {

using Form = ParameterType::Form;

constexpr int kDeepest = 64;  // objects inside of objects

// The parameter that a value is for.
struct Place {
  const Kind& kind;
  const Parameter& parameter;
  CallSite where;
  int depth;
};

bool fits(const ParameterType& type, const std::type_info& object) {
  const auto is = [&](const std::type_info* other) { return *other == object; };
  return type.object != nullptr ? is(type.object) : std::ranges::any_of(type.others, is);
}

bool fits(const ParameterType& type, const Kind& kind) {
  if (type.object == nullptr && type.others.empty()) return kind.group == type.group;
  return kind.type != nullptr && fits(type, *kind.type);
}

std::string form_name(const Value& value) {
  constexpr std::string_view kNames[] = {"",      "bool",   "int",  "float",  "text",
                                         "dtype", "tensor", "list", "object", "object"};
  const std::string_view form = kNames[static_cast<std::size_t>(value.form())];
  return form.empty() ? value.to_string() : fmt::format("{:.200} ({})", value.to_string(), form);
}

[[noreturn]] void throw_type(const Value& value, const Place& place) {
  ETUDE_REQUIRE(false, "'{}' is {}, but must be of type {}", place.parameter.name, form_name(value),
                place.parameter.type.to_string());
  __builtin_unreachable();
}

Description complete(const Kind& kind, const Values& positional, const Options& options,
                     CallSite where, int depth);

// The kind of an object that is given by its name, with or without namespace.
const Kind& named_kind(const std::string& name, const ParameterType& type, const Value& value,
                       const Place& place) {
  std::vector<std::string_view> names;
  for (const Kind& kind : all()) {
    if (!fits(type, kind)) continue;
    if (kind.name == name || kind.name.substr(kind.name.rfind('.') + 1) == name) return kind;
    names.push_back(kind.name);
  }
  if (names.empty()) throw_type(value, place);
  ETUDE_REQUIRE(find(name) == nullptr, "'{}' is {} ({}), but must be of type {}",
                place.parameter.name, name, etude::kinds::name(find(name)->group),
                type.to_string());
  ETUDE_THROW(kNotFound, "'{}' is \"{:.100}\", which is no {}{}", place.parameter.name, name,
              type.to_string(), similar(name, names));
}

Value checked_object(const Value& value, const ParameterType& type, const Place& place) {
  if (value.form() == Value::Form::kMade) {
    if (!fits(type, *value.made().object().type) &&
        !(value.made().is_described() && fits(type, value.made().kind()))) {
      throw_type(value, place);
    }
    return value;
  }
  if (value.form() == Value::Form::kText) {
    const Kind& kind = named_kind(value.text(), type, value, place);
    return complete(kind, {}, {}, place.where, place.depth + 1);
  }
  if (value.form() != Value::Form::kDescription) throw_type(value, place);
  const Description& given = value.description();
  const Kind& kind = named_kind(given.kind, type, value, place);
  return complete(kind, {}, given.values, place.where, place.depth + 1);
}

// A float: an integer as well, and the numbers that JSON lacks as texts.
std::optional<double> as_real(const Value& value) {
  if (value.form() == Value::Form::kReal || value.form() == Value::Form::kInt) return value.real();
  if (value.form() != Value::Form::kText) return std::nullopt;
  if (value.text() == "inf") return INFINITY;
  if (value.text() == "-inf") return -INFINITY;
  if (value.text() == "nan") return NAN;
  return std::nullopt;
}

Value checked(const Value& value, const ParameterType& type, const Place& place);

Value checked_list(const Value& value, const ParameterType& type, const Place& place) {
  if (type.takes_number && value.form() == Value::Form::kInt) return Values{value};
  if (value.form() != Value::Form::kList) throw_type(value, place);
  Values out;
  for (const Value& element : value.list()) out.push_back(checked(element, *type.element, place));
  return out;
}

// The value in the one form that descriptions hold.
// throws: kInvalidArgument for a value of another type.
Value checked(const Value& value, const ParameterType& type, const Place& place) {
  if (value.is_none() && type.may_be_none) return value;
  const Value::Form given = value.form();
  switch (type.form) {
    case Form::kBool:
      if (given == Value::Form::kBool) return value;
      break;
    case Form::kInt:
      if (given == Value::Form::kInt) return value;
      break;
    case Form::kReal:
      if (const auto number = as_real(value)) return *number;
      break;
    case Form::kText:
      if (given == Value::Form::kText) return value;
      if (given == Value::Form::kMade && type.object != nullptr) {
        return checked_object(value, type, place);
      }
      break;
    case Form::kDType:
      if (given == Value::Form::kDType) return value;
      if (given == Value::Form::kText) {
        if (const auto dtype = dtype_named(value.text())) return *dtype;
      }
      break;
    case Form::kTensor:
      if (given == Value::Form::kTensor && value.tensor().has_value()) return value;
      break;
    case Form::kList:
      return checked_list(value, type, place);
    case Form::kObject:
      if (type.takes_number && given != Value::Form::kText) {
        if (const auto number = as_real(value)) return *number;
      }
      return checked_object(value, type, place);
  }
  throw_type(value, place);
}

void check_numbers(const Value& value, const Place& place) {
  if (value.form() == Value::Form::kInt || value.form() == Value::Form::kReal) {
    etude::internal::check_range(place.kind.name, place.parameter.name, value.real(),
                                 *place.parameter.range, place.where);
  } else if (value.form() == Value::Form::kList) {
    for (const Value& element : value.list()) check_numbers(element, place);
  }
}

std::vector<std::string_view> parameter_names(const Kind& kind) {
  std::vector<std::string_view> names;
  for (const Parameter& parameter : kind.parameters) names.push_back(parameter.name);
  return names;
}

// The given values in the order of the parameters; null where there is none.
std::vector<const Value*> in_order(const Kind& kind, const Values& positional,
                                   const Options& options) {
  std::vector<const Value*> given(kind.parameters.size());
  const std::vector<std::string_view> names = parameter_names(kind);
  ETUDE_REQUIRE(positional.size() <= kind.positional,
                "{} positional values are given, but there are {} ({}). Give options by name",
                positional.size(), kind.positional,
                listed(std::span(names).first(kind.positional)));
  for (std::size_t i = 0; i < positional.size(); ++i) given[i] = &positional[i];
  for (const Named& option : options) {
    const Parameter* parameter = kind.find(option.name);
    ETUDE_REQUIRE(parameter != nullptr, "there is no option '{:.100}'{}. Parameters: {}",
                  option.name, similar(option.name, names), listed(names));
    const Value*& slot = given[static_cast<std::size_t>(parameter - kind.parameters.data())];
    ETUDE_REQUIRE(slot == nullptr, "'{}' is given twice", option.name);
    slot = &option.value;
  }
  return given;
}

Description complete(const Kind& kind, const Values& positional, const Options& options,
                     CallSite where, int depth) {
  return etude::internal::located(kind.name, where, [&] {
    ETUDE_REQUIRE(depth < kDeepest, "objects are nested more than {} deep", kDeepest);
    const std::vector<const Value*> given = in_order(kind, positional, options);
    Description out{kind.name, {}};
    for (std::size_t i = 0; i < given.size(); ++i) {
      const Parameter& parameter = kind.parameters[i];
      ETUDE_REQUIRE(given[i] != nullptr || !parameter.is_required,
                    "'{}' is missing, of type {}. Parameters: {}", parameter.name,
                    parameter.type.to_string(), listed(parameter_names(kind)));
      const Place place{kind, parameter, where, depth};
      Value value = given[i] == nullptr ? parameter.default_value : *given[i];
      value = checked(value, parameter.type, place);
      if (parameter.range) check_numbers(value, place);
      out.values.push_back({parameter.name, std::move(value)});
    }
    return out;
  });
}

Made made_of(const Kind& kind, Description description, CallSite where) {
  std::vector<Value> values;
  for (const Named& entry : description.values) values.push_back(entry.value);
  internal::Object object =
      etude::internal::located("", where, [&] { return kind.make(values.data(), where); });
  object.kind = &kind;
  object.description = std::make_shared<const Description>(std::move(description));
  return Made(std::move(object));
}

}  // namespace

const Kind& at(std::string_view name, CallSite where) {
  if (const Kind* kind = find(name)) return *kind;
  return etude::internal::located("kinds", where, [&]() -> const Kind& {
    std::vector<std::string_view> names;
    for (const Kind& kind : all()) names.push_back(kind.name);
    ETUDE_THROW(kNotFound, "there is no kind '{:.100}'{}. kinds::all() lists them", name,
                similar(name, names));
  });
}

Description describe(std::string_view kind, const Arguments& positional, const Options& options,
                     CallSite where) {
  return complete(at(kind, where), positional.values, options, where, 0);
}

Made make(std::string_view kind, const Arguments& positional, const Options& options,
          CallSite where) {
  const Kind& row = at(kind, where);
  return made_of(row, complete(row, positional.values, options, where, 0), where);
}

Made make(const Description& description, CallSite where) {
  return make(description.kind, {}, description.values, where);
}

nn::Layer layer_of(const Made& made, CallSite where) {
  etude::internal::located("kinds", where, [&] {
    ETUDE_REQUIRE(made.object().to_layer != nullptr,
                  "{} is no layer that is called with one tensor",
                  made.is_described() ? made.kind().name : "an object of the program");
  });
  return made.object().to_layer(made.object().value.get());
}

std::unique_ptr<optim::internal::RuleOptimizer> optimizer_of(const Made& made, CallSite where) {
  etude::internal::located("kinds", where, [&] {
    ETUDE_REQUIRE(made.object().copy_optimizer != nullptr, "{} is no optimizer",
                  made.is_described() ? made.kind().name : "an object of the program");
  });
  return std::unique_ptr<optim::internal::RuleOptimizer>(
      static_cast<optim::internal::RuleOptimizer*>(
          made.object().copy_optimizer(made.object().value.get())));
}

}  // namespace etude::kinds
