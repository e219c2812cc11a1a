// SPDX-License-Identifier: Apache-2.0
// etude.DType and etude.Device, and queries on dtypes.
#include "python/src/dtype.h"

#include <array>
#include <functional>

#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "etude/core/context/ambient.h"
#include "etude/core/dtype_functions.h"
#include "python/src/convert.h"

namespace etude::python {
namespace {

// One object per dtype, so that `is` and `==` agree.
struct DTypeObject {
  DType dtype;
};
std::array<PyObject*, kDTypeCount> dtype_objects{};

// The kinds of isdtype: a text, a dtype, or a tuple of them.
bool has_kind(DType dtype, nb::handle kind) {
  if (PyTuple_Check(kind.ptr())) {
    for (const nb::handle item : nb::borrow<nb::tuple>(kind)) {
      if (has_kind(dtype, item)) return true;
    }
    return false;
  }
  if (PyUnicode_Check(kind.ptr())) return isdtype(dtype, nb::cast<std::string>(kind));
  return dtype == as_dtype(kind, "kind");
}

DType dtype_in_array(nb::handle object) {
  if (const std::optional<DType> dtype = find_dtype(object)) return *dtype;
  return with_user_line([&] { return as_tensor(object).dtype(); });
}

// result_type(*arrays_and_dtypes): numbers of the host take the dtype of the others.
DType result_type_of(const nb::args& args) {
  std::optional<DType> dtype;
  bool real = false, complex = false, integer = false, boolean = false;
  for (const nb::handle item : args) {
    PyObject* object = item.ptr();
    if (PyBool_Check(object)) {
      boolean = true;
    } else if (PyLong_CheckExact(object)) {
      integer = true;
    } else if (PyFloat_CheckExact(object)) {
      real = true;
    } else if (PyComplex_CheckExact(object)) {
      complex = true;
    } else {
      const DType mine = dtype_in_array(item);
      dtype =
          dtype ? with_user_line([&] { return internal::require_promoted(*dtype, mine); }) : mine;
    }
  }
  if (!dtype) {
    if (!complex && !real && !integer && !boolean) {
      throw nb::type_error("result_type(): at least one array, dtype or number is needed");
    }
    return complex ? kComplex64 : real ? ambient().default_dtype : integer ? kInt32 : kBool;
  }
  if (complex && !is_complex(*dtype)) return *dtype == kFloat64 ? kComplex128 : kComplex64;
  if (real && !is_differentiable(*dtype)) return ambient().default_dtype;
  if (integer && *dtype == kBool) return kInt32;
  return *dtype;
}

template <class Info>
std::string info_text(const char* name, const Info& info) {
  return std::string(name) + "(bits=" + std::to_string(info.bits) +
         ", dtype=" + std::string(etude::name(info.dtype)) + ")";
}

void bind_infos(nb::module_& m) {
  nb::class_<FInfo>(m, "finfo_object", "Limits of a floating dtype.")
      .def_ro("bits", &FInfo::bits)
      .def_ro("eps", &FInfo::eps)
      .def_ro("max", &FInfo::max)
      .def_ro("min", &FInfo::min)
      .def_ro("smallest_normal", &FInfo::smallest_normal)
      .def_prop_ro("dtype", [](const FInfo& info) { return dtype_object(info.dtype); })
      .def("__repr__", [](const FInfo& info) { return info_text("finfo", info); });
  nb::class_<IInfo>(m, "iinfo_object", "Limits of an integer dtype.")
      .def_ro("bits", &IInfo::bits)
      .def_ro("max", &IInfo::max)
      .def_ro("min", &IInfo::min)
      .def_prop_ro("dtype", [](const IInfo& info) { return dtype_object(info.dtype); })
      .def("__repr__", [](const IInfo& info) { return info_text("iinfo", info); });
  m.def(
      "finfo",
      [](nb::handle type) {
        const DType dtype = dtype_in_array(type);
        return with_user_line([&] { return finfo(dtype); });
      },
      nb::arg("type"), nb::sig("def finfo(type: object, /) -> finfo_object"),
      "Limits of a floating dtype, or of the parts of a complex one; of a dtype or of a tensor.");
  m.def(
      "iinfo",
      [](nb::handle type) {
        const DType dtype = dtype_in_array(type);
        return with_user_line([&] { return iinfo(dtype); });
      },
      nb::arg("type"), nb::sig("def iinfo(type: object, /) -> iinfo_object"),
      "Limits of an integer dtype; of a dtype or of a tensor.");
}

void bind_queries(nb::module_& m) {
  m.def(
      "can_cast",
      [](nb::handle from, nb::handle to) {
        return can_cast(dtype_in_array(from), as_dtype(to, "to"));
      },
      nb::arg("from_"), nb::arg("to"),
      nb::sig("def can_cast(from_: object, to: DTypeLike, /) -> bool"),
      "Whether promotion within a kind converts one dtype to the other.");
  m.def(
      "isdtype",
      [](nb::handle dtype, nb::handle kind) {
        return with_user_line([&] { return has_kind(as_dtype(dtype), kind); });
      },
      nb::arg("dtype"), nb::arg("kind"),
      nb::sig("def isdtype(dtype: DTypeLike, kind: object) -> bool"),
      "Whether a dtype is of a kind: 'bool', 'signed integer', 'unsigned integer', 'integral', "
      "'real "
      "floating', 'complex floating', 'numeric', another dtype, or one of a tuple of them.");
  m.def(
      "result_type", [](const nb::args& args) { return dtype_object(result_type_of(args)); },
      nb::arg("arrays_and_dtypes"), nb::sig("def result_type(*arrays_and_dtypes: object) -> DType"),
      "The dtype in which an op on these tensors, dtypes and numbers computes.");
}

}  // namespace

nb::object dtype_object(DType dtype) {
  return nb::borrow(dtype_objects[static_cast<std::size_t>(dtype)]);
}

std::optional<DType> find_dtype(nb::handle object) {
  DTypeObject* own = nullptr;
  if (nb::try_cast(object, own) && own != nullptr) return own->dtype;
  if (PyUnicode_Check(object.ptr())) return dtype_named(nb::cast<std::string>(object));
  if (PyType_Check(object.ptr())) {
    if (object.ptr() == reinterpret_cast<PyObject*>(&PyBool_Type)) return kBool;
    if (object.ptr() == reinterpret_cast<PyObject*>(&PyLong_Type)) return kInt32;
    if (object.ptr() == reinterpret_cast<PyObject*>(&PyFloat_Type)) return ambient().default_dtype;
    if (object.ptr() == reinterpret_cast<PyObject*>(&PyComplex_Type)) return kComplex64;
    // numpy.float32, ml_dtypes.bfloat16
    const std::string name = nb::cast<std::string>(object.attr("__name__"));
    return dtype_named(name == "bool_" ? "bool" : name);
  }
  // numpy.dtype: only its own module has this class, so nothing is imported.
  const std::string type = nb::cast<std::string>(object.type().attr("__module__"));
  if (type.starts_with("numpy") && nb::hasattr(object, "name")) {
    return dtype_named(nb::cast<std::string>(nb::str(object.attr("name"))));
  }
  return {};
}

DType as_dtype(nb::handle object, const char* parameter) {
  if (const std::optional<DType> dtype = find_dtype(object)) return *dtype;
  const std::string text = std::string("'") + parameter + "' is " +
                           nb::cast<std::string>(nb::repr(object)) +
                           ", but must be a dtype such as etude.float32";
  throw nb::type_error(text.c_str());
}

std::optional<DType> as_optional_dtype(nb::handle object, const char* parameter) {
  if (object.is_none()) return {};
  return as_dtype(object, parameter);
}

nb::object device_object(const Device& device) { return nb::cast(device); }

Device as_device(nb::handle object) {
  Device* own = nullptr;
  if (nb::try_cast(object, own) && own != nullptr) return *own;
  if (PyUnicode_Check(object.ptr())) {
    return with_user_line([&] { return Device(nb::cast<std::string>(object), CallSite{}); });
  }
  throw nb::type_error(
      ("a device is needed, such as \"cpu:0\", but a " + type_text(object) + " was given").c_str());
}

std::optional<Device> as_optional_device(nb::handle object) {
  if (object.is_none()) return {};
  return as_device(object);
}

void bind_dtype(nb::module_& m) {
  nb::class_<DTypeObject>(m, "DType",
                          "The type of the elements of a tensor, such as etude.float32.")
      .def_prop_ro("name", [](const DTypeObject& self) { return std::string(name(self.dtype)); })
      .def_prop_ro("itemsize", [](const DTypeObject& self) { return itemsize(self.dtype); })
      .def("__repr__",
           [](const DTypeObject& self) { return "etude." + std::string(name(self.dtype)); })
      .def("__str__", [](const DTypeObject& self) { return std::string(name(self.dtype)); })
      .def("__hash__",
           [](const DTypeObject& self) { return static_cast<int>(self.dtype) + 0x455444; })
      .def(
          "__eq__",
          [](const DTypeObject& self, nb::handle other) {
            const bool is_type = PyType_Check(other.ptr()) != 0;  // float is no dtype
            const std::optional<DType> dtype = is_type ? std::nullopt : find_dtype(other);
            return dtype && *dtype == self.dtype;
          },
          nb::arg("other").none())
      .def("__reduce__",
           [](const DTypeObject& self) {
             const nb::object make = nb::module_::import_("etude._rebuild").attr("dtype");
             return nb::make_tuple(make, nb::make_tuple(std::string(name(self.dtype))));
           })
      .def("__copy__", [](const DTypeObject& self) { return dtype_object(self.dtype); })
      .def("__deepcopy__",
           [](const DTypeObject& self, nb::handle) { return dtype_object(self.dtype); });
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    nb::object made = nb::cast(DTypeObject{dtype});
    m.attr(std::string(name(dtype)).c_str()) = made;
    dtype_objects[static_cast<std::size_t>(i)] = made.release().ptr();
  }
  bind_infos(m);
  bind_queries(m);
}

