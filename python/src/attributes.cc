// SPDX-License-Identifier: Apache-2.0
#include "python/src/attributes.h"

#include <algorithm>
#include <utility>

#include "etude/base/check.h"
#include "etude/core/internal/call.h"
#include "python/src/convert.h"
#include "python/src/dtype.h"

namespace etude::python {
namespace {

const char* needed_kind(AttrKind kind) {
  switch (kind) {
    case AttrKind::kFlag:
      return "a bool";
    case AttrKind::kInt:
      return "an int";
    case AttrKind::kReal:
      return "a number";
    case AttrKind::kInts:
      return "an int or a sequence of ints";
    case AttrKind::kReals:
      return "a sequence of numbers";
    case AttrKind::kText:
      return "a str";
    default:
      return "an object of the library";
  }
}

[[noreturn]] void refuse(const Op& op, std::size_t i, nb::handle value) {
  const AttrDef& def = op.def().attrs[i];
  const std::string text = op.full_name() + "(): '" + std::string(def.name) + "' is " +
                           kind_text(value) + ", but must be " + needed_kind(def.kind);
  throw nb::type_error(text.c_str());
}

// Options are fixed in a graph, so that a tensor of it is none.
void require_known(const Op& op, std::size_t i, nb::handle value) {
  const auto require = [&](nb::handle x) {
    ETUDE_REQUIRE_CODE(
        kFailedPrecondition, !is_traced(x),
        "{}(): '{}' is a tensor whose value is not known yet, since a function is being traced or "
        "batched, but sizes and options are fixed in a graph. Pass a number or a size, such as "
        "x.shape[0], or make the longest result and mask it with et.where",
        op.full_name(), op.def().attrs[i].name);
  };
  require(value);
  if (PyList_Check(value.ptr()) == 0 && PyTuple_Check(value.ptr()) == 0) return;
  for (const nb::handle item : value) require(item);
}

// An int, or an object with __index__, such as an integer of NumPy or a tensor of one integer.
std::optional<int64_t> as_int(nb::handle value) {
  if (!PyIndex_Check(value.ptr())) return {};
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  int overflow = 0;
  const int64_t out = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "the integer " + nb::cast<std::string>(nb::str(number)) + " has more than 64 bits");
  }
  return out;
}

std::optional<double> as_real(nb::handle value) {
  if (PyFloat_CheckExact(value.ptr())) return PyFloat_AS_DOUBLE(value.ptr());
  if (PyComplex_Check(value.ptr()) || PyUnicode_Check(value.ptr())) return {};
  const double out = PyFloat_AsDouble(value.ptr());
  if (out == -1.0 && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
    PyErr_Clear();
    return {};
  }
  return out;
}

template <class F, std::size_t... I>
Values spread(const std::array<AttrView, Attributes::kMost>& v, const F& f,
              std::index_sequence<I...>) {
  return f(std::initializer_list<AttrView>{v[I]...});
}

// Calls f with the first n views as the list that the library takes.
template <class F>
Values with_list(const std::array<AttrView, Attributes::kMost>& v, std::size_t n, const F& f) {
  switch (n) {
    case 0:
      return f(std::initializer_list<AttrView>{});
    case 1:
      return spread(v, f, std::make_index_sequence<1>());
    case 2:
      return spread(v, f, std::make_index_sequence<2>());
    case 3:
      return spread(v, f, std::make_index_sequence<3>());
    case 4:
      return spread(v, f, std::make_index_sequence<4>());
    case 5:
      return spread(v, f, std::make_index_sequence<5>());
    case 6:
      return spread(v, f, std::make_index_sequence<6>());
    case 7:
      return spread(v, f, std::make_index_sequence<7>());
    case 8:
      return spread(v, f, std::make_index_sequence<8>());
    case 9:
      return spread(v, f, std::make_index_sequence<9>());
    default:
      return spread(v, f, std::make_index_sequence<10>());
  }
}

}  // namespace

void Attributes::scale_by(int64_t size) noexcept {
  const int64_t by = std::clamp<int64_t>(size < 0 ? -size : size, 1, kSmallBytes + 1);
  scale_ = std::min(scale_ * by, kSmallBytes + 1);
}

