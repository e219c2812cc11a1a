// SPDX-License-Identifier: Apache-2.0
#include "etude/io/torch_file.h"

#include <unordered_map>

#include "etude/base/check.h"
#include "etude/core/dtype.h"
#include "etude/files/mapped_file.h"
#include "etude/files/zip_file.h"
#include "etude/io/dense_copy.h"
#include "etude/io/pickle.h"

namespace etude::io {
namespace {

using etude::internal::Pickle;
using etude::internal::PickleValue;
using etude::internal::ZipEntry;
using etude::internal::ZipReader;
using PickleKind = PickleValue::Kind;

constexpr int kMostLevels = 100;  // of dicts in dicts
constexpr uint64_t kMostTextBytes = uint64_t{256} << 20;
constexpr int64_t kMostValues = 1'000'000;  // of all dicts; one value may be in many places

class TorchReader {
 public:
  TorchReader(std::span<const uint8_t> file, std::string_view name)
      : name_(name), archive_(file, name), room_left_(file.size() * 8 + kFreeRoom) {
    constexpr std::string_view kProgram = "/data.pkl";
    for (const ZipEntry& entry : archive_.entries()) {
      if (!entry.name.ends_with(kProgram)) continue;
      ETUDE_REQUIRE_CODE(kDataLoss, program_ == nullptr,
                         "{}: offset {}: there are two files data.pkl", name, entry.begin);
      program_ = &entry;
      folder_ = entry.name.substr(0, entry.name.size() - kProgram.size());
    }
    ETUDE_REQUIRE_CODE(kDataLoss, program_ != nullptr,
                       "{}: it is a zip archive, but none of PyTorch: it has no data.pkl", name);
    if (const ZipEntry* order = archive_.find(folder_ + "/byteorder"); order != nullptr) {
      std::vector<uint8_t> room;
      const auto bytes = archive_.read(*order, room);
      swap_bytes_ = std::string(bytes.begin(), bytes.end()) == "big";
    }
  }

  SafetensorsFile read() {
    std::vector<uint8_t> room;
    const auto bytes = archive_.read(*program_, room);
    const Pickle pickle(bytes, program_->begin, name_);
    add(pickle.root(), "", 0);
    return std::move(out_);
  }

 private:
  static constexpr uint64_t kFreeRoom = uint64_t{64} << 20;
  struct Storage {
    std::span<const uint8_t> bytes;
    std::vector<uint8_t> room;
    uint64_t offset = 0;
  };

  void add(const PickleValue& value, const std::string& path, int level) {
    ETUDE_REQUIRE_CODE(
        kResourceExhausted, level <= kMostLevels && ++count_ <= kMostValues,
        "{}: '{:.100}...' lies deeper than {} levels, or there are more than {} values", name_,
        path, kMostLevels, kMostValues);
    text_bytes_ += path.size() + value.text.size();
    ETUDE_REQUIRE_CODE(kResourceExhausted, text_bytes_ <= kMostTextBytes,
                       "{}: paths and texts have more than {} bytes", name_, kMostTextBytes);
    switch (value.kind) {
      case PickleKind::kTensor:
        return put(out_.tensors, path, tensor(value, path));
      case PickleKind::kDict:
        for (std::size_t i = 0; i < value.items.size(); i += 2) {
          add(*value.items[i + 1], below(path, key(*value.items[i], path)), level + 1);
        }
        return;
      case PickleKind::kList:
      case PickleKind::kTuple:
        for (std::size_t i = 0; i < value.items.size(); ++i) {
          add(*value.items[i], below(path, std::to_string(i)), level + 1);
        }
        return;
      case PickleKind::kTruth:
        return put(out_.metadata, path, std::string(value.whole != 0 ? "true" : "false"));
      case PickleKind::kWhole:
        return put(out_.metadata, path, std::to_string(value.whole));
      case PickleKind::kReal:
        return put(out_.metadata, path, fmt::format("{:.17g}", value.real));
      case PickleKind::kText:
        return put(out_.metadata, path, value.text);
      default:
        return;  // None, and values that no dict of PyTorch holds directly
    }
  }

