// SPDX-License-Identifier: Apache-2.0
// The parameters of a staged function. A parameter of type Tensor also takes host data: numbers,
// nested lists, arrays and spans of numbers. They are read at each call, and take the dtype that
// the signature states. A tensor is passed as it is.
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/core/literal.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

template <class T>
concept HostNumber = std::is_arithmetic_v<T> && LiteralNumber<T>;
// The element types that a list may have: those with a dtype.
template <class T>
concept HostElement =
    std::is_arithmetic_v<T> && !std::same_as<T, char> && !std::same_as<T, long double> &&
    !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> && !std::same_as<T, char16_t> &&
    !std::same_as<T, char32_t>;
template <class T>
using HostItem = std::remove_cvref_t<decltype(*std::data(std::declval<const T&>()))>;
// Elements that lie side by side, or lists of them.
template <class T>
inline constexpr bool kIsHostList = false;
template <class T>
requires requires(const T& x) {
  std::size(x);
  typename HostItem<T>;
}
inline constexpr bool kIsHostList<T> = kIsHostList<HostItem<T>> || HostElement<HostItem<T>>;

// The destination of host data.
struct HostTarget {
  std::string what;              // prefix of messages: "argument 'x' of function 'f': "
  const DType* dtype = nullptr;  // null: the dtype of the data
};
// Host data that has not been read yet. Borrowed.
struct HostSource {
  using Read = Tensor (*)(const HostSource& source, const HostTarget& target);
  Read read = nullptr;  // null: it is none, and the rest is not set
  const void* data;
  std::size_t size;
};

// Builds a tensor from nested lists of numbers of one type.
class HostRows {
 public:
  HostRows(const HostTarget& target, DType from) : target_(target), from_(from) {}
  void list(int level, std::size_t size);
  void numbers(const void* values, std::size_t count);
  // rank: also counts levels of empty lists.
  Tensor finish(int rank);

 private:
  const HostTarget& target_;
  DType from_;
  Shape shape_;
  std::vector<std::byte> bytes_;
};

// throws: kInvalidArgument for lists that are not rectangular, and for numbers that the dtype of
// the target cannot represent.
Tensor read_literals(const HostSource& source, const HostTarget& target);
Tensor read_literal(const Literal& number, const HostTarget& target);

// Appends a list and its nested lists to `to`; returns its rank.
template <class T>
int read_rows(const T* list, int level, HostRows* to) {
  if (list != nullptr) to->list(level, std::size(*list));
  if constexpr (kIsHostList<HostItem<T>>) {
    int rank = 1 + read_rows<HostItem<T>>(nullptr, level + 1, to);
    if (list == nullptr) return rank;
    for (const auto& row : *list) read_rows(&row, level + 1, to);
    return rank;
  } else {
    if (list != nullptr) to->numbers(std::data(*list), std::size(*list));
    return 1;
  }
}
template <class T>
constexpr DType host_dtype() {
  if constexpr (kIsHostList<T>) {
    return host_dtype<HostItem<T>>();
  } else {
    return dtype_of<T>;
  }
}

template <class T>
Tensor read_host(const HostSource& source, const HostTarget& target) {
  const T& value = *static_cast<const T*>(source.data);
  if constexpr (HostNumber<T>) {
    return read_literal(Literal(value), target);
  } else {
    HostRows rows(target, host_dtype<T>());
    return rows.finish(read_rows(&value, 0, &rows));
  }
}

// Reads a Variable, or any other value that converts to a tensor.
template <class T>
Tensor read_converted(const HostSource& source, const HostTarget&) {
  return *static_cast<const T*>(source.data);
}

struct NoTensor {};

// An argument for a tensor parameter; lives for one call. Host data is read at the start of the
// call. kByValue: the parameter is a Tensor by value.
template <bool kByValue>
class GivenTensor {
 public:
  GivenTensor() : source_{read_absent, nullptr, 0} {}
  GivenTensor(const Tensor& x) : tensor_(&x) {
    if constexpr (kByValue) {
      own_ = x;
      tensor_ = &own_;
    }
  }
  GivenTensor(std::initializer_list<Literal> rows)
      : source_{read_literals, rows.begin(), rows.size()} {}
  template <class T>
  requires(HostNumber<T> || kIsHostList<T>) GivenTensor(const T& value)
      : source_{read_host<T>, &value, 1} {}
  template <class T>
  requires(std::is_convertible_v<const T&, Tensor> && !HostNumber<T> && !kIsHostList<T> &&
           !std::same_as<T, Tensor>) GivenTensor(const T& value)
      : source_{read_converted<T>, &value, 1} {}
  GivenTensor(const GivenTensor&) = delete;
  GivenTensor& operator=(const GivenTensor&) = delete;

  const Tensor& tensor() const noexcept { return *tensor_; }
  const HostSource& source() const noexcept { return source_; }
  // `x` must outlive this object.
  void set(const Tensor& x) noexcept { tensor_ = &x; }

 private:
  static Tensor read_absent(const HostSource&, const HostTarget&) { return {}; }

  const Tensor* tensor_;
  HostSource source_;
  [[no_unique_address]] std::conditional_t<kByValue, Tensor, NoTensor> own_;
};

template <class A>
struct Given {
  using type = A;
};
template <>
struct Given<const Tensor&> {
  using type = GivenTensor<false>;
};
template <>
struct Given<Tensor> {
  using type = GivenTensor<true>;
};
template <class A>
using given_t = typename Given<A>::type;
template <class X>
inline constexpr bool kIsGivenTensor = false;
template <bool kByValue>
inline constexpr bool kIsGivenTensor<GivenTensor<kByValue>> = true;

// The argument that f receives.
template <class X>
auto& argument_of(X& given) {
  if constexpr (kIsGivenTensor<std::remove_const_t<X>>) {
    return given.tensor();
  } else {
    return given;
  }
}
template <class X>
bool is_host_data(const X& given) noexcept {
  if constexpr (kIsGivenTensor<X>) {
    return given.source().read != nullptr;
  } else {
    return false;
  }
}

}  // namespace internal
}  // namespace etude
