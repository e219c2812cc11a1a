// SPDX-License-Identifier: Apache-2.0
#include "etude/kinds/convert.h"

#include <functional>
#include <string_view>

#include "etude/base/check.h"
#include "etude/kinds/initializer_names.h"
#include "etude/nn/internal/named_init.h"

namespace etude::kinds {

using Form = ParameterType::Form;

Made object_of(const Value& value, CallSite where) {
  return value.form() == Value::Form::kMade ? value.made() : make(value.description(), where);
}

ParameterType Converter<bool>::type() { return {.form = Form::kBool}; }
bool Converter<bool>::read(const Value& value, CallSite) { return value.flag(); }
Value Converter<bool>::write(const bool& value) { return value; }

ParameterType Converter<int>::type() { return {.form = Form::kInt}; }
int Converter<int>::read(const Value& value, CallSite) {
  const int64_t wide = value.integer();
  ETUDE_REQUIRE(static_cast<int>(wide) == wide, "{} does not fit a number of 32 bits", wide);
  return static_cast<int>(wide);
}
Value Converter<int>::write(const int& value) { return value; }

ParameterType Converter<int64_t>::type() { return {.form = Form::kInt}; }
int64_t Converter<int64_t>::read(const Value& value, CallSite) { return value.integer(); }
Value Converter<int64_t>::write(const int64_t& value) { return value; }

ParameterType Converter<double>::type() { return {.form = Form::kReal}; }
double Converter<double>::read(const Value& value, CallSite) { return value.real(); }
Value Converter<double>::write(const double& value) { return value; }

ParameterType Converter<std::string>::type() { return {.form = Form::kText}; }
std::string Converter<std::string>::read(const Value& value, CallSite) { return value.text(); }
Value Converter<std::string>::write(const std::string& value) { return value; }

ParameterType Converter<DType>::type() { return {.form = Form::kDType}; }
DType Converter<DType>::read(const Value& value, CallSite) { return value.dtype(); }
Value Converter<DType>::write(const DType& value) { return value; }

// An absent tensor is none, as an option such as `weights`.
ParameterType Converter<Tensor>::type() { return {.form = Form::kTensor, .may_be_none = true}; }
Tensor Converter<Tensor>::read(const Value& value, CallSite) {
  return value.is_none() ? Tensor() : value.tensor();
}
Value Converter<Tensor>::write(const Tensor& value) {
  return value.has_value() ? Value(value) : Value();
}

ParameterType Converter<OptionalArg>::type() { return Converter<Tensor>::type(); }
OptionalArg Converter<OptionalArg>::read(const Value& value, CallSite) {
  return value.is_none() ? OptionalArg() : OptionalArg(value.tensor());
}
// Options that are operands are absent by default.
Value Converter<OptionalArg>::write(const OptionalArg&) { return {}; }

ParameterType Converter<IntList>::type() {
  return {.form = Form::kList,
          .may_be_none = true,
          .takes_number = true,
          .element = std::make_shared<const ParameterType>(Converter<int64_t>::type())};
}
// One number is a list of one, which layers expand to all axes.
IntList Converter<IntList>::read(const Value& value, CallSite) {
  if (value.is_none()) return {};
  std::vector<int64_t> out;
  for (const Value& element : value.list()) out.push_back(element.integer());
  return {std::move(out)};
}
Value Converter<IntList>::write(const IntList& value) { return value; }

// Streams are the two of every process.
ParameterType Converter<std::FILE*>::type() { return {.form = Form::kText}; }
std::FILE* Converter<std::FILE*>::read(const Value& value, CallSite) {
  ETUDE_REQUIRE(value.text() == "stderr" || value.text() == "stdout",
                "the stream is \"{}\", but must be \"stderr\" or \"stdout\"", value.text());
  return value.text() == "stdout" ? stdout : stderr;
}
Value Converter<std::FILE*>::write(std::FILE* const& value) {
  return value == stdout ? "stdout" : "stderr";
}

ParameterType Converter<nn::Activation>::type() {
  return {.may_be_none = true, .group = Group::kActivation, .object = &typeid(nn::Activation)};
}
nn::Activation Converter<nn::Activation>::read(const Value& value, CallSite where) {
  return value.is_none() ? nn::Activation() : object_of(value, where).as<nn::Activation>();
}
Value Converter<nn::Activation>::write(const nn::Activation& value) {
  ETUDE_CHECK(value.is_empty(), "a default activation has no description");
  return {};
}

ParameterType Converter<nn::Initializer>::type() {
  return {.group = Group::kInitializer, .object = &typeid(nn::Initializer)};
}
nn::Initializer Converter<nn::Initializer>::read(const Value& value, CallSite where) {
  return object_of(value, where).as<nn::Initializer>();
}
// A function, by its address; or the result of one of the functions with numbers.
Value Converter<nn::Initializer>::write(const nn::Initializer& value) {
  if (const auto* named = value.target<nn::internal::NamedInit>()) {
    Description out{"nn." + std::string(named->name), {}};
    for (std::size_t i = 0; i < named->names.size() && !named->names[i].empty(); ++i) {
      out.values.push_back({std::string(named->names[i]), named->numbers[i]});
    }
    return out;
  }
  const auto* function = value.target<Tensor (*)(const Shape&)>();
  const std::string_view name = function == nullptr ? "" : initializer_name(*function);
  ETUDE_CHECK(!name.empty(), "a default initialiser has no description");
  return Description{std::string(name), {}};
}

// Any layer that is called with one tensor.
ParameterType Converter<nn::Layer>::type() { return {.group = Group::kLayer}; }
nn::Layer Converter<nn::Layer>::read(const Value& value, CallSite where) {
  return layer_of(object_of(value, where), where);
}
Value Converter<nn::Layer>::write(const nn::Layer&) {
  ETUDE_CHECK(false, "a default layer has no description");
  __builtin_unreachable();
}

// A word. Functions of the program are objects, as for activations.
ParameterType Converter<nn::Reduction>::type() {
  return {.form = Form::kText, .object = &typeid(nn::Reduction)};
}
nn::Reduction Converter<nn::Reduction>::read(const Value& value, CallSite where) {
  if (value.form() == Value::Form::kMade) return value.made().as<nn::Reduction>(where);
  return {value.text()};
}
// The default of every loss is an absent reduction.
Value Converter<nn::Reduction>::write(const nn::Reduction&) {
  ETUDE_CHECK(false, "a default reduction has no description");
  __builtin_unreachable();
}

ParameterType Converter<optim::Schedule>::type() {
  return {.takes_number = true, .group = Group::kSchedule, .object = &typeid(optim::Schedule)};
}
optim::Schedule Converter<optim::Schedule>::read(const Value& value, CallSite where) {
  if (value.form() == Value::Form::kReal) return {value.real()};
  return object_of(value, where).as<optim::Schedule>();
}
Value Converter<optim::Schedule>::write(const optim::Schedule& value) {
  ETUDE_CHECK(value.fixed().has_value(), "a default schedule has no description");
  return *value.fixed();
}

}  // namespace etude::kinds
