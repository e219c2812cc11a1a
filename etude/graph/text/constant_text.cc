// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/text/constant_text.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "etude/core/internal/host_door.h"
#include "etude/core/op/exact_text.h"

namespace etude::internal {
namespace {

constexpr int64_t kMaxSpelled = 16;
constexpr int64_t kShownOfMany = 3;
constexpr std::string_view kHex = "hex ";
constexpr std::string_view kDigits = "0123456789abcdef";

bool has_elements(const Tensor& x) {
  return x.has_value() && !TensorAccess::is_sparse(x) && !TensorAccess::is_abstract(x);
}

// The positions of the brackets of a shape: the number of elements in one list of each axis.
class Brackets {
 public:
  explicit Brackets(const Shape& shape) : rank_(shape.rank()) {
    int64_t block = 1;
    for (int axis = rank_ - 1; axis >= 0; --axis) {
      block *= shape[axis];
      blocks_[static_cast<std::size_t>(axis)] = block;
    }
  }
  // The number of lists that begin at element i; as many end before it.
  int at(int64_t i) const {
    return static_cast<int>(std::count_if(blocks_.begin(), blocks_.begin() + rank_,
                                          [&](int64_t block) { return i % block == 0; }));
  }

 private:
  int rank_;
  std::array<int64_t, kMaxRank> blocks_{};
};

std::string spelled(const Tensor& x) {
  if (x.size() == 0) return "[]";
  const Brackets brackets(x.shape());
  std::string text;
  for (int64_t i = 0; i < x.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::string(static_cast<std::size_t>(brackets.at(i)), '[') + element_text(x, i);
    text += std::string(static_cast<std::size_t>(brackets.at(i + 1)), ']');
  }
  return text;
}

std::string in_hex(const Tensor& x) {
  const auto* bytes = static_cast<const unsigned char*>(host_elements(x));
  const auto count = static_cast<std::size_t>(x.nbytes());
  std::string text(kHex);
  text.reserve(kHex.size() + 2 * count);
  for (std::size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::string beginning(const Tensor& x) {
  std::string text;
  for (int64_t i = 0; i < kShownOfMany; ++i) text += element_text(x, i) + ", ";
  return text + "...";
}

std::string_view rest(const char* at, const char* end) {
  return {at, static_cast<std::size_t>(end - at)};
}

void skip_blanks(const char*& at, const char* end) {
  while (at != end && (*at == ' ' || *at == '\t')) ++at;
}

bool take(const char*& at, const char* end, char c) {
  skip_blanks(at, end);
  if (at == end || *at != c) return false;
  ++at;
  return true;
}

Tensor from_bytes(const Type* type, const std::string& bytes) {
  Tensor out = make_tensor(type);
  if (!bytes.empty()) std::memcpy(host_elements_for_writing(out), bytes.data(), bytes.size());
  return out;
}

constexpr std::string_view kElided =
    "the elements of this constant were left out of the text. Print the graph in full";

// Appends elements and reads the brackets around them; returns the text of an error, or "".
template <class T>
std::string read_elements(const char*& at, const char* end, const Type* type, std::string& bytes) {
  const Brackets brackets(type->shape());
  for (int64_t i = 0; i < type->count(); ++i) {
    if (i > 0 && !take(at, end, ',')) {
      return fmt::format("{} has {} elements, but here are {}", type->to_string(), type->count(),
                         i);
    }
    for (int k = brackets.at(i); k > 0; --k) {
      if (!take(at, end, '[')) return "a list of the shape begins here, so '[' is expected";
    }
    skip_blanks(at, end);
    T value;
    if (!read_exact(at, end, value)) {
      return fmt::format("a {} is expected here", name(type->dtype()));
    }
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    for (int k = brackets.at(i + 1); k > 0; --k) {
      if (!take(at, end, ']')) return "a list of the shape ends here, so ']' is expected";
    }
  }
  return "";
}

std::string read_hex(const char*& at, const char* end, const Type* type, std::string& bytes) {
  const std::string_view text = rest(at, end);
  const std::size_t given = std::min(text.find_first_not_of(kDigits), text.size());
  const auto wanted = static_cast<std::size_t>(type->bytes());
  if (given / 2 != wanted || given % 2 != 0) {
    return fmt::format("{} has {} bytes, two hex digits each, but here are {} digits",
                       type->to_string(), wanted, given);
  }
  bytes.reserve(wanted);
  for (std::size_t i = 0; i < given; i += 2) {
    const std::size_t high = kDigits.find(text[i]), low = kDigits.find(text[i + 1]);
    bytes += static_cast<char>(high << 4 | low);
  }
  const auto is_bool = [](char byte) { return byte == 0 || byte == 1; };
  if (type->dtype() == kBool && !std::ranges::all_of(bytes, is_bool)) {
    return "the bytes of bool are 00 and 01";
  }
  at += given;
  return "";
}

}  // namespace

std::string element_text(const Tensor& x, int64_t i) {
  const Tensor home = at_home(x);
  return visit_dtype(x.dtype(), [&]<class T>() {
    return exact_text(static_cast<const T*>(host_elements(home))[i]);
  });
}

std::string constant_text(const Tensor& value, bool elide) {
  if (!has_elements(value)) return "<no elements>";
  if (value.size() <= kMaxSpelled) return spelled(value);
  return elide ? beginning(value) : in_hex(at_home(value));
}

Tensor read_constant(const char*& at, const char* end, const Type* type, std::string& fault) {
  std::string bytes;
  const std::string_view line = rest(at, end).substr(0, rest(at, end).find('\n'));
  if (line.find("...") != std::string_view::npos) {
    fault = kElided;
  } else if (line.starts_with(kHex)) {
    at += kHex.size();
    fault = read_hex(at, end, type, bytes);
  } else if (type->count() == 0) {
    const bool is_there = take(at, end, '[') && take(at, end, ']');
    fault = is_there ? "" : fmt::format("{} has no elements: write []", type->to_string());
  } else {
    fault = visit_dtype(type->dtype(),
                        [&]<class T>() { return read_elements<T>(at, end, type, bytes); });
  }
  return fault.empty() ? from_bytes(type, bytes) : Tensor();
}

}  // namespace etude::internal
