// SPDX-License-Identifier: Apache-2.0
#include "etude/core/op/registry.h"

#include <algorithm>
#include <mutex>

#include "etude/base/check.h"
#include "etude/base/edit_distance.h"
#include "etude/core/internal/call.h"

namespace etude {
namespace {

bool has_partials(const OpDef& def) { return def.partials.by_operand[0].program != nullptr; }

// The default partials of a record without partials or another derivative rule.
void take_derived_partials(OpDef& def) {
  const bool has_rule = has_partials(def) || def.vjp != nullptr || def.jvp != nullptr;
  if (has_rule || def.scalar.derived == nullptr || !def.no_derivative.empty()) return;
  if (!(def.dtypes & kFloatingComplex).empty()) def.partials = *def.scalar.derived;
}

void require_complete(const OpDef& def) {
  const auto need = [&](bool present, std::string_view field) {
    ETUDE_REQUIRE(present, "the record of op '{}' lacks '{}', which its kind requires", def.name,
                  field);
  };
  const bool has_kernel = def.kernels != Kernels();
  need(!def.name.empty(), "name");
  need(!def.doc.empty(), "doc");
  switch (def.kind) {
    case Kind::kElementwise:
      need(def.scalar.program != nullptr, "scalar");
      need(has_partials(def) || def.vjp != nullptr || !def.no_derivative.empty() ||
               (def.dtypes & kFloatingComplex).empty(),
           "partials (or no_derivative with a reason)");
      break;
    case Kind::kLinear:
      need(def.type != nullptr, "type");
      need(def.transpose != nullptr, "transpose");
      need(has_kernel || def.lower != nullptr, "kernels");
      break;
    case Kind::kComposition:
      need(def.lower != nullptr, "lower");
      break;
    case Kind::kGeneral:
      need(def.type != nullptr || def.lower != nullptr, "type");
      need(has_kernel || def.data != nullptr || def.lower != nullptr, "kernels");
      break;
  }
}

void require_upgrades(const OpDef& def) {
  ETUDE_REQUIRE(def.version >= 1, "the record of op '{}' has version {}: versions begin at 1",
                def.name, def.version);
  int next = def.version - static_cast<int>(def.upgrades.size());
  ETUDE_REQUIRE(next >= 1 && (def.version == 1 || next < def.version),
                "the record of op '{}' has version {} and {} upgrades. It needs one from version "
                "{}, and at most one from each earlier version",
                def.name, def.version, def.upgrades.size(), def.version - 1);
  for (const UpgradeDef& each : def.upgrades) {
    ETUDE_REQUIRE(each.from == next && each.run != nullptr,
                  "the record of op '{}' has an upgrade from version {}{}. Here it needs one from "
                  "version {}: upgrades are sorted and lead to version {}",
                  def.name, each.from, each.run == nullptr ? " without a function" : "", next,
                  def.version);
    ++next;
  }
}

}  // namespace

Registry& Registry::global() {
  // Never destroyed: tensors in static objects may still run rules during process exit.
  static Registry* registry = [] {
    auto* made = new Registry;
    register_all_ops(*made);
    return made;
  }();
  return *registry;
}

const Op& Registry::define(OpDef def) {
  take_derived_partials(def);
  require_complete(def);
  require_upgrades(def);
  std::unique_lock lock(mutex_);
  ETUDE_REQUIRE_CODE(kFailedPrecondition, by_name_.find(def.name) == by_name_.end(),
                     "an op called '{}' is registered already. Choose another name", def.name);
  const auto index = static_cast<uint32_t>(ops_.size());
  ops_.push_back(std::unique_ptr<Op>(new Op(std::move(def), index)));
  const Op& op = *ops_.back();
  by_name_.emplace(op.name(), &op);
  return op;
}

const Op* Registry::find(std::string_view name) const {
  std::shared_lock lock(mutex_);
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) return found->second;
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return nullptr;
  const auto inside = by_name_.find(name.substr(dot + 1));
  const bool fits = inside != by_name_.end() && inside->second->def().space == name.substr(0, dot);
  return fits ? inside->second : nullptr;
}

const Op& Registry::at(std::string_view name) const {
  if (const Op* op = find(name)) return *op;
  ETUDE_THROW(kNotFound, "{}", explain_unknown(name));
}

std::string Registry::explain_unknown(std::string_view name) const {
  std::vector<std::string> full;
  for (const Op* op : ops()) full.push_back(op->full_name());
  const std::vector<std::string_view> names(full.begin(), full.end());
  return fmt::format("no op is called '{:.100}'. Nearest: {}. `etude ops list` shows all", name,
                     fmt::join(internal::nearest_names(name, names, false), ", "));
}

std::vector<const Op*> Registry::ops() const {
  std::shared_lock lock(mutex_);
  std::vector<const Op*> out;
  out.reserve(ops_.size());
  for (const auto& op : ops_) out.push_back(op.get());
  return out;
}

namespace internal {
const Op& op(std::string_view name) {
  const Op* found = Registry::global().find(name);
  ETUDE_CHECK(found != nullptr, "the library calls op '{}', which is not registered", name);
  return *found;
}

const Op& NamedOp::find() const {
  const Op& found = op(name_);
  found_.store(&found, std::memory_order_release);
  return found;
}
}  // namespace internal
}  // namespace etude
