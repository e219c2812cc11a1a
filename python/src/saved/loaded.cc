// SPDX-License-Identifier: Apache-2.0
// et.saved: loaded programs and functions. Saving is in save.cc.
#include "python/src/saved/loaded.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "etude/base/check.h"
#include "etude/base/internal/inline_vector.h"
#include "etude/onnx/onnx.h"
#include "etude/ops.h"
#include "etude/saved/plain_call.h"
#include "python/src/dtype.h"
#include "python/src/program/held.h"
#include "python/src/program/tree.h"
#include "python/src/saved/values.h"
#include "python/src/spelling.h"

namespace etude::python {
namespace {

using saved::GraphSignature;
using saved::Port;

// The facts about one parameter among the inputs of one graph.
void merge(LoadedParameter& to, const GraphSignature& graph, bool is_first) {
  const std::string below = to.name + "/";
  std::vector<const Port*> ports;
  for (const Port& port : graph.inputs) {
    if (port.name == to.name || port.name.starts_with(below)) ports.push_back(&port);
  }
  to.may_be_none = to.may_be_none || ports.empty();
  const bool is_lone = ports.size() == 1 && ports[0]->name == to.name;
  const bool is_tensor = is_lone && ports[0]->kind == Port::Kind::kTensor;
  const std::optional<DType> dtype =
      is_tensor ? dtype_named(ports[0]->type.substr(0, ports[0]->type.find('['))) : std::nullopt;
  std::optional<Described> host;
  if (is_lone && ports[0]->kind == Port::Kind::kHost) host = described_text(ports[0]->type);
  if (is_first) {
    to.is_tensor = is_tensor;
    to.dtype = dtype;
    to.only = std::move(host);
    return;
  }
  to.is_tensor = to.is_tensor && is_tensor;
  if (to.dtype != dtype) to.dtype.reset();
  if (to.only && (!host || host->text() != to.only->text())) to.only.reset();
}

}  // namespace

LoadedFunction::LoadedFunction(saved::Function f) : function(std::move(f)) {
  const std::vector<GraphSignature> graphs = function.signatures();
  has_graph = !graphs.empty();
  for (const std::string& name : function.arguments()) {
    LoadedParameter& made = parameters.emplace_back();
    made.name = name;
    for (const GraphSignature& graph : graphs) merge(made, graph, &graph == &graphs.front());
  }
}

namespace {

// The arguments of one call as Parts, and the objects of their leaves.
class LoadedCall {
 public:
  explicit LoadedCall(const LoadedFunction& of) : of_(of), name_(of.function.name()) {}

  Parts read(const nb::args& args, const nb::kwargs& keywords) {
    const std::vector<LoadedParameter>& all = of_.parameters;
    ETUDE_REQUIRE(args.size() <= all.size(),
                  "function '{}' has {} parameters ({}), but {} arguments were given", name_,
                  all.size(), names(), args.size());
    std::size_t used = 0;
    std::vector<Named> fields;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const LoadedParameter& parameter = all[i];
      const nb::str key(parameter.name.data(), parameter.name.size());
      const bool is_named = keywords.contains(key);
      ETUDE_REQUIRE(!is_named || i >= args.size(), "function '{}': argument '{}' is given twice",
                    name_, parameter.name);
      used += is_named ? 1 : 0;
      if (i < args.size()) {
        fields.emplace_back(parameter.name, argument(parameter, args[i]));
      } else if (is_named) {
        fields.emplace_back(parameter.name, argument(parameter, nb::object(keywords[key])));
      } else {
        fields.emplace_back(parameter.name, omitted(parameter));
      }
    }
    if (used < keywords.size()) refuse_unknown(keywords);
    return Parts::fields(std::move(fields));
  }

  // Puts the tensors that the call has changed into their objects.
  void take_back(const Parts& before, const Parts& after) {
    std::size_t i = 0;
    after.each_part([&](const FormLeaf& leaf, const auto& value) {
      using Leaf = std::remove_cvref_t<decltype(value)>;
      const nb::handle object = leaves_[i++];
      const auto is_new = [&](const auto& old) {
        using Old = std::remove_cvref_t<decltype(old)>;
        if constexpr (std::is_same_v<Old, Tensor> && std::is_same_v<Leaf, Tensor>) {
          return value.has_value() && value.ref() != old.ref();
        } else if constexpr (std::is_same_v<Old, LayerState<Tensor>> &&
                             std::is_same_v<Leaf, LayerState<Tensor>>) {
          return value.value.has_value() && value.value.ref() != old.value.ref();
        } else {
          return false;
        }
      };
      if (!Parts::at(before, leaf, is_new)) return;
      if constexpr (std::is_same_v<Leaf, Tensor>) {
        if (is_tensor(object)) mutable_tensor_of(object) = value;
      } else if constexpr (std::is_same_v<Leaf, LayerState<Tensor>>) {
        if (is_state(object)) state_of(object).value = value.value;
      }
    });
  }