void bind_device(nb::module_& m) {
  nb::class_<Device>(m, "Device", "Where tensors lie and calls run, such as \"cpu:0\".")
      .def(
          "__init__", [](Device* self, nb::handle name) { new (self) Device(as_device(name)); },
          nb::arg("name"), nb::sig("def __init__(self, name: DeviceLike) -> None"))
      .def_prop_ro("index", &Device::index)
      .def_prop_ro("full_name", &Device::full_name)
      .def("__str__", &Device::to_string)
      .def("__repr__", [](const Device& self) { return "Device(\"" + self.to_string() + "\")"; })
      .def("__hash__",
           [](const Device& self) { return nb::hash(nb::str(self.to_string().c_str())); })
      .def(
          "__eq__",
          [](const Device& self, nb::handle other) {
            Device* device = nullptr;
            if (nb::try_cast(other, device) && device != nullptr) return *device == self;
            return PyUnicode_Check(other.ptr()) && nb::cast<std::string>(other) == self.to_string();
          },
          nb::arg("other").none())
      .def("__reduce__", [](const Device& self) {
        const nb::object type = nb::borrow(nb::type<Device>());
        return nb::make_tuple(type, nb::make_tuple(self.to_string()));
      });
  m.def("list_devices", &list_devices, "The devices of this process, cpu:0 first.");
}

}  // namespace etude::python
