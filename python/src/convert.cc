// SPDX-License-Identifier: Apache-2.0
#include "python/src/convert.h"

#include <vector>

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/context/ambient.h"
#include "etude/core/context/device_scope.h"
#include "etude/core/context/pending.h"
#include "etude/core/create.h"
#include "etude/core/internal/convert.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/literal_reader.h"
#include "python/src/numpy.h"
#include "python/src/tensor_object.h"

namespace etude::python {
namespace {

HostNumber integer_of(nb::handle object) {
  HostNumber out;
  int overflow = 0;
  out.integer = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
  if (overflow == 0) return out;
  out.unsigned_integer = PyLong_AsUnsignedLongLong(object.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw Error(ErrorCode::kInvalidArgument,
                "the integer " + nb::cast<std::string>(nb::str(object)) + " has more than 64 bits");
  }
  out.kind = HostNumber::Kind::kUnsigned;
  return out;
}

[[noreturn]] void refuse_range(const std::string& number, DType dtype) {
  throw Error(ErrorCode::kInvalidArgument,
              "the number " + number + " is outside the range of " + std::string(name(dtype)) +
                  ". Give a wider dtype, or cast a tensor with astype, which wraps");
}

// Numbers of Python do not wrap, as in arithmetic.
void require_range(int64_t number, DType dtype) {
  if (!is_integer(dtype) || dtype == kInt64) return;
  int64_t round_trip = number;
  if (dtype != kUInt64) {
    char element[sizeof(int64_t)];
    internal::convert_elements(element, dtype, &number, kInt64, 1);
    internal::convert_elements(&round_trip, kInt64, element, dtype, 1);
  }
  if (round_trip != number || (dtype == kUInt64 && number < 0)) {
    refuse_range(std::to_string(number), dtype);
  }
}

void require_range(uint64_t number, DType dtype) {
  if (static_cast<int64_t>(number) >= 0) return require_range(static_cast<int64_t>(number), dtype);
  if (is_integer(dtype) && dtype != kUInt64) refuse_range(std::to_string(number), dtype);
}

bool is_sequence(nb::handle object) noexcept {
  return PyList_Check(object.ptr()) || PyTuple_Check(object.ptr());
}

// The leaves of nested lists, and their shape. Items that are tensors or arrays are stacked.
class ListReader {
 public:
  void read(nb::handle list, int level) {
    const nb::object items = nb::steal(PySequence_Fast(list.ptr(), ""));
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(items.ptr());
    internal::enter_list(shape, level, static_cast<std::size_t>(size), "");
    for (Py_ssize_t i = 0; i < size; ++i) {
      const nb::handle item = PySequence_Fast_GET_ITEM(items.ptr(), i);
      const bool is_list = is_sequence(item);
      if (depth_ < 0 && !is_list) depth_ = level + 1;
      ETUDE_REQUIRE(is_list == (depth_ < 0 || level + 1 < depth_),
                    "the nesting is not rectangular: level {} mixes numbers and lists. Make all "
                    "items of a level lists, or all of them numbers",
                    level);
      if (is_list) {
        read(item, level + 1);
      } else {
        add(item);
      }
    }
  }

  DType dtype() const {
    if (any_complex_) return kComplex64;
    if (any_real_ || count() == 0) return ambient().default_dtype;
    if (!any_integer_) return kBool;
    return any_unsigned_ ? kUInt64 : any_wide_ ? kInt64 : kInt32;
  }

  // Whether an item is no number: then the list is stacked.
  bool has_arrays() const noexcept { return has_arrays_; }

