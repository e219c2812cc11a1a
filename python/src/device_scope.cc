// SPDX-License-Identifier: Apache-2.0
// with etude.device("cpu:1"): the device on which calls of this thread run.
#include "etude/core/context/device_scope.h"

#include <nanobind/stl/optional.h>

#include "etude/base/check.h"
#include "python/src/convert.h"
#include "python/src/dtype.h"

namespace etude::python {
namespace {

CopyPolicy as_policy(const std::string& text) {
  if (text == "silent") return CopyPolicy::kSilent;
  if (text == "warn") return CopyPolicy::kWarn;
  ETUDE_REQUIRE(text == "forbid",
                "device: copies is '{}', but must be 'silent', 'warn' or 'forbid'", text);
  return CopyPolicy::kForbid;
}

// A scope that a `with` statement opens and closes. It may be opened again after it was closed.
class PyDeviceScope {
 public:
  PyDeviceScope(nb::handle name, const std::optional<std::string>& copies,
                std::optional<bool> soft) {
    if (copies) options_.copies = as_policy(*copies);
    options_.soft = soft;
    Device* device = nullptr;
    if (name.is_none()) return;
    if (nb::try_cast(name, device) && device != nullptr) {
      name_ = device->to_string();
    } else if (PyUnicode_Check(name.ptr())) {
      name_ = nb::cast<std::string>(name);
    } else {
      throw nb::type_error(("device(): a device, its name or None is needed, but a " +
                            type_text(name) + " was given")
                               .c_str());
    }
  }
  void enter() {
    ETUDE_REQUIRE_CODE(kFailedPrecondition, !scope_, "device: this scope is open already");
    const CallSite where = here();
    if (name_) {
      scope_.emplace(*name_, options_, where);
    } else {
      scope_.emplace(std::nullopt, where);
    }
  }
  void leave() { scope_.reset(); }

 private:
  std::optional<std::string> name_;  // absent: the scopes around are cleared
  DeviceScopeOptions options_;
  std::optional<DeviceScope> scope_;
};

}  // namespace

void bind_device_scope(nb::module_& m) {
  nb::class_<PyDeviceScope>(
      m, "device",
      "While open, calls of this thread run on a device, and operands elsewhere are copied to "
      "it.\n\n"
      "None clears the scopes around. `copies` is 'silent', 'warn' or 'forbid'; with soft=False a "
      "call that the device has no kernel for is an error.")
      .def(nb::init<nb::handle, const std::optional<std::string>&, std::optional<bool>>(),
           nb::arg("name").none(), nb::kw_only(), nb::arg("copies") = nb::none(),
           nb::arg("soft") = nb::none(),
           nb::sig("def __init__(self, name: DeviceLike | None, *, copies: str | None = None, "
                   "soft: bool | None = None) -> None"))
      .def(
          "__enter__",
          [](PyDeviceScope& self) -> PyDeviceScope& {
            with_user_line([&] {
              self.enter();
              return 0;
            });
            return self;
          },
          nb::rv_policy::reference, nb::sig("def __enter__(self) -> device"))
      .def(
          "__exit__", [](PyDeviceScope& self, const nb::args&) { self.leave(); },
          nb::sig("def __exit__(self, *error: Any) -> None"));
  m.def(
      "current_device", [] { return with_user_line([] { return current_device(); }); },
      nb::sig("def current_device() -> Device | None"),
      "The device of the innermost scope of this thread; None without a scope.");
  m.def(
      "add_cpu_device",
      [](int64_t memory_limit_bytes) {
        return with_user_line([&] { return add_cpu_device({memory_limit_bytes}); });
      },
      nb::kw_only(), nb::arg("memory_limit_bytes") = 0,
      nb::sig("def add_cpu_device(*, memory_limit_bytes: int = 0) -> Device"),
      "Adds a CPU device with memory and a limit of its own; it stays for the life of the "
      "process.");
}

}  // namespace etude::python
