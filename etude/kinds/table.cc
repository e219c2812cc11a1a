// SPDX-License-Identifier: Apache-2.0
#include "etude/kinds/table.h"

#include <algorithm>
#include <string>
#include <utility>

#include "etude/base/check.h"
#include "etude/base/permanent.h"
#include "etude/core/range_text.h"

namespace etude::kinds {

Positional::Positional(const char* parameter) : name(parameter) {}
Positional::Positional(const char* parameter, Value otherwise)
    : name(parameter), is_required(false), default_value(std::move(otherwise)) {}
Positional::~Positional() = default;

namespace {

void add_parameter(Kind& kind, Parameter parameter) {
  ETUDE_CHECK(kind.find(parameter.name) == nullptr && parameter.name != "kind",
              "the kind {} has a parameter '{}' that is there already, or reserved", kind.name,
              parameter.name);
  parameter.doc = doc_of(kind.name, parameter.name);
  kind.parameters.push_back(std::move(parameter));
}

}  // namespace

void KindMaker::positional(const Positional& parameter, ParameterType type) {
  // An absent list or tensor is a default, and no value of a required parameter.
  if (parameter.is_required) type.may_be_none = false;
  // A row may write 1 for the default 1.0.
  const bool is_whole = type.form == ParameterType::Form::kReal &&
                        parameter.default_value.form() == Value::Form::kInt;
  add_parameter(kind_, {.name = parameter.name,
                        .type = std::move(type),
                        .is_required = parameter.is_required,
                        .default_value = is_whole ? Value(parameter.default_value.real())
                                                  : parameter.default_value,
                        .range = {},
                        .doc = {}});
  kind_.positional = kind_.parameters.size();
}

void KindMaker::option(std::string_view name, ParameterType type, Value default_value) {
  add_parameter(kind_, {.name = std::string(name),
                        .type = std::move(type),
                        .is_required = false,
                        .default_value = std::move(default_value),
                        .range = {},
                        .doc = {}});
}

void KindMaker::range(std::string_view name, const Range& range) {
  const auto found = std::ranges::find(kind_.parameters, name, &Parameter::name);
  ETUDE_CHECK(found != kind_.parameters.end(), "{} has a range for '{}', which is no option",
              kind_.name, name);
  found->range = range;
}

Kind& Table::add(const char* name, Group group) {
  Kind& kind = kinds_.emplace_back();
  kind.name = name;
  kind.group = group;
  kind.doc = doc_of(name, "");
  return kind;
}

std::vector<Kind> Table::take() {
  std::ranges::sort(kinds_, {}, &Kind::name);
  const auto twice = std::ranges::adjacent_find(kinds_, {}, &Kind::name);
  ETUDE_CHECK(twice == kinds_.end(), "there are two kinds {}", twice->name);
  return std::move(kinds_);
}

void Rows::sampled(Kind& kind, Values sample, Options options) {
  kind.sample = std::move(sample);
  kind.sample_options = std::move(options);
}

// Made at the first use: a program that names no kind does not pay for the table.
std::span<const Kind> all() {
  static const etude::internal::Permanent<std::vector<Kind>> kinds([] {
    Table table;
    add_layers(table);
    add_convolutions(table);
    add_wrappers(table);
    add_models(table);
    add_optimizers(table);
    add_schedules(table);
    add_losses(table);
    add_metrics(table);
    add_callbacks(table);
    add_initializers(table);
    add_activations(table);
    return table.take();
  }());
  return *kinds;
}

const Kind* find(std::string_view name) {
  const auto rows = all();
  const auto found = std::ranges::lower_bound(rows, name, {}, &Kind::name);
  return found != rows.end() && found->name == name ? &*found : nullptr;
}

const Parameter* Kind::find(std::string_view parameter) const {
  const auto found = std::ranges::find(parameters, parameter, &Parameter::name);
  return found == parameters.end() ? nullptr : &*found;
}

std::string_view name(Group group) {
  constexpr std::string_view kNames[] = {"layer",    "cell",     "activation", "initializer",
                                         "loss",     "metric",   "optimizer",  "transform",
                                         "schedule", "callback", "record"};
  return kNames[static_cast<std::size_t>(group)];
}

namespace {

std::string object_text(const ParameterType& type) {
  if (type.group != Group::kRecord && type.others.empty()) return std::string(name(type.group));
  std::string out;
  for (const Kind& kind : all()) {
    const auto is = [&](const std::type_info* other) {
      return other != nullptr && kind.type != nullptr && *kind.type == *other;
    };
    if (is(type.object) || std::ranges::any_of(type.others, is)) {
      out += (out.empty() ? "" : " or ") + kind.name;
    }
  }
  return out.empty() ? "object of the program" : out;
}

}  // namespace

std::string ParameterType::to_string() const {
  constexpr std::string_view kNames[] = {"bool", "int", "float", "text", "dtype", "tensor"};
  std::string out;
  if (form == Form::kList) {
    out = "list of " + element->to_string();
    if (takes_number) out = element->to_string() + " or " + out;
  } else if (form == Form::kObject) {
    out = (takes_number ? "number or " : "") + object_text(*this);
  } else {
    out = kNames[static_cast<std::size_t>(form)];
  }
  return may_be_none ? out + " or none" : out;
}

std::string Parameter::range_text() const {
  return range ? etude::internal::range_text(*range) : "";
}

std::string Kind::signature() const {
  std::string out;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    if (i == positional) out += out.empty() ? "*, " : ", *, ";
    if (i != 0 && i != positional) out += ", ";
    out += parameter.name + ": " + parameter.type.to_string();
    if (!parameter.is_required) out += " = " + parameter.default_value.to_string();
  }
  return fmt::format("{}({})", name, out);
}

}  // namespace etude::kinds
