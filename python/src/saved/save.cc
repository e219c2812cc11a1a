// SPDX-License-Identifier: Apache-2.0
// et.saved.save, et.onnx.save and et.stablehlo.save: entries of Python, by their names, as entries
// of saved::save().
#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "etude/base/check.h"
#include "etude/base/warning.h"
#include "etude/onnx/onnx.h"
#include "etude/stablehlo/stablehlo.h"
#include "python/src/program/held.h"
#include "python/src/saved/loaded.h"
#include "python/src/saved/traces.h"
#include "python/src/saved/values.h"

namespace etude::python {
namespace {

constexpr int kDeep = 256;

// The Variables that an object of a program has among its attributes, and below them.
class VariableFinder {
 public:
  VariableFinder() = default;
  // Only these.
  explicit VariableFinder(std::vector<Variable> only) : only_(std::move(only)) {}

  std::vector<Named> find(nb::handle object) {
    visit(object, "", 0);
    return std::move(found_);
  }

 private:
  void visit(nb::handle value, const std::string& path, int depth) {
    if (is_variable(value)) {
      if (is_wanted(variable_of(value)) && names_.insert(path).second)
        found_.emplace_back(path, Parts(variable_of(value)));
      return;
    }
    if (depth >= kDeep || !seen_.insert(value.ptr()).second) return;
    if (PyList_Check(value.ptr()) != 0 || PyTuple_Check(value.ptr()) != 0) {
      std::size_t i = 0;
      for (const nb::handle each : nb::iter(value)) {
        visit(each, below(path, std::to_string(i++)), depth + 1);
      }
      return;
    }
    nb::object fields = nb::borrow(value);
    if (PyDict_Check(value.ptr()) == 0) {
      // Modules, classes and functions are code, and not part of the object.
      const bool is_code = PyModule_Check(value.ptr()) != 0 || PyType_Check(value.ptr()) != 0 ||
                           PyFunction_Check(value.ptr()) != 0;
      if (is_code) return;
      fields = nb::steal(PyObject_GetAttrString(value.ptr(), "__dict__"));
      if (!fields.is_valid()) return PyErr_Clear();
      if (PyDict_Check(fields.ptr()) == 0) return;
    }
    const nb::object entries = nb::steal(PyDict_Items(fields.ptr()));
    if (!entries.is_valid()) throw nb::python_error();
    for (const nb::handle entry : nb::iter(entries)) {
      visit(nb::object(entry[1]), below(path, key_text(nb::object(entry[0]).ptr())), depth + 1);
    }
  }
  bool is_wanted(const Variable& v) const {
    return !only_ ||
           std::ranges::any_of(*only_, [&](const Variable& each) { return each.ref() == v.ref(); });
  }
  static std::string below(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "/" + name;
  }