  Tensor make(DType dtype) const {
    Tensor out = internal::make_tensor(intern_type(dtype, shape));
    void* to = internal::new_host_elements(out);
    const auto n = static_cast<int64_t>(count());
    if (any_complex_) {
      std::vector<std::complex<double>> values(reals_.size());
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = {reals_[i], imags_[i]};
      ETUDE_REQUIRE(is_complex(dtype), "complex numbers do not convert to {}", name(dtype));
      internal::convert_elements(to, dtype, values.data(), kComplex128, n);
    } else if (any_real_ && !is_integer(dtype)) {
      internal::convert_elements(to, dtype, reals_.data(), kFloat64, n);
    } else if (any_real_) {
      internal::convert_elements(to, dtype, reals_.data(), kFloat64, n);
    } else if (any_unsigned_) {
      if (negative_) refuse_range(std::to_string(*negative_), kUInt64);
      std::vector<uint64_t> values(integers_.begin(), integers_.end());
      for (const uint64_t value : values) require_range(value, dtype);
      internal::convert_elements(to, dtype, values.data(), kUInt64, n);
    } else {
      for (const int64_t value : integers_) require_range(value, dtype);
      internal::convert_elements(to, dtype, integers_.data(), kInt64, n);
    }
    return out;
  }

  Shape shape;

 private:
  std::size_t count() const noexcept { return std::max(reals_.size(), integers_.size()); }

  // Until the first real number the leaves are integers; then all of them are real.
  void make_real() {
    if (any_real_) return;
    any_real_ = true;
    reals_.assign(integers_.begin(), integers_.end());
    integers_.clear();
  }
  void add_real(double value) {
    make_real();
    reals_.push_back(value);
    if (any_complex_) imags_.push_back(0);
  }

  void add(nb::handle item) {
    if (PyFloat_CheckExact(item.ptr())) {
      add_real(PyFloat_AS_DOUBLE(item.ptr()));
      return;
    }
    const std::optional<HostNumber> number = as_number(item);
    if (!number) {
      has_arrays_ = true;
      return;
    }
    switch (number->kind) {
      case HostNumber::Kind::kReal:
        add_real(number->real);
        return;
      case HostNumber::Kind::kComplex:
        make_real();
        imags_.resize(reals_.size(), 0);
        any_complex_ = true;
        reals_.push_back(number->real);
        imags_.push_back(number->imag);
        return;
      case HostNumber::Kind::kUnsigned:
        any_unsigned_ = true;
        add_integer(static_cast<int64_t>(number->unsigned_integer),
                    static_cast<double>(number->unsigned_integer));
        return;
      case HostNumber::Kind::kInteger:
        any_integer_ = true;
        any_wide_ = any_wide_ || number->integer != static_cast<int32_t>(number->integer);
        if (number->integer < 0) negative_ = number->integer;
        break;
      case HostNumber::Kind::kBool:
        break;
    }
    add_integer(number->integer, static_cast<double>(number->integer));
  }
  void add_integer(int64_t integer, double real) {
    if (any_unsigned_) any_integer_ = true;
    if (any_real_) {
      add_real(real);
    } else {
      integers_.push_back(integer);
    }
  }

  int depth_ = -1;
  std::vector<int64_t> integers_;
  std::vector<double> reals_, imags_;
  std::optional<int64_t> negative_;  // an integer that uint64 does not hold
  bool any_integer_ = false, any_real_ = false, any_complex_ = false, any_unsigned_ = false,
       any_wide_ = false, has_arrays_ = false;
};

// A list with tensors or arrays among its items, as a stack of them.
Tensor stack_items(nb::handle list) {
  const nb::object items = nb::steal(PySequence_Fast(list.ptr(), ""));
  std::vector<Tensor> parts;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.ptr()); ++i) {
    parts.push_back(as_tensor(PySequence_Fast_GET_ITEM(items.ptr(), i)));
  }
  return internal::stack(parts, 0, internal::mode_word != 0 ? here() : CallSite{});
}

Tensor tensor_of_list(nb::handle list, std::optional<DType> dtype) {
  ListReader reader;
  reader.read(list, 0);
  if (!reader.has_arrays()) return reader.make(dtype.value_or(reader.dtype()));
  return stack_items(list);
}

