// SPDX-License-Identifier: Apache-2.0
#include "etude/core/op/op.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>

#include "etude/base/check.h"
#include "etude/base/intern_table.h"
#include "etude/base/internal/hash.h"
#include "etude/base/thread_table.h"
#include "etude/core/internal/device_table.h"

namespace etude {
namespace {

// Most ops are called with few sets of attributes, which are permanent. If a program uses more,
// such as the start of a slice in a loop, each thread keeps its recent sets.
constexpr uint32_t kSetsPerOp = 512;

struct OpAttrs {
  const Op* op;
  Attrs attrs;
  bool operator==(const OpAttrs&) const = default;
};
struct OpAttrsHash {
  using is_transparent = void;
  std::size_t operator()(const OpAttrs& of) const noexcept {
    return internal::mix(of.op->index(), of.attrs.hash());
  }
};

struct AttrTable {
  internal::InternTable<OpAttrs, OpAttrsHash, std::equal_to<>> sets;
  std::atomic<uint32_t> kept{1}, own{Attrs::kFirstOwn};  // the next numbers
};
// Never destroyed, like the tables of types.
AttrTable& attr_table() {
  static AttrTable* table = new AttrTable;
  return *table;
}

// The next number, unless all are used.
std::optional<uint32_t> take_number(std::atomic<uint32_t>& next, uint32_t limit) {
  uint32_t number = next.load(std::memory_order_relaxed);
  do {
    if (number >= limit) return std::nullopt;
  } while (!next.compare_exchange_weak(number, number + 1, std::memory_order_relaxed));
  return number;
}

bool kind_fits(const AttrDef& def, const AttrValue& value) {
  if (value.index() == 0) return !def.required && def.default_value.index() == 0;
  return value.index() == static_cast<std::size_t>(def.kind);
}

// An attribute is refused before the call begins, so the error gets the op's name here.
template <class... Args>
[[noreturn]] void refuse_attr(const Op& op, fmt::format_string<Args...> text, Args&&... args) {
  Error error(ErrorCode::kInvalidArgument, fmt::format(text, std::forward<Args>(args)...));
  error.name_op(op.name());
  throw error;
}

// A recent attribute set of this thread, with its key: the values before defaults and conversions.
struct RecentAttrs {
  const Op* op = nullptr;
  uint64_t hash = 0;
  std::vector<AttrValue> given;
  Attrs made;
};

}  // namespace

OperandDef::OperandDef(const char* text, DTypeSet own) : name(text), dtypes(own) {
  if (name.ends_with("@host")) {
    on_host = true;
    name.remove_suffix(5);
  }
  if (name.ends_with("...")) {
    variadic = true;
    name.remove_suffix(3);
  } else if (name.ends_with("?")) {
    optional = true;
    name.remove_suffix(1);
  }
}

namespace {

// The attribute `device` of a record that creates tensors, if it is given.
std::optional<Device> chosen_device(const Op& op, const Attrs& attrs) {
  if (op.device_attr() < 0 || !attrs.has("device")) return std::nullopt;
  const std::string& name = attrs.text("device");
  return internal::only_device_of(DeviceName::parse(name), name);
}

}  // namespace

Device device_of(const Op& op, std::span<const Type* const> types, const Attrs& attrs) {
  if (const std::optional<Device> chosen = chosen_device(op, attrs)) return *chosen;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] != nullptr && !op.operand(i).on_host) return types[i]->device();
  }
  return {};
}

Device device_of(const Op& op, Operands operands, const Attrs& attrs) {
  if (const std::optional<Device> chosen = chosen_device(op, attrs)) return *chosen;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands.has(i) && !op.operand(i).on_host) return operands[i].type()->device();
  }
  return {};
}

Op::Op(OpDef def, uint32_t index) : def_(std::move(def)), index_(index) {
  uniform_ = std::none_of(def_.operands.begin(), def_.operands.end(), [](const OperandDef& d) {
    return d.optional || d.variadic || !d.dtypes.empty();
  });
  has_host_operands_ = std::any_of(def_.operands.begin(), def_.operands.end(),
                                   [](const OperandDef& d) { return d.on_host; });
  for (std::size_t i = 0; i < def_.attrs.size() && !moves_devices(); ++i) {
    if (def_.attrs[i].name == "device") device_attr_ = static_cast<int>(i);
  }
  const bool has_default = std::none_of(def_.attrs.begin(), def_.attrs.end(),
                                        [](const AttrDef& a) { return a.required; });
  if (!has_default) return;
  std::vector<AttrValue> values;
  for (const AttrDef& a : def_.attrs) values.push_back(a.default_value);
  default_attrs_ = Attrs(def_.attrs, std::move(values));
  if (default_attrs_.block_ != nullptr) default_attrs_.block_->dispatch_id = 0;
}

std::string Op::full_name() const {
  return def_.space.empty() ? std::string(name()) : fmt::format("{}.{}", def_.space, name());
}

namespace {

bool has_kernel(const Op& op, Device device) noexcept {
  const internal::DeviceEntry& entry = internal::device_entry(device);
  if (entry.prepare == nullptr || op.moves_devices()) return op.kernel(entry.kind) != nullptr;
  if (entry.has_kernel != nullptr) return entry.has_kernel(op);
  return op.kernel(Device::Kind::kCpu) != nullptr;
}

}  // namespace