  std::optional<std::vector<Variable>> only_;
  std::vector<Named> found_;
  std::set<std::string> names_;
  std::set<PyObject*> seen_;
};

// An object of an entry, or one to which functions are bound.
struct SavedObject {
  nb::object value;
  std::string name;
  std::unique_ptr<Parts> parts;
  std::vector<LostPart> lost;
  bool is_bound = false;
};

// The class of an object in lower case: the name of an object without an entry.
std::string name_of_class(nb::handle value) {
  std::string out = Py_TYPE(value.ptr())->tp_name;
  out = out.substr(out.rfind('.') + 1);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

class Saver {
 public:
  explicit Saver(PyTypeObject* bound_class) : bound_class_(bound_class) {}

  // `entries`: tuples (name, value).
  std::vector<saved::Entry> entries(nb::handle given) {
    for (const nb::handle entry : nb::iter(given)) {
      const auto name = nb::cast<std::string>(nb::object(entry[0]));
      names_.insert(name);
      const nb::object value = entry[1];
      if (!is_function(value) && !is_loaded(value) && !is_variable(value)) add(value, name);
    }
    for (const nb::handle entry : nb::iter(given)) {
      const auto name = nb::cast<std::string>(nb::object(entry[0]));
      const nb::object value = entry[1];
      if (is_function(value)) {
        out_.emplace_back(name, function(value));
      } else if (is_variable(value)) {
        out_.emplace_back(name, variable_of(value));
      } else if (nb::isinstance<LoadedFunction>(value)) {
        out_.emplace_back(name, nb::cast<LoadedFunction&>(value).function);
      } else if (nb::isinstance<saved::Program>(value)) {
        out_.emplace_back(name, nb::cast<saved::Program&>(value));
      }
    }
    for (const SavedObject* object : order_) {
      out_.emplace_back(object->name, *object->parts);
      warn_of_lost(*object);
    }
    return std::move(out_);
  }

 private:
  bool is_bound(nb::handle value) const { return Py_TYPE(value.ptr()) == bound_class_; }
  bool is_function(nb::handle value) const {
    return is_bound(value) || staged_function(value).has_value();
  }
  static bool is_loaded(nb::handle value) {
    return nb::isinstance<LoadedFunction>(value) || nb::isinstance<saved::Program>(value);
  }

  SavedObject& add(nb::handle value, const std::string& name) {
    SavedObject& object = objects_[value.ptr()];
    if (object.parts != nullptr) return object;
    object.value = nb::borrow(value);
    object.name = name;
    const ClassInfo& info = class_of(Py_TYPE(value.ptr()));
    if (info.of == Class::kHost && !described(value)) {
      std::vector<Named> variables = VariableFinder().find(value);
      require_object(!variables.empty(), value, name);
      object.parts = std::make_unique<Parts>(Parts::fields(std::move(variables)));
    } else {
      const Tree tree = tree_of(value, Numbers::kKeep);
      std::optional<Parts> parts =
          saved_parts(*tree.def, tree.leaves, HostParts::kKeep, object.lost);
      require_object(parts.has_value(), value, name);
      object.parts = std::make_unique<Parts>(std::move(*parts));
    }
    order_.push_back(&object);
    return object;
  }
  static void require_object(bool fits, nb::handle value, const std::string& name) {
    if (fits) return;
    ETUDE_REQUIRE(PyCallable_Check(value.ptr()) == 0,
                  "the entry '{}' is a {} that is not staged, so it has no graph. Decorate it with "
                  "@et.function, and call it once",
                  name, type_text(value));
    ETUDE_THROW(kInvalidArgument,
                "the entry '{}' is a {} without tensors and Variables. Entries are functions of "
                "et.function, et.saved.bind(function, objects...), structures of tensors and "
                "Variables, objects with Variables among their attributes, and loaded programs",
                name, type_text(value));
  }

  // An object without an entry, which a function needs; its name is free.
  SavedObject& implied(nb::handle value, const std::string& name) {
    const auto known = objects_.find(value.ptr());
    if (known != objects_.end()) return known->second;
    return add(value, free_name(name));
  }
  std::string free_name(const std::string& name) {
    std::string free = name;
    for (int n = 1; !names_.insert(free).second; ++n) free = fmt::format("{}_{}", name, n);
    return free;
  }

  saved::Bound function(nb::handle value) {
    nb::object of = nb::borrow(value);
    nb::object objects = nb::make_tuple();
    if (is_bound(value)) {
      of = value.attr("function");
      objects = value.attr("objects");
    }
    const std::optional<StagedFunction> found = staged_function(of);
    ETUDE_REQUIRE(found, "et.saved.Bound holds a {}, but must hold a function of @et.function",
                  type_text(of));
    const StagedFunction& f = *found;
    std::vector<BoundArgument> bound;
    const std::vector<std::string> names = parameter_names(f);
    if (passes_self(f)) bound.push_back(argument(f.host.self, name_of_class(f.host.self)));
    for (const nb::handle object : nb::iter(objects)) {
      const std::size_t at = bound.size();
      ETUDE_REQUIRE(at < names.size(),
                    "function '{}' has {} parameters ({}), but is bound to {} objects",
                    f.staged->name(), names.size(), fmt::join(names, ", "),
                    nb::len(objects) + (passes_self(f) ? 1 : 0));
      bound.push_back(argument(object, names[at]));
    }
    require_positional(f, bound.size());
    if (f.host.is_self_bound) imply_owner(f);
    return {given_function(f, bound)};
  }
  BoundArgument argument(nb::handle object, const std::string& name) {
    const ClassInfo& info = class_of(Py_TYPE(object.ptr()));
    ETUDE_REQUIRE(
        info.of != Class::kHost && info.of != Class::kNumber,
        "argument '{}' is a {}, but a function is bound to structures of tensors: layers, "
        "modules, optimisers, dicts",
        name, type_text(object));
    SavedObject& known = implied(object, name);
    known.is_bound = true;
    return {nb::borrow(object), known.parts.get()};
  }
  static void require_positional(const StagedFunction& f, std::size_t count) {
    const auto& all = f.staged->facts().parameters.all;
    const std::size_t first = f.host.is_self_bound ? 1 : 0;
    for (std::size_t p = first; p < first + count; ++p) {
      ETUDE_REQUIRE(
          all[p].kind <= FunctionParameter::Kind::kAny,
          "parameter '{}' of function '{}' is not positional, and cannot be bound. Give the "
          "function a parameter for each bound object",
          all[p].text, f.staged->name());
    }
  }
  // The instance of a method keeps the Variables that its graphs use.
  void imply_owner(const StagedFunction& f) {
    if (objects_.contains(f.host.self)) return;
    VariableFinder finder(released([&] { return f.staged->core().variables(); }));
    std::vector<Named> used = finder.find(f.host.self);
    if (used.empty()) return;
    SavedObject& made = objects_[f.host.self];
    made.value = nb::borrow(f.host.self);
    made.name = free_name(name_of_class(f.host.self));
    made.parts = std::make_unique<Parts>(Parts::fields(std::move(used)));
    order_.push_back(&made);
  }

  static void warn_of_lost(const SavedObject& object) {
    if (object.is_bound || object.lost.empty()) return;
    std::vector<std::string> texts;
    for (const LostPart& part : object.lost) {
      texts.push_back(fmt::format("'{}{}{}' ({})", object.name, part.path.empty() ? "" : "/",
                                  part.path, part.type));
    }
    internal::warn(
        fmt::format("et.saved.save: {} cannot be saved and {} left out: a file holds tensors, "
                    "Variables, numbers and texts",
                    fmt::join(texts, ", "), texts.size() == 1 ? "is" : "are"));
  }

  PyTypeObject* bound_class_;
  std::set<std::string> names_;
  std::map<PyObject*, SavedObject> objects_;
  std::vector<const SavedObject*> order_;
  std::vector<saved::Entry> out_;
};

PyTypeObject* bound_class = nullptr;

void save_entries(const std::string& folder, nb::handle given, bool custom_gradients,
                  std::vector<std::string> signatures, const std::vector<std::string>& assets,
                  int64_t shard_bytes) {
  const CallSite where = here();
  saved::SaveOptions options{.custom_gradients = custom_gradients,
                             .signatures = std::move(signatures),
                             .shard_bytes = shard_bytes};
  for (const std::string& asset : assets) options.assets.emplace_back(asset);
  const std::vector<saved::Entry> entries =
      internal::located("saved::save", where, [&] { return Saver(bound_class).entries(given); });
  with_user_line_released([&] { saved::save(folder, entries, options, where); });
}

// The name of the entry for a function or a program that has none; None for other objects.
nb::object lone_name(nb::handle value) {
  std::string name;
  nb::object of = nb::borrow(value);
  if (Py_TYPE(value.ptr()) == bound_class) of = value.attr("function");
  if (const std::optional<StagedFunction> staged = staged_function(of)) {
    name = staged->staged->name();
  } else if (nb::isinstance<LoadedFunction>(value)) {
    name = nb::cast<LoadedFunction&>(value).function.name();
  } else if (nb::isinstance<saved::Program>(value)) {
    name = "program";
  } else {
    return nb::none();
  }
  return nb::cast(saved::internal::entry_name(name));
}

void save_onnx(const std::string& file, nb::handle given, int64_t opset, std::string function,
               int64_t graph, bool training, bool open_sizes, std::string doc,
               int64_t external_bytes) {
  const CallSite where = here();
  const onnx::SaveOptions options{.opset = opset,
                                  .function = std::move(function),
                                  .graph = graph,
                                  .training = training,
                                  .open_sizes = open_sizes,
                                  .doc = std::move(doc),
                                  .external_bytes = external_bytes};
  const std::vector<saved::Entry> entries =
      internal::located("onnx::save", where, [&] { return Saver(bound_class).entries(given); });
  with_user_line_released([&] { onnx::save(file, entries, options, where); });
}

void save_stablehlo(const std::string& file, nb::handle given, std::string function, int64_t graph,
                    bool training, const NamedSizes& sizes, bool weights_as_arguments) {
  const CallSite where = here();
  const stablehlo::SaveOptions options{.function = std::move(function),
                                       .graph = graph,
                                       .training = training,
                                       .sizes = {sizes.begin(), sizes.end()},
                                       .weights_as_arguments = weights_as_arguments};
  const std::vector<saved::Entry> entries = internal::located(
      "stablehlo::save", where, [&] { return Saver(bound_class).entries(given); });
  with_user_line_released([&] { stablehlo::save(file, entries, options, where); });
}

}  // namespace

void bind_saving(nb::module_& m) {
  nb::module_ s = nb::cast<nb::module_>(m.attr("_saved"));
  s.def("_set_bound_class", [](nb::handle type) {
    bound_class = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
  });
  s.def(
      "_is_staged", [](nb::handle f) { return staged_function(f).has_value(); }, nb::arg().none());
  s.def("_save", save_entries);
  s.def("_lone_name", lone_name, nb::arg().none());
  s.def("_save_onnx", save_onnx);
  s.def("_save_stablehlo", save_stablehlo);
  s.def("_save_program", [](const std::string& folder, const saved::Program& program) {
    const CallSite where = here();
    with_user_line_released([&] { saved::save(folder, program, where); });
  });
}

}  // namespace etude::python
