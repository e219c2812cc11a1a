// SPDX-License-Identifier: Apache-2.0
// Calls of ops from Python.
#include <algorithm>
#include <array>

#include <nanobind/stl/string.h>

#include "etude/core/internal/call.h"
#include "etude/core/op/registry.h"
#include "python/src/attributes.h"
#include "python/src/convert.h"
#include "python/src/op_object.h"
#include "python/src/tensor_object.h"

namespace etude::python {
namespace {

constexpr std::size_t kMostOperands = 12;

// The bytes at which a call of two tensors reads and writes, at most.
int64_t work_of(const Type* x, const Type* y) noexcept {
  const int64_t most = std::max(x->bytes(), y->bytes());
  return x == y || most > kSmallBytes
             ? most
             : most * std::max<int64_t>(std::min(x->count(), y->count()), 1);
}
const Type* type_in(PyObject* tensor) noexcept {
  return TensorAccess::rep(tensor_in(tensor))->type;
}
// Sparse rows and values without elements take the general path: they may compute for long.
bool is_home(PyObject* tensor) noexcept {
  return TensorAccess::has_elements(tensor_in(tensor)) && type_in(tensor)->device().is_home();
}

// A call with all of its arguments as the library takes them.
class Call {
 public:
  Call(const Op& op, const Signature& signature) : op_(op), signature_(signature) {
    if (internal::mode_word != 0) where_ = here();
  }

  void parse(PyObject* const* args, std::size_t given, PyObject* kwnames);
  Values run();

 private:
  const Parameter* find(PyObject* name) const noexcept;
  const Parameter* named(PyObject* name, PyObject* value) const;
  void set(const Parameter& parameter, PyObject* value);
  void set_list(PyObject* const* args, std::size_t count);
  std::string sizes_hint(PyObject* const* args, std::size_t given) const;
  void check_complete();
  void draw_key();
  int64_t work() const;

  const Op& op_;
  const Signature& signature_;
  CallSite where_;
  std::array<Operand, kMostOperands> operands_;
  std::vector<Tensor> list_;
  bool has_list_ = false;
  Attributes attributes_{op_};
  OptionalArg drawn_;
};

[[noreturn]] void refuse(const Op& op, const std::string& text) {
  throw nb::type_error((op.full_name() + "(): " + text).c_str());
}

std::string text_of(PyObject* name) { return nb::cast<std::string>(nb::handle(name)); }

void Call::set(const Parameter& parameter, PyObject* value) {
  if (parameter.mode == Parameter::Mode::kList) {
    set_list(&value, 1);
    return;
  }
  if (!parameter.is_operand) {
    attributes_.set(parameter.index, value);
    return;
  }
  if (!operands_[parameter.index].read(value, where_, !parameter.is_required)) {
    refuse(op_, "operand '" + text_of(parameter.name) + "' is " + kind_text(value) +
                    ", but must be a tensor, a number, an array or a nested list");
  }
}

// The operands of a list: f([a, b]), or f(a, b).
void Call::set_list(PyObject* const* args, std::size_t count) {
  has_list_ = true;
  nb::object items;
  const bool is_list = count == 1 && (PyList_Check(args[0]) || PyTuple_Check(args[0]));
  if (count == 1 && !is_list && as_number(args[0])) {
    refuse(op_, "the operands are " + kind_text(args[0]) + ", but must be a list of tensors");
  }
  if (count == 1 && !is_array_like(args[0])) {
    items = nb::steal(PySequence_Fast(args[0], "a list of tensors is needed"));
    if (!items.is_valid()) {
      PyErr_Clear();
      refuse(op_, "the operands are " + kind_text(args[0]) + ", but must be a list of tensors");
    }
    args = PySequence_Fast_ITEMS(items.ptr());
    count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(items.ptr()));
  } else if (!signature_.spreads && count == 1 && is_array_like(args[0])) {
    // A tensor is the list of its rows.
    items = nb::steal(PySequence_Tuple(args[0]));
    if (!items.is_valid()) throw nb::python_error();
    args = PySequence_Fast_ITEMS(items.ptr());
    count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(items.ptr()));
  }
  for (std::size_t i = 0; i < count; ++i) list_.push_back(as_tensor(args[i]));
}

