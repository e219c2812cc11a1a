// SPDX-License-Identifier: Apache-2.0
// Kinds: the layers, optimisers, losses, metrics, schedules, callbacks, initialisers and
// activations of the library by name, with the names, types, defaults, ranges and docs of their
// parameters. They serve models that come from a file or from another language. C++ programs that
// know their layers use the classes themselves.
//
//   kinds::Made layer = kinds::make("nn.Dense", {784, 128}, {{"activation", "relu"}});
//   Tensor y = layer(x);
//   nn::Dense dense = layer.as<nn::Dense>();
//   std::string text = kinds::to_json(layer.description());
//   kinds::Made again = kinds::make(kinds::from_json(text));  // new random weights
//
// A name is the C++ name with dots: "optim.SGD" is optim::SGD. A description holds no weights;
// checkpoints hold them.
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
// "layer" for kLayer, and so on.
std::string_view name(Group group);

// The type of a parameter.
struct ParameterType {
  enum class Form : uint8_t { kBool, kInt, kReal, kText, kDType, kTensor, kObject, kList };
  Form form = Form::kObject;
  bool may_be_none = false;
  bool takes_number = false;     // a number in place of the list of one, or of a constant schedule
  Group group = Group::kRecord;  // of an object, unless `object` states its class
  const std::type_info* object = nullptr;                  // the class of an object
  std::vector<const std::type_info*> others;               // further classes that fit as well
  std::shared_ptr<const ParameterType> element = nullptr;  // of a list

  // "int", "list of int", "activation or none".
  std::string to_string() const;
};

struct Parameter {
  std::string name;
  ParameterType type;
  bool is_required = false;
  Value default_value;         // unless it is required
  std::optional<Range> range;  // of each number
  std::string_view doc;        // may be empty

  // "in (0, 1]" style text of the range: "at least 0"; empty without a range.
  std::string range_text() const;
};

// One class or function of the library.
struct Kind {
  std::string name;  // "nn.Dense"
  Group group = Group::kLayer;
  std::string_view doc;
  std::vector<Parameter> parameters;  // the positional ones first
  std::size_t positional = 0;
  const std::type_info* type = nullptr;  // of the objects; null: it depends on a parameter
  // Values that make an object, for tests and examples; empty for a kind that needs an object of
  // the program.
  Values sample;
  Options sample_options;

  // Makes the object from values that complete() has checked.
  internal::Object (*make)(const Value* values, CallSite where) = nullptr;

  // Null if there is none.
  const Parameter* find(std::string_view parameter) const;
  // "nn.Dense(in: int, out: int, *, activation: activation or none = none, ...)".
  std::string signature() const;
};

// All kinds, sorted by name. threads: thread-safe.
std::span<const Kind> all();
// The kind with that name; null if there is none.
const Kind* find(std::string_view name);
// The same. throws: kNotFound, with similar names.
const Kind& at(std::string_view name, CallSite where = CallSite::here());

// Checks values and adds defaults. Positional parameters may also be passed by name.
//
// throws: kNotFound for an unknown kind; kInvalidArgument for an unknown, missing or repeated
//         parameter, for a value of another type, and for a number out of its range. The message
//         names the kind, the parameter, its type or range, and similar names.
Description describe(std::string_view kind, const Arguments& positional = {},
                     const Options& options = {}, CallSite where = CallSite::here());
// Makes an object. Parameters that are objects are made first, in order, so random weights repeat
// for a seed. throws: as describe; the errors of the constructor.
Made make(std::string_view kind, const Arguments& positional = {}, const Options& options = {},
          CallSite where = CallSite::here());
// The same from a description, which is checked again.
Made make(const Description& description, CallSite where = CallSite::here());

// The type of losses that kinds make: loss(predicted, expected). Options are bound.
using Loss = std::function<Tensor(const Arg&, const Arg&)>;
// Losses of three tensors, such as triplet_margin_loss.
using TripleLoss = std::function<Tensor(const Arg&, const Arg&, const Tensor&)>;

// A made layer as an nn::Layer, whose parts are the parameters of the layer.
// throws: kInvalidArgument for an object that is no layer, or that is not called with one tensor.
nn::Layer layer_of(const Made& made, CallSite where = CallSite::here());
// A new optimiser with the options of a made one, and without state: *optimizer_of(made) has
// update(model, gradients). throws: kInvalidArgument for an object of another group.
std::unique_ptr<optim::internal::RuleOptimizer> optimizer_of(const Made& made,
                                                             CallSite where = CallSite::here());
// An optimiser as the parameter of a callback, which borrows it.
template <class Optimizer>
Made borrow(Optimizer& optimizer) {
  return Made::host<optim::internal::RuleOptimizer*>(&optimizer);
}

// Writes {"kind": "nn.Dense", "in": 784, "out": 128, "activation": "nn.relu", ...}, with all values
// by name. An object without parameters is written as its name. Tensors are written as by
// io::to_json.
//
// throws: kFailedPrecondition, with the parameter, for an object of the program.
std::string to_json(const Description& description, CallSite where = CallSite::here());
// Reads such a text, which need not be trusted: only the description is made. Omitted values become
// defaults.
//
// throws: kDataLoss, with the reason, for a text that is no description; kResourceExhausted for a
//         text beyond read_limits(); the errors of describe.
Description from_json(std::string_view text, CallSite where = CallSite::here());

}  // namespace kinds
}  // namespace etude
