// SPDX-License-Identifier: Apache-2.0
#include "python/src/saved/values.h"

#include <charconv>
#include <cstdlib>

#include "etude/base/check.h"
#include "python/src/program/held.h"

namespace etude::python {

std::optional<Described> described(nb::handle value) {
  PyObject* const x = value.ptr();
  if (PyBool_Check(x) != 0) return Described(x == Py_True);
  if (PyLong_CheckExact(x) != 0) {
    int overflow = 0;
    const int64_t number = PyLong_AsLongLongAndOverflow(x, &overflow);
    if (overflow != 0) return std::nullopt;
    return Described(number);
  }
  if (PyFloat_CheckExact(x) != 0) return Described(PyFloat_AS_DOUBLE(x));
  if (PyUnicode_CheckExact(x) == 0) return std::nullopt;
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(x, &size);
  if (text == nullptr) {  // lone surrogates
    PyErr_Clear();
    return std::nullopt;
  }
  return Described(std::string(text, static_cast<std::size_t>(size)));
}

std::optional<Described> described_text(const std::string& text) {
  if (text == "true" || text == "false") return Described(text == "true");
  if (text.size() >= 2 && text.front() == '\'' && text.back() == '\'') {
    return Described(text.substr(1, text.size() - 2));
  }
  int64_t whole = 0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data(), end, whole).ptr == end && std::to_string(whole) == text) {
    return Described(whole);
  }
  const Described real(std::strtod(text.c_str(), nullptr));
  if (real.text() != text) return std::nullopt;
  return real;
}

