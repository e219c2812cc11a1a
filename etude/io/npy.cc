// SPDX-License-Identifier: Apache-2.0
// Source: NumPy, "numpy.lib.format", versions 1.0 to 3.0.
#include "etude/io/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>

#include "etude/base/check.h"
#include "etude/core/context/pending.h"
#include "etude/core/dtype.h"
#include "etude/core/internal/host_door.h"
#include "etude/files/atomic_file.h"
#include "etude/files/file_reader.h"
#include "etude/files/read_budget.h"
#include "etude/files/zip_file.h"
#include "etude/io/dense_copy.h"
#include "etude/io/tensor_file.h"

namespace etude::io {
namespace {

using etude::internal::bytes_of;
using etude::internal::ByteSource;
using etude::internal::ReadBudget;

static_assert(std::endian::native == std::endian::little, "files have the order of little endian");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr uint64_t kArrayBytes = 256;            // of a tensor, besides its elements
constexpr std::size_t kMostHeaderBytes = 65536;  // a header has one line with a few sizes

// Without the sign of the byte order.
constexpr std::array<std::pair<std::string_view, DType>, 14> kCodes = {{{"b1", kBool},
                                                                        {"i1", kInt8},
                                                                        {"i2", kInt16},
                                                                        {"i4", kInt32},
                                                                        {"i8", kInt64},
                                                                        {"u1", kUInt8},
                                                                        {"u2", kUInt16},
                                                                        {"u4", kUInt32},
                                                                        {"u8", kUInt64},
                                                                        {"f2", kFloat16},
                                                                        {"f4", kFloat32},
                                                                        {"f8", kFloat64},
                                                                        {"c8", kComplex64},
                                                                        {"c16", kComplex128}}};

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  uint64_t data = 0;  // offset
};

// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, which is all that a header may
// be: keys in any order, each once.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, uint64_t offset, std::string_view name)
      : text_(text), offset_(offset), name_(name) {}

  Header read() {
    Header header;
    bool seen[3] = {false, false, false};
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      const int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : 3;
      if (which == 3 || seen[which]) fail("another key", key);
      seen[which] = true;
      if (which == 0) header.descr = quoted();
      if (which == 1) header.fortran_order = boolean();
      if (which == 2) header.shape = sizes();
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) fail("text after the header", text_.substr(at_));
    if (!seen[0] || !seen[1] || !seen[2])
      fail("the end without descr, fortran_order and shape", "");
    return header;
  }

 private:
  [[noreturn]] void fail(std::string_view what, std::string_view text) const {
    ETUDE_THROW(kDataLoss, "{}: offset {}: the header of the npy file has {}{}{:.40}", name_,
                offset_ + at_, what, text.empty() ? "" : ": ", text);
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(fmt::format("no '{}' here", c), "");
  }
  std::string quoted() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote == '[') {
      ETUDE_THROW(kUnimplemented, "{}: offset {}: the array has records, which Etude has not",
                  name_, offset_ + at_);
    }
    if (quote != '\'' && quote != '"') fail("no text in quotes here", "");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) fail("a quote without end", "");
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair("True", true), std::pair("False", false)}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += std::strlen(word);
      return value;
    }
    fail("neither True nor False here", "");
  }
  std::vector<int64_t> sizes() {
    std::vector<int64_t> out;
    expect('(');
    while (!take(')')) {
      skip_space();
      int64_t size = 0;
      const char* from = text_.data() + at_;
      const auto [end, problem] = std::from_chars(from, text_.data() + text_.size(), size);
      if (problem != std::errc() || size < 0) fail("no size here", "");
      at_ += static_cast<std::size_t>(end - from);
      take('L');  // of Python 2
      out.push_back(size);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return out;
  }

  std::string_view text_;
  uint64_t offset_;
  std::string_view name_;
  std::size_t at_ = 0;
};

Header read_header(const ByteSource& source, std::string_view name) {
  constexpr std::size_t kVersion = kMagic.size(), kLength = kVersion + 2;
  std::vector<uint8_t> room;
  const std::span<const uint8_t> file =
      source.view(0, std::min<uint64_t>(source.size(), kLength + 4 + kMostHeaderBytes), room);
  const auto magic = file.first(std::min(kVersion, file.size()));
  ETUDE_REQUIRE_CODE(kDataLoss,
                     std::equal(magic.begin(), magic.end(), kMagic.begin(),
                                [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); }),
                     "{}: offset 0: it is no npy file: it does not begin with \\x93NUMPY", name);
  const auto require = [&](std::size_t bytes) {
    ETUDE_REQUIRE_CODE(kDataLoss, file.size() >= bytes,
                       "{}: offset {}: the file is cut off in the header of the npy file", name,
                       file.size());
  };
  require(kLength);
  const int version = file[kVersion];
  ETUDE_REQUIRE_CODE(kUnimplemented, version >= 1 && version <= 3,
                     "{}: offset {}: version {} of the npy format; Etude reads 1 to 3", name,
                     kVersion, version);
  const std::size_t length_bytes = version == 1 ? 2 : 4, start = kLength + length_bytes;
  require(start);
  std::size_t length = 0;
  for (std::size_t i = length_bytes; i-- > 0;) length = length << 8 | file[kLength + i];
  ETUDE_REQUIRE_CODE(kDataLoss, length <= kMostHeaderBytes,
                     "{}: offset {}: the header declares {} bytes; the limit is {}", name, kLength,
                     length, kMostHeaderBytes);
  require(start + length);
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + start, length);
  Header header = HeaderReader(text, start, name).read();
  header.data = start + length;
  return header;
}

