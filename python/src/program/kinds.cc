// SPDX-License-Identifier: Apache-2.0
// Kinds of the library for Python: descriptions for the classes and functions of the package, and
// objects of kinds.
#include "etude/kinds/kinds.h"

#include <utility>

#include <nanobind/stl/string.h>

#include "etude/base/check.h"
#include "etude/nn/metrics/metric.h"
#include "python/src/dtype.h"
#include "python/src/program/held.h"
#include "python/src/program/layers.h"
#include "python/src/program/optimizers.h"
#include "python/src/spelling.h"

namespace etude::python {
namespace {

nb::object text(std::string_view value) { return nb::str(value.data(), value.size()); }

// The default of a parameter; an object is its text.
nb::object default_of(const kinds::Value& value) {
  using Form = kinds::Value::Form;
  switch (value.form()) {
    case Form::kNone:
      return nb::none();
    case Form::kBool:
      return nb::bool_(value.flag());
    case Form::kInt:
      return nb::int_(value.integer());
    case Form::kReal:
      return nb::float_(value.real());
    case Form::kText:
      return text(value.text());
    case Form::kDType:
      return dtype_object(value.dtype());
    case Form::kList: {
      nb::list out;
      for (const kinds::Value& each : value.list()) out.append(default_of(each));
      return nb::tuple(out);
    }
    default:
      return text(value.to_string());
  }
}

nb::list all_kinds() {
  nb::list out;
  for (const kinds::Kind& kind : kinds::all()) {
    nb::list parameters;
    for (const kinds::Parameter& p : kind.parameters) {
      nb::dict described;
      described["name"] = text(p.name);
      described["type"] = text(p.type.to_string());
      described["required"] = p.is_required;
      described["default"] = p.is_required ? nb::none() : default_of(p.default_value);
      described["doc"] = text(doc_in_python(p.doc));
      described["range"] = text(p.range_text());
      parameters.append(described);
    }
    nb::dict described;
    described["name"] = text(kind.name);
    described["group"] = text(kinds::name(kind.group));
    described["doc"] = text(doc_in_python(kind.doc));
    described["signature"] = text(kind.signature());
    described["positional"] = kind.positional;
    described["parameters"] = parameters;
    out.append(described);
  }
  return out;
}

// A callable of the program as an activation.
kinds::Made activation_of(nb::handle callable) {
  const SharedObject shared = share(callable);
  return kinds::Made::host(nn::Activation([shared](const Tensor& x) {
    return with_gil([&] { return as_tensor(shared->get()(wrap(x))); });
  }));
}

nb::object call_loss(const KindObject& loss, nb::handle predicted, nb::handle expected,
                     nb::handle third) {
  const Tensor p = as_tensor(predicted), e = as_tensor(expected);
  const Tensor t = third.is_none() ? Tensor() : as_tensor(third);
  const CallSite where = here();
  return wrap(with_user_line_released([&] {
    if (loss.made.is<kinds::TripleLoss>()) {
      return loss.made.as<kinds::TripleLoss>()(Arg(p, where), Arg(e, where), t);
    }
    return loss.made.as<kinds::Loss>(where)(Arg(p, where), Arg(e, where));
  }));
}

}  // namespace

kinds::Value kind_value(nb::handle value) {
  PyObject* const x = value.ptr();
  if (value.is_none()) return {};
  if (PyBool_Check(x) != 0) return kinds::Value(x == Py_True);
  if (PyLong_Check(x) != 0) {
    int overflow = 0;
    const int64_t number = PyLong_AsLongLongAndOverflow(x, &overflow);
    ETUDE_REQUIRE(overflow == 0, "the integer {} has more than 64 bits",
                  nb::cast<std::string>(nb::str(value)));
    return kinds::Value(number);
  }
  if (PyFloat_Check(x) != 0) return kinds::Value(nb::cast<double>(value));
  if (PyUnicode_Check(x) != 0) {
    Py_ssize_t size = 0;
    const char* const utf8 = PyUnicode_AsUTF8AndSize(x, &size);
    if (utf8 == nullptr) throw nb::python_error();  // a lone surrogate
    return kinds::Value(std::string(utf8, static_cast<std::size_t>(size)));
  }
  if (is_tensor(value) || is_variable(value)) return kinds::Value(as_tensor(value));
  if (PyList_Check(x) != 0 || PyTuple_Check(x) != 0) {
    static thread_local int depth = 0;
    const struct Deeper {
      Deeper() { ++depth; }
      ~Deeper() { --depth; }
    } deeper;
    ETUDE_REQUIRE(depth <= 64, "a list is nested more than 64 deep. Does it contain itself?");
    kinds::Values list;
    for (const nb::handle each : nb::iter(value)) list.push_back(kind_value(each));
    return kinds::Value(std::move(list));
  }
  if (nb::isinstance<KindObject>(value)) return kinds::Value(nb::cast<KindObject&>(value).made);
  // A callback borrows it; the package keeps it alive.
  if (is_optimizer(value)) {
    return kinds::Value(kinds::borrow(*nb::inst_ptr<OptimizerObject>(value)->rule));
  }
  if (is_layer(value)) {
    const LayerObject& layer = *nb::inst_ptr<LayerObject>(value);
    if (layer.made) return kinds::Value(*layer.made);
  }
  if (nb::hasattr(value, "_kind")) {  // a function of the library: et.nn.relu, et.nn.init.zeros
    return kinds::Value(nb::cast<std::string>(value.attr("_kind")));
  }
  if (const std::optional<DType> dtype = find_dtype(value)) return kinds::Value(*dtype);
  if (PyCallable_Check(x) != 0) {
    if (nb::hasattr(value, "__name__")) {
      const std::string name = "nn." + nb::cast<std::string>(value.attr("__name__"));
      const kinds::Kind* const known = kinds::find(name);
      const bool is_op = std::string_view(Py_TYPE(x)->tp_name).starts_with("etude.");
      if (is_op && known != nullptr) return kinds::Value(name);
    }
    return kinds::Value(activation_of(value));
  }
  ETUDE_THROW(
      kInvalidArgument,
      "a {} is no value of a parameter: pass a number, a text, a dtype, a tensor, a list, an "
      "object of etude, or a function",
      type_text(value));
}

kinds::Made make_kind(const std::string& name, nb::handle args, nb::handle options) {
  kinds::Values positional;
  for (const nb::handle arg : nb::iter(args)) positional.push_back(kind_value(arg));
  kinds::Options named;
  for (const auto& [key, value] : nb::cast<nb::dict>(options)) {
    named.push_back({nb::cast<std::string>(key), kind_value(value)});
  }
  const CallSite where = here();
  return kinds::make(name, kinds::Arguments(std::move(positional)), named, where);
}

void bind_kinds(nb::module_& m) {
  m.def("_kinds", all_kinds);
  nb::class_<KindObject>(m, "KindObject", "An object of the library that its kind describes.")
      .def("__init__",
           [](KindObject* self, const std::string& kind, const nb::tuple& args,
              const nb::dict& options) { new (self) KindObject{make_kind(kind, args, options)}; })
      .def("_loss", call_loss, nb::arg(), nb::arg(), nb::arg().none())
      .def("_call",
           [](const KindObject& self, nb::handle x) {
             const Tensor input = as_tensor(x);
             const CallSite where = here();
             return wrap(with_user_line_released([&] { return self.made(input, where); }));
           })
      .def("_rate", [](const KindObject& self,
                       int64_t step) { return self.made.as<optim::Schedule>(here())(step); })
      .def("_json", [](const KindObject& self) { return kinds::to_json(self.made.description()); })
      .def("__repr__", [](const KindObject& self) { return self.made.description().to_string(); });
  nb::class_<MetricObject>(m, "_Metric")
      .def("__init__",
           [](MetricObject* self, const std::string& kind, const nb::tuple& args,
              const nb::dict& options) {
             const kinds::Made made = make_kind(kind, args, options);
             new (self) MetricObject{made.as<nn::Metric>(here())};
           })
      .def(
          "update",
          [](MetricObject& self, nb::handle predicted, nb::handle expected) {
            const Tensor p = as_tensor(predicted), e = as_tensor(expected);
            const CallSite where = here();
            with_user_line_released([&] { self.metric.update(p, e, where); });
          },
          nb::arg("predicted"), nb::arg("expected"))
      .def("result", [](const MetricObject& self) {
        const CallSite where = here();
        return with_user_line_released([&] { return self.metric.result(where); });
      });
}

}  // namespace etude::python