 private:
  std::string names() const {
    std::vector<std::string> out;
    for (const LoadedParameter& each : of_.parameters) out.push_back(each.name);
    return fmt::format("{}", fmt::join(out, ", "));
  }
  // A list where all graphs have one tensor is host data of this tensor.
  Parts argument(const LoadedParameter& parameter, nb::handle value) {
    const bool is_list = PyList_Check(value.ptr()) != 0 || PyTuple_Check(value.ptr()) != 0;
    if (!parameter.is_tensor || !is_list) {
      return argument_parts(value, name_, parameter.name, leaves_);
    }
    Tensor x = as_tensor(value);
    if (parameter.dtype && x.dtype() != *parameter.dtype) x = astype(x, *parameter.dtype);
    leaves_.push_back(nb::none());
    return Parts(std::move(x));
  }
  Parts omitted(const LoadedParameter& parameter) {
    if (parameter.may_be_none) return Parts::optional(std::nullopt);
    ETUDE_REQUIRE(parameter.only, "function '{}': argument '{}' is missing", name_, parameter.name);
    leaves_.push_back(nb::none());
    return Parts(*parameter.only);
  }
  [[noreturn]] void refuse_unknown(const nb::kwargs& keywords) const {
    for (const auto& [key, value] : keywords) {
      const auto given = nb::cast<std::string>(key);
      if (std::ranges::find(of_.parameters, given, &LoadedParameter::name) ==
          of_.parameters.end()) {
        ETUDE_THROW(kInvalidArgument, "function '{}' has no parameter '{}'. It has: {}", name_,
                    given, names());
      }
    }
    ETUDE_THROW(kInternal, "function '{}': a keyword was read twice", name_);
  }