// `budget` is null for an entry of an archive, whose bytes were counted when it was inflated.
Tensor parse_array(ByteSource file, std::string_view name, ReadBudget* budget) {
  const Header header = read_header(file, name);
  const char order = header.descr.empty() ? ' ' : header.descr[0];
  const auto code = std::find_if(kCodes.begin(), kCodes.end(), [&](const auto& row) {
    return header.descr.size() > 1 && row.first == std::string_view(header.descr).substr(1);
  });
  ETUDE_REQUIRE_CODE(
      kUnimplemented,
      code != kCodes.end() && std::string_view("<>|=").find(order) != std::string_view::npos,
      "{}: the array has dtype '{:.40}', which Etude has not", name, header.descr);
  const auto element = static_cast<uint64_t>(itemsize(code->second));
  const uint64_t held = file.size() - header.data;
  etude::internal::DenseCopy copy{.name = name, .offset = header.data, .element = element};
  copy.shape = header.shape;
  const uint64_t bytes = copy.checked_bytes();
  ETUDE_REQUIRE_CODE(kDataLoss, bytes == held,
                     "{}: offset {}: the header declares {} bytes of elements, but {} follow", name,
                     header.data, bytes, held);
  if (budget != nullptr) budget->need_bytes(bytes, header.data);
  copy.begin = header.data;
  copy.swap_bytes = order == '>';
  copy.is_complex = is_complex(code->second);
  copy.strides = header.fortran_order ? copy.columns_first() : copy.rows_first();
  return copy.make(code->second, file, held);
}

// The header before the elements, padded to a multiple of 64 bytes, as NumPy does.
std::vector<uint8_t> make_header(const Tensor& x, std::string_view name) {
  ETUDE_REQUIRE(x.has_value(), "tensor '{}' is absent and cannot be saved", name);
  const auto code = std::find_if(kCodes.begin(), kCodes.end(),
                                 [&](const auto& row) { return row.second == x.dtype(); });
  ETUDE_REQUIRE_CODE(kUnimplemented, code != kCodes.end(),
                     "tensor '{}' is {}, which NumPy has not; save it as float32", name,
                     etude::name(x.dtype()));
  std::string shape;
  for (const int64_t size : x.shape().to_vector()) shape += std::to_string(size) + ", ";
  if (x.rank() > 1) shape.resize(shape.size() - 2);
  if (x.rank() == 1) shape.pop_back();
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 itemsize(x.dtype()) == 1 ? '|' : '<', code->first, shape);
  constexpr std::size_t kStart = kMagic.size() + 2 + 2, kAlignment = 64;
  text.append((kAlignment - (kStart + text.size() + 1) % kAlignment) % kAlignment, ' ');
  text += '\n';
  std::vector<uint8_t> out(kMagic.begin(), kMagic.end());
  for (const std::size_t byte :
       {std::size_t{1}, std::size_t{0}, text.size() % 256, text.size() / 256}) {
    out.push_back(static_cast<uint8_t>(byte));
  }
  out.insert(out.end(), text.begin(), text.end());
  return out;
}

}  // namespace

Tensor parse_npy(std::span<const uint8_t> file, std::string_view name, CallSite where) {
  return etude::internal::located("load_npy", where, [&] {
    ReadBudget budget(name, file.size());
    return parse_array(file, name, &budget);
  });
}

Tensor load_npy(const std::string& path, CallSite where) {
  return etude::internal::located("load_npy", where, [&] {
    const etude::internal::FileReader file(path);
    ReadBudget budget(path, file.size());
    return parse_array(file, path, &budget);
  });
}

void save_npy(const std::string& path, const Tensor& x, CallSite where) {
  etude::internal::located("save_npy", where, [&] {
    const std::vector<uint8_t> header = make_header(x, path);
    etude::internal::AtomicFile file(path);
    file.write(header);
    if (x.nbytes() > 0) file.write(bytes_of(etude::internal::at_home(x)));
    file.commit();
  });
}

namespace {

NamedTensors arrays_of(ByteSource file, std::string_view name) {
  ReadBudget budget(name, file.size());
  const etude::internal::ZipReader archive(file, budget);
  NamedTensors out;
  std::vector<uint8_t> room;  // of one entry after another
  for (const etude::internal::ZipEntry& entry : archive.entries()) {
    constexpr std::string_view kSuffix = ".npy";
    std::string key = entry.name;
    if (key.ends_with(kSuffix)) key.resize(key.size() - kSuffix.size());
    budget.need_bytes(kArrayBytes, entry.begin);
    Tensor x = parse_array(archive.read(entry, room),
                           fmt::format("{}: entry '{:.100}'", name, entry.name), nullptr);
    ETUDE_REQUIRE_CODE(kDataLoss, out.emplace(key, std::move(x)).second,
                       "{}: offset {}: there are two arrays '{:.100}'", name, entry.begin, key);
  }
  return out;
}

}  // namespace

NamedTensors parse_npz(std::span<const uint8_t> file, std::string_view name, CallSite where) {
  return etude::internal::located("load_npz", where, [&] { return arrays_of(file, name); });
}

NamedTensors load_npz(const std::string& path, CallSite where) {
  return etude::internal::located("load_npz", where, [&] {
    const etude::internal::FileReader file(path);
    return arrays_of(file, path);
  });
}

void save_npz(const std::string& path, const NamedTensors& tensors, const NpzOptions& options,
              CallSite where) {
  etude::internal::located("save_npz", where, [&] {
    etude::internal::AtomicFile file(path);
    etude::internal::ZipWriter archive(file);
    for (const auto& [name, x] : tensors) {
      archive.add(name + ".npy", make_header(x, name), bytes_of(etude::internal::at_home(x)),
                  options.compress);
    }
    archive.finish();
    file.commit();
  });
}

}  // namespace etude::io