const Parameter* Call::find(PyObject* name) const noexcept {
  for (const Parameter& parameter : signature_.parameters) {
    if (parameter.name == name) return &parameter;
  }
  for (const Parameter& parameter : signature_.parameters) {  // a name that is not interned
    if (PyUnicode_Compare(parameter.name, name) == 0) return &parameter;
  }
  return nullptr;
}

// Names of parameters in NumPy and PyTorch.
struct OtherName {
  const char* other;
  const char* own;
};
constexpr OtherName kOtherNames[] = {
    {"dim", "axis"},         {"dims", "axis"},
    {"keepdim", "keepdims"}, {"keep_dims", "keepdims"},
    {"ddof", "correction"},  {"pad", "widths"},
    {"pad_width", "widths"}, {"constant_values", "value"},
};

// The parameter of a keyword; null for a keyword without effect. NumPy's functions, such as
// np.sum(x), call the method of the tensor with `out`, `dtype` and `ddof`.
const Parameter* Call::named(PyObject* name, PyObject* value) const {
  if (const Parameter* const found = find(name)) return found;
  const std::string given = text_of(name);
  if (value == Py_None && (given == "out" || given == "dtype")) return nullptr;
  std::string hint;
  for (const OtherName& row : kOtherNames) {
    if (given != row.other) continue;
    const Parameter* const own = find(nb::str(row.own).ptr());
    if (own == nullptr) continue;
    if (given == "ddof") return own;
    hint = "Here it is '" + std::string(row.own) + "'. ";
  }
  if (given == "out") {
    hint = "Tensors are values: write y = " + std::string(op_.name()) + "(...). ";
  } else if (given == "dtype") {
    hint = "Convert the operand first, as with x.astype(dtype). ";
  }
  refuse(op_, "there is no parameter '" + given + "'. " + hint + "The signature is " +
                  signature_text(op_, signature_));
}

// For zeros(2, 3): the sizes of a shape are one argument.
std::string Call::sizes_hint(PyObject* const* args, std::size_t given) const {
  if (signature_.parameters.empty()) return {};
  const Parameter& first = signature_.parameters[0];
  if (first.is_operand || text_of(first.name) != "shape") return {};
  std::string sizes;
  for (std::size_t i = 0; i < given; ++i) {
    if (PyLong_Check(args[i]) == 0) return {};
    sizes += (i > 0 ? ", " : "") + nb::cast<std::string>(nb::str(nb::handle(args[i])));
  }
  return "a shape is one argument: write " + std::string(op_.name()) + "((" + sizes +
         ")). The function ";
}

void Call::parse(PyObject* const* args, std::size_t given, PyObject* kwnames) {
  const auto& parameters = signature_.parameters;
  std::size_t at = 0;
  for (std::size_t p = 0; p < signature_.positional && at < given; ++p) {
    const bool spreads = signature_.list == static_cast<int>(p) && signature_.spreads;
    if (spreads && (given - at > 1 || is_array_like(args[at]))) {
      set_list(args + at, given - at);
      at = given;
    } else {
      set(parameters[p], args[at++]);
    }
  }
  if (at < given) {
    refuse(op_, sizes_hint(args, given) + "takes " + std::to_string(signature_.positional) +
                    " arguments by position, but " + std::to_string(given) +
                    " were given. The signature is " + signature_text(op_, signature_));
  }
  const std::size_t names =
      kwnames != nullptr ? static_cast<std::size_t>(PyTuple_GET_SIZE(kwnames)) : 0;
  for (std::size_t i = 0; i < names; ++i) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, static_cast<Py_ssize_t>(i));
    const Parameter* const parameter = named(name, args[given + i]);
    if (parameter == nullptr) continue;
    const auto place = static_cast<std::size_t>(parameter - parameters.data());
    if (parameter->mode == Parameter::Mode::kPositional) {
      refuse(op_, "'" + text_of(name) + "' is given by position only");
    }
    if (place < given && place < signature_.positional) {
      refuse(op_, "there are two values of '" + text_of(name) + "'");
    }
    set(*parameter, args[given + i]);
  }
  check_complete();
}