nb::object value_of_host(const Described& value) {
  if (value.type() == typeid(bool)) return nb::bool_(value.get<bool>());
  if (value.type() == typeid(std::string)) {
    const auto text = value.get<std::string>();
    const nb::object out = nb::steal(
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
    if (!out.is_valid()) throw nb::python_error();
    return out;
  }
  if (value.type() == typeid(double)) return nb::float_(value.get<double>());
  const std::string text = value.text();
  PyObject* const number = PyLong_FromString(text.c_str(), nullptr, 10);
  if (number != nullptr) return nb::steal(number);
  PyErr_Clear();
  return nb::str(text.c_str());
}

namespace {

// The parts of a leaf that is no host value.
Parts leaf_parts(NodeKind kind, nb::handle leaf) {
  switch (kind) {
    case NodeKind::kVariable:
      return Parts(variable_of(leaf));
    case NodeKind::kState:
      ETUDE_REQUIRE(leaf.is_none() || is_state(leaf),
                    "a part is a {}, but must be the state of a layer", type_text(leaf));
      return Parts(leaf.is_none() ? LayerState<Tensor>() : state_of(leaf));
    case NodeKind::kNewState:
      return Parts(new_state_of(leaf));
    default:
      ETUDE_REQUIRE(leaf.is_none() || is_tensor(leaf), "a part is a {}, but must be a tensor",
                    type_text(leaf));
      return Parts(leaf.is_none() ? Tensor() : tensor_of(leaf));
  }
}

// The place of a list element that a file cannot hold.
Parts nothing() { return Parts::without_values(Form::leaf(LeafKind::kHost)->tangent()); }

class PartsBuilder {
 public:
  PartsBuilder(std::span<const nb::object> leaves, HostParts hosts, std::vector<LostPart>& lost)
      : leaves_(leaves), hosts_(hosts), lost_(lost) {}

  // None if it is left out.
  std::optional<Parts> build(const TreeDef& def, const std::string& path) {
    switch (def.kind) {
      case NodeKind::kTensor:
      case NodeKind::kVariable:
      case NodeKind::kState:
      case NodeKind::kNewState:
        return leaf_parts(def.kind, leaves_[next_++]);
      case NodeKind::kHost:
        return host(leaves_[next_++], path);
      case NodeKind::kNone:
        return Parts::optional(std::nullopt);
      case NodeKind::kConstant: {
        std::optional<Parts> part = build(*def.parts[0], path);
        if (part) part = part->constant();
        return part;
      }
      case NodeKind::kLayer:
        if (hosts_ == HostParts::kKeep) return layer(def);
        return fields(def, path);
      case NodeKind::kOptimizer:
        return fields(def, path).constant();
      case NodeKind::kDict:
        return Parts::map(named(def, path));
      case NodeKind::kNamedTuple:
      case NodeKind::kDataclass:
      case NodeKind::kModule:
        return fields(def, path);
      default:
        break;
    }
    std::vector<Parts> list;
    for (std::size_t i = 0; i < def.parts.size(); ++i) {
      std::optional<Parts> part = build(*def.parts[i], below(path, def.names[i]));
      list.push_back(part ? std::move(*part) : nothing());
    }
    return Parts::list(std::move(list));
  }

 private:
  static std::string below(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "/" + name;
  }
  std::optional<Parts> host(nb::handle value, const std::string& path) {
    if (hosts_ == HostParts::kDrop) return std::nullopt;
    if (std::optional<Described> known = described(value)) return Parts(std::move(*known));
    lost_.push_back({path, type_text(value)});
    return std::nullopt;
  }
  std::vector<Named> named(const TreeDef& def, const std::string& path) {
    std::vector<Named> out;
    for (std::size_t i = 0; i < def.parts.size(); ++i) {
      std::optional<Parts> part = build(*def.parts[i], below(path, def.names[i]));
      if (part) out.emplace_back(def.names[i], std::move(*part));
    }
    return out;
  }
  Parts fields(const TreeDef& def, const std::string& path) {
    return Parts::fields(named(def, path));
  }
  Parts layer(const TreeDef& def) {
    const auto own = leaves_.subspan(next_, def.leaves.size());
    next_ += def.leaves.size();
    return parts_of_leaves(def, own);
  }

  std::span<const nb::object> leaves_;
  HostParts hosts_;
  std::vector<LostPart>& lost_;
  std::size_t next_ = 0;
};

}  // namespace

std::optional<Parts> saved_parts(const TreeDef& def, std::span<const nb::object> leaves,
                                 HostParts hosts, std::vector<LostPart>& lost) {
  return PartsBuilder(leaves, hosts, lost).build(def, "");
}

Parts argument_parts(nb::handle value, const std::string& function, const std::string& parameter,
                     std::vector<nb::object>& leaves) {
  const Tree tree = tree_of(value, Numbers::kKeep);
  std::vector<Named> named;
  for (std::size_t i = 0; i < tree.leaves.size(); ++i) {
    const nb::object& leaf = tree.leaves[i];
    const bool is_host = tree.def->leaves[i] == NodeKind::kHost;
    const std::optional<Described> host = is_host ? described(leaf) : std::nullopt;
    ETUDE_REQUIRE(!is_host || host,
                  "function '{}': {} is a {}, but the arguments of a loaded function are tensors, "
                  "Variables, numbers of 64 bits, texts, and structures of these",
                  function, tree.def->python_path(i, parameter), type_text(leaf));
    Parts part = host ? Parts(*host) : leaf_parts(tree.def->leaves[i], leaf);
    leaves.push_back(leaf);
    if (tree.def->paths[i].empty()) return part;
    named.emplace_back(tree.def->paths[i], std::move(part));
  }
  if (named.empty()) return Parts::optional(std::nullopt);
  return Parts::fields(std::move(named));
}

namespace {

class ValueBuilder {
 public:
  explicit ValueBuilder(const Parts& parts) {
    parts.each_part([&](const FormLeaf&, const auto& value) {
      using Leaf = std::remove_cvref_t<decltype(value)>;
      if constexpr (std::is_same_v<Leaf, Tensor>) {
        leaves_.push_back(wrap(value));
      } else if constexpr (std::is_same_v<Leaf, Variable>) {
        leaves_.push_back(wrap_variable(value));
      } else if constexpr (std::is_same_v<Leaf, Described>) {
        leaves_.push_back(value_of_host(value));
      } else if constexpr (std::is_same_v<Leaf, LayerState<Tensor>>) {
        leaves_.push_back(wrap(value.value));
      } else {
        leaves_.push_back(wrap(value.value ? *value.value : Tensor()));
      }
    });
  }

  // Recurses as deep as the form, which readers of files bound.
  nb::object build(const Form& form) {
    switch (form.kind()) {
      case Form::Kind::kLeaf:
        return leaves_[next_++];
      case Form::Kind::kNothing:
        return nb::none();
      case Form::Kind::kOptional:
      case Form::Kind::kVariant:
        return form.parts().empty() ? nb::none() : build(*form.parts()[0]);
      case Form::Kind::kFields:
        return form.parts().empty() ? nb::none() : fields(form);
      case Form::Kind::kMap:
        return dict(form);
      case Form::Kind::kList:
        break;
    }
    return all(form);
  }

 private:
  static nb::str text_of(const std::string& name) { return nb::str(name.data(), name.size()); }
  nb::tuple all(const Form& form) {
    nb::list out;
    for (const Form* part : form.parts()) out.append(build(*part));
    return nb::tuple(out);
  }
  nb::object dict(const Form& form) {
    nb::dict out;
    for (std::size_t i = 0; i < form.parts().size(); ++i) {
      out[text_of(form.names()[i])] = build(*form.parts()[i]);
    }
    return out;
  }
  nb::object fields(const Form& form) {
    nb::list names;
    for (const std::string& name : form.names()) names.append(text_of(name));
    const nb::object made = nb::module_::import_("etude._saved").attr("_fields")(nb::tuple(names));
    return made.is_none() ? dict(form) : made(*all(form));
  }

  std::vector<nb::object> leaves_;
  std::size_t next_ = 0;
};

}  // namespace

nb::object value_of_parts(const Parts& parts) { return ValueBuilder(parts).build(*parts.form()); }

}  // namespace etude::python