  const LoadedFunction& of_;
  const std::string& name_;
  std::vector<nb::object> leaves_;  // by leaf of the arguments; None: made for this call
};

// The result for tensors, one for each parameter; invalid if the general way has to find the graph
// or the error. A loaded function is called as often as a staged one, so this way builds no Parts.
nb::object call_plain(const LoadedFunction& self, const nb::args& args) {
  const auto count = args.size();
  if (count != self.parameters.size()) return {};
  internal::InlineVector<Tensor, 6> held;  // another thread may replace the values of the objects
  for (std::size_t i = 0; i < count; ++i) {
    const nb::handle arg = PyTuple_GET_ITEM(args.ptr(), static_cast<Py_ssize_t>(i));
    if (!is_tensor(arg)) return {};
    held.push_back(tensor_of(arg));
  }
  internal::InlineVector<const Tensor*, 6> all;
  for (const Tensor& x : held) all.push_back(&x);
  Tensor result;
  const bool is_run = with_user_line_released([&] {
    return saved::internal::PlainCall::run(self.function, {all.data(), all.size()}, result, {});
  });
  return is_run ? wrap(std::move(result)) : nb::object();
}

nb::object call_any(const LoadedFunction& self, const nb::args& args, const nb::kwargs& keywords) {
  const CallSite where = here();
  LoadedCall call(self);
  // A function without a graph has no parameters, and an error of its own.
  Parts arguments = self.has_graph ? call.read(args, keywords) : Parts();
  const Parts before = arguments;
  const Parts result =
      with_user_line_released([&] { return self.function.call(arguments, where); });
  call.take_back(before, arguments);
  return value_of_parts(result);
}

// The slot of calls: through `__call__` of nanobind a call takes longer.
PyObject* call(PyObject* self, PyObject* args, PyObject* keywords) {
  release_pending();
  return guarded([&]() -> PyObject* {
    if (!nb::inst_ready(self)) throw nb::type_error("this et.saved.Function was not loaded");
    const LoadedFunction& f = *nb::inst_ptr<LoadedFunction>(self);
    const auto given = nb::borrow<nb::args>(args);
    if (keywords == nullptr || PyDict_GET_SIZE(keywords) == 0) {
      nb::object result = call_plain(f, given);
      if (result.is_valid()) return result.release().ptr();
    }
    const nb::kwargs named = keywords == nullptr ? nb::steal<nb::kwargs>(PyDict_New())
                                                 : nb::borrow<nb::kwargs>(keywords);
    if (!named.is_valid()) throw nb::python_error();
    return call_any(f, given, named).release().ptr();
  });
}
PyType_Slot function_slots[] = {{Py_tp_call, reinterpret_cast<void*>(call)}, {0, nullptr}};

nb::dict call_named(const LoadedFunction& self, const nb::dict& inputs) {
  io::NamedTensors given;
  for (const auto& [key, value] : inputs) {
    ETUDE_REQUIRE(PyUnicode_Check(key.ptr()) != 0,
                  "call_named: a name of an input is a {}, but must be a text", type_text(key));
    given.emplace(nb::cast<std::string>(key), as_tensor(value));
  }
  const CallSite where = here();
  const io::NamedTensors made =
      with_user_line_released([&] { return self.function.call_named(given, where); });
  nb::dict out;
  for (const auto& [name, x] : made) out[nb::str(name.data(), name.size())] = wrap(x);
  return out;
}

nb::list variable_list(const std::vector<Variable>& all) {
  nb::list out;
  for (const Variable& v : all) out.append(wrap_variable(v));
  return out;
}

std::string signatures_text(const LoadedFunction& self) {
  std::string out;
  for (const GraphSignature& each : self.function.signatures()) {
    out += (out.empty() ? " " : ", ") + in_python(each.to_string());
  }
  return out.empty() ? " without a graph" : out;
}

const char* kind_text(Port::Kind kind) {
  return kind == Port::Kind::kTensor ? "tensor" : kind == Port::Kind::kHost ? "host" : "Variable";
}

void bind_signatures(nb::module_& s) {
  nb::class_<Port>(s, "Port", "An input or a result of a graph.")
      .def_ro("name", &Port::name, "Its path.")
      .def_prop_ro(
          "type",
          [](const Port& p) {
            const bool is_bool =
                p.kind == Port::Kind::kHost && (p.type == "true" || p.type == "false");
            return !is_bool ? p.type : p.type == "true" ? "True" : "False";
          },
          "float32[n,4]; of a host value its text.")
      .def_prop_ro(
          "kind", [](const Port& p) { return kind_text(p.kind); },
          "'tensor', 'Variable' or 'host'.")
      .def("__repr__", [](const Port& p) {
        return fmt::format("<{} '{}': {}>", kind_text(p.kind), p.name, p.type);
      });
  nb::class_<GraphSignature>(s, "GraphSignature",
                             "The arguments that one graph of a function serves.")
      .def_ro("inputs", &GraphSignature::inputs)
      .def_ro("outputs", &GraphSignature::outputs, "'output' is the name of a lone tensor.")
      .def_ro("changed", &GraphSignature::changed,
              "The paths of arguments and state that a call changes.")
      .def_prop_ro(
          "phase",
          [](const GraphSignature& g) {
            return g.phase == Phase::kTraining ? "training" : "inference";
          },
          "'training' or 'inference'.")
      .def("__str__", [](const GraphSignature& g) { return in_python(g.to_string()); })
      .def("__repr__", [](const GraphSignature& g) {
        return fmt::format("<GraphSignature {}>", in_python(g.to_string()));
      });
  nb::class_<saved::ExportedSignature>(s, "ExportedSignature", "Names of a function for servers.")
      .def_ro("function", &saved::ExportedSignature::function)
      .def_ro("inputs", &saved::ExportedSignature::inputs)
      .def_ro("input_paths", &saved::ExportedSignature::input_paths)
      .def_ro("outputs", &saved::ExportedSignature::outputs);
}

void bind_loaded_function(nb::module_& s) {
  nb::class_<LoadedFunction>(s, "Function", nb::is_weak_referenceable(),
                             nb::type_slots(function_slots),
                             "A loaded function: a callable. Structures of its arguments are "
                             "matched by paths, host values by their texts.")
      .def("call_named", call_named, nb::arg("inputs"),
           "Calls with tensors by name, and returns the tensors of the result by name. An exported "
           "signature has the names; without it they are paths.")
      .def_prop_ro("name", [](const LoadedFunction& f) { return f.function.name(); })
      .def_prop_ro(
          "arguments", [](const LoadedFunction& f) { return f.function.arguments(); },
          "The names of the parameters.")
      .def(
          "variables",
          [](const LoadedFunction& f) { return variable_list(f.function.variables()); },
          "The Variables that its graphs use.")
      .def(
          "trainable_variables",
          [](const LoadedFunction& f) { return variable_list(f.function.trainable_variables()); },
          "Those of variables() that are trainable.")
      .def(
          "signatures", [](const LoadedFunction& f) { return f.function.signatures(); },
          "A signature for each graph.")
      .def(
          "explain", [](const LoadedFunction& f) { return in_python(f.function.explain()); },
          "A line for each graph: its signature, its size, and the line that it was traced for.")
      .def("_omitted",
           [](const LoadedFunction& f) {
             nb::list out;  // (name, default or None, whether it may be left out)
             for (const LoadedParameter& p : f.parameters) {
               const bool has_default = p.may_be_none || p.only;
               out.append(nb::make_tuple(
                   p.name, p.may_be_none || !p.only ? nb::none() : value_of_host(*p.only),
                   has_default));
             }
             return out;
           })
      .def("__repr__", [](const LoadedFunction& f) {
        return fmt::format("<etude.saved.Function '{}'{}>", f.function.name(), signatures_text(f));
      });
}

template <class F>
auto at_line(F&& f) {
  const CallSite where = here();
  return with_user_line([&] { return f(where); });
}

void bind_program(nb::module_& s) {
  nb::class_<saved::Program>(s, "Program", nb::is_weak_referenceable(),
                             "A loaded program: functions, and the state that they share.")
      .def(
          "function",
          [](const saved::Program& p, const std::string& name) {
            return at_line([&](CallSite at) { return LoadedFunction(p.function(name, at)); });
          },
          nb::arg("name"))
      .def("functions", &saved::Program::functions, "The names of all functions.")
      .def(
          "variable",
          [](const saved::Program& p, const std::string& path) {
            return at_line([&](CallSite at) { return wrap_variable(p.variable(path, at)); });
          },
          nb::arg("path"), nb::sig("def variable(self, path: str) -> Variable"),
          "The Variable with this path, \"net/out/weight\".")
      .def(
          "variables",
          [](const saved::Program& p) {
            nb::dict out;
            for (const auto& [path, v] : p.variables()) {
              out[nb::str(path.data(), path.size())] = wrap_variable(v);
            }
            return out;
          },
          "All Variables, by their first paths.")
      .def(
          "object",
          [](const saved::Program& p, const std::string& name) {
            return value_of_parts(at_line([&](CallSite at) { return p.object(name, at); }));
          },
          nb::arg("name"), nb::sig("def object(self, name: str) -> Any"),
          "An object that was saved: a dict, a tuple, a named tuple, or a leaf.")
      .def("objects", &saved::Program::objects, "The names of all objects.")
      .def("signatures", &saved::Program::signatures, "The exported signatures.")
      .def(
          "asset",
          [](const saved::Program& p, const std::string& name) {
            return at_line([&](CallSite at) { return p.asset(name, at); }).string();
          },
          nb::arg("name"), "The path of a file that was saved with the program.")
      .def("assets", &saved::Program::assets, "The names of these files.")
      .def("__str__", [](const saved::Program& p) { return in_python(p.to_string()); })
      .def("__repr__", [](const saved::Program& p) {
        return fmt::format("<etude.saved.Program: {}>", fmt::join(p.functions(), ", "));
      });
}

// Of shapes and tensors by name. A size that is None stays open.
using NamedShapes = std::vector<std::pair<std::string, std::vector<std::optional<int64_t>>>>;
using NamedValues = std::vector<std::pair<std::string, nb::object>>;

saved::Program load_onnx(const std::string& file, std::string function, const NamedSizes& sizes,
                         const NamedShapes& shapes, const NamedValues& constants, bool trainable,
                         int64_t max_loop_steps) {
  const CallSite where = here();
  onnx::LoadOptions options{
      .function = std::move(function), .trainable = trainable, .max_loop_steps = max_loop_steps};
  options.sizes.insert(sizes.begin(), sizes.end());
  return with_user_line([&] {
    for (const auto& [name, given] : shapes) {
      std::vector<int64_t> shape;
      for (const std::optional<int64_t>& size : given) shape.push_back(size.value_or(kAny));
      options.shapes.emplace(name,
                             internal::located("onnx::load", where, [&] { return Shape(shape); }));
    }
    for (const auto& [name, value] : constants) options.constants.emplace(name, tensor_of(value));
    return released([&] { return onnx::load(file, options, where); });
  });
}

}  // namespace

void bind_saved(nb::module_& m) {
  nb::module_ s = m.def_submodule("_saved");
  bind_signatures(s);
  bind_loaded_function(s);
  bind_program(s);
  for (const char* name : {"Port", "GraphSignature", "ExportedSignature", "Function", "Program"}) {
    s.attr(name).attr("__module__") = "etude.saved";
  }
  s.def("_load", [](const std::string& folder, int64_t max_loop_steps) {
    const CallSite where = here();
    return with_user_line_released(
        [&] { return saved::load(folder, {.max_loop_steps = max_loop_steps}, where); });
  });
  s.def("_load_onnx", load_onnx);
  s.def("_is_saved", saved::is_saved);
}

}  // namespace etude::python