  template <class Map, class Value>
  void put(Map& map, const std::string& path, Value value) {
    ETUDE_REQUIRE_CODE(kDataLoss, map.emplace(path, std::move(value)).second,
                       "{}: two values have the path '{:.200}'", name_, path);
  }
  static std::string below(const std::string& path, const std::string& key) {
    return path.empty() ? key : path + "/" + key;
  }
  std::string key(const PickleValue& value, const std::string& path) const {
    if (value.kind == PickleKind::kText) return value.text;
    ETUDE_REQUIRE_CODE(kUnimplemented, value.kind == PickleKind::kWhole,
                       "{}: a dict at '{:.200}' has a key that is neither text nor a whole number",
                       name_, path);
    return std::to_string(value.whole);
  }

  Storage& storage(const PickleValue& value, const std::string& path) {
    const auto [at, is_new] = storages_.try_emplace(value.text);
    if (is_new) {
      const ZipEntry* entry = archive_.find(folder_ + "/data/" + value.text);
      ETUDE_REQUIRE_CODE(kDataLoss, entry != nullptr,
                         "{}: the archive has no storage '{:.100}', which tensor '{:.200}' lies in",
                         name_, value.text, path);
      at->second.bytes = archive_.read(*entry, at->second.room);
      at->second.offset = entry->begin;
    }
    return at->second;
  }

  Tensor tensor(const PickleValue& value, const std::string& path) {
    const Storage& from = storage(*value.items[0], path);
    etude::internal::DenseCopy copy{.name = name_, .offset = from.offset};
    copy.element = static_cast<uint64_t>(itemsize(value.dtype));
    for (const PickleValue* size : value.items[1]->items) copy.shape.push_back(size->whole);
    for (const PickleValue* stride : value.items[2]->items) copy.strides.push_back(stride->whole);
    copy.first = value.whole;
    copy.swap_bytes = swap_bytes_;
    copy.is_complex = is_complex(value.dtype);
    const uint64_t bytes = copy.checked_bytes();
    ETUDE_REQUIRE_CODE(
        kResourceExhausted, bytes <= room_left_,
        "{}: offset {}: tensor '{:.200}' of {} bytes shows elements many times over, "
        "and {} bytes are left for those; save a copy of it",
        name_, from.offset, path, bytes, room_left_);
    room_left_ -= bytes;
    const auto held = static_cast<uint64_t>(value.items[0]->whole);
    ETUDE_REQUIRE_CODE(
        kDataLoss, held <= from.bytes.size() / copy.element,
        "{}: offset {}: storage '{:.100}' has {} bytes, fewer than {} elements of {}", name_,
        from.offset, value.items[0]->text, from.bytes.size(), held, etude::name(value.dtype));
    return copy.make(value.dtype, from.bytes.first(held * copy.element));
  }

  std::string_view name_;
  ZipReader archive_;
  const ZipEntry* program_ = nullptr;
  std::string folder_;
  bool swap_bytes_ = false;
  std::unordered_map<std::string, Storage> storages_;
  SafetensorsFile out_;
  int64_t count_ = 0;
  uint64_t room_left_, text_bytes_ = 0;
};

SafetensorsFile parse_state(std::span<const uint8_t> file, std::string_view name) {
  constexpr uint8_t kProtocol = 0x80;
  ETUDE_REQUIRE_CODE(kUnimplemented, file.size() < 2 || file[0] != kProtocol,
                     "{}: it is a pickle without a zip archive, as PyTorch wrote it before version "
                     "1.6. Write it again in Python: torch.save(torch.load(path), path)",
                     name);
  return TorchReader(file, name).read();
}

}  // namespace

SafetensorsFile parse_torch(std::span<const uint8_t> file, std::string_view name, CallSite where) {
  return etude::internal::located("load_torch", where, [&] { return parse_state(file, name); });
}

SafetensorsFile load_torch(const std::string& path, CallSite where) {
  return etude::internal::located("load_torch", where, [&] {
    const etude::internal::MappedFile file(path);
    return parse_state(file.bytes(), path);
  });
}

}  // namespace etude::io
