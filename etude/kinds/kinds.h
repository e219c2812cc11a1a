// SPDX-License-Identifier: Apache-2.0
// Kinds: the layers, optimisers, losses, metrics, schedules, callbacks, initialisers and
// activations of the library by name. Each kind lists the names, types, defaults, ranges and docs
// of its parameters. Kinds serve models that come from a file or from another language. C++
// programs that know their layers use the classes themselves.
//
//   kinds::Made layer = kinds::make("nn.Dense", {784, 128}, {{"activation", "relu"}});
//   Tensor y = layer(x);
//   nn::Dense dense = layer.as<nn::Dense>();
//   std::string text = kinds::to_json(layer.description());
//   kinds::Made again = kinds::make(kinds::from_json(text));  // new random weights
//
// The name of a kind is the C++ name with dots: "optim.SGD" is optim::SGD. A description holds no
// weights; checkpoints hold weights.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/core/call/arg.h"
#include "etude/core/option_ranges.h"
#include "etude/core/tensor.h"
#include "etude/kinds/value.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace optim::internal {
class RuleOptimizer;
}  // namespace optim::internal

namespace kinds {

enum class Group : uint8_t {
  kLayer,
  kCell,
  kActivation,
  kInitializer,
  kLoss,
  kMetric,
  kOptimizer,
  kTransform,
  kSchedule,
  kCallback,
  kRecord  // a struct that is a value of a parameter, such as nn::Monitored
};
// Returns "layer" for kLayer, and so on.
std::string_view name(Group group);

// The type of a parameter.
struct ParameterType {
  enum class Form : uint8_t { kBool, kInt, kReal, kText, kDType, kTensor, kObject, kList };
  Form form = Form::kObject;
  bool may_be_none = false;
  bool takes_number = false;     // accepts a number as a list of one, or as a constant schedule
  Group group = Group::kRecord;  // the group of an object, if its class is not stated
  const std::type_info* object = nullptr;                  // the class of an object
  std::vector<const std::type_info*> others;               // the classes, if there are several
  std::shared_ptr<const ParameterType> element = nullptr;  // the type of the elements of a list

  // Returns "int", "list of int", "activation or none".
  std::string to_string() const;
};

struct Parameter {
  std::string name;
  ParameterType type;
  bool is_required = false;
  Value default_value;         // unset if the parameter is required
  std::optional<Range> range;  // of a number, and of each number in a list
  std::string_view doc;        // may be empty

  // Returns the range as text, such as "at least 0"; empty without a range.
  std::string range_text() const;
};

// One class or function of the library.
struct Kind {
  std::string name;  // "nn.Dense"
  Group group = Group::kLayer;
  std::string_view doc;
  std::vector<Parameter> parameters;     // positional parameters first
  std::size_t positional = 0;            // number of positional parameters
  const std::type_info* type = nullptr;  // the class of the objects; null: depends on a parameter
  // Values that make an object, for tests and examples. Empty for a kind that needs an object of
  // the program.
  Values sample;
  Options sample_options;

  // Makes the object from checked values, one for each parameter.
  internal::Object (*make)(const Value* values, CallSite where) = nullptr;

  // Returns the parameter of this name; null if there is none.
  const Parameter* find(std::string_view parameter) const;
  // Returns "nn.Dense(in: int, out: int, *, activation: activation or none = none, ...)".
  std::string signature() const;
};

// Returns all kinds, sorted by name. threads: thread-safe.
std::span<const Kind> all();
// Returns the kind of this name; null if there is none.
const Kind* find(std::string_view name);
// Returns the kind of this name. throws: kNotFound, with similar names.
const Kind& at(std::string_view name, CallSite where = CallSite::here());

// Checks values and adds defaults. Positional parameters may also be passed by name.
//
// throws: kNotFound for an unknown kind, also as the value of a parameter; kInvalidArgument for an
//         unknown, missing or repeated parameter, for a value of another type, and for a number out
//         of range. The message names the kind, the parameter, its type or range, and similar
//         names.
Description describe(std::string_view kind, const Arguments& positional = {},
                     const Options& options = {}, CallSite where = CallSite::here());
// Makes an object. Parameters that are objects are made first, in order. Random weights are
// therefore equal for equal seeds.
//
// throws: as describe; the errors of the constructor.
Made make(std::string_view kind, const Arguments& positional = {}, const Options& options = {},
          CallSite where = CallSite::here());
// Makes an object from a description, which is checked again.
Made make(const Description& description, CallSite where = CallSite::here());

// The type of a loss that a kind makes: loss(predicted, expected). The options are bound.
using Loss = std::function<Tensor(const Arg&, const Arg&)>;
// The type of a loss of three tensors, such as triplet_margin_loss.
using TripleLoss = std::function<Tensor(const Arg&, const Arg&, const Tensor&)>;

// Returns a made layer as an nn::Layer. Its parts are the parameters of the layer.
//
// throws: kInvalidArgument for an object that is not a layer, or is not called with one tensor.
nn::Layer layer_of(const Made& made, CallSite where = CallSite::here());
// Returns a new optimiser with the options of a made optimiser and without state. Its member
// function update(model, gradients) makes a step.
//
// throws: kInvalidArgument for an object that is not an optimiser.
std::unique_ptr<optim::internal::RuleOptimizer> optimizer_of(const Made& made,
                                                             CallSite where = CallSite::here());
// Returns an optimiser as the value of a callback's parameter. The callback borrows the optimiser.
template <class Optimizer>
Made borrow(Optimizer& optimizer) {
  return Made::host<optim::internal::RuleOptimizer*>(&optimizer);
}

// Writes {"kind": "nn.Dense", "in": 784, "out": 128, "activation": "nn.relu", ...}, with all values
// by name. If a value is an object whose kind has no parameters, only the name of the kind is
// written. Tensors are written in the form of io::to_json.
//
// throws: kFailedPrecondition, with the parameter, for an object of the program.
std::string to_json(const Description& description, CallSite where = CallSite::here());
// Reads the output of to_json. The text is not trusted: no object is made. Omitted values become
// defaults.
//
// throws: kDataLoss, with the reason, for a text that is not a description; kResourceExhausted
//         beyond read_limits(); the errors of describe.
Description from_json(std::string_view text, CallSite where = CallSite::here());

}  // namespace kinds
}  // namespace etude
