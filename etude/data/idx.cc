// SPDX-License-Identifier: Apache-2.0
#include "etude/data/idx.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/data/read_file.h"
#include "etude/files/deflate.h"
#include "etude/files/read_budget.h"

namespace etude::data {
namespace {

using etude::internal::ReadBudget;
using internal::read_file;
constexpr std::size_t kMaxRank = 32;

// Reads the bytes of a plain file in order.
class PlainSource {
 public:
  explicit PlainSource(std::span<const uint8_t> file) : rest_(file) {}
  static constexpr std::string_view kUnit = "byte";

  // Fills `out`, and returns how many bytes there were: fewer only at the end.
  std::size_t read(std::span<uint8_t> out) {
    const std::size_t n = std::min(out.size(), rest_.size());
    std::copy_n(rest_.begin(), n, out.begin());
    rest_ = rest_.subspan(n);
    return n;
  }
  // No fewer bytes than are left.
  uint64_t bound() const { return rest_.size(); }
  // Throws if more bytes follow.
  void finish(std::string_view name, uint64_t offset) {
    ETUDE_REQUIRE_CODE(kDataLoss, rest_.empty(),
                       "'{}': the sizes in the header end the file at byte {}, but {} more bytes "
                       "follow",
                       name, offset, rest_.size());
  }

 private:
  std::span<const uint8_t> rest_;
};

// Inflates the bytes of a gzip file in order.
class GzipSource {
 public:
  GzipSource(std::span<const uint8_t> file, std::string_view name)
      : file_(file),
        rest_(file),
        name_(name),
        stream_(etude::internal::InflateStream::Form::kGzip, name) {}
  static constexpr std::string_view kUnit = "inflated byte";

  std::size_t read(std::span<uint8_t> out) {
    std::size_t done = 0;
    while (done < out.size() && !ended_) done += step(out.subspan(done));
    return done;
  }

  uint64_t bound() const { return (uint64_t{file_.size()} + 1) * etude::internal::kMaxInflation; }

  void finish(std::string_view name, uint64_t offset) {
    uint8_t extra = 0;  // also makes zlib read and check the checksum
    const std::size_t more = read({&extra, 1});
    ETUDE_REQUIRE_CODE(kDataLoss, more == 0,
                       "'{}': the sizes in the header end the data at inflated byte {}, but more "
                       "bytes follow",
                       name, offset);
    ETUDE_REQUIRE_CODE(kDataLoss, rest_.empty(),
                       "'{}': the gzip stream ends at byte {}, but {} more bytes follow", name,
                       position(), rest_.size());
  }

 private:
  std::size_t position() const { return file_.size() - rest_.size(); }

  // Returns how many bytes it made.
  std::size_t step(std::span<uint8_t> out) {
    const etude::internal::InflateStream::Step step = stream_.step(rest_, out);
    rest_ = rest_.subspan(step.read);
    ended_ = step.is_end;
    ETUDE_REQUIRE_CODE(kDataLoss, step.damage == nullptr,
                       "'{}': the gzip stream is damaged at byte {}: {}", name_, position(),
                       step.damage);
    ETUDE_REQUIRE_CODE(kDataLoss, ended_ || step.read + step.made > 0,
                       "'{}': the gzip stream is cut off at byte {}, where the file ends", name_,
                       position());
    return step.made;
  }

