// SPDX-License-Identifier: Apache-2.0
// DLPack both ways: versioned capsules of DLPack 1.x, and the older ones. io/dlpack.h checks
// foreign sizes, strides and dtypes.
#include "etude/io/dlpack.h"

#include <memory>
#include <string>

#include <dlpack/dlpack.h>

#include "etude/base/check.h"
#include "python/src/convert.h"
#include "python/src/dtype.h"
#include "python/src/numpy.h"

namespace etude::python {
namespace {

// DLManagedTensorVersioned of DLPack 1.0, which the header of Debian 12 does not have.
struct Versioned {
  struct {
    uint32_t major, minor;
  } version;
  void* manager_ctx;
  void (*deleter)(Versioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
};
constexpr uint64_t kReadOnly = 1, kIsCopied = 2;
constexpr const char* kVersionedName = "dltensor_versioned";
constexpr const char* kLegacyName = "dltensor";
constexpr const char* kUsedVersionedName = "used_dltensor_versioned";
constexpr const char* kUsedLegacyName = "used_dltensor";

// ---- export

// The destructor of a capsule without a consumer. It may run while an error passes.
template <class Managed>
void give_back(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed->deleter != nullptr) managed->deleter(managed);
}
void drop_versioned(PyObject* capsule) { give_back<Versioned>(capsule, kVersionedName); }
void drop_legacy(PyObject* capsule) { give_back<DLManagedTensor>(capsule, kLegacyName); }

nb::object capsule_of(void* managed, const char* name, PyCapsule_Destructor destructor) {
  PyObject* capsule = PyCapsule_New(managed, name, destructor);
  if (capsule == nullptr) throw nb::python_error();
  return nb::steal(capsule);
}

nb::object export_versioned(const Tensor& x, DlpackOptions options) {
  auto out = std::make_unique<Versioned>();
  DLManagedTensor* plain = with_user_line_released([&] { return to_dlpack(x, options); });
  out->version = {1, 1};
  out->manager_ctx = plain;
  // Needs no GIL: the tensor is the library's own.
  out->deleter = [](Versioned* self) {
    auto* held = static_cast<DLManagedTensor*>(self->manager_ctx);
    held->deleter(held);
    delete self;
  };
  out->flags = options.copy == true ? kIsCopied : kReadOnly;
  out->dl_tensor = plain->dl_tensor;
  Versioned* managed = out.release();
  try {
    return capsule_of(managed, kVersionedName, drop_versioned);
  } catch (...) {
    managed->deleter(managed);
    throw;
  }
}

[[noreturn]] void throw_buffer_error(const char* text) {
  PyErr_SetString(PyExc_BufferError, text);
  throw nb::python_error();
}

// A consumer that knows only DLPack 0.x may write, so it gets a copy.
nb::object export_legacy(const Tensor& x, DlpackOptions options) {
  if (options.copy == false) {
    throw_buffer_error(
        "__dlpack__(): a consumer that knows only DLPack 0.x may write to the elements, and the "
        "write would show in other tensors. Let it pass max_version=(1, 0), or leave out "
        "copy=False");
  }
  options.copy = true;
  DLManagedTensor* managed = with_user_line_released([&] { return to_dlpack(x, options); });
  try {
    return capsule_of(managed, kLegacyName, drop_legacy);
  } catch (...) {
    managed->deleter(managed);
    throw;
  }
}

// ---- import

// A versioned tensor as the library takes it. Freed with its last user.
struct Adapter {
  DLManagedTensor plain;
  Versioned* versioned;
};

DLManagedTensor* adapt(Versioned* versioned) {
  auto* adapter = new Adapter{{}, versioned};
  adapter->plain.dl_tensor = versioned->dl_tensor;
  adapter->plain.manager_ctx = adapter;
  adapter->plain.deleter = [](DLManagedTensor* self) {
    auto* held = static_cast<Adapter*>(self->manager_ctx);
    if (held->versioned->deleter != nullptr) held->versioned->deleter(held->versioned);
    delete held;
  };
  return &adapter->plain;
}

Tensor import_versioned(nb::handle capsule, DlpackOptions options) {
  auto* versioned = static_cast<Versioned*>(PyCapsule_GetPointer(capsule.ptr(), kVersionedName));
  if (versioned == nullptr) throw nb::python_error();
  ETUDE_REQUIRE(versioned->version.major == 1,
                "from_dlpack: the capsule has DLPack version {}.{}, but 1.x is needed",
                versioned->version.major, versioned->version.minor);
  DLManagedTensor* plain = adapt(versioned);
  try {
    Tensor out = from_dlpack(plain, options, CallSite{});
    PyCapsule_SetName(capsule.ptr(), kUsedVersionedName);
    return out;
  } catch (...) {
    delete static_cast<Adapter*>(plain->manager_ctx);  // the capsule keeps its tensor
    throw;
  }
}

Tensor import_legacy(nb::handle capsule, DlpackOptions options) {
  auto* plain = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kLegacyName));
  if (plain == nullptr) throw nb::python_error();
  Tensor out = from_dlpack(plain, options, CallSite{});
  PyCapsule_SetName(capsule.ptr(), kUsedLegacyName);
  return out;
}

