// SPDX-License-Identifier: Apache-2.0
#include "etude/core/type.h"

#include <array>
#include <charconv>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "etude/base/check.h"
#include "etude/base/hash.h"
#include "etude/core/tensor.h"

namespace etude {
namespace {

struct Key {
  DType dtype;
  Device device;
  Shape shape;
  friend bool operator==(const Key&, const Key&) = default;
};

struct KeyHash {
  std::size_t operator()(const Key& key) const noexcept {
    uint64_t h = internal::mix(static_cast<uint64_t>(key.dtype) |
                               static_cast<uint64_t>(key.device.kind) << 8 |
                               static_cast<uint64_t>(key.device.index) << 16 |
                               static_cast<uint64_t>(key.shape.rank()) << 24);
    for (const int64_t size : key.shape) h = internal::mix(h ^ static_cast<uint64_t>(size));
    return h;
  }
};

struct Shard {
  std::shared_mutex mutex;
  std::unordered_map<Key, const Type*, KeyHash> types;
};

// Never destroyed: tensors in static objects may outlive every other static.
struct Table {
  std::array<Shard, 16> shards;
  std::atomic<uint32_t> next_id{1};
};
Table& table() {
  static Table* instance = new Table;
  return *instance;
}

}  // namespace

std::string Device::to_string() const {
  const char* names[] = {"cpu", "cuda", "xla"};
  return fmt::format("{}:{}", names[static_cast<int>(kind)], index);
}

Type::Type(DType dtype, const Shape& shape, Device device, uint32_t id)
    : dtype_(dtype), device_(device), id_(id), count_(shape.count()), shape_(shape) {
  bytes_ = count_ == kAny ? kAny : count_ * itemsize(dtype);
}

std::string Type::to_string() const {
  return fmt::format("{}{}", name(dtype_), shape_.to_string());
}

const Tensor& Type::ghost() const {
  if (Tensor* known = ghost_.load(std::memory_order_acquire)) return *known;
  auto made = std::make_unique<Tensor>(internal::make_ghost(this));
  Tensor* expected = nullptr;
  if (ghost_.compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel)) {
    return *made.release();  // lives as long as the type: for ever
  }
  return *expected;
}

const Type* intern_type(DType dtype, const Shape& shape, Device device) {
  const Key key{dtype, device, shape};
  const std::size_t hash = KeyHash{}(key);
  Shard& shard = table().shards[hash % table().shards.size()];
  {
    std::shared_lock lock(shard.mutex);
    const auto found = shard.types.find(key);
    if (found != shard.types.end()) return found->second;
  }
  std::unique_lock lock(shard.mutex);
  const auto found = shard.types.find(key);
  if (found != shard.types.end()) return found->second;
  std::unique_ptr<Type> made(new Type(dtype, shape, device, table().next_id.fetch_add(1)));
  return shard.types.emplace(key, made.release()).first->second;
}

const Type* parse_type(std::string_view text, DType dtype) {
  const std::size_t open = text.find('[');
  const bool closed = open != std::string_view::npos && text.back() == ']';
  const auto named = closed && open > 0 ? dtype_named(text.substr(0, open)) : std::optional(dtype);
  ETUDE_REQUIRE(closed && named, "'{}' is no type. Write it like float32[2,3]", text);
  std::vector<int64_t> sizes;
  const char* at = text.data() + open + 1;
  const char* const end = text.data() + text.size() - 1;
  while (at < end) {
    int64_t size = kAny;
    const auto [behind, fault] = std::from_chars(at, end, size);
    const bool unknown = *at == '?';
    at = unknown ? at + 1 : behind;
    ETUDE_REQUIRE((unknown || fault == std::errc()) && (at == end || (*at == ',' && at + 1 < end)),
                  "'{}' is no type. Write it like float32[2,3]", text);
    sizes.push_back(unknown ? kAny : size);
    if (at < end) ++at;
  }
  return intern_type(*named, Shape(sizes));
}

}  // namespace etude
