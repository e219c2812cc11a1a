// SPDX-License-Identifier: Apache-2.0
// Tensors from Python objects: creation that no record describes.
#include <cstring>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "etude/base/check.h"
#include "etude/core/context/ambient.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/op/registry.h"
#include "python/src/convert.h"
#include "python/src/dtype.h"
#include "python/src/op_object.h"

namespace etude::python {
namespace {

std::optional<bool> as_optional_bool(nb::handle object, const char* parameter) {
  if (object.is_none()) return {};
  if (!PyBool_Check(object.ptr())) {
    throw nb::type_error(
        (std::string("'") + parameter + "' is True, False or None, not a " + type_text(object))
            .c_str());
  }
  return object.ptr() == Py_True;
}

nb::object make(nb::handle value, nb::handle dtype, nb::handle device, nb::handle copy) {
  const NewTensor how = {as_optional_dtype(dtype), as_optional_device(device),
                         as_optional_bool(copy, "copy")};
  Tensor out = with_user_line([&] { return make_new_tensor(value, how); });
  if (out.has_value()) return wrap(std::move(out));
  throw nb::type_error(("asarray(): " + needed_text(value)).c_str());
}

// asarray returns a tensor itself where nothing changes, so that a later write shows in both, as
// the standard demands for copy=False.
nb::object asarray(nb::handle value, nb::handle dtype, nb::handle device, nb::handle copy) {
  if (is_tensor(value) && (copy.is_none() || copy.ptr() == Py_False)) {
    const std::optional<DType> wanted = as_optional_dtype(dtype);
    const std::optional<Device> place = as_optional_device(device);
    const Tensor& x = tensor_of(value);
    if ((!wanted || *wanted == x.dtype()) && (!place || *place == x.device())) {
      return nb::borrow(value);
    }
  }
  return make(value, dtype, device, copy);
}

// The tensor that __reduce__ described: dtype, sizes and the bytes of its elements.
nb::object unpickle(const std::string& dtype_text, const std::vector<int64_t>& sizes,
                    const nb::bytes& bytes) {
  const std::optional<DType> dtype = dtype_named(dtype_text);
  ETUDE_REQUIRE_CODE(kDataLoss, dtype.has_value(), "a pickled tensor has the unknown dtype '{}'",
                     dtype_text);
  const Type* type = intern_type(*dtype, Shape(sizes));
  ETUDE_REQUIRE_CODE(kDataLoss, type->bytes() == static_cast<int64_t>(bytes.size()),
                     "a pickled tensor {} has {} bytes, but needs {}", type->to_string(),
                     bytes.size(), type->bytes());
  Tensor out = internal::make_tensor(type);
  if (type->bytes() > 0)
    std::memcpy(internal::host_elements_for_writing(out), bytes.c_str(), bytes.size());
  return wrap(std::move(out));
}

nb::object default_dtype() { return dtype_object(ambient().default_dtype); }
void set_default_dtype(nb::handle dtype) {
  const DType wanted = as_dtype(dtype);
  if (!is_floating(wanted)) throw nb::type_error("the default dtype is a floating dtype");
  ambient().default_dtype = wanted;
}

}  // namespace

void bind_create(nb::module_& m) {
  m.def(
      "tensor",
      [](nb::handle value, nb::handle dtype, nb::handle device) {
        return make(value, dtype, device, nb::bool_(true));
      },
      nb::arg("value").none(), nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::sig("def tensor(value: ArrayLike, dtype: DTypeLike | None = None, device: DeviceLike | "
              "None = None) -> Tensor"),
      "A new tensor of a number, a nested list, an array or another tensor.\n\n"
      "A list with a real number has the default dtype, initially float32; integers are int32, or "
      "int64 if one needs it. Arrays keep their dtype.");
  m.def("asarray", &asarray, nb::arg("obj").none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
        nb::arg("device") = nb::none(), nb::arg("copy") = nb::none(),
        nb::sig("def asarray(obj: ArrayLike, /, *, dtype: DTypeLike | None = None, device: "
                "DeviceLike | None = None, "
                "copy: bool | None = None) -> Tensor"),
        "`obj` as a tensor.\n\nAn array of another library is copied unless copy=False, which pins "
        "its memory; "
        "the first write to the tensor then copies.");
  m.def("_unpickle", &unpickle);
  m.def("default_dtype", &default_dtype, "The dtype of numbers with a fraction on this thread.");
  m.def("set_default_dtype", &set_default_dtype, nb::arg("dtype"),
        nb::sig("def set_default_dtype(dtype: DTypeLike) -> None"),
        "Sets the dtype of numbers with a fraction on this thread: float16, bfloat16, float32 or "
        "float64.");
}

}  // namespace etude::python