void Attributes::set_ints(std::size_t i, nb::handle value) {
  std::vector<int64_t> list;
  if (const std::optional<int64_t> one = as_int(value)) {
    list.push_back(*one);
  } else {
    const nb::object items = nb::steal(PySequence_Fast(value.ptr(), ""));
    if (!items.is_valid()) {
      PyErr_Clear();
      refuse(op_, i, value);
    }
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(items.ptr());
    list.reserve(static_cast<std::size_t>(size));
    for (Py_ssize_t k = 0; k < size; ++k) {
      const std::optional<int64_t> one = as_int(PySequence_Fast_GET_ITEM(items.ptr(), k));
      if (!one) refuse(op_, i, value);
      list.push_back(*one);
    }
  }
  for (const int64_t size : list) scale_by(size);
  views_[i] = AttrView(ints_.emplace_back(std::move(list)));
}

void Attributes::set_reals(std::size_t i, nb::handle value) {
  std::vector<double> list;
  if (const std::optional<double> one = as_real(value)) {
    list.push_back(*one);
  } else {
    const nb::object items = nb::steal(PySequence_Fast(value.ptr(), ""));
    if (!items.is_valid()) {
      PyErr_Clear();
      refuse(op_, i, value);
    }
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(items.ptr()); ++k) {
      const std::optional<double> one = as_real(PySequence_Fast_GET_ITEM(items.ptr(), k));
      if (!one) refuse(op_, i, value);
      list.push_back(*one);
    }
  }
  views_[i] = AttrView(reals_.emplace_back(std::move(list)));
}

void Attributes::set(std::size_t i, nb::handle value) {
  try {
    read(i, value);
  } catch (const nb::python_error&) {
    require_known(op_, i, value);
    throw;
  }
}

void Attributes::read(std::size_t i, nb::handle value) {
  const AttrDef& def = op_.def().attrs[i];
  if (value.is_none()) {  // the default
    if (def.required) refuse(op_, i, value);
    return;
  }
  set_ |= uint32_t{1} << i;
  switch (def.kind) {
    case AttrKind::kFlag: {
      const int truth = PyBool_Check(value.ptr()) ? value.ptr() == Py_True : -1;
      if (truth < 0 && !as_int(value)) refuse(op_, i, value);
      views_[i] = AttrView(truth >= 0 ? truth == 1 : *as_int(value) != 0);
      return;
    }
    case AttrKind::kInt: {
      const std::optional<int64_t> number = as_int(value);
      if (!number) refuse(op_, i, value);
      scale_by(*number);
      views_[i] = AttrView(*number);
      return;
    }
    case AttrKind::kReal: {
      const std::optional<double> number = as_real(value);
      if (!number) refuse(op_, i, value);
      numbers_[i] = *number;
      views_[i] = AttrView(*number);
      return;
    }
    case AttrKind::kDType:
      views_[i] = AttrView(as_dtype(value, std::string(def.name).c_str()));
      return;
    case AttrKind::kInts:
      set_ints(i, value);
      return;
    case AttrKind::kReals:
      set_reals(i, value);
      return;
    case AttrKind::kText: {
      nb::object text = nb::borrow(value);
      if (def.name == "device" && !PyUnicode_Check(value.ptr())) {
        texts_.reserve(kMost);
        views_[i] = AttrView(texts_.emplace_back(as_device(value).to_string()));
        return;
      }
      Py_ssize_t size = 0;
      const char* bytes =
          PyUnicode_Check(value.ptr()) ? PyUnicode_AsUTF8AndSize(value.ptr(), &size) : nullptr;
      if (bytes == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
      if (bytes == nullptr) refuse(op_, i, value);
      views_[i] = AttrView(std::string_view(bytes, static_cast<std::size_t>(size)));
      return;
    }
    default:
      refuse(op_, i, value);
  }
}

double Attributes::real(std::size_t i) const {
  if (is_set(i)) return numbers_[i];
  const auto* number = std::get_if<double>(&op_.def().attrs[i].default_value);
  return number != nullptr ? *number : 0;
}

Values Attributes::call(std::span<const Arg* const> args, CallSite where) const {
  return with_list(views_, op_.def().attrs.size(), [&](std::initializer_list<AttrView> list) {
    return internal::call(op_, args, list, where);
  });
}

Values Attributes::call_list(std::span<const Tensor> operands, CallSite where) const {
  return with_list(views_, op_.def().attrs.size(), [&](std::initializer_list<AttrView> list) {
    return internal::call_list(op_, operands, list, where);
  });
}

}  // namespace etude::python
