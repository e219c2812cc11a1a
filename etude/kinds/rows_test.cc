// SPDX-License-Identifier: Apache-2.0
// Every row: made with its sample, described, read back; each parameter refuses values of other
// types and numbers out of its range.
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "etude/base/error.h"
#include "etude/core/range_text.h"
#include "etude/kinds/kinds.h"
#include "etude/nn/losses/task_losses.h"
#include "etude/ops.h"
#include "etude/optim/sgd.h"

namespace etude::kinds {
namespace {

using Form = ParameterType::Form;

// The sample of a row. Objects of the program are in no table.
Values sample_of(const Kind& kind) {
  static optim::SGD optimizer;
  static const Made borrowed = borrow(optimizer);
  static const Made itself =
      Made::host<nn::Features>([](const Tensor& x) { return std::vector<Tensor>{x}; });
  if (kind.name == "nn.reduce_on_plateau") return {borrowed};
  if (kind.name == "nn.perceptual_loss") return {itself};
  return kind.sample;
}

bool holds_host(const Description& description) {
  for (const Named& entry : description.values) {
    if (entry.value.form() == Value::Form::kMade && !entry.value.made().is_described()) return true;
  }
  return false;
}

// Published models of over ten million parameters, in their smallest size. transformers_test.cc
// makes them.
bool is_large(const Kind& kind) {
  const std::string_view name = kind.name;
  return name == "nn.models.bert" || name == "nn.models.roberta" || name == "nn.models.albert" ||
         name == "nn.models.electra" || name == "nn.models.gpt2";
}

TEST(KindRows, EachIsMadeDescribedAndReadBack) {
  for (const Kind& kind : all()) {
    SCOPED_TRACE(kind.name);
    if (is_large(kind)) {
      const Description whole = describe(kind.name, sample_of(kind));
      EXPECT_EQ(from_json(to_json(whole)), whole);
      continue;
    }
    const Made made = make(kind.name, sample_of(kind), kind.sample_options);
    const Description& description = made.description();
    EXPECT_EQ(&made.kind(), &kind);
    if (kind.type != nullptr) {
      EXPECT_EQ(*made.object().type, *kind.type);
    }
    EXPECT_EQ(description, describe(kind.name, sample_of(kind), kind.sample_options));
    ASSERT_EQ(description.values.size(), kind.parameters.size());
    for (std::size_t i = 0; i < kind.parameters.size(); ++i) {
      EXPECT_EQ(description.values[i].name, kind.parameters[i].name);
    }
    // The 78 million parameters of C3D are made once.
    if (kind.name != "nn.models.C3D") {
      EXPECT_EQ(make(description).description(), description);
    }
    if (holds_host(description)) {
      EXPECT_THROW(to_json(description), Error);
      continue;
    }
    const std::string text = to_json(description);
    EXPECT_EQ(from_json(text), description) << text;
    EXPECT_EQ(to_json(from_json(text)), text);
  }
}

TEST(KindRows, DefaultsAreInTheFormOfDescriptions) {
  for (const Kind& kind : all()) {
    SCOPED_TRACE(kind.name);
    const Description bare = describe(kind.name, sample_of(kind));
    for (std::size_t i = sample_of(kind).size(); i < kind.parameters.size(); ++i) {
      const Parameter& parameter = kind.parameters[i];
      EXPECT_FALSE(parameter.is_required) << parameter.name;
      EXPECT_EQ(bare.values[i].value, parameter.default_value) << parameter.name;
    }
    for (std::size_t i = 1; i < kind.positional; ++i) {
      EXPECT_TRUE(kind.parameters[i - 1].is_required || !kind.parameters[i].is_required)
          << "a required parameter after one with a default";
    }
    EXPECT_TRUE(!kind.doc.empty() || kind.group == Group::kRecord);
  }
}

// The error of a kind with one more option.
std::string refusal(const Kind& kind, const std::string& parameter, const Value& value) {
  Values sample = sample_of(kind);
  Options options = kind.sample_options;
  std::erase_if(options, [&](const Named& entry) { return entry.name == parameter; });
  for (std::size_t i = 0; i < sample.size(); ++i) {
    if (kind.parameters[i].name != parameter)
      options.push_back({kind.parameters[i].name, sample[i]});
  }
  options.push_back({parameter, value});
  try {
    describe(kind.name, {}, options);
  } catch (const Error& error) {
    EXPECT_STREQ(error.where().file, __FILE__) << error.what();
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    return error.what();
  }
  return "";
}

// A value of no parameter's type.
Value alien(const ParameterType& type) { return type.form == Form::kBool ? Value(0) : Value(true); }

TEST(KindRows, ValuesOfOtherTypesAreRefused) {
  for (const Kind& kind : all()) {
    for (const Parameter& parameter : kind.parameters) {
      const Value value = alien(parameter.type);
      const std::string start = kind.name + ": '" + parameter.name + "' is " + value.to_string();
      const std::string text = refusal(kind, parameter.name, value);
      EXPECT_EQ(text.substr(0, start.size()), start);
      EXPECT_NE(text.find("but must be of type " + parameter.type.to_string() + "\n"),
                std::string::npos)
          << text;
    }
  }
}

// As many numbers as the sample, or one.
Value number(const Parameter& parameter, double value) {
  const ParameterType* type = &parameter.type;
  if (type->form == Form::kList) type = type->element.get();
  const Value one = type->form == Form::kInt ? Value(static_cast<int64_t>(value)) : Value(value);
  return parameter.type.form == Form::kList ? Value(Values{one}) : one;
}

void check_range(const Kind& kind, const Parameter& parameter) {
  const auto [low, high, has_low, has_high] = *parameter.range;
  ASSERT_TRUE(std::isfinite(low));
  for (const double outside : {has_low ? low - 1 : low, has_high ? high + 1 : high}) {
    if (!std::isfinite(outside)) continue;
    const std::string text = refusal(kind, parameter.name, number(parameter, outside));
    EXPECT_NE(text.find(kind.name + ": " + parameter.name + " is "), std::string::npos) << text;
    EXPECT_NE(text.find("but must be " + parameter.range_text()), std::string::npos) << text;
  }
  const double middle = std::isfinite(high) ? 0.5 * (low + high) : low + 1;
  for (const double inside : {has_low ? low : middle, middle, has_high ? high : middle}) {
    // Its groups are its channels.
    if (kind.name == "nn.DepthwiseConv2D" && parameter.name == "groups" && inside != 1) continue;
    Options options = kind.sample_options;
    std::erase_if(options, [&](const Named& entry) { return entry.name == parameter.name; });
    options.push_back({parameter.name, number(parameter, inside)});
    if (kind.name.starts_with("nn.models.") && parameter.name == "width") {  // of the full size
      EXPECT_NO_THROW(describe(kind.name, sample_of(kind), options)) << inside;
      continue;
    }
    EXPECT_NO_THROW(make(kind.name, sample_of(kind), options)) << parameter.name << " " << inside;
  }
}

TEST(KindRows, NumbersOutOfTheirRangesAreRefused) {
  int ranges = 0;
  for (const Kind& kind : all()) {
    SCOPED_TRACE(kind.name);
    for (const Parameter& parameter : kind.parameters) {
      if (!parameter.range) continue;
      ++ranges;
      check_range(kind, parameter);
    }
  }
  EXPECT_GT(ranges, 150);
}

}  // namespace
}  // namespace etude::kinds
