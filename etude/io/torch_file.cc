// SPDX-License-Identifier: Apache-2.0
#include "etude/io/torch_file.h"

#include <unordered_map>

#include "etude/base/check.h"
#include "etude/core/dtype.h"
#include "etude/files/file_reader.h"
#include "etude/files/read_budget.h"
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

constexpr uint64_t kPlaceBytes = 256;  // of a tensor or a text, besides its elements or bytes

class TorchReader {
 public:
  TorchReader(etude::internal::ByteSource file, std::string_view name)
      : name_(name), budget_(name, file.size()), archive_(file, budget_) {
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
    const Pickle pickle(bytes, program_->begin, budget_);
    for (const PickleValue& value : pickle.values()) {
      if (value.kind == PickleKind::kTensor) ++storages_[value.items[0]->text].tensors;
    }
    add(pickle.root(), "", 0);
    return std::move(out_);
  }

 private:
  struct Storage {
    int64_t tensors = 0;  // that lie in it and were not made yet
    std::span<const uint8_t> bytes;
    std::vector<uint8_t> room;
    uint64_t offset = 0;
    bool is_read = false;
  };

  void add(const PickleValue& value, const std::string& path, int level) {
    // One value may be in many places.
    budget_.need_depth(level, program_->begin);
    budget_.need_items(1, program_->begin);
    budget_.need_bytes(path.size() + value.text.size(), program_->begin);
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
      case PickleKind::kLarge:
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
    budget_.need_bytes(kPlaceBytes, program_->begin);
  }
  static std::string below(const std::string& path, const std::string& key) {
    return path.empty() ? key : path + "/" + key;
  }
  std::string key(const PickleValue& value, const std::string& path) const {
    if (value.kind == PickleKind::kText || value.kind == PickleKind::kLarge) return value.text;
    ETUDE_REQUIRE_CODE(kUnimplemented, value.kind == PickleKind::kWhole,
                       "{}: a dict at '{:.200}' has a key that is neither text nor a whole number",
                       name_, path);
    return std::to_string(value.whole);
  }

  Storage& storage(const PickleValue& value, const std::string& path) {
    Storage& at = storages_.at(value.text);
    if (!at.is_read) {
      const ZipEntry* entry = archive_.find(folder_ + "/data/" + value.text);
      ETUDE_REQUIRE_CODE(kDataLoss, entry != nullptr,
                         "{}: the archive has no storage '{:.100}', which tensor '{:.200}' lies in",
                         name_, value.text, path);
      at.bytes = archive_.read(*entry, at.room);
      at.offset = entry->begin;
      at.is_read = true;
    }
    return at;
  }

  Tensor tensor(const PickleValue& value, const std::string& path) {
    Storage& from = storage(*value.items[0], path);
    etude::internal::DenseCopy copy{.name = name_, .offset = from.offset};
    copy.element = static_cast<uint64_t>(itemsize(value.dtype));
    for (const PickleValue* size : value.items[1]->items) copy.shape.push_back(size->whole);
    for (const PickleValue* stride : value.items[2]->items) copy.strides.push_back(stride->whole);
    copy.first = value.whole;
    copy.swap_bytes = swap_bytes_;
    copy.is_complex = is_complex(value.dtype);
    // A tensor may show the elements of its storage many times over.
    const uint64_t bytes = copy.checked_bytes();
    ETUDE_REQUIRE_CODE(kResourceExhausted, budget_.has_bytes(bytes),
                       "{}: offset {}: tensor '{:.200}' has {} bytes: {}", name_, from.offset, path,
                       bytes, budget_.excess());
    const auto held = static_cast<uint64_t>(value.items[0]->whole);
    ETUDE_REQUIRE_CODE(
        kDataLoss, held <= from.bytes.size() / copy.element,
        "{}: offset {}: storage '{:.100}' has {} bytes, fewer than {} elements of {}", name_,
        from.offset, value.items[0]->text, from.bytes.size(), held, etude::name(value.dtype));
    Tensor out = copy.make(value.dtype, from.bytes, held * copy.element);
    if (--from.tensors == 0) {  // a tensor in a second place reads it again
      from.room = {};
      from.is_read = false;
    }
    return out;
  }

  std::string_view name_;
  etude::internal::ReadBudget budget_;
  ZipReader archive_;
  const ZipEntry* program_ = nullptr;
  std::string folder_;
  bool swap_bytes_ = false;
  std::unordered_map<std::string, Storage> storages_;
  SafetensorsFile out_;
};

SafetensorsFile parse_state(etude::internal::ByteSource file, std::string_view name) {
  constexpr uint8_t kProtocol = 0x80;
  std::vector<uint8_t> room;
  ETUDE_REQUIRE_CODE(kUnimplemented, file.size() < 2 || file.view(0, 1, room)[0] != kProtocol,
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
    const etude::internal::FileReader file(path);
    return parse_state(file, path);
  });
}

}  // namespace etude::io
