// SPDX-License-Identifier: Apache-2.0
// The signature of an op's function, from its record: operands and required attributes by position,
// in the order of the C++ function; optional attributes by keyword, as in the Array API standard.
#include <algorithm>
#include <array>
#include <string_view>

#include "etude/core/op/exact_text.h"
#include "python/src/dtype.h"
#include "python/src/op_object.h"
#include "python/src/spelling.h"

namespace etude::python {
namespace {

// Signatures of the Array API standard that differ from the rule above.
struct Form {
  std::string_view op;
  std::string_view parameter;
};
// Optional attributes that may be given by position.
constexpr Form kByPosition[] = {
    {"arange", "stop"},
    {"arange", "step"},
    {"eye", "cols"},
};
// Results whose names differ from the names in the record.
struct Renaming {
  std::string_view op;
  std::string_view result;
  const char* name;
};
constexpr Renaming kRenamings[] = {
    {"linalg.eig", "values", "eigenvalues"},
    {"linalg.eig", "vectors", "eigenvectors"},
    {"linalg.eigh", "values", "eigenvalues"},
    {"linalg.eigh", "vectors", "eigenvectors"},
    {"linalg.qr", "q", "Q"},
    {"linalg.qr", "r", "R"},
    {"linalg.svd", "u", "U"},
    {"linalg.svd", "s", "S"},
    {"linalg.svd", "vh", "Vh"},
};
// Lists of operands as f(a, b).
constexpr std::string_view kSpreading[] = {"broadcast_arrays", "meshgrid", "einsum"};

bool may_be_positional(const Op& op, const AttrDef& def) {
  return std::ranges::any_of(kByPosition, [&](const Form& form) {
    return form.op == op.full_name() && form.parameter == def.name;
  });
}

PyObject* interned(std::string_view name) {
  PyObject* text = PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
  if (text == nullptr) throw nb::python_error();
  PyUnicode_InternInPlace(&text);
  return text;  // never freed
}

// Array functions name operands x, x1, x2, which programs do not use.
bool has_plain_operands(const Op& op) {
  const std::string_view space = op.def().space;
  return space.empty() || space == "linalg" || space == "fft";
}

class Builder {
 public:
  explicit Builder(const Op& op) : op_(op) {}

  Signature make() {
    const auto& operands = op_.def().operands;
    const auto& attrs = op_.def().attrs;
    for (std::size_t i = 0; i < attrs.size(); ++i) {
      if (attrs[i].is_first) add_attr(i, Parameter::Mode::kEither);
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].optional) add_operand(i);
    }
    for (std::size_t i = 0; i < attrs.size(); ++i) {
      if (attrs[i].required && !attrs[i].is_first) add_attr(i, Parameter::Mode::kEither);
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].optional) add_operand(i);
    }
    for (const bool by_position : {true, false}) {
      for (std::size_t i = 0; i < attrs.size(); ++i) {
        if (attrs[i].required || may_be_positional(op_, attrs[i]) != by_position) continue;
        add_attr(i, by_position ? Parameter::Mode::kEither : Parameter::Mode::kKeyword);
      }
    }
    finish();
    return std::move(out_);
  }

 private:
  void add(std::string_view name, bool is_operand, std::size_t index, Parameter::Mode mode,
           bool is_required) {
    if (mode != Parameter::Mode::kKeyword) ++out_.positional;
    if (mode != Parameter::Mode::kKeyword && is_required) ++out_.required;
    out_.parameters.push_back({interned(name), is_operand, index, mode, is_required});
  }

  void add_attr(std::size_t i, Parameter::Mode mode) {
    const AttrDef& def = op_.def().attrs[i];
    add(def.name, false, i, mode, def.required);
  }

  void add_operand(std::size_t i) {
    const OperandDef& def = op_.def().operands[i];
    if (def.variadic) {
      out_.list = static_cast<int>(out_.parameters.size());
      add(def.name, true, i, Parameter::Mode::kList, true);
    } else {
      const bool plain = has_plain_operands(op_) && !def.optional;
      add(def.name, true, i, plain ? Parameter::Mode::kPositional : Parameter::Mode::kEither,
          !def.optional);
    }
  }

  void finish() {
    const auto& operands = op_.def().operands;
    const auto& attrs = op_.def().attrs;
    out_.spreads = std::ranges::find(kSpreading, op_.full_name()) != std::end(kSpreading);
    const bool has_required =
        std::ranges::any_of(attrs, [](const AttrDef& a) { return a.required; });
    const bool all_required = std::ranges::all_of(
        operands, [](const OperandDef& d) { return !d.optional && !d.variadic; });
    const auto& results = op_.def().results;
    const bool is_one = results.size() == 1 && !results[0].ends_with("...");
    if (!has_required && all_required && is_one && (operands.size() == 1 || operands.size() == 2)) {
      out_.plain = operands.size();
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].optional && operands[i].name == "key") out_.key = static_cast<int>(i);
    }
    for (std::size_t i = 0; i < attrs.size(); ++i) {
      if (attrs[i].name == "dropout") out_.dropout = static_cast<int>(i);
    }
    if (out_.dropout < 0) out_.key = -1;
  }

  const Op& op_;
  Signature out_;
};

