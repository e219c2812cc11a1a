// SPDX-License-Identifier: Apache-2.0
// etude.Variable: a cell that is shared by reference.
#include "etude/variables/variable.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "etude/base/check.h"
#include "etude/core/op/registry.h"
#include "etude/ops.h"
#include "etude/stage/control_flow.h"
#include "python/src/convert.h"
#include "python/src/dtype.h"
#include "python/src/index.h"
#include "python/src/numpy.h"
#include "python/src/op_object.h"
#include "python/src/tensor_object.h"

namespace etude::python {
namespace {

// A part of a Variable: v.at[1:3].assign_add(x).
struct VariablePart {
  Variable variable;
  Index index;
};
// v.at, before its index.
struct VariableAt {
  Variable variable;
};

Variable make(nb::handle initial, const std::optional<std::string>& name, bool trainable,
              nb::handle dtype, nb::handle shape) {
  VariableOptions options;
  options.name = name.value_or("");
  options.trainable = trainable;
  options.dtype = as_optional_dtype(dtype);
  const CallSite where = here();
  if (!shape.is_none()) options.shape = open_shape(shape, "Variable: the shape");
  if (PyCallable_Check(initial.ptr()) != 0 && !is_array_like(initial)) {
    // Runs once, when the value is first needed, perhaps on another thread.
    auto kept = std::make_shared<KeptObject>(nb::borrow(initial));
    const auto run = [kept] {
      const nb::gil_scoped_acquire gil;
      return as_tensor(nb::borrow(kept->get())());
    };
    return released([&] { return Variable(run, std::move(options), where); });
  }
  Tensor value = initial.is_none() ? Tensor() : as_tensor(initial);
  // Host data become a tensor of the trace, so that the Variable is made in the scope of the call.
  if (internal::is_tracing() && value.has_value() && !is_tensor(initial)) {
    value = reshape(value, value.shape());
  }
  return released([&] { return Variable(std::move(value), std::move(options), where); });
}

Tensor read(const Variable& v) {
  return with_user_line_released([&] { return v.read(); });
}

template <class Assign>
nb::object assign(nb::handle value, const Assign& run) {
  Operand operand;
  const CallSite where = internal::mode_word != 0 ? here() : CallSite{};
  if (!operand.read(value, where, false)) {
    throw nb::type_error(
        ("a Variable is assigned a tensor, a number, an array or a list; not a " + type_text(value))
            .c_str());
  }
  return wrap(with_user_line_released([&] { return run(operand.arg()); }));
}

// An operator on the current value.
template <const char* const& name>
PyObject* binary(PyObject* a, PyObject* b) {
  static const Op& op = Registry::global().at(name);
  return call_binary(op, a, b);
}
template <const char* const& name>
PyObject* unary(PyObject* a) {
  static const Op& op = Registry::global().at(name);
  return call_unary(op, a);
}
PyObject* power(PyObject* a, PyObject* b, PyObject*) {
  static const Op& op = Registry::global().at("pow");
  return call_binary(op, a, b);
}
PyObject* refuse_augmented(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    throw Error(ErrorCode::kInvalidArgument,
                "an augmented assignment would make the name of " +
                    internal::title_of(variable_of(self)) +
                    " a tensor. Call assign_add, assign_sub or assign");
  });
}
PyObject* refuse_augmented_power(PyObject* self, PyObject* other, PyObject*) {
  return refuse_augmented(self, other);
}

// Of two Variables: whether they are one cell, so that dicts and sets find them. Else element by
// element.
PyObject* compare(PyObject* a, PyObject* b, int how) {
  return guarded([&]() -> PyObject* {
    if (is_variable(a) && is_variable(b) && (how == Py_EQ || how == Py_NE)) {
      return PyBool_FromLong((variable_of(a).ref() == variable_of(b).ref()) == (how == Py_EQ));
    }
    return compare_tensors(a, b, how);
  });
}

template <class T>
nb::object value_as(const Variable& v, PyObject* (*convert)(PyObject*)) {
  const nb::object value = wrap(read(v));
  PyObject* out = convert(value.ptr());
  if (out == nullptr) throw nb::python_error();
  return nb::steal<T>(out);
}

constexpr const char *kAdd = "add", *kSubtract = "subtract", *kMultiply = "multiply",
                     *kDivide = "divide", *kFloorDivide = "floor_divide", *kRemainder = "remainder",
                     *kMatmul = "matmul", *kNegative = "negative", *kPositive = "positive",
                     *kAbs = "abs";

void* slot(auto* function) { return reinterpret_cast<void*>(function); }

