// SPDX-License-Identifier: Apache-2.0
// Source: PKWARE, "APPNOTE.TXT - .ZIP File Format Specification", 6.3.10.
#include "etude/files/zip_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include <zlib.h>

#include "etude/base/check.h"
#include "etude/files/deflate.h"

namespace etude::internal {
namespace {

constexpr uint32_t kLocalMark = 0x04034b50, kDirectoryMark = 0x02014b50, kEndMark = 0x06054b50,
                   kEnd64Mark = 0x06064b50, kLocator64Mark = 0x07064b50;
constexpr uint64_t kLocalBytes = 30, kDirectoryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                   kLocator64Bytes = 20;
constexpr uint32_t kNone32 = 0xFFFFFFFF;
constexpr uint16_t kNone16 = 0xFFFF;

uint64_t number(const uint8_t* at, int bytes) {
  uint64_t value = 0;
  for (int i = bytes; i-- > 0;) value = value << 8 | at[i];
  return value;
}

// Reads consecutive little-endian numbers.
class Fields {
 public:
  explicit Fields(const uint8_t* at) : at_(at) {}
  uint16_t two() { return static_cast<uint16_t>(take(2)); }
  uint32_t four() { return static_cast<uint32_t>(take(4)); }
  uint64_t eight() { return take(8); }
  void pass(int bytes) { at_ += bytes; }

