// SPDX-License-Identifier: Apache-2.0
#include "etude/kinds/value.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/kinds/kinds.h"
#include "etude/kinds/similar.h"

namespace etude::kinds {
namespace {

constexpr std::size_t kShown = 60;  // characters of a value in a message

// The description of a value that is an object; null for an object of the program.
const Description* described(const Value& value) {
  if (value.form() == Value::Form::kDescription) return &value.description();
  return value.made().object().description.get();
}

bool is_object(const Value& value) {
  return value.form() == Value::Form::kDescription || value.form() == Value::Form::kMade;
}

}  // namespace

Value::Value() = default;
Value::Value(const Value& other) = default;
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) = default;
Value& Value::operator=(Value&& other) noexcept = default;
Value::~Value() = default;

Value::Value(const char* text) : value_(std::string(text)) {}
Value::Value(std::string text) : value_(std::move(text)) {}
Value::Value(DType dtype) : value_(dtype) {}
Value::Value(Tensor tensor) : value_(std::move(tensor)) {}
Value::Value(const IntList& list) {
  if (list.is_given()) *this = Value(list.values());
}
Value::Value(std::initializer_list<int64_t> list) : Value(std::vector<int64_t>(list)) {}
Value::Value(const std::vector<int64_t>& list) : Value(Values(list.begin(), list.end())) {}
Value::Value(const std::vector<double>& list) : Value(Values(list.begin(), list.end())) {}
Value::Value(Values list) : value_(std::make_shared<const Values>(std::move(list))) {}
Value::Value(Description description)
    : value_(std::make_shared<const Description>(std::move(description))) {}
Value::Value(Made made) : value_(std::move(made)) {}

namespace {

template <class T, class Variant>
const T& held(const Variant& value) {
  const T* found = std::get_if<T>(&value);
  ETUDE_CHECK(found != nullptr, "a value of a parameter has form {}", value.index());
  return *found;
}

}  // namespace

bool Value::flag() const { return held<bool>(value_); }
int64_t Value::integer() const { return held<int64_t>(value_); }
double Value::real() const {
  return form() == Form::kInt ? static_cast<double>(integer()) : held<double>(value_);
}
const std::string& Value::text() const { return held<std::string>(value_); }
DType Value::dtype() const { return held<DType>(value_); }
const Tensor& Value::tensor() const { return held<Tensor>(value_); }
const Values& Value::list() const { return *held<std::shared_ptr<const Values>>(value_); }
const Description& Value::description() const {
  return *held<std::shared_ptr<const Description>>(value_);
}
const Made& Value::made() const { return held<Made>(value_); }

bool Value::equals(const Value& other) const {
  if (is_object(*this) && is_object(other)) {
    const Description *mine = described(*this), *its = described(other);
    if (mine != nullptr && its != nullptr) return *mine == *its;
    return mine == its && made().same_as(other.made());
  }
  if (form() != other.form()) return false;
  switch (form()) {
    case Form::kReal:
      return std::bit_cast<uint64_t>(real()) == std::bit_cast<uint64_t>(other.real());
    case Form::kTensor:
      return same_value(tensor(), other.tensor());
    case Form::kList:
      return list() == other.list();
    case Form::kNone:
      return true;
    case Form::kBool:
      return flag() == other.flag();
    case Form::kInt:
      return integer() == other.integer();
    case Form::kText:
      return text() == other.text();
    default:
      return dtype() == other.dtype();
  }
}

std::string Value::to_string() const {
  std::string out;
  switch (form()) {
    case Form::kNone:
      return "none";
    case Form::kBool:
      return flag() ? "true" : "false";
    case Form::kInt:
      return fmt::format("{}", integer());
    case Form::kReal:
      out = fmt::format("{}", real());
      // A whole number is a float as well: 3.0.
      if (out.find_first_not_of("-0123456789") == std::string::npos) out += ".0";
      return out;
    case Form::kText:
      out = fmt::format("\"{}\"", text());
      break;
    case Form::kDType:
      return std::string(etude::name(dtype()));
    case Form::kTensor:
      return tensor().has_value() ? tensor().type()->to_string() : "an absent tensor";
    case Form::kList:
      for (const Value& element : list()) {
        if (!out.empty()) out += ", ";
        out += element.to_string();
        if (out.size() > kShown) break;
      }
      out = fmt::format("[{}]", out);
      break;
    case Form::kDescription:
      return description().to_string();
    case Form::kMade:
      return made().is_described() ? made().description().to_string() : "an object of the program";
  }
  if (out.size() > kShown) {
    out.resize(kShown);
    out += "...";
  }
  return out;
}

Made::Made(internal::Object object)
    : object_(std::make_shared<const internal::Object>(std::move(object))) {}

const Kind& Made::kind(CallSite where) const {
  static_cast<void>(description(where));
  return *object_->kind;
}

const Description& Made::description(CallSite where) const {
  return etude::internal::located("kinds", where, [&]() -> const Description& {
    ETUDE_REQUIRE_CODE(kFailedPrecondition, is_described(),
                       "an object of the program ({}) has no description. Make it by kinds::make",
                       type_name(*object_->type));
    return *object_->description;
  });
}

void Made::require_type(const std::type_info& type, CallSite where) const {
  if (*object_->type == type) return;
  etude::internal::located("kinds", where, [&] {
    ETUDE_REQUIRE(false, "the object is {}, a {}, and not a {}",
                  is_described() ? object_->kind->name : "one of the program",
                  type_name(*object_->type), type_name(type));
  });
}

Tensor Made::operator()(const Tensor& x, CallSite where) const {
  if (object_->call == nullptr) {
    etude::internal::located("kinds", where, [&] {
      ETUDE_REQUIRE(false, "{} is not called with one tensor; take its type from as<T>()",
                    is_described() ? object_->kind->name : type_name(*object_->type));
    });
  }
  return object_->call(object_->value.get(), x, where);
}

const Value& Description::at(std::string_view name, CallSite where) const {
  for (const Named& entry : values) {
    if (entry.name == name) return entry.value;
  }
  etude::internal::located(kind, where, [&] {
    std::vector<std::string_view> names;
    for (const Named& entry : values) names.push_back(entry.name);
    ETUDE_REQUIRE(false, "there is no parameter '{}'{}", name, similar(name, names));
  });
  __builtin_unreachable();
}

std::string Description::to_string() const {
  const Kind* row = find(kind);
  std::string out;
  for (const Named& entry : values) {
    const Parameter* parameter = row == nullptr ? nullptr : row->find(entry.name);
    const bool is_default =
        parameter != nullptr && !parameter->is_required && parameter->default_value == entry.value;
    if (!is_default) {
      out += fmt::format("{}{}={}", out.empty() ? "" : ", ", entry.name, entry.value.to_string());
    }
  }
  return values.empty() ? kind : fmt::format("{}({})", kind, out);
}

}  // namespace etude::kinds
