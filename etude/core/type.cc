// SPDX-License-Identifier: Apache-2.0
#include "etude/core/type.h"

#include <atomic>
#include <charconv>
#include <memory>
#include <optional>
#include <vector>

#include "etude/base/check.h"
#include "etude/base/intern_table.h"
#include "etude/base/internal/hash.h"
#include "etude/core/tensor.h"

namespace etude {
namespace {

struct Key {
  DType dtype;
  Device device;
  const Shape& shape;
};
using Item = std::unique_ptr<const Type>;

Key key_of(const Key& key) { return key; }
Key key_of(const Item& type) { return {type->dtype(), type->device(), type->shape()}; }

struct KeyHash {
  using is_transparent = void;
  std::size_t operator()(const auto& of) const noexcept {
    const Key key = key_of(of);
    uint64_t h = internal::mix(static_cast<uint64_t>(key.dtype) |
                               static_cast<uint64_t>(key.device.id()) << 8 |
                               static_cast<uint64_t>(key.shape.rank()) << 24);
    for (const int64_t size : key.shape) h = internal::mix(h ^ static_cast<uint64_t>(size));
    return h;
  }
};
struct KeyEqual {
  using is_transparent = void;
  bool operator()(const auto& left, const auto& right) const noexcept {
    const Key a = key_of(left), b = key_of(right);
    return a.dtype == b.dtype && a.device == b.device && a.shape == b.shape;
  }
};

// Never destroyed: tensors in static objects may outlive all other statics.
struct Table {
  internal::InternTable<Item, KeyHash, KeyEqual> types;
  std::atomic<uint32_t> next_id{1};
};
Table& table() {
  static Table* instance = new Table;
  return *instance;
}

}  // namespace

Type::Type(DType dtype, const Shape& shape, Device device, uint32_t id)
    : dtype_(dtype),
      device_(device),
      id_(id),
      dtype_and_device_(static_cast<uint32_t>(dtype) | static_cast<uint32_t>(device.id()) << 8),
      inline_bytes_(-1),
      count_(shape.count()),
      shape_(shape.watched(false)),
      watched_shape_(shape.watched()) {
  bytes_ = count_ == kAny ? kAny : count_ * itemsize(dtype);
  if (device.is_home() && bytes_ >= 0 && bytes_ <= internal::kInlineBytes) inline_bytes_ = bytes_;
}

std::string Type::to_string() const {
  return fmt::format("{}{}", name(dtype_), shape_.to_string());
}

const Type* Type::on(Device device) const {
  return device == device_ ? this : intern_type(dtype_, shape_, device);
}

const Tensor& Type::abstract_tensor() const {
  if (Tensor* known = abstract_tensor_.load(std::memory_order_acquire)) return *known;
  auto made = std::make_unique<Tensor>(internal::make_abstract(this));
  Tensor* expected = nullptr;
  if (abstract_tensor_.compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel)) {
    return *made.release();  // lives as long as the type, which is never destroyed
  }
  return *expected;
}

const Type* intern_type(DType dtype, const Shape& shape, Device device) {
  const auto make = [&]() -> std::optional<Item> {
    return Item(new Type(dtype, shape, device, table().next_id.fetch_add(1)));
  };
  return table().types.find_or_make(Key{dtype, device, shape}, make)->get();
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
