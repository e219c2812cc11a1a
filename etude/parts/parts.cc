// SPDX-License-Identifier: Apache-2.0
#include "etude/parts/parts.h"

#include <algorithm>
#include <ostream>

#include "etude/base/check.h"

namespace etude {
namespace {

std::string_view kind_name(LeafKind kind) {
  switch (kind) {
    case LeafKind::kTensor:
      return "a tensor";
    case LeafKind::kVariable:
      return "a Variable";
    case LeafKind::kState:
      return "layer state";
    case LeafKind::kNewState:
      return "an update of layer state";
    case LeafKind::kHost:
      return "a host value";
  }
  return "unknown";
}

// The paths of a form for messages: the first eight.
std::string known_paths(const Form& form) {
  std::string out;
  std::size_t shown = 0;
  for (const FormLeaf& leaf : form.leaves()) {
    if (shown == 8) {
      return out + fmt::format(" and {} more", form.leaves().size() - shown);
    }
    out += fmt::format("{}'{}'", shown++ == 0 ? "" : ", ", leaf.path);
  }
  return out.empty() ? "none" : out;
}

[[noreturn]] void throw_no_part(const Form& form, std::string_view path) {
  ETUDE_THROW(kNotFound, "there is no part '{}'; the leaves are {}. Use one of these paths", path,
              known_paths(form));
}

std::string text_of(const Tensor& x) { return x.has_value() ? x.type()->to_string() : "absent"; }

}  // namespace

Parts::Parts() : form_(Form::of(Form::Kind::kFields, {}, {})) {}
Parts::Parts(Tensor leaf) : form_(Form::leaf(LeafKind::kTensor)), tensors_{std::move(leaf)} {}
Parts::Parts(Variable leaf) : form_(Form::leaf(LeafKind::kVariable)), others_{std::move(leaf)} {}
Parts::Parts(Described leaf) : form_(Form::leaf(LeafKind::kHost)), others_{std::move(leaf)} {}
Parts::Parts(LayerState<Tensor> leaf)
    : form_(Form::leaf(LeafKind::kState)), others_{std::move(leaf)} {}
Parts::Parts(NewState<Tensor> leaf)
    : form_(Form::leaf(LeafKind::kNewState)), others_{std::move(leaf)} {}

Parts Parts::made_of(Form::Kind kind, std::vector<std::string> names, std::vector<Parts> parts) {
  std::vector<const Form*> forms;
  Parts out;
  for (Parts& part : parts) {
    forms.push_back(part.form_);
    std::ranges::move(part.tensors_, std::back_inserter(out.tensors_));
    std::ranges::move(part.others_, std::back_inserter(out.others_));
  }
  out.form_ = Form::of(kind, std::move(names), std::move(forms));
  return out;
}

Parts Parts::fields(std::vector<Named> given) {
  std::vector<std::string> names;
  std::vector<Parts> parts;
  for (Named& each : given) {
    names.push_back(std::move(each.name));
    parts.push_back(std::move(each.parts));
  }
  return made_of(Form::Kind::kFields, std::move(names), std::move(parts));
}

Parts Parts::map(std::vector<Named> given) {
  std::ranges::sort(given, {}, &Named::name);
  std::vector<std::string> names;
  std::vector<Parts> parts;
  for (Named& each : given) {
    names.push_back(std::move(each.name));
    parts.push_back(std::move(each.parts));
  }
  return made_of(Form::Kind::kMap, std::move(names), std::move(parts));
}

Parts Parts::list(std::vector<Parts> parts) {
  return made_of(Form::Kind::kList, {}, std::move(parts));
}

Parts Parts::alternative(std::size_t index, Parts held) {
  std::vector<Parts> parts;
  parts.push_back(std::move(held));
  return made_of(Form::Kind::kVariant, {std::to_string(index)}, std::move(parts));
}

Parts Parts::optional(std::optional<Parts> part) {
  std::vector<Parts> parts;
  if (part) parts.push_back(*std::move(part));
  return made_of(Form::Kind::kOptional, {}, std::move(parts));
}

Parts Parts::without_values(const Form* form) {
  Parts out;
  out.form_ = form;
  out.tensors_.resize(form->tensors());
  out.others_.reserve(form->others());
  if (form->others() == 0) return out;
  for (const FormLeaf& leaf : form->leaves()) {
    if (leaf.kind == LeafKind::kTensor) continue;
    ETUDE_REQUIRE(leaf.kind == LeafKind::kState || leaf.kind == LeafKind::kNewState,
                  "part '{}' is {}, which has no empty value. Make Parts with its value", leaf.path,
                  kind_name(leaf.kind));
    if (leaf.kind == LeafKind::kState) {
      out.others_.emplace_back(LayerState<Tensor>());
    } else {
      out.others_.emplace_back(NewState<Tensor>());
    }
  }
  return out;
}

const FormLeaf& Parts::find(std::string_view path, LeafKind kind) const {
  const auto& leaves = form_->leaves();
  const auto found = std::ranges::find(leaves, path, &FormLeaf::path);
  if (found == leaves.end()) {
    if (const Form* part = form_->find(path)) {
      ETUDE_THROW(kInvalidArgument, "part '{}' is {}, not {}. Use a path of a leaf, or part()",
                  path, part->to_string(), kind_name(kind));
    }
    throw_no_part(*form_, path);
  }
  ETUDE_REQUIRE(found->kind == kind, "part '{}' is {}, not {}", path, kind_name(found->kind),
                kind_name(kind));
  return *found;
}

Tensor& Parts::tensor(std::string_view path) {
  return tensors_[find(path, LeafKind::kTensor).slot];
}
const Tensor& Parts::tensor(std::string_view path) const {
  return tensors_[find(path, LeafKind::kTensor).slot];
}
const Variable& Parts::variable(std::string_view path) const {
  return std::get<Variable>(others_[find(path, LeafKind::kVariable).slot]);
}
const Described& Parts::host(std::string_view path) const {
  return std::get<Described>(others_[find(path, LeafKind::kHost).slot]);
}
LayerState<Tensor>& Parts::state(std::string_view path) {
  return std::get<LayerState<Tensor>>(others_[find(path, LeafKind::kState).slot]);
}
const LayerState<Tensor>& Parts::state(std::string_view path) const {
  return std::get<LayerState<Tensor>>(others_[find(path, LeafKind::kState).slot]);
}
const NewState<Tensor>& Parts::new_state(std::string_view path) const {
  return std::get<NewState<Tensor>>(others_[find(path, LeafKind::kNewState).slot]);
}

std::pair<std::size_t, const Form*> Parts::locate(std::string_view path) const {
  const Form* found = form_->find(path);
  if (found == nullptr) throw_no_part(*form_, path);
  const auto& leaves = form_->leaves();
  const auto first = std::ranges::find_if(leaves, [&](const FormLeaf& leaf) {
    return path.empty() || leaf.path == path ||
           (leaf.path.starts_with(path) && leaf.path[path.size()] == '/');
  });
  return {static_cast<std::size_t>(first - leaves.begin()), found};
}

Parts Parts::part(std::string_view path) const {
  const auto [first, form] = locate(path);
  Parts out;
  out.form_ = form;
  for (std::size_t i = first; i < first + form->leaves().size(); ++i) {
    const FormLeaf& leaf = this->leaf(i);
    if (leaf.kind == LeafKind::kTensor) {
      out.tensors_.push_back(tensors_[leaf.slot]);
    } else {
      out.others_.push_back(others_[leaf.slot]);
    }
  }
  return out;
}

namespace {

// `form` with `with` at a path, which exists.
const Form* replaced(const Form* form, std::string_view path, const Form* with) {
  if (path.empty()) return with;
  std::vector<const Form*> parts = form->parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string name = form->component(i);
    std::string_view rest = path;
    if (!name.empty()) {
      if (!path.starts_with(name)) continue;
      rest.remove_prefix(name.size());
      if (!rest.empty() && rest[0] != '/') continue;
      if (!rest.empty()) rest.remove_prefix(1);
    }
    if (parts[i]->find(rest) == nullptr) continue;
    parts[i] = replaced(parts[i], rest, with);
    return Form::of(form->kind(), form->names(), std::move(parts));
  }
  return form;
}

}  // namespace