  std::span<const uint8_t> file_, rest_;
  std::string_view name_;
  etude::internal::InflateStream stream_;
  bool ended_ = false;
};

// The size of one element, or 0 for an unknown code.
std::size_t element_size(uint8_t type_code) {
  switch (type_code) {
    case 0x08:
    case 0x09:
      return 1;
    case 0x0B:
      return 2;
    case 0x0C:
    case 0x0D:
      return 4;
    case 0x0E:
      return 8;
    default:
      return 0;
  }
}

template <class Source>
void read_header_bytes(Source& source, std::string_view name, uint64_t offset,
                       std::span<uint8_t> out) {
  const std::size_t n = source.read(out);
  ETUDE_REQUIRE_CODE(kDataLoss, n == out.size(),
                     "'{}': the data ends at {} {}, inside the header of an IDX file, which needs "
                     "{} bytes",
                     name, Source::kUnit, offset + n, offset + out.size());
}

// The number of bytes of all elements; throws when 63 bits cannot count them.
uint64_t declared_bytes(const IdxArray& array, std::string_view name) {
  uint64_t bytes = element_size(array.type_code);
  bool empty = false;
  for (const int64_t size : array.shape) {
    if (size == 0) {
      empty = true;  // the other sizes must be sane all the same
      continue;
    }
    const bool overflows = __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes);
    ETUDE_REQUIRE_CODE(kDataLoss, !overflows && bytes <= uint64_t{INT64_MAX},
                       "'{}': the sizes {} at byte 4 declare more than 2^63 bytes", name,
                       fmt::join(array.shape, " x "));
  }
  return empty ? 0 : bytes;
}

// Reads the elements in steps, so that memory is bounded by the actual size of the source.
template <class Source>
std::vector<uint8_t> read_elements(Source& source, ReadBudget& budget, uint64_t offset,
                                   uint64_t bytes) {
  const std::string_view name = budget.name();
  constexpr uint64_t kFirstStep = uint64_t{1} << 20;
  ETUDE_REQUIRE_CODE(
      kDataLoss, bytes <= source.bound(),
      "'{}': the header declares {} bytes of elements from {} {}, but the file holds "
      "no more than {}",
      name, bytes, Source::kUnit, offset, source.bound());
  budget.need_bytes(bytes, offset);
  std::vector<uint8_t> result;
  while (result.size() < bytes) {
    const std::size_t have = result.size();
    const uint64_t step = std::max<uint64_t>({kFirstStep, have, source.bound() / 1000});
    result.resize(have + static_cast<std::size_t>(std::min(bytes - have, step)));
    const std::size_t n = source.read(std::span(result).subspan(have));
    ETUDE_REQUIRE_CODE(kDataLoss, have + n == result.size(),
                       "'{}': the header declares {} bytes of elements from {} {}, but the data "
                       "ends after {}",
                       name, bytes, Source::kUnit, offset, have + n);
  }
  return result;
}

// From big-endian to the host's order.
void swap_elements(std::vector<uint8_t>& bytes, std::size_t size) {
  if (std::endian::native == std::endian::big || size == 1) return;
  for (std::size_t i = 0; i < bytes.size(); i += size) {
    std::reverse(bytes.data() + i, bytes.data() + i + size);
  }
}

template <class Source>
IdxArray parse(Source& source, ReadBudget& budget) {
  const std::string_view name = budget.name();
  std::array<uint8_t, 4> magic;
  read_header_bytes(source, name, 0, magic);
  ETUDE_REQUIRE(magic[0] == 0 && magic[1] == 0,
                "'{}' is not an IDX file: it starts with {:02x} {:02x}, not with 00 00", name,
                magic[0], magic[1]);
  IdxArray array;
  array.type_code = magic[2];
  ETUDE_REQUIRE_CODE(kDataLoss, element_size(array.type_code) != 0,
                     "'{}': unknown element type 0x{:02x} at {} 2; known are 0x08, 0x09, 0x0B, "
                     "0x0C, 0x0D, 0x0E",
                     name, array.type_code, Source::kUnit);
  const std::size_t rank = magic[3];
  ETUDE_REQUIRE_CODE(kDataLoss, rank >= 1 && rank <= kMaxRank,
                     "'{}': the number of axes at {} 3 is {}; it must be from 1 to {}", name,
                     Source::kUnit, rank, kMaxRank);
  std::array<uint8_t, 4 * kMaxRank> sizes;
  read_header_bytes(source, name, 4, std::span(sizes).first(4 * rank));
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const uint8_t* s = sizes.data() + 4 * axis;
    array.shape.push_back(int64_t{s[0]} << 24 | s[1] << 16 | s[2] << 8 | s[3]);
  }
  const uint64_t offset = 4 + 4 * rank;
  const uint64_t bytes = declared_bytes(array, name);
  array.bytes = read_elements(source, budget, offset, bytes);
  source.finish(name, offset + bytes);
  swap_elements(array.bytes, element_size(array.type_code));
  return array;
}

}  // namespace

IdxArray parse_idx(std::span<const uint8_t> file, std::string_view name, CallSite where) {
  return etude::internal::located("", where, [&] {
    ReadBudget budget(name, file.size());
    if (file.size() >= 2 && file[0] == 0x1f && file[1] == 0x8b) {
      GzipSource source(file, name);
      return parse(source, budget);
    }
    PlainSource source(file);
    return parse(source, budget);
  });
}

IdxArray read_idx(const std::string& path, CallSite where) {
  return etude::internal::located("", where, [&] { return parse_idx(read_file(path), path); });
}

}  // namespace etude::data
