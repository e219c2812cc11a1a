// SPDX-License-Identifier: Apache-2.0
// DeviceScope: the device on which calls of a thread run. Without a scope a call runs where its
// operands are.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>

#include "etude/base/call_site.h"
#include "etude/core/device.h"
#include "etude/core/device_name.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// How a scope treats an operand on another device. Numbers of the host, operands that kernels read
// on the host, and copies by to_device are always allowed.
enum class CopyPolicy : uint8_t {
  kSilent,  // it is copied
  kWarn,    // it is copied; a warning for each line of the program
  kForbid,  // kFailedPrecondition, naming the operand, both devices and the copy to write
};

struct DeviceScopeOptions {
  std::optional<CopyPolicy> copies = std::nullopt;  // default: of the enclosing scope, else kSilent
  // Whether a call runs on cpu:0 if the device has no kernel for it, or if there is no device of
  // this kind in the process; else it is refused (kUnimplemented). Default: of the enclosing scope,
  // else true.
  std::optional<bool> soft = std::nullopt;
};

namespace internal {

// The effect of the innermost scope.
struct Placement {
  DeviceName name;               // merged with the enclosing scopes
  bool is_clear = false;         // no device is selected
  std::optional<Device> device;  // absent: the name fits several devices, or none
  CopyPolicy copies = CopyPolicy::kSilent;
  bool soft = true;
  CallSite where;
  mutable const Placement* outer = nullptr;
};

}  // namespace internal

// While alive, calls of this thread run on a device, operands elsewhere are copied to it, and
// creation and random functions make their tensors there. Rules of derivatives do not follow it:
// they run on the device of the values that they read. A Variable keeps its device.
//
//   const DeviceScope on("cpu:1");
//   Tensor c = a + b;  // on cpu:1; a and b stay where they are
//
// Scopes nest. A name may have some parts only: they are merged with the names of outer scopes, and
// where parts differ the inner scope wins.
// threads: confined to the thread that made it.
// throws: kInvalidArgument for a malformed name; kNotFound for an index that no device of an
// existing kind has, and, unless `soft`, for a kind without devices. A name that fits several
// devices is an error of the first call (kInvalidArgument), which lists them.
class DeviceScope {
 public:
  explicit DeviceScope(std::string_view name, const DeviceScopeOptions& options = {},
                       CallSite where = CallSite::here());
  // A template, so that a text is a name, which may have some parts only.
  template <std::same_as<Device> D>
  explicit DeviceScope(const D& device, const DeviceScopeOptions& options = {},
                       CallSite where = CallSite::here())
      : DeviceScope(OfDevice{device}, options, where) {}
  // Cancels the enclosing scopes: calls run where their operands are.
  explicit DeviceScope(std::nullopt_t, CallSite where = CallSite::here());
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  ~DeviceScope();

 private:
  struct OfDevice {
    Device device;
  };
  DeviceScope(OfDevice of, const DeviceScopeOptions& options, CallSite where);
  void open(const DeviceScopeOptions& options, CallSite where);
  internal::Placement place_;
};

// The device of the innermost scope; absent without a scope.
// throws: as the first call in the scope, if its name fits no single device.
std::optional<Device> current_device(CallSite where = CallSite::here());

namespace internal {

// While alive, and if `hides` is true, no scope selects a device. Used by rules and traces.
// threads: confined to its thread.
class NoDeviceScope {
 public:
  explicit NoDeviceScope(bool hides = true) noexcept;
  NoDeviceScope(const NoDeviceScope&) = delete;
  NoDeviceScope& operator=(const NoDeviceScope&) = delete;
  ~NoDeviceScope();

 private:
  const Placement* saved_;
};

// While alive, the scope around the innermost staged call places the calls of the thread, although
// a trace hides it. For code that runs at once while a function is traced. Without effect in a
// DeviceScope inside of the function.
// threads: confined to its thread.
class InCallerPlace {
 public:
  InCallerPlace() noexcept;
  InCallerPlace(const InCallerPlace&) = delete;
  InCallerPlace& operator=(const InCallerPlace&) = delete;
  ~InCallerPlace();

 private:
  const Placement* saved_;
};

// The device of a placement; throws as current_device().
Device device_of(const Placement& place);

}  // namespace internal
}  // namespace etude
