// SPDX-License-Identifier: Apache-2.0
// Converters between values at run time and C++ types of parameters, one struct for each type.
// Classes of the library need no converter, since an object of a kind fits a parameter of its
// class. Used by table.h.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "etude/base/fields.h"
#include "etude/core/call/arg.h"
#include "etude/core/dtype.h"
#include "etude/core/op/attr_view.h"
#include "etude/core/tensor.h"
#include "etude/kinds/kinds.h"
#include "etude/kinds/value.h"
#include "etude/nn/erased_layer.h"
#include "etude/nn/fit/callbacks.h"
#include "etude/nn/init.h"
#include "etude/nn/layer.h"
#include "etude/nn/losses/losses.h"
#include "etude/nn/models/conv_net.h"
#include "etude/nn/precision.h"
#include "etude/optim/internal/optimizer.h"
#include "etude/optim/schedule.h"

namespace etude::kinds {

// The kind of a struct that parameters take as a value; null for all other types.
template <class T>
inline constexpr const char* kRecordName = nullptr;
template <>
inline constexpr const char* kRecordName<nn::Monitored> = "nn.Monitored";
template <>
inline constexpr const char* kRecordName<nn::PrecisionPolicy> = "nn.PrecisionPolicy";
template <>
inline constexpr const char* kRecordName<nn::SqueezeExciteOptions> = "nn.SqueezeExciteOptions";
template <>
inline constexpr const char* kRecordName<optim::Segment> = "optim.Segment";

// The object of a checked value. If the value is a description, the object is made from it.
Made object_of(const Value& value, CallSite where);

template <class O>
Options values_of_fields(const O& options);

// type() is the type of the parameter, read() converts a checked value to a T, and write() converts
// a default to a value. This general template is for classes of kinds and for records.
template <class T>
struct Converter {
  static ParameterType type() { return {.object = &typeid(T)}; }
  static T read(const Value& value, CallSite where) { return object_of(value, where).as<T>(); }
  static Value write(const T& value) {
    if constexpr (kRecordName<T> != nullptr) {
      return Description{kRecordName<T>, values_of_fields(value)};
    } else {
      return {};
    }
  }
};

// The converters of single types; convert.cc defines them.
#define ETUDE_KINDS_CONVERTER(T)                       \
  template <>                                          \
  struct Converter<T> {                                \
    static ParameterType type();                       \
    static T read(const Value& value, CallSite where); \
    static Value write(T const& value);                \
  }
ETUDE_KINDS_CONVERTER(bool);
ETUDE_KINDS_CONVERTER(int);
ETUDE_KINDS_CONVERTER(int64_t);
ETUDE_KINDS_CONVERTER(double);
ETUDE_KINDS_CONVERTER(std::string);
ETUDE_KINDS_CONVERTER(DType);
ETUDE_KINDS_CONVERTER(Tensor);
ETUDE_KINDS_CONVERTER(OptionalArg);
ETUDE_KINDS_CONVERTER(IntList);
ETUDE_KINDS_CONVERTER(std::FILE*);
ETUDE_KINDS_CONVERTER(nn::Activation);
ETUDE_KINDS_CONVERTER(nn::Initializer);
ETUDE_KINDS_CONVERTER(nn::Layer);
ETUDE_KINDS_CONVERTER(nn::Reduction);
ETUDE_KINDS_CONVERTER(optim::Schedule);
#undef ETUDE_KINDS_CONVERTER

template <class T>
struct Converter<std::optional<T>> {
  static ParameterType type() {
    ParameterType out = Converter<T>::type();
    out.may_be_none = true;
    return out;
  }
  static std::optional<T> read(const Value& value, CallSite where) {
    if (value.is_none()) return std::nullopt;
    return Converter<T>::read(value, where);
  }
  static Value write(const std::optional<T>& value) {
    return value ? Converter<T>::write(*value) : Value();
  }
};

template <class T>
struct Converter<std::vector<T>> {
  static ParameterType type() {
    return {.form = ParameterType::Form::kList,
            .element = std::make_shared<const ParameterType>(Converter<T>::type())};
  }
  static std::vector<T> read(const Value& value, CallSite where) {
    std::vector<T> out;
    for (const Value& element : value.list()) out.push_back(Converter<T>::read(element, where));
    return out;
  }
  static Value write(const std::vector<T>& value) {
    Values out;
    for (const T& element : value) out.push_back(Converter<T>::write(element));
    return out;
  }
};

template <class O>
Options values_of_fields(const O& options) {
  Options out;
  const auto fields = etude::internal::fields(options);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (out.push_back(
         {std::string(etude::internal::field_name<O, I>),
          Converter<std::remove_cvref_t<std::tuple_element_t<I, decltype(fields)>>>::write(
              std::get<I>(fields))}),
     ...);
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(fields)>>());
  return out;
}

}  // namespace etude::kinds
