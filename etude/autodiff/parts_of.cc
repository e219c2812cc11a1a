// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/parts_of.h"

#include <algorithm>
#include <span>

#include "etude/autodiff/tangent.h"
#include "etude/base/check.h"

namespace etude {

// Here, since the tangents of tensors are.
Parts& Parts::operator+=(const Parts& other) {
  accumulate(*this, other);
  return *this;
}

}  // namespace etude

namespace etude::internal {

etude::Parts PartsMaker::of_tensor(const Tensor& x, const PartFacts& facts) {
  if (facts.is_new_state) {
    NewState<Tensor> update;
    if (facts.has_value) update.value = x;
    return etude::Parts(std::move(update));
  }
  return of_parts(facts.is_state ? etude::Parts(LayerState<Tensor>(x)) : etude::Parts(x), facts);
}

etude::Parts PartsMaker::of_parts(etude::Parts x, const PartFacts& facts) {
  if (facts.is_marked) x = x.constant();
  if (facts.is_frozen) x.set_frozen("", "", true);
  return x;
}

void PartsReader::throw_at(const std::string& fact) const {
  ETUDE_THROW(kInvalidArgument, "assign_parts: {}{}",
              path_.text().empty() ? "" : "part '" + path_.text() + "': ", fact);
}

void PartsReader::require(const Form& form, Form::Kind kind, std::size_t size) const {
  if (form.kind() != kind) {
    const char* needed = kind == Form::Kind::kList       ? "a list"
                         : kind == Form::Kind::kMap      ? "a map"
                         : kind == Form::Kind::kOptional ? "an optional part"
                         : kind == Form::Kind::kVariant  ? "a variant"
                                                         : "fields";
    throw_at(fmt::format("the struct has {} here, but the parts are {}", needed, form.to_string()));
  }
  if (form.parts().size() != size) {
    throw_at(fmt::format("the struct has {} elements here, but the parts are {}", size,
                         form.parts().size()));
  }
}

void PartsReader::require_fields(const Form& form, std::span<const std::string_view> names) const {
  if (form.kind() != Form::Kind::kFields) require(form, Form::Kind::kFields, names.size());
  if (std::ranges::equal(form.names(), names)) return;
  throw_at(
      fmt::format("the struct has the fields ({}), but the parts have ({}). Give the parts of "
                  "this struct",
                  fmt::join(names, ", "), fmt::join(form.names(), ", ")));
}

void PartsReader::throw_alternative(const Form& form, std::size_t held) const {
  throw_at(fmt::format("the variant holds alternative {}, but the parts are alternative {}", held,
                       form.names()[0]));
}

void PartsReader::throw_new_part(const std::string& name) const {
  throw_at(fmt::format("'{}' is new, but its type has no default value. Add it to the struct first",
                       name));
}

bool PartsReader::has_name(const Form& form, const std::string& name) {
  return std::ranges::find(form.names(), name) != form.names().end();
}

void PartsReader::read_tensor(Tensor& x, const Form& form) {
  if (form.kind() != Form::Kind::kLeaf) {
    throw_at(fmt::format("the struct has a tensor here, but the parts are {}", form.to_string()));
  }
  const FormLeaf& leaf = parts_.leaf(next_++);
  bool is_taken = false;
  etude::Parts::at(parts_, leaf, [&](const auto& value) {
    using Leaf = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<Leaf, Tensor>) {
      x = value;
      is_taken = true;
    } else if constexpr (std::is_same_v<Leaf, LayerState<Tensor>>) {
      x = value.value;
      is_taken = true;
    } else if constexpr (std::is_same_v<Leaf, NewState<Tensor>>) {
      x = value.value ? *value.value : Tensor();
      is_taken = true;
    }
  });
  if (!is_taken) {
    throw_at(fmt::format("the struct has a tensor here, but the part is a {}", form.to_string()));
  }
}

