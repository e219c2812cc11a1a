// SPDX-License-Identifier: Apache-2.0
#include "etude/parts/described.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <ostream>
#include <string>

#include "etude/base/check.h"
#include "etude/base/internal/hash.h"

namespace etude {

const int64_t* Described::number() const {
  const auto* x = std::get_if<int64_t>(&value_);
  if (x == nullptr) return nullptr;
  // An enumerator has the type of its enumeration.
  for (const std::type_index integer :
       {std::type_index(typeid(int)), std::type_index(typeid(long)),
        std::type_index(typeid(long long)), std::type_index(typeid(unsigned)),
        std::type_index(typeid(unsigned long)), std::type_index(typeid(unsigned long long)),
        std::type_index(typeid(short)), std::type_index(typeid(unsigned short)),
        std::type_index(typeid(char)), std::type_index(typeid(signed char)),
        std::type_index(typeid(unsigned char))}) {
    if (type_ == integer) return x;
  }
  return nullptr;
}

uint64_t Described::bits() const {
  if (const bool* x = std::get_if<bool>(&value_)) return *x ? 1 : 0;
  if (const double* x = std::get_if<double>(&value_)) return std::bit_cast<uint64_t>(*x);
  return static_cast<uint64_t>(std::get<int64_t>(value_));
}

uint64_t Described::bits_of(std::string_view text, std::size_t from) {
  uint64_t bits = 0;
  std::memcpy(&bits, text.data() + from, std::min<std::size_t>(8, text.size() - from));
  return bits;
}

bool Described::equals(const Described& other) const {
  if (type_ != other.type_ || value_.index() != other.value_.index()) return false;
  if (const auto* object = std::get_if<std::shared_ptr<const Object>>(&value_)) {
    const auto& theirs = std::get<std::shared_ptr<const Object>>(other.value_);
    return *object == theirs || (*object)->equals(*theirs);
  }
  if (const std::string* text = std::get_if<std::string>(&value_)) {
    return *text == std::get<std::string>(other.value_);
  }
  return bits() == other.bits();
}

uint64_t Described::hash() const {
  const auto type = static_cast<uint64_t>(type_.hash_code());
  if (const auto* object = std::get_if<std::shared_ptr<const Object>>(&value_)) {
    return internal::mix(type, (*object)->hash());
  }
  if (const std::string* text = std::get_if<std::string>(&value_)) {
    return internal::mix(type, std::hash<std::string>{}(*text));
  }
  return internal::mix(type, bits());
}

std::string Described::text() const {
  if (const bool* x = std::get_if<bool>(&value_)) return *x ? "true" : "false";
  if (const double* x = std::get_if<double>(&value_)) return fmt::format("{}", *x);
  if (const std::string* x = std::get_if<std::string>(&value_)) return "'" + *x + "'";
  if (std::holds_alternative<std::shared_ptr<const Object>>(value_)) {
    return std::string(type_name_);
  }
  if (is_unsigned_) return std::to_string(bits());
  const int64_t x = std::get<int64_t>(value_);
  return number() != nullptr ? std::to_string(x) : fmt::format("{}({})", type_name_, x);
}

std::ostream& operator<<(std::ostream& out, const Described& value) { return out << value.text(); }

namespace internal {

void throw_described(const Described& value, std::string_view type) {
  ETUDE_THROW(kInvalidArgument, "the host value is {} of type '{}', but '{}' is needed",
              value.text(), value.type_name(), type);
}

}  // namespace internal
}  // namespace etude