// The default of an attribute as Python writes it.
std::string default_text(const AttrDef& def) {
  const AttrValue& value = def.default_value;
  if (value.index() == 0) return "None";
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "True" : "False";
  if (const auto* dtype = std::get_if<DType>(&value)) return std::string(name(*dtype));
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    std::string out = "(";
    for (const int64_t i : *ints) out += std::to_string(i) + (ints->size() == 1 ? "," : ", ");
    if (ints->size() > 1) out.resize(out.size() - 2);
    return out + ")";
  }
  return to_string(value);
}

// The default of an attribute as an object.
nb::object default_object(const AttrDef& def) {
  const AttrValue& value = def.default_value;
  if (const auto* flag = std::get_if<bool>(&value)) return nb::bool_(*flag);
  if (const auto* integer = std::get_if<int64_t>(&value)) return nb::int_(*integer);
  if (const auto* real = std::get_if<double>(&value)) return nb::float_(*real);
  if (const auto* dtype = std::get_if<DType>(&value)) return dtype_object(*dtype);
  if (const auto* text = std::get_if<std::string>(&value))
    return nb::str(text->data(), text->size());
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    nb::list list;
    for (const int64_t i : *ints) list.append(i);
    return nb::steal(PyList_AsTuple(list.ptr()));
  }
  return nb::none();
}

const OpObject& self_of(PyObject* self) { return *reinterpret_cast<OpObject*>(self); }