 private:
  uint64_t take(int bytes) {
    const uint64_t value = number(at_, bytes);
    at_ += bytes;
    return value;
  }
  const uint8_t* at_;
};

void put(std::vector<uint8_t>& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

// Fuzzed builds accept any checksum; else fuzzers would not get past one.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
constexpr bool kChecks = false;
#else
constexpr bool kChecks = true;
#endif

uint32_t crc_of(uint32_t crc, std::span<const uint8_t> bytes) {
  return static_cast<uint32_t>(crc32_z(crc, bytes.data(), bytes.size()));
}

// Sizes and a position beyond 32 bits are in an extra field, in this order; false if it is damaged.
bool read_zip64(std::span<const uint8_t> extra, ZipEntry& entry, uint64_t& header) {
  for (std::size_t i = 0; i + 4 <= extra.size();) {
    const uint64_t id = number(extra.data() + i, 2), length = number(extra.data() + i + 2, 2);
    if (length > extra.size() - i - 4) return false;
    uint64_t used = 0;
    for (uint64_t* value : {&entry.bytes, &entry.packed_bytes, &header}) {
      if (id != 1 || *value != kNone32) continue;
      if (used + 8 > length) return false;
      *value = number(extra.data() + i + 4 + used, 8);
      used += 8;
    }
    i += 4 + length;
  }
  return true;
}

// The offset of the end record of zip64, if there is one before the end record at `end`.
std::optional<uint64_t> find_end64(const ByteSource& file, uint64_t end, std::string_view name) {
  if (end < kLocator64Bytes) return std::nullopt;
  const uint64_t locator_at = end - kLocator64Bytes;
  std::array<uint8_t, kLocator64Bytes> locator;
  file.read(locator_at, locator);
  if (number(locator.data(), 4) != kLocator64Mark) return std::nullopt;
  const uint64_t at = number(locator.data() + 8, 8);
  std::array<uint8_t, 4> mark{};
  const bool has_room = at <= locator_at && locator_at - at >= kEnd64Bytes;
  if (has_room) file.read(at, mark);
  ETUDE_REQUIRE_CODE(kDataLoss, has_room && number(mark.data(), 4) == kEnd64Mark,
                     "{}: offset {}: there is no zip64 end record at {}", name, locator_at, at);
  return at;
}

}  // namespace

ZipReader::ZipReader(ByteSource file, ReadBudget& budget)
    : file_(file), budget_(budget), name_(budget.name()) {
  // The end record is followed by a comment, mostly an empty one.
  std::vector<uint8_t> room;
  const uint64_t tail_bytes = std::min<uint64_t>(file.size(), kEndBytes + kNone16);
  const uint64_t tail_begin = file.size() - tail_bytes;
  const std::span<const uint8_t> tail = file.view(tail_begin, tail_bytes, room);
  std::optional<uint64_t> end;
  for (uint64_t back = kEndBytes; back <= tail.size(); ++back) {
    const uint8_t* at = tail.data() + tail.size() - back;
    if (number(at, 4) == kEndMark && number(at + 20, 2) == back - kEndBytes) {
      end = file.size() - back;
      break;
    }
  }
  ETUDE_REQUIRE_CODE(kDataLoss, end.has_value(),
                     "{}: offset {}: the file ends without the end record of a zip archive: it is "
                     "cut off, or no archive",
                     name_, file.size());
  Fields fields(tail.data() + (*end - tail_begin) + 4);
  const uint16_t disk = fields.two(), first_disk = fields.two();
  fields.pass(2);
  uint64_t count = fields.two(), bytes = fields.four(), begin = fields.four();
  uint64_t directory_end = *end;
  const std::optional<uint64_t> end64 = find_end64(file_, *end, name_);
  if (end64) {
    std::array<uint8_t, kEnd64Bytes> record;
    file_.read(*end64, record);
    count = number(record.data() + 32, 8);
    bytes = number(record.data() + 40, 8);
    begin = number(record.data() + 48, 8);
    directory_end = *end64;
  } else {
    ETUDE_REQUIRE_CODE(kUnimplemented, disk == 0 && first_disk == 0,
                       "{}: the archive is split over several files", name_);
  }
  ETUDE_REQUIRE_CODE(kDataLoss, begin <= directory_end && bytes == directory_end - begin,
                     "{}: offset {}: the directory is said to have {} bytes from {}, but would end "
                     "at {}",
                     name_, *end, bytes, begin, directory_end);
  read_directory(begin, directory_end, count);
  check_places();
}

void ZipReader::read_directory(uint64_t begin, uint64_t end, uint64_t count) {
  // Of an entry: itself, and its place among the names.
  constexpr uint64_t kEntryBytes = sizeof(ZipEntry) + 64;
  uint64_t at = begin;
  const auto require = [&](bool holds, std::string_view what) {
    ETUDE_REQUIRE_CODE(kDataLoss, holds, "{}: offset {}: {}", name_, at, what);
  };
  std::vector<uint8_t> room;
  const std::span<const uint8_t> directory = file_.view(begin, end - begin, room);
  while (at < end) {
    const uint8_t* record = directory.data() + (at - begin);
    require(end - at >= kDirectoryBytes && number(record, 4) == kDirectoryMark,
            "no entry of the directory is here");
    Fields fields(record + 8);
    const uint16_t flags = fields.two(), method = fields.two();
    fields.pass(4);
    ZipEntry entry;
    entry.crc = fields.four();
    entry.packed_bytes = fields.four();
    entry.bytes = fields.four();
    const uint64_t name_bytes = fields.two(), extra_bytes = fields.two(),
                   comment_bytes = fields.two();
    fields.pass(8);
    uint64_t header = fields.four();
    const uint64_t rest = end - at - kDirectoryBytes;
    require(name_bytes + extra_bytes + comment_bytes <= rest,
            "the entry extends beyond the directory");
    const uint8_t* text = record + kDirectoryBytes;
    budget_.need_items(1, at);
    budget_.need_bytes(kEntryBytes + name_bytes, at);
    entry.name.assign(reinterpret_cast<const char*>(text), name_bytes);
    ETUDE_REQUIRE_CODE(kUnimplemented, (flags & 1) == 0 && (method == 0 || method == 8),
                       "{}: offset {}: entry '{:.100}' is {}, which Etude does not read", name_, at,
                       entry.name,
                       (flags & 1) != 0 ? "encrypted" : fmt::format("packed by method {}", method));
    entry.is_deflated = method == 8;
    require(read_zip64({text + name_bytes, extra_bytes}, entry, header),
            "an extra field of the entry is damaged");
    require(header <= begin && begin - header >= kLocalBytes, "the place of the entry holds none");
    std::array<uint8_t, kLocalBytes> local;
    file_.read(header, local);
    require(number(local.data(), 4) == kLocalMark, "the place of the entry holds none");
    entry.begin =
        header + kLocalBytes + number(local.data() + 26, 2) + number(local.data() + 28, 2);
    require(entry.begin <= begin && entry.packed_bytes <= begin - entry.begin,
            "the data of the entry extends into the directory");
    require(entry.is_deflated ? entry.bytes <= (entry.packed_bytes + 1) * kMaxInflation
                              : entry.bytes == entry.packed_bytes,
            "the entry declares more bytes than its data can hold");
    at += kDirectoryBytes + name_bytes + extra_bytes + comment_bytes;
    entries_.push_back(std::move(entry));
  }
  require(entries_.size() == count, "the directory has another number of entries than it states");
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    require(by_name_.emplace(entries_[i].name, i).second, "an entry has the name of another one");
  }
}

void ZipReader::check_places() {
  std::vector<const ZipEntry*> sorted;
  for (const ZipEntry& entry : entries_) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(),
            [](const ZipEntry* a, const ZipEntry* b) { return a->begin < b->begin; });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    ETUDE_REQUIRE_CODE(
        kDataLoss,
        sorted[i]->begin >= sorted[i - 1]->begin + sorted[i - 1]->packed_bytes + kLocalBytes,
        "{}: offset {}: entry '{:.100}' overlaps another entry", name_, sorted[i]->begin,
        sorted[i]->name);
  }
}

const ZipEntry* ZipReader::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

void ZipReader::inflate_entry(const ZipEntry& entry, std::span<uint8_t> to) const {
  constexpr uint64_t kInStep = uint64_t{1} << 20;
  InflateStream stream(InflateStream::Form::kRaw, name_);
  std::vector<uint8_t> room;
  uint64_t read = 0, made = 0;
  InflateStream::Step step;
  do {
    const uint64_t give = std::min(entry.packed_bytes - read, kInStep);
    step = stream.step(file_.view(entry.begin + read, give, room), to.subspan(made));
    read += step.read;
    made += step.made;
  } while (!step.is_end && step.damage == nullptr && step.read + step.made > 0);
  ETUDE_REQUIRE_CODE(
      kDataLoss, step.is_end && made == entry.bytes && read == entry.packed_bytes,
      "{}: offset {}: entry '{:.100}' is damaged: it inflates to {} bytes instead of {}", name_,
      entry.begin + read, entry.name, made, entry.bytes);
}

