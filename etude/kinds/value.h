// SPDX-License-Identifier: Apache-2.0
// Values of parameters and options at run time, and descriptions of objects. kinds.h makes objects
// of them; Python and other languages pass arguments as such values.
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

// An object and the operations on it that need its type.
struct Object {
  const std::type_info* type = nullptr;
  std::shared_ptr<const void> value;
  // y = object(x); null unless the object is called with one tensor.
  Tensor (*call)(const void* object, const Tensor& x, CallSite where) = nullptr;
  // The same object as an nn::Layer; null unless `call` is set and the class is a layer.
  nn::Layer (*to_layer)(const void* object) = nullptr;
  // A new object with the same value; null unless it is an optimiser. Returns a RuleOptimizer*.
  void* (*copy_optimizer)(const void* object) = nullptr;
  const Kind* kind = nullptr;  // null: an object of the program, which has no description
  std::shared_ptr<const Description> description;
};

}  // namespace internal

// An object of any kind with its description: a layer, an optimiser, a loss. Copies share the
// object, which never changes. threads: thread-safe to read.
class Made {
 public:
  // An object of the program as the value of a parameter of type T, such as a function as an
  // Activation. It has no description.
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
  // The object. Copy it to change it: nn::Dense layer = made.as<nn::Dense>().
  // throws: kInvalidArgument, with both types, for an object of another type.
  template <class T>
  const T& as(CallSite where = CallSite::here()) const {
    require_type(typeid(T), where);
    return *static_cast<const T*>(object_->value.get());
  }
  // Calls a layer or an activation. throws: its errors; kInvalidArgument for an object that is not
  // called with one tensor.
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  const internal::Object& object() const { return *object_; }
  // Whether both share one object.
  bool same_as(const Made& other) const { return object_ == other.object_; }

 private:
  void require_type(const std::type_info& type, CallSite where) const;

  std::shared_ptr<const internal::Object> object_;
};

// A value of a parameter. Numbers, texts and lists convert to it. An object is given by its
// description, by a name ("relu") where it needs no parameters, or as an object that was made.
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
  // Defined in the source: tables of kinds would instantiate them hundreds of times.
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
  double real() const;  // of an integer as well
  const std::string& text() const;
  DType dtype() const;
  const Tensor& tensor() const;
  const Values& list() const;
  const Description& description() const;
  const Made& made() const;

  // "784", "nn.relu", "[1, 2]": shortened, for messages.
  std::string to_string() const;
  // Bit for bit. An object equals its description. Objects of the program equal their copies.
  friend bool operator==(const Value& a, const Value& b) { return a.equals(b); }

 private:
  bool equals(const Value& other) const;

  std::variant<std::monostate, bool, int64_t, double, std::string, DType, Tensor,
               std::shared_ptr<const Values>, std::shared_ptr<const Description>, Made>
      value_;
};

// Positional values: a braced list of them, or a vector. A type of its own, since a vector of
// values in braces would be the vector and not a list of one.
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

// An object as its kind and the values of all parameters, in the order of the kind. Defaults are
// part of it: a default that a later version changes does not change a stored description.
struct Description {
  std::string kind;
  Options values;

  // throws: kInvalidArgument, with similar names, for another name.
  const Value& at(std::string_view name, CallSite where = CallSite::here()) const;
  // "nn.Dense(in=784, out=128, activation=nn.relu)", without values that are defaults.
  std::string to_string() const;
  friend bool operator==(const Description&, const Description&) = default;
};

}  // namespace kinds
}  // namespace etude