PyType_Slot* slots() {
  static PyType_Slot table[] = {
      {Py_nb_add, slot(binary<kAdd>)},
      {Py_nb_subtract, slot(binary<kSubtract>)},
      {Py_nb_multiply, slot(binary<kMultiply>)},
      {Py_nb_true_divide, slot(binary<kDivide>)},
      {Py_nb_floor_divide, slot(binary<kFloorDivide>)},
      {Py_nb_remainder, slot(binary<kRemainder>)},
      {Py_nb_matrix_multiply, slot(binary<kMatmul>)},
      {Py_nb_power, slot(power)},
      {Py_nb_negative, slot(unary<kNegative>)},
      {Py_nb_positive, slot(unary<kPositive>)},
      {Py_nb_absolute, slot(unary<kAbs>)},
      {Py_nb_inplace_add, slot(refuse_augmented)},
      {Py_nb_inplace_subtract, slot(refuse_augmented)},
      {Py_nb_inplace_multiply, slot(refuse_augmented)},
      {Py_nb_inplace_true_divide, slot(refuse_augmented)},
      {Py_nb_inplace_floor_divide, slot(refuse_augmented)},
      {Py_nb_inplace_remainder, slot(refuse_augmented)},
      {Py_nb_inplace_matrix_multiply, slot(refuse_augmented)},
      {Py_nb_inplace_power, slot(refuse_augmented_power)},
      {Py_tp_richcompare, slot(compare)},
      {0, nullptr},
  };
  return table;
}

nb::tuple shape_tuple(const Shape& shape) {
  nb::list sizes;
  for (const int64_t size : shape)
    sizes.append(size == kAny ? nb::object(nb::none()) : nb::object(nb::int_(size)));
  return nb::steal<nb::tuple>(PyList_AsTuple(sizes.ptr()));
}

void bind_parts(nb::module_& m) {
  nb::class_<VariablePart>(m, "VariablePart", "A part of a Variable, which can be assigned to.")
      .def(
          "read",
          [](const VariablePart& part) {
            return wrap(with_user_line_released(
                [&] { return VariableSlice(part.variable, part.index).read(); }));
          },
          "The part of the current value.")
      .def(
          "assign",
          [](const VariablePart& part, nb::handle x) {
            return assign(x, [&](const Arg& arg) {
              return VariableSlice(part.variable, part.index).assign(arg);
            });
          },
          nb::arg("x"), nb::sig("def assign(self, x: ArrayLike) -> Tensor"),
          "Replaces the part. Returns the new value of the Variable.")
      .def(
          "assign_add",
          [](const VariablePart& part, nb::handle x) {
            return assign(x, [&](const Arg& arg) {
              return VariableSlice(part.variable, part.index).assign_add(arg);
            });
          },
          nb::arg("x"), nb::sig("def assign_add(self, x: ArrayLike) -> Tensor"),
          "Adds to the part; repeated indices count every time.")
      .def(
          "assign_sub",
          [](const VariablePart& part, nb::handle x) {
            return assign(x, [&](const Arg& arg) {
              return VariableSlice(part.variable, part.index).assign_sub(arg);
            });
          },
          nb::arg("x"), nb::sig("def assign_sub(self, x: ArrayLike) -> Tensor"),
          "Subtracts from the part.");
  nb::class_<VariableAt>(m, "VariableAt", "v.at[...] is a part of a Variable.")
      .def("__getitem__", [](const VariableAt& at, nb::handle key) {
        const CallSite where = here();
        Index index = index_of(key.ptr(), where);
        if (index.empty()) index.emplace_back(Ellipsis(), where);
        return VariablePart{at.variable, std::move(index)};
      });
}

nb::object get_item(const Variable& v, nb::handle key) {
  const nb::object value = wrap(read(v));
  PyObject* out = tensor_mapping.mp_subscript(value.ptr(), key.ptr());
  if (out == nullptr) throw nb::python_error();
  return nb::steal(out);
}

void set_item(const Variable& v, nb::handle key, nb::handle x) {
  const CallSite where = here();
  Index index = index_of(key.ptr(), where);
  if (index.empty()) index.emplace_back(Ellipsis(), where);
  assign(x, [&](const Arg& arg) { return VariableSlice(v, index).assign(arg); });
}