std::span<const uint8_t> ZipReader::read(const ZipEntry& entry, std::vector<uint8_t>& room) const {
  budget_.need_bytes(entry.bytes, entry.begin);
  std::span<const uint8_t> bytes;
  if (entry.is_deflated) {
    room.resize(entry.bytes);
    inflate_entry(entry, room);
    bytes = room;
  } else {
    bytes = file_.view(entry.begin, entry.bytes, room);
  }
  ETUDE_REQUIRE_CODE(kDataLoss, !kChecks || crc_of(0, bytes) == entry.crc,
                     "{}: offset {}: entry '{:.100}' is damaged: its CRC-32 is another one", name_,
                     entry.begin, entry.name);
  return bytes;
}

namespace {

// The fields that a local header and the directory share, up to the length of the name.
void put_common(std::vector<uint8_t>& out, const ZipEntry& entry, bool is_large) {
  put(out, is_large ? 45 : 20, 2);  // the version that is needed
  put(out, 0x0800, 2);              // names are UTF-8
  put(out, entry.is_deflated ? 8 : 0, 2);
  put(out, 0, 2);     // midnight
  put(out, 0x21, 2);  // of 1980-01-01: the same tensors give the same bytes
  put(out, entry.crc, 4);
  put(out, is_large ? kNone32 : entry.packed_bytes, 4);
  put(out, is_large ? kNone32 : entry.bytes, 4);
  put(out, entry.name.size(), 2);
}

}  // namespace

void ZipWriter::add(const std::string& name, std::span<const uint8_t> head,
                    std::span<const uint8_t> body, bool deflate) {
  ETUDE_REQUIRE(name.size() < kNone16, "the name '{:.40}...' has {} bytes; an archive takes {}",
                name, name.size(), kNone16 - 1);
  std::vector<uint8_t> packed;
  if (deflate) packed = deflated(head, body);
  ZipEntry entry{.name = name};
  entry.bytes = head.size() + body.size();
  entry.packed_bytes = deflate ? packed.size() : entry.bytes;
  entry.crc = crc_of(crc_of(0, head), body);
  entry.is_deflated = deflate;
  const bool is_large = entry.bytes >= kNone32 || entry.packed_bytes >= kNone32;
  std::vector<uint8_t> header;
  put(header, kLocalMark, 4);
  put_common(header, entry, is_large);
  put(header, is_large ? 20 : 0, 2);
  header.insert(header.end(), name.begin(), name.end());
  if (is_large) {
    put(header, 1, 2);
    put(header, 16, 2);
    put(header, entry.bytes, 8);
    put(header, entry.packed_bytes, 8);
  }
  const uint64_t offset = file_.size_bytes();
  file_.write(header);
  if (deflate) {
    file_.write(packed);
  } else {
    file_.write(head);
    if (!body.empty()) file_.write(body);
  }
  written_.push_back({std::move(entry), offset});
}

void ZipWriter::finish() {
  const uint64_t begin = file_.size_bytes();
  std::vector<uint8_t> out;
  for (const auto& [entry, header] : written_) {
    const bool is_large =
        entry.bytes >= kNone32 || entry.packed_bytes >= kNone32 || header >= kNone32;
    put(out, kDirectoryMark, 4);
    put(out, 45, 2);  // the version that wrote it
    put_common(out, entry, is_large);
    put(out, is_large ? 28 : 0, 2);
    put(out, 0, 2 + 2 + 2);  // no comment, the first file, no attributes
    put(out, 0, 4);
    put(out, is_large ? kNone32 : header, 4);
    out.insert(out.end(), entry.name.begin(), entry.name.end());
    if (!is_large) continue;
    put(out, 1, 2);
    put(out, 24, 2);
    put(out, entry.bytes, 8);
    put(out, entry.packed_bytes, 8);
    put(out, header, 8);
  }
  const uint64_t bytes = out.size(), count = written_.size(), end = begin + bytes;
  const bool is_large = count >= kNone16 || end >= kNone32;
  if (is_large) {
    put(out, kEnd64Mark, 4);
    put(out, kEnd64Bytes - 12, 8);
    put(out, 45, 2);
    put(out, 45, 2);
    put(out, 0, 8);
    for (const uint64_t value : {count, count, bytes, begin}) put(out, value, 8);
    put(out, kLocator64Mark, 4);
    put(out, 0, 4);
    put(out, end, 8);
    put(out, 1, 4);
  }
  put(out, kEndMark, 4);
  put(out, 0, 4);
  put(out, is_large ? kNone16 : count, 2);
  put(out, is_large ? kNone16 : count, 2);
  put(out, is_large ? kNone32 : bytes, 4);
  put(out, is_large ? kNone32 : begin, 4);
  put(out, 0, 2);
  file_.write(out);
}

}  // namespace etude::internal