void Call::check_complete() {
  for (const Parameter& parameter : signature_.parameters) {
    const bool is_list = parameter.mode == Parameter::Mode::kList;
    const bool is_set = is_list                ? has_list_
                        : parameter.is_operand ? operands_[parameter.index].is_read()
                                               : attributes_.is_set(parameter.index);
    if (is_set) continue;
    if (parameter.is_required && !(is_list && signature_.spreads)) {
      refuse(op_, "'" + text_of(parameter.name) + "' is missing. The signature is " +
                      signature_text(op_, signature_));
    }
    if (parameter.is_operand && !is_list) operands_[parameter.index].set_absent(where_);
  }
}

// As the C++ function: dropout takes the next key of the thread.
void Call::draw_key() {
  if (signature_.key < 0) return;
  Operand& key = operands_[static_cast<std::size_t>(signature_.key)];
  if (key.arg().tensor() == nullptr || key.arg().tensor()->has_value()) return;
  const double probability = attributes_.real(static_cast<std::size_t>(signature_.dropout));
  drawn_ = internal::key_for(OptionalArg(), probability);
  key.set(drawn_, where_);
}

// About the bytes that the call reads and writes; more for a call of another shape than its
// operands.
int64_t Call::work() const {
  int64_t bytes = 4;
  for (const Tensor& x : list_) bytes += TensorAccess::rep(x)->type->bytes();
  const std::size_t arity = op_.is_variadic() ? 0 : op_.arity();
  for (std::size_t i = 0; i < arity; ++i) bytes += operands_[i].bytes();
  if (op_.def().kind == Kind::kElementwise && arity <= 1) return bytes;
  return attributes_.scaled(bytes * (arity > 1 ? bytes / 8 + 1 : 1));
}

Values Call::run() {
  draw_key();
  const auto run = [&]() -> Values {
    if (op_.is_variadic()) {
      std::vector<Tensor> all;
      for (std::size_t i = 0; i + 1 < op_.arity(); ++i) all.push_back(operands_[i].tensor());
      all.insert(all.end(), list_.begin(), list_.end());
      return attributes_.call_list(all, where_);
    }
    std::array<const Arg*, kMostOperands> args;
    const std::size_t arity = op_.arity();
    std::optional<DType> shared;
    for (std::size_t i = 0; i < arity; ++i) {
      const Tensor* tensor = operands_[i].arg().tensor();
      if (tensor != nullptr && tensor->has_value() && !operands_[i].is_complex_number())
        shared = tensor->dtype();
    }
    for (std::size_t i = 0; i < arity; ++i) {
      if (operands_[i].is_complex_number() && shared)
        operands_[i].set_complex_precision(*shared, where_);
      args[i] = &operands_[i].arg();
    }
    return attributes_.call({args.data(), arity}, where_);
  };
  return keeps_gil(work()) ? run() : released(run);
}

// The named tuple of an op with several results; null for the others. Made for the first call.
PyObject* result_type_of(OpObject& object) {
  if (object.result_type != nullptr || object.op->def().results.size() <= 1) {
    return object.result_type;
  }
  nb::list names;
  for (const std::string& name : result_names(*object.op)) names.append(name);
  const nb::object make = nb::module_::import_("etude._rebuild").attr("result_class");
  nb::object made = make(object.op->full_name().c_str(), nb::tuple(names));
  // Another thread may have made it meanwhile; both got the same class.
  if (object.result_type == nullptr) object.result_type = made.release().ptr();
  return object.result_type;
}