void Parts::put(std::string_view path, const Parts& parts) {
  const auto [first, old] = locate(path);
  Parts out;
  out.form_ = replaced(form_, path, parts.form_);
  const auto append = [&out](const Parts& from, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const FormLeaf& leaf = from.leaf(i);
      if (leaf.kind == LeafKind::kTensor) {
        out.tensors_.push_back(from.tensors_[leaf.slot]);
      } else {
        out.others_.push_back(from.others_[leaf.slot]);
      }
    }
  };
  append(*this, 0, first);
  append(parts, 0, parts.size());
  append(*this, first + old->leaves().size(), size());
  *this = std::move(out);
}

Parts Parts::constant() const {
  Parts out = *this;
  out.form_ =
      form_->with([](FormLeaf& leaf) { return std::exchange(leaf.is_marked, true) != true; });
  return out;
}

std::size_t Parts::set_frozen(std::string_view at, std::string_view prefix, bool frozen) {
  std::size_t count = 0;
  form_ = form_->with([&](FormLeaf& leaf) {
    const std::string path = at.empty()          ? leaf.path
                             : leaf.path.empty() ? std::string(at)
                                                 : std::string(at) + "/" + leaf.path;
    const bool is_meant = path.starts_with(prefix) || path + "/" == prefix;
    if (!is_meant || leaf.kind == LeafKind::kHost) return false;
    ++count;
    return std::exchange(leaf.is_frozen, frozen) != frozen;
  });
  return count;
}

