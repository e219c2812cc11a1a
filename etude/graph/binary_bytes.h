// SPDX-License-Identifier: Apache-2.0
// Writes and reads the bytes of graphs in binary form (binary.h): ByteWriter appends bytes,
// ByteReader parses them and trusts none of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "etude/base/error.h"

namespace etude::internal {

class ByteWriter {
 public:
  void byte(uint8_t value) { out_.push_back(static_cast<char>(value)); }
  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<uint8_t>(value | 0x80));
    byte(static_cast<uint8_t>(value));
  }
  void integer(int64_t value) {
    const auto bits = static_cast<uint64_t>(value);
    number((bits << 1) ^ (value < 0 ? ~uint64_t{0} : 0));
  }
  void real(double value) { out_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void text(std::string_view value) {
    number(value.size());
    out_.append(value);
  }
  const std::string& all() const { return out_; }

 private:
  std::string out_;
};

// A position in the bytes. Counts are not trusted: each counted item must be present, with at least
// one byte. Errors name the position.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, std::size_t at, std::size_t end)
      : bytes_(bytes), at_(at), end_(end) {}

  std::size_t at() const { return at_; }
  std::size_t left() const { return end_ - at_; }

  uint8_t byte() { return static_cast<uint8_t>(take(1)[0]); }
  std::string_view take(std::size_t count) {
    if (count > left()) fail(fmt::format("{} bytes are needed, but {} are left", count, left()));
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  uint64_t number() {
    uint64_t out = 0;
    for (int shift = 0;; shift += 7) {
      const uint64_t b = byte();
      if (shift == 63 && b > 1) fail("a number has more than 64 bits");
      out |= (b & 0x7f) << shift;
      if (b < 0x80) return out;
    }
  }
  // A number of at most `most`.
  uint64_t number(uint64_t most, std::string_view what) {
    const std::size_t begin = at_;
    const uint64_t out = number();
    if (out > most) fail(begin, fmt::format("{} is {}, but at most {}", what, out, most));
    return out;
  }
  std::size_t count(std::string_view what) {
    const std::size_t begin = at_;
    const uint64_t out = number();
    if (out > left()) {
      fail(begin, fmt::format("there are {} {}, but {} bytes are left", out, what, left()));
    }
    return static_cast<std::size_t>(out);
  }
  // An index below `size`.
  std::size_t place(std::size_t size, std::string_view what) {
    const std::size_t begin = at_;
    const uint64_t out = number();
    if (out >= size) fail(begin, fmt::format("{} {} of {} is named", what, out, size));
    return static_cast<std::size_t>(out);
  }
  int64_t integer() {
    const uint64_t bits = number();
    return static_cast<int64_t>((bits >> 1) ^ (~(bits & 1) + 1));
  }
  double real() {
    double out = 0;
    std::memcpy(&out, take(sizeof out).data(), sizeof out);
    return out;
  }

  [[noreturn]] void fail(std::size_t at, const std::string& fact,
                         ErrorCode code = ErrorCode::kDataLoss) const {
    throw Error(code, fmt::format("byte {} of a graph in binary form: {}", at, fact));
  }
  [[noreturn]] void fail(const std::string& fact) const { fail(at_, fact); }

  // Returns f(), and adds the position `at` to its errors.
  template <class F>
  auto shown_at(std::size_t at, F&& f) const -> decltype(f()) {
    try {
      return f();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
      fail(at, error.what(), error.code());
    }
  }

 private:
  std::string_view bytes_;
  std::size_t at_, end_;
};

}  // namespace etude::internal
