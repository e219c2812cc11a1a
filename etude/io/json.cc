// SPDX-License-Identifier: Apache-2.0
#include "etude/io/json.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <complex>
#include <limits>

#include <nlohmann/json.hpp>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/dtype.h"
#include "etude/core/internal/host_door.h"
#include "etude/files/json_tree.h"
#include "etude/files/read_budget.h"

namespace etude::io {
namespace {

using nlohmann::json;

template <std::size_t kBytes>
using Word =
    std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, uint32_t, uint64_t>>;

using etude::internal::kIsComplex;
template <class T>
constexpr bool kIsFloat = std::is_floating_point_v<T> || etude::internal::kIsHalf<T>;
// The type whose digits are written: half types are exact as float.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
std::string text_of(T value) {
  if constexpr (kIsComplex<T>) {
    return fmt::format("[{},{}]", text_of(value.real()), text_of(value.imag()));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (kIsFloat<T>) {
    const auto wide = static_cast<Wide<T>>(value);
    if (!std::isfinite(wide)) {
      return fmt::format("\"{:#0{}x}\"", std::bit_cast<Word<sizeof(T)>>(value), 2 + 2 * sizeof(T));
    }
    const std::string digits = fmt::format("{}", wide);
    return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
  } else {
    return fmt::format("{}", value);
  }
}

template <class T>
T from_bits(const std::string& text) {
  Word<sizeof(T)> bits = 0;
  const char *begin = text.data() + 2, *end = text.data() + text.size();
  const bool fits = text.size() == 2 + 2 * sizeof(T) && text.starts_with("0x") &&
                    std::from_chars(begin, end, bits, 16).ptr == end;
  ETUDE_REQUIRE_CODE(kDataLoss, fits, "the element \"{}\" is not \"0x\" and {} hex digits",
                     text.substr(0, 40), 2 * sizeof(T));
  return std::bit_cast<T>(bits);
}

// The beginning of a value as text, also of texts that are not UTF-8.
std::string shown(const json& value) {
  return value.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 40);
}

template <class T>
T integer_of(const json& element) {
  constexpr auto low = std::numeric_limits<T>::min();
  constexpr auto high = std::numeric_limits<T>::max();
  const bool is_unsigned = element.is_number_unsigned();
  const bool fits = element.is_number_integer() &&
                    (is_unsigned ? element.get<uint64_t>() <= static_cast<uint64_t>(high)
                                 : element.get<int64_t>() >= static_cast<int64_t>(low) &&
                                       (std::is_signed_v<T> &&
                                        element.get<int64_t>() <= static_cast<int64_t>(high)));
  ETUDE_REQUIRE_CODE(kDataLoss, fits, "the element {} is no integer from {} to {}", shown(element),
                     low, high);
  return is_unsigned ? static_cast<T>(element.get<uint64_t>())
                     : static_cast<T>(element.get<int64_t>());
}

template <class T>
T value_of(const json& element) {
  if constexpr (kIsComplex<T>) {
    ETUDE_REQUIRE_CODE(kDataLoss, element.is_array() && element.size() == 2,
                       "the element {} is no pair of numbers", shown(element));
    using Part = typename T::value_type;
    return {value_of<Part>(element[0]), value_of<Part>(element[1])};
  } else if constexpr (std::is_same_v<T, bool>) {
    ETUDE_REQUIRE_CODE(kDataLoss, element.is_boolean(), "the element {} is neither true nor false",
                       shown(element));
    return element.get<bool>();
  } else if constexpr (kIsFloat<T>) {
    if (element.is_string()) return from_bits<T>(element.get_ref<const std::string&>());
    ETUDE_REQUIRE_CODE(kDataLoss, element.is_number(), "the element {} is no number",
                       shown(element));
    // Numbers up to half a step beyond the largest number round to it; its own digits may be such a
    // number.
    constexpr double kLargest = std::numeric_limits<Wide<T>>::max();
    constexpr double kLimit = sizeof(Wide<T>) == 4 ? kLargest * (1 + 0x1p-25) : kLargest;
    const double v = element.get<double>();
    const bool fits = std::abs(v) <= kLimit;
    const T out = T(static_cast<Wide<T>>(fits ? std::clamp(v, -kLargest, kLargest) : 0));
    ETUDE_REQUIRE_CODE(kDataLoss, fits && std::isfinite(static_cast<Wide<T>>(out)),
                       "the element {} is too large for its dtype", shown(element));
    return out;
  } else {
    return integer_of<T>(element);
  }
}

Shape shape_of(const json& sizes) {
  ETUDE_REQUIRE_CODE(kDataLoss, sizes.is_array() && sizes.size() <= kMaxRank,
                     "\"shape\" is no list of at most {} sizes", kMaxRank);
  std::vector<int64_t> out;
  for (const json& size : sizes) {
    const bool fits = size.is_number_unsigned() && size.get<uint64_t>() < (1ull << 40);
    ETUDE_REQUIRE_CODE(kDataLoss, fits, "{} is no size", shown(size));
    out.push_back(size.get<int64_t>());
  }
  return Shape(out);
}

// Whether `shape` has just the elements of a list, whose length memory bounds.
bool has_count(const Shape& shape, std::size_t count) {
  std::size_t product = 1;
  for (const int64_t size : shape) {
    if (size == 0) return count == 0;
    if (product > count) return false;
    product *= static_cast<std::size_t>(size);
  }
  return product == count;
}

const json& member(const json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  ETUDE_REQUIRE_CODE(kDataLoss, object.is_object() && found != object.end(),
                     "\"{}\" is missing; a tensor is {{\"dtype\", \"shape\", \"data\"}}", name);
  return *found;
}

}  // namespace

std::string to_json(const Tensor& x, CallSite where) {
  return etude::internal::located("to_json", where, [&] {
    ETUDE_REQUIRE(x.has_value(), "the tensor is absent");
    std::string out = fmt::format("{{\"dtype\":\"{}\",\"shape\":[{}],\"data\":[", name(x.dtype()),
                                  fmt::join(x.shape().to_vector(), ","));
    visit_dtype(x.dtype(), [&]<class T>() {
      const auto data = x.data<T>();
      for (std::size_t i = 0; i < data.size(); ++i) {
        if (i > 0) out += ',';
        out += text_of<T>(data[i]);
      }
    });
    return out + "]}";
  });
}

Tensor from_json(std::string_view text, CallSite where) {
  return etude::internal::located("from_json", where, [&] {
    etude::internal::ReadBudget budget("JSON", text.size());
    etude::internal::count_json(text, budget);
    const etude::internal::JsonTree<json> tree(text);
    const json& object = tree.root();
    ETUDE_REQUIRE_CODE(kDataLoss, !object.is_discarded(), "this is not JSON: {}",
                       text.substr(0, 40));
    const json& dtype_name = member(object, "dtype");
    const auto dtype =
        dtype_name.is_string() ? dtype_named(dtype_name.get<std::string>()) : std::nullopt;
    ETUDE_REQUIRE_CODE(kDataLoss, dtype.has_value(), "{} is no dtype", shown(dtype_name));
    const Shape shape = shape_of(member(object, "shape"));
    const json& data = member(object, "data");
    ETUDE_REQUIRE_CODE(kDataLoss, data.is_array() && has_count(shape, data.size()),
                       "\"data\" has {} elements, which are not those of shape {}",
                       data.is_array() ? data.size() : 0, shape.to_string());
    Tensor out = etude::internal::make_tensor(intern_type(*dtype, shape));
    visit_dtype(*dtype, [&]<class T>() {
      auto* to = static_cast<T*>(etude::internal::host_elements_for_writing(out));
      for (const json& element : data) *to++ = value_of<T>(element);
    });
    return out;
  });
}

std::string describe(const Tensor& x, CallSite where) {
  return etude::internal::located("describe", where, [&] {
    ETUDE_REQUIRE(x.has_value(), "the tensor is absent");
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    double low = kInfinity, high = -kInfinity, mean = 0, squares = 0;
    int64_t finite = 0;
    visit_dtype(x.dtype(), [&]<class T>() {
      for (const T& element : x.data<T>()) {
        double v = 0;
        if constexpr (kIsComplex<T>)
          v = std::abs(std::complex<double>(element));
        else
          v = static_cast<double>(
              static_cast<std::conditional_t<kIsFloat<T>, Wide<T>, T>>(element));
        if (!std::isfinite(v)) continue;
        low = std::min(low, v);
        high = std::max(high, v);
        const double away = v - mean;
        mean += away / static_cast<double>(++finite);
        squares += away * (v - mean);
      }
    });
    const std::string type = x.type()->to_string();
    if (finite == 0) return fmt::format("{}: no finite element of {}", type, x.size());
    return fmt::format(
        "{}: min {:.7g}, max {:.7g}, mean {:.7g}, deviation {:.7g}, {} of {} not finite", type, low,
        high, mean, std::sqrt(squares / static_cast<double>(finite)), x.size() - finite, x.size());
  });
}

}  // namespace etude::io
