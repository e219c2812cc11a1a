// SPDX-License-Identifier: Apache-2.0
#include "etude/io/safetensors_format.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include "etude/base/check.h"

namespace etude::internal {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::size_t kMaxRank = 64;
constexpr std::string_view kMetadataKey = "__metadata__";

struct Dtype {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array<Dtype, 14> kDtypes = {{{"BOOL", 1},
                                            {"U8", 1},
                                            {"I8", 1},
                                            {"U16", 2},
                                            {"I16", 2},
                                            {"U32", 4},
                                            {"I32", 4},
                                            {"U64", 8},
                                            {"I64", 8},
                                            {"F16", 2},
                                            {"BF16", 2},
                                            {"F32", 4},
                                            {"F64", 8},
                                            {"C64", 8}}};

std::string known_dtypes() {
  std::string list;
  for (const Dtype& dtype : kDtypes) list += (list.empty() ? "" : " ") + std::string(dtype.name);
  return list;
}

// The bytes of a tensor, or nothing when they do not fit 63 bits. Sizes must not be negative.
std::optional<uint64_t> tensor_bytes(const SafetensorsEntry& entry) {
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  uint64_t bytes = safetensors_element_bytes(entry.dtype);
  bool empty = false;
  for (const int64_t size : entry.shape) {
    if (size == 0) {
      empty = true;  // the other sizes must be sane all the same
    } else if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes) || bytes > kMax) {
      return std::nullopt;
    }
  }
  return empty ? 0 : bytes;
}

// Bytes that are not ASCII as '?'.
std::string printable(std::string text) {
  const auto is_other = [](unsigned char c) { return c >= 0x80; };
  std::replace_if(text.begin(), text.end(), is_other, '?');
  return text;
}

// Shows to the JSON parser the bytes from `at`, and to others how far the parser has come.
class TrackedByte {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackedByte() = default;
  TrackedByte(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  TrackedByte& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  TrackedByte operator++(int) {
    const TrackedByte old = *this;
    ++*this;
    return old;
  }
  bool operator==(const TrackedByte& other) const { return at_ == other.at_; }

 private:
  const char* at_ = nullptr;
  const char** reached_ = nullptr;
};

// Takes the events of the JSON parser, and throws at the first event that the format does not
// allow. Each `Place` allows certain next events, so nesting is bounded by the format itself.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  HeaderReader(std::string_view text, ReadBudget& budget)
      : name_(budget.name()), text_(text), budget_(budget), reached_(text.data()) {}