bool Op::is_composed(Device device) const noexcept {
  return def_.lower != nullptr && def_.data == nullptr && !has_kernel(*this, device);
}

bool Op::runs_on(Device device) const noexcept {
  return def_.data != nullptr || def_.lower != nullptr || has_kernel(*this, device);
}

bool Op::is_differentiable() const noexcept {
  return def_.no_derivative.empty() &&
         (def_.partials.by_operand[0].program != nullptr || def_.transpose != nullptr ||
          def_.vjp != nullptr || def_.lower != nullptr);
}

Attrs Op::attrs(std::initializer_list<AttrView> values) const {
  return find_attrs({values.begin(), values.size()});
}

Attrs Op::attrs(std::span<const AttrValue> values) const {
  const internal::InlineVector<AttrView, 6> views(values.begin(), values.end());
  return find_attrs({views.data(), views.size()});
}

Attrs Op::find_attrs(std::span<const AttrView> values) const {
  if (def_.attrs.empty()) return default_attrs_;
  uint64_t hash = index_;
  for (const AttrView& value : values) hash = (hash ^ value.hash()) * 0x9E3779B97F4A7C15ull;
  const auto holds = [&](const RecentAttrs& recent) {
    return recent.op == this && recent.hash == hash &&
           std::equal(values.begin(), values.end(), recent.given.begin(), recent.given.end(),
                      [](const AttrView& a, const AttrValue& b) { return a.is(b); });
  };
  const auto [recent, is_known] = internal::ThreadTable<RecentAttrs, 512>::find(hash, holds);
  if (is_known) return recent.made;
  std::vector<AttrValue> given;
  for (const AttrView& value : values) given.push_back(value.own());
  Attrs made = make_attrs(given);
  if (made.dispatch_id() != Attrs::kUncached) recent = {this, hash, std::move(given), made};
  return made;
}

Attrs Op::make_attrs(std::vector<AttrValue> values) const {
  ETUDE_CHECK(values.size() == def_.attrs.size(), "{} values for {} attributes of {}",
              values.size(), def_.attrs.size(), name());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const AttrDef& def = def_.attrs[i];
    if (values[i].index() == 0 && !def.required) values[i] = def.default_value;
    // In C++, {} for a required list means an empty list: zeros({}) is a scalar.
    if (values[i].index() == 0 && def.kind == AttrKind::kInts && def.required) {
      values[i] = std::vector<int64_t>();
    }
    if (def.kind == AttrKind::kReal && std::holds_alternative<int64_t>(values[i])) {
      values[i] = static_cast<double>(std::get<int64_t>(values[i]));
    }
    if (def.kind == AttrKind::kReals && std::holds_alternative<std::vector<int64_t>>(values[i])) {
      const auto& ints = std::get<std::vector<int64_t>>(values[i]);
      values[i] = std::vector<double>(ints.begin(), ints.end());
    }
    if (def.kind == AttrKind::kInts && std::holds_alternative<int64_t>(values[i])) {
      values[i] = std::vector<int64_t>{std::get<int64_t>(values[i])};
    }
    if (!kind_fits(def, values[i])) {
      refuse_attr(*this, "attribute '{}' cannot be {}", def.name, to_string(values[i]));
    }
  }
  Attrs made(def_.attrs, std::move(values));
  if (made == default_attrs_) return default_attrs_;
  // A permanent set would keep its graph or its host object permanently.
  const auto is_object = [](const AttrDef& def) { return holds_objects(def.kind); };
  if (std::ranges::any_of(def_.attrs, is_object)) return made;
  const OpAttrs given{this, made};
  const OpAttrs* known = attr_table().sets.find_or_make(given, [&]() -> std::optional<OpAttrs> {
    if (!take_number(numbered_sets_, kSetsPerOp)) return std::nullopt;
    const std::optional<uint32_t> number = take_number(attr_table().kept, Attrs::kFirstOwn);
    if (!number) return std::nullopt;
    made.block_->dispatch_id = *number;
    return given;
  });
  if (known != nullptr) return known->attrs;
  made.block_->dispatch_id =
      take_number(attr_table().own, Attrs::kUncached).value_or(Attrs::kUncached);
  return made;
}

Attrs Op::attrs_by_name(const std::vector<std::pair<std::string_view, AttrValue>>& named) const {
  std::vector<AttrValue> values(def_.attrs.size());
  for (const auto& entry : named) {
    const std::string_view key = entry.first;  // clang 14 captures no structured bindings
    const auto at = std::find_if(def_.attrs.begin(), def_.attrs.end(),
                                 [&](const AttrDef& def) { return def.name == key; });
    if (at == def_.attrs.end()) {
      refuse_attr(*this, "there is no attribute '{}'. See `etude ops show {}`", key, name());
    }
    values[static_cast<std::size_t>(at - def_.attrs.begin())] = entry.second;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].index() == 0 && def_.attrs[i].required) {
      refuse_attr(*this, "attribute '{}' is missing", def_.attrs[i].name);
    }
  }
  return attrs(values);
}

}  // namespace etude