// A tensor or an array with elements, after the conversions of the options.
Tensor with_options(Tensor x, const NewTensor& how) {
  const CallSite where = internal::mode_word != 0 ? here() : CallSite{};
  if (how.dtype && *how.dtype != x.dtype()) {
    ETUDE_REQUIRE(how.copy != false,
                  "asarray: {} elements become {} only by a copy. Leave out copy=False",
                  name(x.dtype()), name(*how.dtype));
    x = internal::cast(x, *how.dtype, where);
  }
  if (how.device && *how.device != x.device()) {
    ETUDE_REQUIRE(how.copy != false,
                  "asarray: the elements move to {} only by a copy. Leave out copy=False",
                  how.device->to_string());
    x = x.to(*how.device, where);
  }
  return x;
}

// New tensors are made on the device of the scope, unless memory is shared.
NewTensor in_scope(const NewTensor& how) {
  NewTensor out = how;
  const bool has_scope = (internal::mode_word & internal::kModeDevice) != 0;
  if (has_scope && !how.device && how.copy != false) out.device = current_device(CallSite{});
  return out;
}

}  // namespace

std::string type_text(nb::handle object) {
  const nb::handle type(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())));
  const std::string name = nb::cast<std::string>(type.attr("__qualname__"));
  const nb::object module = type.attr("__module__");
  const std::string from = PyUnicode_Check(module.ptr()) ? nb::cast<std::string>(module) : "";
  return from.empty() || from == "builtins" ? name : from + "." + name;
}

std::string kind_text(nb::handle object) {
  if (object.is_none()) return "None";
  const std::string type = type_text(object);
  const bool has_vowel = std::string_view("aeiouAEIOU").find(type[0]) != std::string_view::npos;
  return (has_vowel ? "an " : "a ") + type;
}

bool is_traced(nb::handle object) {
  return is_tensor(object) && tensor_of(object).has_value() &&
         TensorAccess::is_abstract(tensor_of(object)) && !internal::is_unrun(tensor_of(object));
}

Shape open_shape(nb::handle sizes, std::string_view what) {
  Shape out;
  const auto add = [&](nb::handle size) {
    if (size.is_none()) return out.push_back(kAny);
    const auto given = nb::cast<int64_t>(size);
    ETUDE_REQUIRE(given >= 0,
                  "{} has the size {}, but a size is at least 0, and None is an open size", what,
                  given);
    out.push_back(given);
  };
  if (PyLong_Check(sizes.ptr()) != 0) {
    add(sizes);
  } else {
    for (const nb::handle size : sizes) add(size);
  }
  return out;
}

std::optional<HostNumber> as_number(nb::handle object) {
  PyObject* o = object.ptr();
  HostNumber out;
  if (PyBool_Check(o)) {
    out.kind = HostNumber::Kind::kBool;
    out.integer = o == Py_True ? 1 : 0;
    return out;
  }
  if (PyFloat_Check(o)) {
    out.kind = HostNumber::Kind::kReal;
    out.real = PyFloat_AS_DOUBLE(o);
    return out;
  }
  if (PyLong_Check(o)) return integer_of(object);
  if (PyComplex_Check(o)) {
    out.kind = HostNumber::Kind::kComplex;
    out.real = PyComplex_RealAsDouble(o);
    out.imag = PyComplex_ImagAsDouble(o);
    return out;
  }
  if (!is_numpy_scalar(object)) return {};
  const nb::object item = object.attr("item")();  // a number of Python
  if (is_numpy_scalar(item)) return {};
  return as_number(item);
}