  SafetensorsHeader read() {
    Json::sax_parse(TrackedByte(text_.data(), &reached_),
                    TrackedByte(text_.data() + text_.size(), &reached_), this);
    return std::move(header_);
  }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    unexpected("a number that is not an integer of 64 bits");
  }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      require(entry_.shape.size() < kMaxRank, "a shape of more than 64 axes");
      require(value <= static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max()),
              "a size of more than 63 bits");
      entry_.shape.push_back(static_cast<int64_t>(value));
    } else if (place_ == Place::kOffsets && offsets_ < 2) {
      (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
    } else {
      unexpected("a number");
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kDtypeValue) {
      entry_.dtype = std::move(value);
      place_ = Place::kEntry;
    } else if (place_ == Place::kMetadataValue) {
      *metadata_value_ = std::move(value);
      place_ = Place::kMetadata;
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTop;
        return true;
      case Place::kMetadataObject:
        place_ = Place::kMetadata;
        return true;
      case Place::kEntryObject:
        place_ = Place::kEntry;
        return true;
      default:
        unexpected("an object");
    }
  }

  bool key(string_t& key) override {
    if (place_ == Place::kTop || place_ == Place::kMetadata) {
      // Of an entry: itself, its key among all, and the places that readers add.
      constexpr uint64_t kEntryBytes = 512;
      const auto at = kLengthBytes + static_cast<uint64_t>(reached_ - text_.data());
      budget_.need_items(1, at);
      budget_.need_bytes(kEntryBytes + 3 * key.size(), at);
    }
    if (place_ == Place::kTop) {
      require(names_.insert(key).second, "the key '{:.100}', which was given before", key);
      place_ = key == kMetadataKey ? Place::kMetadataObject : Place::kEntryObject;
      entry_ = {};
      entry_.name = std::move(key);
      has_dtype_ = has_shape_ = has_offsets_ = false;
      offsets_ = 0;
    } else if (place_ == Place::kMetadata) {
      const auto [at, inserted] = header_.metadata.try_emplace(key);
      require(inserted, "the metadata key '{:.100}', which was given before", key);
      metadata_value_ = &at->second;
      place_ = Place::kMetadataValue;
    } else {
      entry_key(key);
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kEntry) {
      require(has_dtype_ && has_shape_ && has_offsets_,
              "the end of tensor '{:.100}' without dtype, shape or data_offsets", entry_.name);
      header_.entries.push_back(std::move(entry_));
      place_ = Place::kTop;
    } else if (place_ == Place::kMetadata) {
      place_ = Place::kTop;
    } else {
      place_ = Place::kEnd;
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::kShapeArray) {
      place_ = Place::kShape;
    } else if (place_ == Place::kOffsetsArray) {
      place_ = Place::kOffsets;
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    require(place_ != Place::kOffsets || offsets_ == 2, "data_offsets without two numbers");
    place_ = Place::kEntry;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    // The text is "[json.exception.parse_error.101] parse error at ...: reason", and the reason
    // quotes the file, which may be long and no UTF-8.
    constexpr std::size_t kMaxShown = 200;
    std::string text = printable(error.what());
    if (const std::size_t tag = text.find("] "); tag != text.npos) text.erase(0, tag + 2);
    const std::size_t reason = text.find(": ");
    if (reason != text.npos) text.erase(0, reason + 2);
    fail(text.size() <= kMaxShown ? text : text.substr(0, kMaxShown) + "...");
  }

 private:
  enum class Place {
    kStart,           // before the first {
    kTop,             // a name of a tensor or __metadata__, or the end
    kMetadataObject,  // the value of "__metadata__"
    kMetadata,        // a key of the metadata, or its end
    kMetadataValue,   // its value
    kEntryObject,     // the value of a tensor's name
    kEntry,           // one of the three keys of a tensor, or its end
    kDtypeValue,      // the value of "dtype"
    kShapeArray,      // the value of "shape"
    kShape,           // a size, or the end
    kOffsetsArray,    // the value of "data_offsets"
    kOffsets,         // an offset, or the end
    kEnd,
  };

  void entry_key(const std::string& key) {
    bool* seen = key == "dtype"          ? &has_dtype_
                 : key == "shape"        ? &has_shape_
                 : key == "data_offsets" ? &has_offsets_
                                         : nullptr;
    require(seen != nullptr, "the unknown key '{:.100}' in tensor '{:.100}'", key, entry_.name);
    require(!*seen, "the key '{}' twice in tensor '{:.100}'", key, entry_.name);
    *seen = true;
    place_ = seen == &has_dtype_   ? Place::kDtypeValue
             : seen == &has_shape_ ? Place::kShapeArray
                                   : Place::kOffsetsArray;
  }

  std::string_view expected() const {
    switch (place_) {
      case Place::kStart:
      case Place::kMetadataObject:
      case Place::kEntryObject:
        return "an object";
      case Place::kMetadataValue:
        return "a string as value of the metadata";
      case Place::kDtypeValue:
        return "the name of a dtype";
      case Place::kShapeArray:
        return "an array of sizes";
      case Place::kShape:
        return "a size";
      case Place::kOffsetsArray:
      case Place::kOffsets:
        return "an array of begin and end";
      default:
        return "a key";
    }
  }

  [[noreturn]] void fail(std::string_view what) const {
    ETUDE_THROW(kDataLoss, "'{}': the header is not that of a safetensors file near byte {}: {}",
                name_, kLengthBytes + static_cast<uint64_t>(reached_ - text_.data()), what);
  }
  [[noreturn]] void unexpected(std::string_view what) const {
    fail(fmt::format("there is {} where {} must be", what, expected()));
  }
  template <class... Arguments>
  void require(bool condition, fmt::format_string<const Arguments&...> what,
               const Arguments&... arguments) const {
    if (!condition) fail("there is " + fmt::format(what, arguments...));
  }

  std::string_view name_, text_;
  ReadBudget& budget_;
  const char* reached_;
  SafetensorsHeader header_;
  std::unordered_set<std::string> names_;
  Place place_ = Place::kStart;
  SafetensorsEntry entry_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  int offsets_ = 0;
  std::string* metadata_value_ = nullptr;
};