void PartsReader::read_variable(Variable& x, const Form& form) {
  if (form.kind() != Form::Kind::kLeaf || form.leaves()[0].kind != LeafKind::kVariable) {
    throw_at(fmt::format("the struct has a Variable here, but the parts are {}", form.to_string()));
  }
  const FormLeaf& leaf = parts_.leaf(next_++);
  etude::Parts::at(parts_, leaf, [&](const auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, Variable>) x = value;
  });
}

void PartsReader::read_parts(etude::Parts& x, const Form& form) {
  x = path_.text().empty() ? parts_ : parts_.part(path_.text());
  next_ += form.leaves().size();
}

const Described& PartsReader::next_host(const Form& form) {
  if (form.kind() != Form::Kind::kLeaf || form.leaves()[0].kind != LeafKind::kHost) {
    throw_at(
        fmt::format("the struct has a host value here, but the parts are {}", form.to_string()));
  }
  const Described* found = nullptr;
  etude::Parts::at(parts_, parts_.leaf(next_++), [&](const auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, Described>) found = &value;
  });
  return *found;
}

bool PartsReader::frozen_of(const Form& form, std::size_t first, bool was) const {
  std::size_t count = 0, frozen = 0;
  for (std::size_t i = first; i < first + form.leaves().size(); ++i) {
    const FormLeaf& leaf = parts_.leaf(i);
    if (leaf.kind == LeafKind::kHost) continue;
    ++count;
    frozen += leaf.is_frozen ? 1 : 0;
  }
  if (count == 0) return was;
  if (frozen != 0 && frozen != count) {
    throw_at(
        fmt::format("the struct is frozen as a whole or not at all, but {} of {} parts are "
                    "frozen. Freeze all of them",
                    frozen, count));
  }
  return frozen != 0;
}

namespace {

// The box that takes updates of this state; null: nothing waits for them.
std::shared_ptr<StateBox<Tensor>> open_box(const LayerState<Tensor>& state) {
  std::shared_ptr<StateBox<Tensor>> box = StateAccess::box(state);
  if (box != nullptr && box->is_open()) return box;
  TapedStates* taped = taped_states();
  if (taped == nullptr || StateReplay::is_after(taped->since())) return nullptr;
  return taped->box(state);
}

}  // namespace

etude::Parts with_open_states(const etude::Parts& parts) {
  etude::Parts out = parts;
  if (parts.form()->others() == 0) return out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const FormLeaf& leaf = parts.leaf(i);
    if (leaf.kind != LeafKind::kState) continue;
    StateAccess::set_box(out.state(leaf.path), open_box(parts.state(leaf.path)));
  }
  return out;
}

std::vector<std::shared_ptr<StateBox<Tensor>>> PartsReader::open_boxes(const etude::Parts& parts,
                                                                       std::size_t first,
                                                                       std::size_t count) {
  std::vector<std::shared_ptr<StateBox<Tensor>>> boxes;
  for (std::size_t i = first; i < first + count; ++i) {
    etude::Parts::at(parts, parts.leaf(i), [&](const auto& value) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, LayerState<Tensor>>) {
        if (auto box = open_box(value)) boxes.push_back(std::move(box));
      }
    });
  }
  if (boxes.size() != count) boxes.clear();
  return boxes;
}

std::optional<std::vector<Tensor>> PartsReader::latest_of(
    const std::vector<std::shared_ptr<StateBox<Tensor>>>& boxes) {
  std::vector<Tensor> out;
  for (const auto& box : boxes) {
    const Tensor* latest = box->latest();
    if (latest == nullptr) return std::nullopt;
    out.push_back(*latest);
  }
  return out;
}

void PartsReader::put_state(StateBox<Tensor>& box, const Tensor& value, const StateBoxBase& from) {
  if (box.is_frozen) return;
  if (!box.is_taken) {
    box.layer = from.layer;
    box.where = from.where;
  }
  box.put(StateCheck<Tensor>::with_update(value, box.vmaps()));
}

}  // namespace etude::internal
