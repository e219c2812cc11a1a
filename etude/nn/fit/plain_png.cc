// SPDX-License-Identifier: Apache-2.0
// PNG (ISO 15948) around deflate blocks that are stored as they are (RFC 1951, 3.2.4).
#include "etude/nn/fit/plain_png.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "etude/base/check.h"

namespace etude::nn::detail {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c & 1) != 0 ? 0xEDB88320U ^ (c >> 1) : c >> 1;
    table[i] = c;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kCrcTable = crc_table();

std::uint32_t crc_of(std::string_view bytes) {
  std::uint32_t c = 0xFFFFFFFFU;
  for (const char byte : bytes) {
    c = kCrcTable[(c ^ static_cast<std::uint8_t>(byte)) & 0xFF] ^ (c >> 8);
  }
  return ~c;
}

std::uint32_t adler_of(std::string_view bytes) {
  std::uint32_t a = 1, b = 0;
  for (const char byte : bytes) {
    a = (a + static_cast<std::uint8_t>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

// The highest byte first.
void put(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xFF);
}

void add_chunk(std::string& out, std::string_view kind, std::string_view data) {
  put(out, static_cast<std::uint32_t>(data.size()));
  std::string body(kind);
  body += data;
  out += body;
  put(out, crc_of(body));
}

// A zlib stream of stored blocks.
std::string stored(std::string_view bytes) {
  constexpr std::size_t kMost = 65535;
  std::string out = "\x78\x01";
  for (std::size_t at = 0; at == 0 || at < bytes.size(); at += kMost) {
    const std::string_view block = bytes.substr(at, kMost);
    const auto size = static_cast<std::uint32_t>(block.size());
    out += static_cast<char>(at + kMost >= bytes.size() ? 1 : 0);
    for (const std::uint32_t word : {size, ~size}) {
      out += static_cast<char>(word & 0xFF);
      out += static_cast<char>(word >> 8 & 0xFF);
    }
    out += block;
  }
  put(out, adler_of(bytes));
  return out;
}

std::uint8_t shade_of(double x) {
  if (!(x > 0)) return 0;  // also what is no number
  return static_cast<std::uint8_t>(std::lround(std::min(x, 1.0) * 255));
}

std::vector<std::uint8_t> shades_of(const Tensor& image) {
  if (image.dtype() == kUInt8) return image.to_vector<std::uint8_t>();
  std::vector<std::uint8_t> out;
  for (const double x : image.to_vector<double>()) out.push_back(shade_of(x));
  return out;
}

}  // namespace

std::int64_t channels_of(const Tensor& image) { return image.rank() == 3 ? image.shape()[2] : 1; }

std::string plain_png(const Tensor& image) {
  const bool has_axes = image.has_value() && (image.rank() == 2 || image.rank() == 3);
  ETUDE_REQUIRE(
      has_axes && image.size() > 0 && channels_of(image) <= 4 &&
          (image.dtype() == kUInt8 || is_floating(image.dtype())),
      "an image is {}, but must be uint8 or floats [height, width] or [height, width, 1 to "
      "4]",
      image.has_value() ? image.type()->to_string() : "absent");
  constexpr std::array<char, 5> kColors = {0, 0, 4, 2, 6};  // by channels
  const auto height = static_cast<std::size_t>(image.shape()[0]);
  const auto channels = static_cast<std::size_t>(channels_of(image));
  const std::vector<std::uint8_t> shades = shades_of(image);
  std::string header;
  put(header, static_cast<std::uint32_t>(image.shape()[1]));
  put(header, static_cast<std::uint32_t>(height));
  header += {8, kColors[channels], 0, 0, 0};
  std::string lines;
  const std::size_t line = shades.size() / height;
  for (std::size_t i = 0; i < height; ++i) {
    lines += '\0';  // no filter
    lines.append(reinterpret_cast<const char*>(shades.data()) + i * line, line);
  }
  std::string out = "\x89PNG\r\n\x1a\n";
  add_chunk(out, "IHDR", header);
  add_chunk(out, "IDAT", stored(lines));
  add_chunk(out, "IEND", "");
  return out;
}

}  // namespace etude::nn::detail