// Checks that shape, dtype and place of one tensor agree, and that it lies within the data.
void check_entry(const SafetensorsEntry& entry, uint64_t data_bytes, std::string_view name) {
  ETUDE_REQUIRE_CODE(kUnimplemented, safetensors_element_bytes(entry.dtype) != 0,
                     "'{}': tensor '{:.100}' has the unknown dtype '{:.100}'; known are {}", name,
                     entry.name, entry.dtype, known_dtypes());
  ETUDE_REQUIRE_CODE(kDataLoss, entry.begin <= entry.end && entry.end <= data_bytes,
                     "'{}': tensor '{:.100}' lies at [{}, {}) of the data, which has {} bytes",
                     name, entry.name, entry.begin, entry.end, data_bytes);
  const std::optional<uint64_t> bytes = tensor_bytes(entry);
  ETUDE_REQUIRE_CODE(
      kDataLoss, bytes == entry.end - entry.begin,
      "'{}': tensor '{:.100}' of type {}[{}] needs {} bytes, but lies at [{}, {}) of the "
      "data, which are {}",
      name, entry.name, entry.dtype, fmt::join(entry.shape, ","),
      bytes ? std::to_string(*bytes) : "more than 2^63", entry.begin, entry.end,
      entry.end - entry.begin);
}

// Sorts the tensors by their place, and checks that they cover the data.
void check_cover(std::vector<SafetensorsEntry>& entries, uint64_t data_bytes,
                 std::string_view name) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t covered = 0;
  for (const SafetensorsEntry& entry : entries) {
    ETUDE_REQUIRE_CODE(
        kDataLoss, entry.begin == covered,
        "'{}': tensor '{:.100}' begins at byte {} of the data, but the tensors before it "
        "end at {}; the data must be covered without hole or overlap",
        name, entry.name, entry.begin, covered);
    covered = entry.end;
  }
  ETUDE_REQUIRE_CODE(kDataLoss, covered == data_bytes,
                     "'{}': the tensors end at byte {} of the data, which has {} bytes", name,
                     covered, data_bytes);
}

std::string quoted(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    ETUDE_THROW(kInvalidArgument, "the name or metadata '{}' is not UTF-8", printable(text));
  }
}

// Sets the place of each entry; they must be sorted.
void lay_out(std::vector<SafetensorsEntry>& entries) {
  uint64_t offset = 0;
  for (SafetensorsEntry& entry : entries) {
    const std::optional<uint64_t> bytes = tensor_bytes(entry);
    entry.begin = offset;
    const bool overflows = !bytes || __builtin_add_overflow(offset, *bytes, &offset);
    ETUDE_REQUIRE(!overflows, "tensor '{}' of type {}[{}] is too large for a file", entry.name,
                  entry.dtype, fmt::join(entry.shape, ","));
    entry.end = offset;
  }
}

void check_writable(const std::vector<SafetensorsEntry>& entries) {
  std::unordered_set<std::string_view> names;
  for (const SafetensorsEntry& entry : entries) {
    ETUDE_REQUIRE(names.insert(entry.name).second, "two tensors are called '{}'", entry.name);
    ETUDE_REQUIRE(entry.name != kMetadataKey,
                  "a tensor is called '{}', which safetensors reserves; rename it", entry.name);
    ETUDE_REQUIRE(safetensors_element_bytes(entry.dtype) != 0,
                  "tensor '{}' has the unknown dtype '{:.100}'; known are {}", entry.name,
                  entry.dtype, known_dtypes());
    ETUDE_REQUIRE(entry.shape.size() <= kMaxRank, "tensor '{}' has {} axes; the limit is {}",
                  entry.name, entry.shape.size(), kMaxRank);
    for (const int64_t size : entry.shape) {
      ETUDE_REQUIRE(size >= 0, "tensor '{}' of type {}[{}] has a negative size", entry.name,
                    entry.dtype, fmt::join(entry.shape, ","));
    }
  }
}

}  // namespace

