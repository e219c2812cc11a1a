// SPDX-License-Identifier: Apache-2.0
// Described: a host value of any type as a leaf of Parts (parts.h), such as an integer, a text, an
// enumerator, or any value with ==. A Described has equality, a hash, and a text for messages.
// Staged functions compare it as they compare other host arguments.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <variant>

#include "etude/base/internal/type_name.h"
#include "etude/diff/protocol.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Described;

namespace internal {

template <class T>
concept HasKeyOfHost = requires(const T& x) {
  { x.host_key() } -> std::convertible_to<uint64_t>;
};
// Types that a Described can hold.
template <class T>
concept Describable = !std::is_same_v<T, Described> && std::copy_constructible<T> &&
                      (std::equality_comparable<T> || HasKeyOfHost<T>);
template <class T>
concept TextLike = std::is_convertible_v<const T&, std::string_view>;

// throws: kInvalidArgument, always: `value` is not of the type `type`, or is out of its range.
[[noreturn]] void throw_described(const Described& value, std::string_view type);

}  // namespace internal

// A value: copies share the immutable object. threads: thread-compatible.
class Described {
 public:
  // Holds a bool, a number, a text, an enumerator, or a copy of an object with == or host_key().
  template <class T>
  requires internal::Describable<std::decay_t<T>>
  explicit Described(const T& value)
      : type_(typeid(std::decay_t<T>)), type_name_(internal::type_name<std::decay_t<T>>()) {
    if constexpr (internal::TextLike<T>) {
      type_ = typeid(std::string);
      type_name_ = "text";
      value_ = std::string(std::string_view(value));
    } else if constexpr (std::is_same_v<T, bool>) {
      value_ = value;
    } else if constexpr (std::is_integral_v<T>) {
      is_unsigned_ = std::is_unsigned_v<T> && sizeof(T) == 8;
      value_ = static_cast<int64_t>(value);
    } else if constexpr (std::is_enum_v<T>) {
      value_ = static_cast<int64_t>(value);
    } else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      value_ = static_cast<double>(value);
    } else {
      value_ = std::shared_ptr<const Object>(std::make_shared<Held<T>>(value));
    }
  }

  // "true", "64", "'relu'", "Padding(1)"; for other objects the name of the type.
  std::string text() const;
  // The type of the value, in the compiler's spelling. All kinds of texts have the type "text".
  std::string_view type_name() const noexcept { return type_name_; }
  std::type_index type() const noexcept { return type_; }
  // Whether types and values are equal. Floating-point numbers are compared by their bits.
  friend bool operator==(const Described& a, const Described& b) { return a.equals(b); }
  // Equal for equal values.
  uint64_t hash() const;

  // Returns the value as a T. An integer converts to each integer type whose range contains the
  // integer. An integer that a double represents exactly also converts to each floating type,
  // unless its own type is unsigned with 64 bits. A floating-point number converts to each floating
  // type.
  // throws: kInvalidArgument, with text and types, for any other type or number.
  template <class T>
  T get() const {
    if constexpr (std::is_same_v<T, bool>) {
      if (const bool* x = std::get_if<bool>(&value_)) return *x;
    } else if constexpr (std::is_integral_v<T>) {
      if (const int64_t* x = number(); x != nullptr && fits<T>(*x)) return static_cast<T>(*x);
    } else if constexpr (std::is_enum_v<T>) {
      if (type_ == typeid(T)) return static_cast<T>(std::get<int64_t>(value_));
    } else if constexpr (std::is_floating_point_v<T>) {
      if (const double* x = std::get_if<double>(&value_)) return static_cast<T>(*x);
      const int64_t* x = number();
      if (x != nullptr && !is_unsigned_ && static_cast<int64_t>(static_cast<double>(*x)) == *x) {
        return static_cast<T>(*x);
      }
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (const std::string* x = std::get_if<std::string>(&value_)) return *x;
    } else {
      if (type_ == typeid(T)) {
        return static_cast<const Held<T>&>(*std::get<std::shared_ptr<const Object>>(value_)).value;
      }
    }
    internal::throw_described(*this, internal::type_name<T>());
  }

  // For keys of caches. Calls word(uint64_t) for the type. Then calls object(*this) for an object,
  // or word() for the bits of any other value.
  template <class Word, class ObjectFn>
  void key(const Word& word, const ObjectFn& object) const {
    word(static_cast<uint64_t>(type_.hash_code()));
    if (std::holds_alternative<std::shared_ptr<const Object>>(value_)) {
      object(*this);
    } else if (const std::string* text = std::get_if<std::string>(&value_)) {
      word(text->size());
      for (std::size_t i = 0; i < text->size(); i += 8) word(bits_of(std::string_view(*text), i));
    } else {
      word(bits());
    }
  }

 private:
  struct Object {
    Object() = default;
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    virtual ~Object() = default;
    virtual bool equals(const Object& other) const = 0;
    virtual uint64_t hash() const = 0;
  };
  template <class T>
  struct Held final : Object {
    explicit Held(T given) : value(std::move(given)) {}
    bool equals(const Object& other) const override {
      const T& b = static_cast<const Held&>(other).value;
      if constexpr (internal::HasKeyOfHost<T>) {
        return value.host_key() == b.host_key();
      } else {
        return static_cast<bool>(value == b);
      }
    }
    uint64_t hash() const override {
      if constexpr (internal::HasKeyOfHost<T>) {
        return static_cast<uint64_t>(value.host_key());
      } else if constexpr (requires { std::hash<T>{}(value); }) {
        return std::hash<T>{}(value);
      } else {
        return 0;  // compared by == only
      }
    }
    T value;
  };

  template <class T>
  bool fits(int64_t x) const {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8) {
      return is_unsigned_ || x >= 0;
    } else {
      if (is_unsigned_ && x < 0) return false;
      return x >= static_cast<int64_t>(std::numeric_limits<T>::min()) &&
             x <= static_cast<int64_t>(std::numeric_limits<T>::max());
    }
  }
  // Returns the integer; null for other values and for enumerators.
  const int64_t* number() const;
  uint64_t bits() const;
  static uint64_t bits_of(std::string_view text, std::size_t from);
  bool equals(const Described& other) const;

  std::variant<bool, int64_t, double, std::string, std::shared_ptr<const Object>> value_;
  std::type_index type_;
  std::string_view type_name_;
  bool is_unsigned_ = false;
};

std::ostream& operator<<(std::ostream& out, const Described& value);

template <>
inline constexpr bool internal::kIsDiscreteValue<Described> = true;

}  // namespace etude
