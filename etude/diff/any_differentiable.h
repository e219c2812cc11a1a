// SPDX-License-Identifier: Apache-2.0
// Type-erased differentiable values and tangents, for example for a list of different layers or a
// registry of parameters.
//
//   AnyDifferentiable x(3.0);
//   move(x, AnyTangent(2.0));
//   x.get<double>();  // 5
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "etude/base/error.h"
#include "etude/base/internal/type_name.h"
#include "etude/diff/tangent_math.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// A tangent of any type. A default-constructed AnyTangent is the zero tangent of all types.
//
// Copies share their contents until one of the copies is modified. threads: thread-compatible.
class AnyTangent {
 public:
  AnyTangent() = default;
  template <Differentiable T>
  requires(!std::is_same_v<T, AnyTangent>) explicit AnyTangent(T tangent)
      : held_(std::make_shared<Held<T>>(std::move(tangent))) {}

  bool is_zero() const { return held_ == nullptr; }
  // The name of the held type; "zero" for the zero tangent.
  std::string_view type() const { return held_ ? held_->type() : "zero"; }
  // throws: kInvalidArgument, naming both types, if the held type is not T.
  template <class T>
  const T& get() const {
    const auto* held = dynamic_cast<const Held<T>*>(held_.get());
    if (held == nullptr) throw_types("get", type(), internal::type_name<T>());
    return held->value;
  }

  // Adds a tangent. The zero tangent changes nothing.
  // throws: kInvalidArgument, naming both types, if the held types differ.
  AnyTangent& operator+=(const AnyTangent& other) {
    if (other.is_zero()) return *this;
    if (is_zero()) return *this = other;
    if (held_.use_count() > 1) held_ = held_->copy();
    held_->add(*other.held_);
    return *this;
  }
  friend AnyTangent operator+(AnyTangent a, const AnyTangent& b) { return a += b; }
  friend AnyTangent operator*(double by, const AnyTangent& t) {
    if (t.is_zero()) return t;
    AnyTangent out;
    out.held_ = t.held_->copy();
    out.held_->scale(by);
    return out;
  }

 private:
  struct Base {
    Base() = default;
    Base(const Base&) = delete;
    Base& operator=(const Base&) = delete;
    virtual ~Base() = default;
    virtual std::string_view type() const = 0;
    virtual std::shared_ptr<Base> copy() const = 0;
    virtual void add(const Base& other) = 0;
    virtual void scale(double by) = 0;
  };
  template <class T>
  struct Held final : Base {
    explicit Held(T given) : value(std::move(given)) {}
    std::string_view type() const override { return internal::type_name<T>(); }
    std::shared_ptr<Base> copy() const override { return std::make_shared<Held>(value); }
    void add(const Base& other) override {
      const auto* same = dynamic_cast<const Held*>(&other);
      if (same == nullptr) throw_types("a sum of tangents", type(), other.type());
      accumulate(value, same->value);
    }
    void scale(double by) override { value = scaled(std::move(value), by); }
    T value;
  };
  [[noreturn]] static void throw_types(const char* what, std::string_view a, std::string_view b) {
    throw Error(ErrorCode::kInvalidArgument, std::string(what) + ": the types '" + std::string(a) +
                                                 "' and '" + std::string(b) +
                                                 "' differ. Use tangents of one value's type");
  }
  std::shared_ptr<Base> held_;
};

// A differentiable value of any type. Copies share their contents until move_along() changes one of
// the copies.
class AnyDifferentiable {
 public:
  template <Differentiable T>
  requires(!std::is_same_v<T, AnyDifferentiable>) explicit AnyDifferentiable(T value)
      : held_(std::make_shared<Held<T>>(std::move(value))) {}

  std::string_view type() const { return held_->type(); }
  // throws: kInvalidArgument, naming both types, if the held type is not T.
  template <class T>
  const T& get() const {
    const auto* held = dynamic_cast<const Held<T>*>(held_.get());
    if (held == nullptr) {
      throw Error(ErrorCode::kInvalidArgument,
                  "get: the value is a '" + std::string(type()) + "', not a '" +
                      std::string(internal::type_name<T>()) + "'. Ask for the type that it holds");
    }
    return held->value;
  }
  // throws: kInvalidArgument, naming both types, if `by` is not a tangent of the value.
  void move_along(const AnyTangent& by) {
    if (by.is_zero()) return;
    if (held_.use_count() > 1) held_ = held_->copy();
    held_->move_along(by);
  }
  // The zero tangent of the held value.
  AnyTangent zero() const { return held_->zero(); }

 private:
  struct Base {
    Base() = default;
    Base(const Base&) = delete;
    Base& operator=(const Base&) = delete;
    virtual ~Base() = default;
    virtual std::string_view type() const = 0;
    virtual std::shared_ptr<Base> copy() const = 0;
    virtual void move_along(const AnyTangent& by) = 0;
    virtual AnyTangent zero() const = 0;
  };
  template <class T>
  struct Held final : Base {
    explicit Held(T given) : value(std::move(given)) {}
    std::string_view type() const override { return internal::type_name<T>(); }
    std::shared_ptr<Base> copy() const override { return std::make_shared<Held>(value); }
    void move_along(const AnyTangent& by) override {
      etude::move(value, by.template get<tangent_t<T>>());
    }
    AnyTangent zero() const override { return AnyTangent(zero_tangent(value)); }
    T value;
  };
  std::shared_ptr<Base> held_;
};

template <>
inline constexpr bool internal::kIsErased<AnyDifferentiable> = true;
template <>
struct DifferentiableTraits<AnyTangent> {
  using Tangent = AnyTangent;
  static AnyTangent zero(const AnyTangent&) { return {}; }
  static void move(AnyTangent& x, const AnyTangent& by) { x += by; }
};
template <>
struct DifferentiableTraits<AnyDifferentiable> {
  using Tangent = AnyTangent;
  static AnyTangent zero(const AnyDifferentiable&) { return {}; }
  static void move(AnyDifferentiable& x, const AnyTangent& by) { x.move_along(by); }
};

}  // namespace etude