uint64_t safetensors_element_bytes(std::string_view dtype) {
  const auto found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                  [&](const Dtype& known) { return known.name == dtype; });
  return found == kDtypes.end() ? 0 : found->bytes;
}

uint64_t safetensors_header_end(std::span<const uint8_t> begin, uint64_t file_bytes,
                                std::string_view name) {
  ETUDE_REQUIRE_CODE(kDataLoss, file_bytes >= kLengthBytes && begin.size() >= kLengthBytes,
                     "'{}' has {} bytes; a safetensors file starts with 8 bytes of length", name,
                     file_bytes);
  uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) length = length << 8 | begin[i];
  ETUDE_REQUIRE_CODE(kDataLoss, length <= kMaxHeaderBytes,
                     "'{}': bytes 0 to 7 give a header of {} bytes; the limit is {}", name, length,
                     kMaxHeaderBytes);
  ETUDE_REQUIRE_CODE(kDataLoss, length <= file_bytes - kLengthBytes,
                     "'{}': bytes 0 to 7 give a header of {} bytes, but {} follow", name, length,
                     file_bytes - kLengthBytes);
  return kLengthBytes + length;
}

SafetensorsHeader parse_safetensors_header(std::span<const uint8_t> begin, uint64_t file_bytes,
                                           ReadBudget& budget) {
  const std::string_view name = budget.name();
  const uint64_t end = safetensors_header_end(begin, file_bytes, name);
  ETUDE_REQUIRE_CODE(kDataLoss, end > kLengthBytes && begin[kLengthBytes] == '{',
                     "'{}': the header must start with '{{' at byte 8", name);
  const std::string_view text(reinterpret_cast<const char*>(begin.data()) + kLengthBytes,
                              end - kLengthBytes);
  SafetensorsHeader header = HeaderReader(text, budget).read();
  header.data_offset = end;
  const uint64_t data_bytes = file_bytes - end;
  for (const SafetensorsEntry& entry : header.entries) check_entry(entry, data_bytes, name);
  check_cover(header.entries, data_bytes, name);
  return header;
}

SafetensorsHeader parse_safetensors_header(std::span<const uint8_t> file, std::string_view name) {
  ReadBudget budget(name, file.size());
  return parse_safetensors_header(file, file.size(), budget);
}

std::string make_safetensors_header(std::vector<SafetensorsEntry>& entries,
                                    const std::map<std::string, std::string>& metadata) {
  check_writable(entries);
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    const uint64_t a_bytes = safetensors_element_bytes(a.dtype);
    const uint64_t b_bytes = safetensors_element_bytes(b.dtype);
    return std::tie(b_bytes, a.name) < std::tie(a_bytes, b.name);
  });
  lay_out(entries);
  std::string text(kLengthBytes, '\0');
  text += '{';
  std::string_view comma;
  if (!metadata.empty()) {
    text += fmt::format("\"{}\":{{", kMetadataKey);
    for (const auto& [key, value] : metadata) {
      text += fmt::format("{}{}:{}", std::exchange(comma, ","), quoted(key), quoted(value));
    }
    text += '}';
    comma = ",";
  }
  for (const SafetensorsEntry& entry : entries) {
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        std::exchange(comma, ","), quoted(entry.name), entry.dtype,
                        fmt::join(entry.shape, ","), entry.begin, entry.end);
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size() - kLengthBytes;
  ETUDE_REQUIRE_CODE(
      kResourceExhausted, length <= kMaxHeaderBytes,
      "{} tensors and {} metadata entries need a header of {} bytes; the limit is {}",
      entries.size(), metadata.size(), length, kMaxHeaderBytes);
  for (std::size_t i = 0; i < kLengthBytes; ++i) text[i] = static_cast<char>(length >> (8 * i));
  return text;
}

}  // namespace etude::internal