void bind_assignments(nb::class_<Variable>& type) {
  type.def(
          "__init__",
          [](Variable* self, nb::handle initial, const std::optional<std::string>& name,
             bool trainable, nb::handle dtype, nb::handle shape) {
            new (self) Variable(make(initial, name, trainable, dtype, shape));
          },
          nb::arg("initial").none(), nb::kw_only(), nb::arg("name") = nb::none(),
          nb::arg("trainable") = true, nb::arg("dtype") = nb::none(), nb::arg("shape") = nb::none(),
          nb::sig("def __init__(self, initial: ArrayLike | Callable[[], ArrayLike] | None, *, "
                  "name: str | None = None, "
                  "trainable: bool = True, dtype: DTypeLike | None = None, shape: Sequence[int | "
                  "None] | None = None) -> None"),
          "`initial` is a value, or a function that is called when the value is first needed.")
      .def(
          "read", [](const Variable& v) { return wrap(read(v)); },
          nb::sig("def read(self) -> Tensor"),
          "The current value; later assignments do not change it. Recording tapes watch it.")
      .def(
          "assign",
          [](const Variable& v, nb::handle x) {
            return assign(x, [&](const Arg& arg) { return v.assign(arg); });
          },
          nb::arg("x"), nb::sig("def assign(self, x: ArrayLike) -> Tensor"),
          "Replaces the value. Returns the new value.")
      .def(
          "assign_add",
          [](const Variable& v, nb::handle x) {
            return assign(x, [&](const Arg& arg) { return v.assign_add(arg); });
          },
          nb::arg("x"), nb::sig("def assign_add(self, x: ArrayLike) -> Tensor"),
          "Adds to the value. Returns the new value.")
      .def(
          "assign_sub",
          [](const Variable& v, nb::handle x) {
            return assign(x, [&](const Arg& arg) { return v.assign_sub(arg); });
          },
          nb::arg("x"), nb::sig("def assign_sub(self, x: ArrayLike) -> Tensor"),
          "Subtracts from the value. Returns the new value.");
}

void bind_facts(nb::class_<Variable>& type) {
  type.def_prop_ro(
          "at", [](const Variable& v) { return VariableAt{v}; },
          "v.at[index] is a part, which can be updated.")
      .def_prop_ro("name", [](const Variable& v) { return v.name(); })
      .def_prop_ro("trainable", &Variable::trainable)
      .def_prop_ro("initialized", &Variable::initialized)
      .def_prop_ro(
          "dtype", [](const Variable& v) { return dtype_object(v.dtype()); },
          nb::sig("def dtype(self) -> DType"))
      .def_prop_ro(
          "shape", [](const Variable& v) { return shape_tuple(v.shape()); },
          nb::sig("def shape(self) -> tuple[int | None, ...]"))
      .def_prop_ro("ndim", [](const Variable& v) { return v.shape().rank(); })
      .def_prop_ro("device", [](const Variable& v) { return v.device(); })
      .def(
          "ref", [](const Variable& v) { return reinterpret_cast<uintptr_t>(v.ref()); },
          "A hashable identity of the cell.")
      .def(
          "numpy", [](const Variable& v) { return numpy_array(read(v)); },
          "A read-only array of NumPy of the current value.")
      .def("item", [](const Variable& v) { return nb::object(wrap(read(v)).attr("item")()); })
      .def("tolist", [](const Variable& v) { return nb::object(wrap(read(v)).attr("tolist")()); });
}

void bind_conversions(nb::class_<Variable>& type) {
  type.def("__hash__",
           [](const Variable& v) {
             return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(v.ref()) >> 4);
           })
      .def("__getitem__", &get_item, nb::arg("key").none())
      .def("__setitem__", &set_item, nb::arg("key").none(), nb::arg("x"))
      .def("__len__",
           [](const Variable& v) {
             const Shape shape = v.shape();
             if (shape.rank() == 0) throw nb::type_error("a Variable without axes has no length");
             return shape[0];
           })
      .def("__iter__", [](const Variable& v) { return value_as<nb::object>(v, iterate_tensor); })
      .def("__bool__", [](const Variable& v) { return nb::cast<bool>(nb::bool_(wrap(read(v)))); })
      .def("__float__",
           [](const Variable& v) { return value_as<nb::object>(v, tensor_number.nb_float); })
      .def("__int__",
           [](const Variable& v) { return value_as<nb::object>(v, tensor_number.nb_int); })
      .def("__repr__", &Variable::to_string)
      .def(
          "__array__",
          [](const Variable& v, nb::handle dtype, nb::handle copy) {
            return array_protocol(wrap(read(v)), dtype, copy);
          },
          nb::arg("dtype") = nb::none(), nb::kw_only(), nb::arg("copy") = nb::none())
      .def("__reduce__", [](const Variable& v) {
        const nb::object make = nb::module_::import_("etude._rebuild").attr("variable");
        return nb::make_tuple(make, nb::make_tuple(wrap(read(v)), v.name(), v.trainable()));
      });
  type.attr("__array_ufunc__") = nb::none();
}

}  // namespace

bool is_variable(nb::handle object) noexcept { return nb::isinstance<Variable>(object); }
Variable& variable_of(nb::handle object) { return *nb::inst_ptr<Variable>(object); }

void bind_variable(nb::module_& m) {
  bind_parts(m);
  nb::class_<Variable> type(
      m, "Variable", nb::type_slots(slots()), nb::is_weak_referenceable(),
      "A cell that holds a tensor and is shared by reference. Reading returns a snapshot.");
  bind_assignments(type);
  bind_facts(type);
  bind_conversions(type);
}

}  // namespace etude::python
