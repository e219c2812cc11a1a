// SPDX-License-Identifier: Apache-2.0
#include "etude/core/op/upgrade.h"

#include <algorithm>
#include <exception>
#include <new>

#include "etude/base/check.h"

namespace etude {
namespace {

template <class List>
auto place_of(List& attrs, std::string_view name) {
  return std::ranges::find_if(attrs, [&](const auto& each) { return each.first == name; });
}

}  // namespace

const AttrValue* StoredCall::find(std::string_view name) const {
  const auto at = place_of(attrs, name);
  return at == attrs.end() ? nullptr : &at->second;
}

void StoredCall::set(std::string_view name, AttrValue value) {
  const auto at = place_of(attrs, name);
  if (at != attrs.end()) {
    at->second = std::move(value);
  } else {
    attrs.emplace_back(std::string(name), std::move(value));
  }
}

void StoredCall::set_missing(std::string_view name, AttrValue value) {
  if (find(name) == nullptr) set(name, std::move(value));
}

void StoredCall::rename(std::string_view from, std::string_view to) {
  const auto at = place_of(attrs, from);
  if (at != attrs.end()) at->first = std::string(to);
}

AttrValue StoredCall::remove(std::string_view name) {
  const auto at = place_of(attrs, name);
  if (at == attrs.end()) return {};
  AttrValue value = std::move(at->second);
  attrs.erase(at);
  return value;
}

namespace internal {

void require_readable(const Op& op, uint32_t version) {
  const OpDef& def = op.def();
  const auto present = static_cast<uint32_t>(def.version);
  const auto oldest = def.upgrades.empty() ? present : static_cast<uint32_t>(def.upgrades[0].from);
  ETUDE_REQUIRE_CODE(kUnimplemented, version <= present,
                     "version {} of op '{}' is newer than this library, which has version {}. Read "
                     "the file with the release that wrote it, or a later one",
                     version, op.full_name(), present);
  ETUDE_REQUIRE_CODE(kUnimplemented, version >= oldest,
                     "version {} of op '{}' has no upgrade to version {}: this library reads "
                     "versions {} to {}. Read the file with an older release, and write it again "
                     "there",
                     version, op.full_name(), present, oldest, present);
}

void upgrade(const Op& op, uint32_t version, StoredCall& call) {
  require_readable(op, version);
  for (const UpgradeDef& each : op.def().upgrades) {
    if (static_cast<uint32_t>(each.from) < version) continue;
    try {
      each.run(call);
    } catch (const Error&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& fault) {  // of at() or std::get: the call is not of this form
      ETUDE_THROW(kInvalidArgument, "this is no call of version {} of op '{}': {}", each.from,
                  op.full_name(), fault.what());
    }
  }
}

}  // namespace internal
}  // namespace etude