PyObject* call_op(PyObject* self, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) {
  auto& object = *reinterpret_cast<OpObject*>(self);
  const Op& op = *object.op;
  const auto given = static_cast<std::size_t>(PyVectorcall_NARGS(nargsf));
  if (kwnames == nullptr && given == object.signature->plain) {
    if (given == 1 && is_tensor_object(args[0])) return call_unary(op, args[0]);
    if (given == 2 && is_tensor_object(args[0]) && is_tensor_object(args[1])) {
      return call_binary(op, args[0], args[1]);
    }
  }
  return guarded([&] {
    Call call(op, *object.signature);
    call.parse(args, given, kwnames);
    const bool is_one = op.def().results.size() == 1 && !op.def().results[0].ends_with("...");
    return results_of(call.run(), result_type_of(object), is_one);
  });
}

void deallocate(PyObject* self) {
  auto* object = reinterpret_cast<OpObject*>(self);
  delete object->signature;
  Py_XDECREF(object->result_type);
  PyObject_Free(self);
}

PyObject* represent(PyObject* self) {
  return guarded([&] {
    const std::string text = "<op " + reinterpret_cast<OpObject*>(self)->op->full_name() + ">";
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  });
}

// As a method, the function gets the tensor as its first operand.
PyObject* bind_method(PyObject* self, PyObject* instance, PyObject*) {
  if (instance == nullptr || instance == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, instance);
}

PyTypeObject make_type() noexcept {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "etude.Op";
  type.tp_basicsize = sizeof(OpObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
  type.tp_doc = "An op of the library: a function of tensors, numbers, arrays and nested lists.";
  type.tp_vectorcall_offset = offsetof(OpObject, vectorcall);
  type.tp_call = PyVectorcall_Call;
  type.tp_dealloc = deallocate;
  type.tp_repr = represent;
  type.tp_descr_get = bind_method;
  type.tp_getset = op_properties;
  type.tp_methods = op_methods;
  return type;
}

nb::object make_op(const Op& op) {
  auto* object = PyObject_New(OpObject, &op_type);
  if (object == nullptr) throw nb::python_error();
  object->vectorcall = call_op;
  object->op = &op;
  object->signature = nullptr;
  object->result_type = nullptr;
  nb::object made = nb::steal(reinterpret_cast<PyObject*>(object));
  object->signature = new Signature(make_signature(op));
  return made;
}

// The functions that are methods of a tensor as well: their first operand is x, and Tensor has
// nothing else by their name.
nb::list method_names(const nb::module_& m) {
  nb::list out;
  for (const Op* op : Registry::global().ops()) {
    const auto& operands = op->def().operands;
    const bool takes_x =
        !operands.empty() && operands[0].name == "x" && !operands[0].optional && !op->is_variadic();
    const bool is_first =
        std::ranges::none_of(op->def().attrs, [](const AttrDef& a) { return a.is_first; });
    const std::string name(op->name());
    if (!op->def().space.empty() || !takes_x || !is_first) continue;
    if (Py_TYPE(nb::object(m.attr(name.c_str())).ptr()) != &op_type) continue;
    if (PyDict_GetItemString(tensor_type.tp_dict, name.c_str()) == nullptr) out.append(name);
  }
  return out;
}

// The module of a namespace of the library, such as etude.nn.
nb::module_ module_of(nb::module_& m, std::string_view space) {
  const std::string name(space);
  if (nb::hasattr(m, name.c_str())) return nb::cast<nb::module_>(m.attr(name.c_str()));
  nb::module_ made = nb::steal<nb::module_>(PyModule_New(("etude." + name).c_str()));
  m.attr(name.c_str()) = made;
  nb::module_::import_("sys").attr("modules")[("etude." + name).c_str()] = made;
  return made;
}

}  // namespace

PyTypeObject op_type = make_type();