Tensor tensor_of_number(const HostNumber& number, std::optional<DType> dtype) {
  TensorOptions options;
  options.dtype = dtype;
  switch (number.kind) {
    case HostNumber::Kind::kBool:
      options.dtype = dtype.value_or(kBool);
      return internal::tensor_from_host(&number.integer, kInt64, 1, {}, options, {});
    case HostNumber::Kind::kInteger: {
      const bool wide = number.integer != static_cast<int32_t>(number.integer);
      options.dtype = dtype.value_or(wide ? kInt64 : kInt32);
      require_range(number.integer, *options.dtype);
      return internal::tensor_from_host(&number.integer, kInt64, 1, {}, options, {});
    }
    case HostNumber::Kind::kUnsigned:
      options.dtype = dtype.value_or(kUInt64);
      require_range(number.unsigned_integer, *options.dtype);
      return internal::tensor_from_host(&number.unsigned_integer, kUInt64, 1, {}, options, {});
    case HostNumber::Kind::kReal:
      options.dtype = dtype.value_or(ambient().default_dtype);
      return internal::tensor_from_host(&number.real, kFloat64, 1, {}, options, {});
    case HostNumber::Kind::kComplex:
      break;
  }
  options.dtype = dtype.value_or(kComplex64);
  ETUDE_REQUIRE(is_complex(*options.dtype), "a complex number does not convert to {}",
                name(*options.dtype));
  const std::complex<double> value(number.real, number.imag);
  return internal::tensor_from_host(&value, kComplex128, 1, {}, options, {});
}

bool is_array_like(nb::handle object) noexcept {
  PyObject* o = object.ptr();
  if (is_tensor_object(o) || is_variable(object)) return true;
  if (PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o)) return true;  // bool is an int
  if (PyList_Check(o) || PyTuple_Check(o) || PyDict_Check(o) || PyUnicode_Check(o)) return false;
  return is_numpy_scalar(object) || is_foreign_array(object);
}

Tensor make_new_tensor(nb::handle object, const NewTensor& how) {
  if (is_tensor(object)) return with_options(tensor_of(object), how);
  if (is_variable(object))
    return with_options(with_user_line_released([&] { return variable_of(object).read(); }), how);
  const std::optional<HostNumber> number =
      is_numpy_scalar(object) ? std::nullopt : as_number(object);
  if (number || is_sequence(object)) {
    ETUDE_REQUIRE(how.copy != false,
                  "asarray: a {} becomes a tensor only by a copy. Leave out copy=False",
                  type_text(object));
    return with_options(
        number ? tensor_of_number(*number, how.dtype) : tensor_of_list(object, how.dtype),
        in_scope(how));
  }
  Tensor out = tensor_of_array(object, how.copy);
  return out.has_value() ? with_options(std::move(out), in_scope(how)) : out;
}

std::string needed_text(nb::handle object) {
  std::string out = "a tensor, a number, an array or a nested list is needed, but " +
                    kind_text(object) + " was given";
  if (object.is_none()) out += ". Does the function that made it return its value?";
  return out;
}

Tensor as_tensor(nb::handle object) {
  Tensor out = make_new_tensor(object, {});
  if (out.has_value()) return out;
  throw nb::type_error(needed_text(object).c_str());
}

bool Operand::read(nb::handle object, CallSite where, bool allows_none) {
  PyObject* o = object.ptr();
  if (is_tensor_object(o)) {
    arg_.emplace(tensor_in(o), where);
    return true;
  }
  if (o == Py_None) {
    if (allows_none) set_absent(where);
    return allows_none;
  }
  if (PyFloat_CheckExact(o)) {
    arg_.emplace(PyFloat_AS_DOUBLE(o), where);
    return true;
  }
  if (const std::optional<HostNumber> number = as_number(object)) {
    switch (number->kind) {
      case HostNumber::Kind::kBool:
        arg_.emplace(number->integer != 0, where);
        return true;
      case HostNumber::Kind::kInteger:
        arg_.emplace(number->integer, where);
        return true;
      case HostNumber::Kind::kReal:
        arg_.emplace(number->real, where);
        return true;
      case HostNumber::Kind::kComplex:
        is_complex_number_ = true;
        number_ = *number;
        [[fallthrough]];
      case HostNumber::Kind::kUnsigned:
        held_ = tensor_of_number(*number);
    }
  } else {
    held_ = make_new_tensor(object, {});
    if (!held_.has_value()) return false;
  }
  arg_.emplace(held_, where);
  return true;
}

void Operand::set_complex_precision(DType dtype, CallSite where) {
  const bool wide = dtype == kFloat64 || dtype == kComplex128;
  held_ = tensor_of_number(number_, wide ? kComplex128 : kComplex64);
  arg_.emplace(held_, where);
}

}  // namespace etude::python
