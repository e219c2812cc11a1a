// SPDX-License-Identifier: Apache-2.0
#include "etude/core/context/device_scope.h"

#include <utility>

#include "etude/base/check.h"
#include "etude/base/permanent.h"
#include "etude/base/thread_object.h"
#include "etude/base/warning.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/ambient.h"
#include "etude/core/context/caller_place.h"
#include "etude/core/context/placement.h"
#include "etude/core/internal/device_table.h"
#include "etude/core/internal/mode.h"

namespace etude {
namespace internal {
namespace {

void select(const Placement* place) noexcept {
  ambient().place = place;
  const bool selects = place != nullptr && !place->is_clear;
  mode_word = (mode_word & ~kModeDevice) | (selects ? kModeDevice : 0);
}

// The place of a thread whose scope is hidden. It selects no device.
const Placement& hidden_place() {
  static const Permanent<Placement> place(Placement{.is_clear = true});
  return *place;
}

struct CallerPlace {
  const Placement* place = nullptr;
};

// Whether the process has a device of the kind that the name states.
bool has_kind(const DeviceName& name) {
  return !name.type || !devices_of({.type = name.type}).empty();
}

}  // namespace

NoDeviceScope::NoDeviceScope(bool hides) noexcept : saved_(ambient().place) {
  if (hides && saved_ != nullptr) select(&hidden_place());
}

NoDeviceScope::~NoDeviceScope() {
  if (saved_ != ambient().place) select(saved_);
}

CallerPlaceScope::CallerPlaceScope(const Placement* place)
    : saved_(std::exchange(ThreadObject<CallerPlace>::get().place, place)) {}

CallerPlaceScope::~CallerPlaceScope() { ThreadObject<CallerPlace>::get().place = saved_; }

const Placement* caller_place() noexcept {
  const CallerPlace* const caller = ThreadObject<CallerPlace>::find();
  return caller != nullptr ? caller->place : nullptr;
}

bool hides_scope() noexcept { return ambient().place == &hidden_place(); }

InCallerPlace::InCallerPlace() noexcept : saved_(ambient().place) {
  if (hides_scope()) select(caller_place());
}

InCallerPlace::~InCallerPlace() {
  if (saved_ != ambient().place) select(saved_);
}

Device device_of(const Placement& place) {
  if (place.device) return *place.device;
  return only_device_of(place.name, place.name.to_string());
}

}  // namespace internal

DeviceScope::DeviceScope(std::string_view name, const DeviceScopeOptions& options, CallSite where) {
  internal::located("DeviceScope", where, [&] {
    place_.name = DeviceName::parse(name);
    const internal::Placement* const outer = ambient().place;
    if (outer != nullptr) place_.name = outer->name.merged(place_.name);
    open(options, where);
  });
}

DeviceScope::DeviceScope(OfDevice of, const DeviceScopeOptions& options, CallSite where) {
  internal::located("DeviceScope", where, [&] {
    place_.name = internal::device_entry(of.device).name;
    open(options, where);
  });
}

DeviceScope::DeviceScope(std::nullopt_t, CallSite where) {
  place_.is_clear = true;
  place_.where = where;
  place_.outer = ambient().place;
  internal::select(&place_);
}

void DeviceScope::open(const DeviceScopeOptions& options, CallSite where) {
  place_.where = internal::user_line(where);
  place_.outer = ambient().place;
  if (place_.outer != nullptr) {
    place_.copies = place_.outer->copies;
    place_.soft = place_.outer->soft;
  }
  place_.copies = options.copies.value_or(place_.copies);
  place_.soft = options.soft.value_or(place_.soft);
  const std::vector<Device> found = internal::devices_of(place_.name);
  if (found.size() == 1) place_.device = found[0];
  if (found.empty()) {
    const std::string text = place_.name.to_string();
    ETUDE_REQUIRE_CODE(kNotFound, place_.soft && !internal::has_kind(place_.name),
                       "there is no device '{}' in this process. Its devices are: {}", text,
                       internal::device_list());
    if (internal::see_first("no device " + text)) {
      internal::warn(
          fmt::format("there is no device '{}' in this process: calls in its scope run "
                      "on cpu:0. Set DeviceScopeOptions::soft to false for an error",
                      text));
    }
    place_.device = Device();
  }
  internal::select(&place_);
}

DeviceScope::~DeviceScope() {
  const internal::Placement* inner = ambient().place;
  if (inner == &place_) {
    internal::select(place_.outer);
    return;
  }
  // An object on the heap may end before a scope inside it, which then goes on.
  while (inner != nullptr && inner->outer != &place_) inner = inner->outer;
  if (inner != nullptr) inner->outer = place_.outer;
}

std::optional<Device> current_device(CallSite where) {
  const internal::Placement* const place = ambient().place;
  if (place == nullptr || place->is_clear) return std::nullopt;
  return internal::located("current_device", where, [&] { return internal::device_of(*place); });
}

}  // namespace etude
