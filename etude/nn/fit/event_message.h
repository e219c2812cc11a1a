// SPDX-License-Identifier: Apache-2.0
// Messages of protocol buffers, field by field, for event files.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace etude::nn::internal {

// Numbers are written little-endian.
template <class T>
void put(std::string& out, T value) {
  std::array<char, sizeof(T)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof(T));
  out.append(bytes.data(), sizeof(T));
}

// A message of protocol buffers, field by field.
class Message {
 public:
  Message& integer(uint32_t field, uint64_t value) {
    key(field, 0);
    varint(value);
    return *this;
  }
  Message& real(uint32_t field, double value) {
    key(field, 1);
    put(bytes_, value);
    return *this;
  }
  Message& number(uint32_t field, float value) {
    key(field, 5);
    put(bytes_, value);
    return *this;
  }
  Message& bytes(uint32_t field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& reals(uint32_t field, const std::vector<double>& values) {
    std::string packed;
    for (const double value : values) put(packed, value);
    return bytes(field, packed);
  }
  const std::string& text() const { return bytes_; }

 private:
  void key(uint32_t field, uint32_t kind) { varint(field << 3 | kind); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace etude::nn::internal
