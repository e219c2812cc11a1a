// SPDX-License-Identifier: Apache-2.0
// Nested number literals, as in Tensor({{1.0, 2.0}, {3.0, 4.0}}). Use Literal only as a parameter
// type.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "etude/core/dtype.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// A number, or a list of literals. Lives for one call.
class Literal {
 public:
  enum class Kind : uint8_t { kBool, kInteger, kReal, kList };

  template <class T>
  requires std::is_arithmetic_v<T> Literal(T value)
      : Literal(std::is_same_v<T, bool>       ? Kind::kBool
                : std::is_floating_point_v<T> ? Kind::kReal
                                              : Kind::kInteger,
                static_cast<double>(value),
                std::is_integral_v<T> ? static_cast<int64_t>(value) : 0) {}
  Literal(std::initializer_list<Literal> items);

  Literal(const Literal& other);
  Literal& operator=(const Literal&) = delete;
  ~Literal();

  Kind kind() const { return kind_; }
  double real() const { return real_; }
  int64_t integer() const { return integer_; }
  const std::vector<Literal>& items() const { return items_; }

 private:
  Literal(Kind kind, double real, int64_t integer);

  Kind kind_;
  double real_ = 0;
  int64_t integer_ = 0;
  std::vector<Literal> items_;
};

}  // namespace etude
