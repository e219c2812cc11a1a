// SPDX-License-Identifier: Apache-2.0
// Values of parameters and options at run time, and descriptions of objects. kinds.h makes objects
// from descriptions. Python and other languages pass arguments as values.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/core/dtype.h"
#include "etude/core/op/attr_view.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {
class Layer;
}  // namespace nn

namespace kinds {

struct Kind;
struct Description;
class Value;
using Values = std::vector<Value>;

namespace internal {

// An object, and the operations that need its type.
struct Object {
  const std::type_info* type = nullptr;
  std::shared_ptr<const void> value;
  // Returns object(x). Null unless the object is called with one tensor.
  Tensor (*call)(const void* object, const Tensor& x, CallSite where) = nullptr;
  // Returns the object as an nn::Layer. Null unless `call` is set and the class is a layer.
  nn::Layer (*to_layer)(const void* object) = nullptr;
  // Returns a copy of the object, a new RuleOptimizer*. Null unless the object is an optimiser.
  void* (*copy_optimizer)(const void* object) = nullptr;
  const Kind* kind = nullptr;  // null: an object of the program, which has no description
  std::shared_ptr<const Description> description;
};

}  // namespace internal

// An object of any kind, such as a layer, an optimiser or a loss, with its description. Copies
// share the object, which never changes. threads: thread-safe to read.
class Made {
 public:
  // Wraps an object of the program as the value of a parameter of type T, such as a function for an
  // Activation. The result has no description.
  template <class T>
  static Made host(T value) {
    internal::Object object;
    object.type = &typeid(T);
    object.value = std::make_shared<const T>(std::move(value));
    return Made(std::move(object));
  }
  explicit Made(internal::Object object);

  // throws: kFailedPrecondition for an object of the program.
  const Kind& kind(CallSite where = CallSite::here()) const;
  const Description& description(CallSite where = CallSite::here()) const;
  bool is_described() const { return object_->kind != nullptr; }

  template <class T>
  bool is() const {
    return *object_->type == typeid(T);
  }
  // Returns the object. To change it, copy it: nn::Dense layer = made.as<nn::Dense>().
  // throws: kInvalidArgument, with both types, if the object has another type.
  template <class T>
  const T& as(CallSite where = CallSite::here()) const {
    require_type(typeid(T), where);
    return *static_cast<const T*>(object_->value.get());
  }
  // Calls a layer or an activation. throws: the errors of the object; kInvalidArgument if the
  // object is not called with one tensor.
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  const internal::Object& object() const { return *object_; }
  // Whether *this and `other` share one object.
  bool same_as(const Made& other) const { return object_ == other.object_; }

 private:
  void require_type(const std::type_info& type, CallSite where) const;

  std::shared_ptr<const internal::Object> object_;
};

// A value of a parameter. Numbers, texts and lists convert to it. An object is passed as a Made, as
// a description, or as a name ("relu") if it needs no parameters.
class Value {
 public:
  enum class Form : uint8_t {
    kNone,  // absent
    kBool,
    kInt,
    kReal,
    kText,
    kDType,
    kTensor,
    kList,
    kDescription,
    kMade
  };

  // NOLINTBEGIN(google-explicit-constructor): arguments are values
  Value();
  template <std::same_as<bool> T>
  Value(T value) : value_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Value(T value) : value_(static_cast<int64_t>(value)) {}
  template <std::floating_point T>
  Value(T value) : value_(static_cast<double>(value)) {}
  Value(const char* text);
  Value(std::string text);
  Value(DType dtype);
  Value(Tensor tensor);
  Value(const IntList& list);
  Value(std::initializer_list<int64_t> list);
  Value(const std::vector<int64_t>& list);
  Value(const std::vector<double>& list);
  Value(Values list);
  Value(Description description);
  Value(Made made);
  // NOLINTEND(google-explicit-constructor)
  // Defined in value.cc, since tables of kinds would instantiate these functions hundreds of times.
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();

  Form form() const { return static_cast<Form>(value_.index()); }
  bool is_none() const { return form() == Form::kNone; }
  // throws (all): kInternal for a value of another form.
  bool flag() const;
  int64_t integer() const;
  double real() const;  // also converts an integer
  const std::string& text() const;
  DType dtype() const;
  const Tensor& tensor() const;
  const Values& list() const;
  const Description& description() const;
  const Made& made() const;

  // Returns a short text for messages: "784", "nn.relu", "[1, 2]".
  std::string to_string() const;
  // Compares numbers and tensors by their bits. An object equals its description. An object of the
  // program equals only its copies.
  friend bool operator==(const Value& a, const Value& b) { return a.equals(b); }

 private:
  bool equals(const Value& other) const;

  std::variant<std::monostate, bool, int64_t, double, std::string, DType, Tensor,
               std::shared_ptr<const Values>, std::shared_ptr<const Description>, Made>
      value_;
};

// Positional values: a braced list, or a vector. This is a separate type, since C++ would read
// braces around a vector of values as the vector itself, not as a list with one element.
struct Arguments {
  Arguments() = default;
  Arguments(std::initializer_list<Value> list) : values(list) {}
  Arguments(Values list) : values(std::move(list)) {}
  Values values;
};

struct Named {
  std::string name;
  Value value;
  friend bool operator==(const Named&, const Named&) = default;
};
using Options = std::vector<Named>;

// Describes an object by its kind and the values of all parameters, in the order of the kind.
// Defaults are included. A stored description therefore keeps its meaning if a later version
// changes a default.
struct Description {
  std::string kind;
  Options values;

  // Returns the value of a parameter. throws: kInvalidArgument, with similar names, for an unknown
  // name.
  const Value& at(std::string_view name, CallSite where = CallSite::here()) const;
  // Returns "nn.Dense(in=784, out=128, activation=nn.relu)", without values that are defaults.
  std::string to_string() const;
  friend bool operator==(const Description&, const Description&) = default;
};

}  // namespace kinds
}  // namespace etude