PyObject* text_object(const std::string& text) {
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

// The kinds of attributes as Python types, for stubs.
const char* annotation(AttrKind kind) {
  switch (kind) {
    case AttrKind::kFlag:
      return "bool";
    case AttrKind::kInt:
      return "int";
    case AttrKind::kReal:
      return "float";
    case AttrKind::kDType:
      return "DTypeLike";
    case AttrKind::kInts:
      return "int | Sequence[int]";
    case AttrKind::kReals:
      return "float | Sequence[float]";
    case AttrKind::kText:
      return "str";
    default:
      return "object";
  }
}

std::string annotation(const Op& op, const Parameter& p) {
  if (p.is_operand) {
    const OperandDef& def = op.def().operands[p.index];
    return def.variadic ? "Sequence[ArrayLike]" : def.optional ? "ArrayLike | None" : "ArrayLike";
  }
  const AttrDef& def = op.def().attrs[p.index];
  std::string type = def.name == "device" ? "DeviceLike" : annotation(def.kind);
  if (!def.required && def.default_value.index() == 0) type += " | None";
  return type;
}

// inspect.Signature, for help() and tab completion.
PyObject* signature_of(PyObject* self, void*) {
  return guarded([&] {
    const nb::module_ inspect = nb::module_::import_("inspect");
    const nb::object kind = inspect.attr("Parameter");
    nb::list list;
    const OpObject& object = self_of(self);
    for (const Parameter& p : object.signature->parameters) {
      const char* mode = p.mode == Parameter::Mode::kPositional ? "POSITIONAL_ONLY"
                         : p.mode == Parameter::Mode::kKeyword  ? "KEYWORD_ONLY"
                         : p.mode == Parameter::Mode::kList
                             ? (object.signature->spreads ? "VAR_POSITIONAL" : "POSITIONAL_ONLY")
                             : "POSITIONAL_OR_KEYWORD";
      // A parameter by position before one by position only is by position only, too.
      const bool before = std::any_of(
          &p + 1, object.signature->parameters.data() + object.signature->parameters.size(),
          [](const Parameter& q) {
            return q.mode == Parameter::Mode::kPositional || q.mode == Parameter::Mode::kList;
          });
      if (before) mode = "POSITIONAL_ONLY";
      nb::dict options;
      options["annotation"] = annotation(*object.op, p);
      if (!p.is_required) {
        options["default"] =
            p.is_operand ? nb::none() : default_object(object.op->def().attrs[p.index]);
      }
      list.append(kind(nb::handle(p.name), kind.attr(mode), **options));
    }
    return inspect.attr("Signature")(list).release().ptr();
  });
}

PyObject* doc_of(PyObject* self, void*) {
  return guarded([&] {
    const OpObject& object = self_of(self);
    return text_object(signature_text(*object.op, *object.signature) + "\n\n" +
                       doc_in_python(object.op->def().doc));
  });
}

PyObject* name_of(PyObject* self, void*) {
  return guarded([&] { return text_object(std::string(self_of(self).op->name())); });
}
PyObject* full_name_of(PyObject* self, void*) {
  return guarded([&] { return text_object(self_of(self).op->full_name()); });
}
PyObject* module_name_of(PyObject* self, void*) {
  return guarded([&] {
    const std::string space(self_of(self).op->def().space);
    return text_object(space.empty() ? "etude" : "etude." + space);
  });
}
PyObject* results_names_of(PyObject* self, void*) {
  return guarded([&] {
    nb::list names;
    for (const std::string& name : result_names(*self_of(self).op)) names.append(name);
    return nb::steal(PyList_AsTuple(names.ptr())).release().ptr();
  });
}
// Functions are pickled by their names.
PyObject* reduce(PyObject* self, PyObject*) {
  return guarded([&] {
    const nb::object find = nb::module_::import_("etude._rebuild").attr("op");
    return nb::make_tuple(find, nb::make_tuple(self_of(self).op->full_name().c_str()))
        .release()
        .ptr();
  });
}

}  // namespace

Signature make_signature(const Op& op) { return Builder(op).make(); }

std::vector<std::string> result_names(const Op& op) {
  std::vector<std::string> out;
  for (const std::string_view result : op.def().results) {
    const auto* renamed = std::ranges::find_if(kRenamings, [&](const Renaming& renaming) {
      return renaming.op == op.full_name() && renaming.result == result;
    });
    out.emplace_back(renamed != std::end(kRenamings) ? renamed->name : result);
  }
  return out;
}

std::string signature_text(const Op& op, const Signature& signature) {
  std::string out = std::string(op.name()) + "(";
  bool was_positional = false, has_star = false;
  std::string comma;
  for (const Parameter& p : signature.parameters) {
    const bool positional = p.mode == Parameter::Mode::kPositional ||
                            (p.mode == Parameter::Mode::kList && !signature.spreads);
    if (was_positional && !positional) out += comma + "/", comma = ", ";
    was_positional = positional;
    const bool spread = p.mode == Parameter::Mode::kList && signature.spreads;
    if (p.mode == Parameter::Mode::kKeyword && !has_star)
      out += comma + "*", has_star = true, comma = ", ";
    has_star = has_star || spread;
    out += comma + (spread ? "*" : "") + nb::cast<std::string>(nb::handle(p.name));
    comma = ", ";
    if (!p.is_required)
      out += "=" + (p.is_operand ? "None" : default_text(op.def().attrs[p.index]));
  }
  return out + (was_positional ? comma + "/)" : ")");
}

PyGetSetDef op_properties[] = {
    {"__signature__", signature_of, nullptr, "The signature, as an inspect.Signature.", nullptr},
    {"__doc__", doc_of, nullptr, nullptr, nullptr},
    {"__name__", name_of, nullptr, "The name of the op.", nullptr},
    {"__qualname__", name_of, nullptr, "The name of the op.", nullptr},
    {"__module__", module_name_of, nullptr, "The module of the function.", nullptr},
    {"full_name", full_name_of, nullptr, "The name with its namespace.", nullptr},
    {"results", results_names_of, nullptr, "The names of the results.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyMethodDef op_methods[] = {
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace etude::python