// Asks `object` for a capsule: by the protocol of DLPack 1.x, or of earlier versions.
nb::object ask(nb::handle object, std::optional<bool> copy) {
  const nb::object method = object.attr("__dlpack__");
  nb::dict options;
  options["max_version"] = nb::make_tuple(1, 1);
  if (copy == true) options["copy"] = true;
  if (copy == false) options["copy"] = false;
  try {
    return method(**options);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return method();  // a producer that knows no versions; copies are then made here
}

}  // namespace

Tensor tensor_of_dlpack(nb::handle object, std::optional<bool> copy, nb::handle device) {
  const std::optional<Device> to = as_optional_device(device);
  const nb::object capsule =
      PyCapsule_CheckExact(object.ptr()) ? nb::borrow(object) : ask(object, copy);
  const DlpackOptions options = {copy};
  return with_user_line([&] {
    Tensor out;
    if (PyCapsule_IsValid(capsule.ptr(), kVersionedName) != 0) {
      out = import_versioned(capsule, options);
    } else if (PyCapsule_IsValid(capsule.ptr(), kLegacyName) != 0) {
      out = import_legacy(capsule, options);
    } else {
      throw nb::type_error(("from_dlpack(): __dlpack__() of a " + type_text(object) +
                            " returned no capsule, or one that was taken before")
                               .c_str());
    }
    if (!to || out.device() == *to) return out;
    ETUDE_REQUIRE(copy != false,
                  "from_dlpack: the elements move to {} only by a copy. Leave out copy=False",
                  to->to_string());
    return released([&] { return out.to(*to); });
  });
}

nb::object dlpack_protocol(const Tensor& x, nb::handle stream, nb::handle max_version,
                           nb::handle dl_device, nb::handle copy) {
  if (!stream.is_none()) throw nb::value_error("__dlpack__(): 'stream' must be None on a CPU");
  DlpackOptions options;
  if (!copy.is_none()) options.copy = nb::cast<bool>(copy);
  if (!dl_device.is_none()) {
    const nb::object kind = dl_device[0];
    if (nb::cast<int>(kind) != kDLCPU)
      throw_buffer_error("__dlpack__(): elements are exported on the CPU only");
  }
  if (!x.device().is_home()) {
    if (options.copy == false)
      throw_buffer_error("__dlpack__(): the tensor is on another device, so that it needs a copy");
    options.copy = true;
  }
  const bool knows_flags = !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
  return knows_flags ? export_versioned(x, options) : export_legacy(x, options);
}

void bind_dlpack(nb::module_& m) {
  m.def(
      "from_dlpack",
      [](nb::handle x, nb::handle device, nb::handle copy) {
        std::optional<bool> how;
        if (!copy.is_none()) how = nb::cast<bool>(copy);
        if (!PyCapsule_CheckExact(x.ptr()) && !nb::hasattr(x, "__dlpack__")) {
          throw nb::type_error(("from_dlpack(): a " + type_text(x) + " has no __dlpack__").c_str());
        }
        return wrap(tensor_of_dlpack(x, how, device));
      },
      nb::arg("x"), nb::kw_only(), nb::arg("device") = nb::none(), nb::arg("copy") = nb::none(),
      nb::sig("def from_dlpack(x: object, /, *, device: DeviceLike | None = None, copy: bool | "
              "None = None) -> Tensor"),
      "A tensor over the elements of an array of another library, without a copy where possible. "
      "The memory is "
      "never written: the first write to the tensor copies.");
}

}  // namespace etude::python