PyObject* results_of(Values values, PyObject* result_type, bool is_one) {
  if (is_one) return new_tensor(std::move(values[0]));
  const auto size = static_cast<Py_ssize_t>(values.size());
  const bool is_named = result_type != nullptr;
  auto* const type = reinterpret_cast<PyTypeObject*>(result_type);
  nb::object out = nb::steal(is_named ? type->tp_alloc(type, size) : PyTuple_New(size));
  if (!out.is_valid()) throw nb::python_error();
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = new_tensor(std::move(values[static_cast<std::size_t>(i)]));
    if (item == nullptr) throw nb::python_error();
    PyTuple_SET_ITEM(out.ptr(), i, item);  // a named tuple is a tuple without fields of its own
  }
  return out.release().ptr();
}

PyObject* call_unary(const Op& op, PyObject* x) noexcept {
  return guarded([&]() -> PyObject* {
    if (is_tensor_object(x) && is_home(x) && keeps_gil(type_in(x)->bytes())) {
      return new_tensor(internal::call1(op, Arg(tensor_in(x), CallSite{})));
    }
    const CallSite where = internal::mode_word != 0 ? here() : CallSite{};
    Operand operand;
    if (!operand.read(x, where, false)) Py_RETURN_NOTIMPLEMENTED;
    return new_tensor(released([&] { return internal::call1(op, operand.arg()); }));
  });
}

PyObject* call_binary(const Op& op, PyObject* x, PyObject* y) noexcept {
  return guarded([&]() -> PyObject* {
    if (is_tensor_object(x) && is_tensor_object(y) && is_home(x) && is_home(y) &&
        keeps_gil(work_of(type_in(x), type_in(y)))) {
      return new_tensor(
          internal::call2(op, Arg(tensor_in(x), CallSite{}), Arg(tensor_in(y), CallSite{})));
    }
    const CallSite where = internal::mode_word != 0 ? here() : CallSite{};
    if (!op.def().attrs.empty() &&
        (as_number(x) || as_number(y))) {  // numbers adapt to no attributes
      const Tensor p = make_new_tensor(x, {}), q = make_new_tensor(y, {});
      if (!p.has_value() || !q.has_value()) Py_RETURN_NOTIMPLEMENTED;
      return new_tensor(
          released([&] { return internal::call2(op, Arg(p, where), Arg(q, where)); }));
    }
    Operand a, b;
    if (!a.read(x, where, false) || !b.read(y, where, false)) Py_RETURN_NOTIMPLEMENTED;
    if (a.is_complex_number()) a.set_complex_precision(b.tensor().dtype(), where);
    if (b.is_complex_number()) b.set_complex_precision(a.tensor().dtype(), where);
    const auto run = [&] { return internal::call2(op, a.arg(), b.arg()); };
    const int64_t bytes = a.bytes() * (b.bytes() / 8 + 1) + b.bytes();
    return new_tensor(keeps_gil(bytes) ? run() : released(run));
  });
}

void bind_ops(nb::module_& m) {
  if (PyType_Ready(&op_type) < 0) throw nb::python_error();
  m.attr("Op") = nb::handle(reinterpret_cast<PyObject*>(&op_type));
  nb::dict names;
  for (const Op* op : Registry::global().ops()) {
    if (op->def().space == "internal") continue;
    nb::object made = make_op(*op);
    nb::module_ module = op->def().space.empty() ? m : module_of(m, op->def().space);
    const std::string name(op->name());
    if (!nb::hasattr(module, name.c_str())) module.attr(name.c_str()) = made;
    names[op->full_name().c_str()] = made;
  }
  m.attr("_ops") = names;  // by full name
  m.attr("_method_names") = method_names(m);
  m.def(
      "_add_methods",
      [](const nb::dict& functions) {
        for (const auto& [name, function] : functions) {
          if (PyDict_SetItem(tensor_type.tp_dict, name.ptr(), function.ptr()) < 0)
            throw nb::python_error();
        }
        PyType_Modified(&tensor_type);
      },
      "Makes functions methods of Tensor.");
}

}  // namespace etude::python