std::string Parts::to_string() const {
  std::string out;
  each_part([&](const FormLeaf& leaf, const auto& value) {
    using Leaf = std::remove_cvref_t<decltype(value)>;
    std::string text;
    if constexpr (std::is_same_v<Leaf, Tensor>) {
      text = text_of(value);
    } else if constexpr (std::is_same_v<Leaf, Described>) {
      text = value.text();
    } else if constexpr (std::is_same_v<Leaf, Variable>) {
      text = internal::title_of(value);
    } else if constexpr (std::is_same_v<Leaf, LayerState<Tensor>>) {
      text = text_of(value.value);
    } else {
      text = value.value ? text_of(*value.value) : "none";
    }
    const bool is_state = leaf.kind == LeafKind::kState || leaf.kind == LeafKind::kNewState;
    out += fmt::format("{}{}{}{}{}: {}", out.empty() ? "" : "\n", leaf.path,
                       is_state ? " (state)" : "", leaf.is_marked ? " (constant)" : "",
                       leaf.is_frozen ? " (frozen)" : "", text);
  });
  return out;
}

std::ostream& operator<<(std::ostream& out, const Parts& parts) { return out << parts.to_string(); }

Parts& Parts::operator-=(const Parts& other) { return *this += other * -1; }
Parts& Parts::operator*=(double by) {
  for (Tensor& leaf : tensors_) {
    if (leaf.has_value()) leaf *= by;
  }
  return *this;
}
Parts& Parts::operator/=(double by) {
  for (Tensor& leaf : tensors_) {
    if (leaf.has_value()) leaf /= by;
  }
  return *this;
}

namespace internal {

void throw_at_part(const Error& error, const std::string& path) {
  if (path.empty() || error.text().starts_with("part '")) throw;
  Error named(error.code(), "part '" + path + "': " + error.text());
  named.locate(error.where());
  throw named;
}

void throw_variable_in(std::string_view function, std::string_view what, const std::string& path) {
  ETUDE_THROW(kInvalidArgument,
              "function '{}': part '{}' of {} is a Variable, but a graph returns values. Return "
              "its value, read()",
              function, path, what);
}

}  // namespace internal
}  // namespace etude
