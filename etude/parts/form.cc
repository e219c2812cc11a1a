// SPDX-License-Identifier: Apache-2.0
#include "etude/parts/form.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "etude/base/check.h"
#include "etude/base/intern_table.h"
#include "etude/base/internal/hash.h"
#include "etude/base/permanent.h"

namespace etude {
namespace {

std::string_view kind_text(LeafKind kind) {
  switch (kind) {
    case LeafKind::kTensor:
      return "tensor";
    case LeafKind::kVariable:
      return "Variable";
    case LeafKind::kState:
      return "state";
    case LeafKind::kNewState:
      return "new state";
    case LeafKind::kHost:
      return "host value";
  }
  return "unknown";
}

std::string joined(const std::string& path, const std::string& component) {
  if (path.empty()) return component;
  return component.empty() ? path : path + "/" + component;
}

}  // namespace

// The forms of the process, by their definition.
struct FormTable {
  struct Key {
    Form::Kind kind;
    FormLeaf leaf;
    const std::vector<std::string>& names;
    const std::vector<const Form*>& parts;
  };
  using Item = std::unique_ptr<const Form>;
  static Key key_of(const Item& x) {
    return {x->kind_, x->kind_ == Form::Kind::kLeaf ? x->leaves_[0] : FormLeaf(), x->names_,
            x->parts_};
  }
  static const Key& key_of(const Key& x) { return x; }

  struct Hash {
    using is_transparent = void;
    template <class X>
    std::size_t operator()(const X& x) const {
      const Key& key = key_of(x);
      uint64_t h = internal::mix(static_cast<uint64_t>(key.kind), facts(key.leaf));
      for (const std::string& name : key.names) {
        h = internal::mix(h, std::hash<std::string>{}(name));
      }
      for (const Form* part : key.parts) {
        h = internal::mix(h, reinterpret_cast<std::uintptr_t>(part));
      }
      return h;
    }
    static uint64_t facts(const FormLeaf& leaf) {
      return static_cast<uint64_t>(leaf.kind) * 4 + (leaf.is_marked ? 2 : 0) +
             (leaf.is_frozen ? 1 : 0);
    }
  };
  struct Equal {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& x, const B& y) const {
      const Key& a = key_of(x);
      const Key& b = key_of(y);
      return a.kind == b.kind && Hash::facts(a.leaf) == Hash::facts(b.leaf) && a.names == b.names &&
             a.parts == b.parts;
    }
  };

  static const Form* find(Form::Kind kind, const FormLeaf& leaf, std::vector<std::string> names,
                          std::vector<const Form*> parts) {
    static internal::Permanent<internal::InternTable<Item, Hash, Equal>> table;
    const Key key{kind, leaf, names, parts};
    return table->find_or_make(key, [&] { return Item(new Form(kind, leaf, names, parts)); })
        ->get();
  }
};

Form::Form(Kind kind, FormLeaf leaf, std::vector<std::string> names, std::vector<const Form*> parts)
    : kind_(kind), names_(std::move(names)), parts_(std::move(parts)) {
  if (kind_ == Kind::kLeaf) leaves_.push_back({"", leaf.kind, leaf.is_marked, leaf.is_frozen});
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    for (FormLeaf each : parts_[i]->leaves_) {
      each.path = joined(component(i), each.path);
      leaves_.push_back(std::move(each));
    }
  }
  int32_t tangents = 0;
  for (FormLeaf& each : leaves_) {
    each.slot = each.kind == LeafKind::kTensor ? tensors_++ : others_++;
    each.tangent = each.is_marked || each.kind == LeafKind::kHost ? -1 : tangents++;
  }
}

std::string Form::component(std::size_t i) const {
  if (kind_ == Kind::kOptional || kind_ == Kind::kVariant) return "";
  return kind_ == Kind::kList ? std::to_string(i) : names_[i];
}

const Form* Form::leaf(LeafKind kind, bool is_marked, bool is_frozen) {
  return FormTable::find(Kind::kLeaf,
                         {.kind = kind, .is_marked = is_marked, .is_frozen = is_frozen}, {}, {});
}

const Form* Form::of(Kind kind, std::vector<std::string> names, std::vector<const Form*> parts) {
  std::vector<std::string_view> sorted(names.begin(), names.end());
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  ETUDE_REQUIRE(twice == sorted.end(), "a part is named '{}' twice. Name each part once", *twice);
  ETUDE_REQUIRE(sorted.empty() || !sorted.front().empty(),
                "a part has an empty name. Name it, or make a list");
  return FormTable::find(kind, {}, std::move(names), std::move(parts));
}

const Form* Form::tangent() const {
  const Form* found = tangent_.load(std::memory_order_acquire);
  if (found == nullptr) {
    found = make_tangent();
    tangent_.store(found, std::memory_order_release);
  }
  return found;
}

const Form* Form::make_tangent() const {
  if (kind_ == Kind::kLeaf) {
    if (leaves_[0].tangent < 0) return FormTable::find(Kind::kNothing, {}, {}, {});
    const LeafKind kind = leaves_[0].kind;
    const bool is_state = kind == LeafKind::kState || kind == LeafKind::kNewState;
    return leaf(is_state ? LeafKind::kNewState : LeafKind::kTensor);
  }
  std::vector<const Form*> parts;
  for (const Form* part : parts_) parts.push_back(part->tangent());
  return FormTable::find(kind_, {}, names_, std::move(parts));
}

const Form* Form::with(internal::FunctionRef<bool(FormLeaf&)> change) const {
  return with("", change);
}

const Form* Form::with(const std::string& path,
                       internal::FunctionRef<bool(FormLeaf&)> change) const {
  if (kind_ == Kind::kLeaf) {
    FormLeaf now = leaves_[0];
    now.path = path;
    return change(now) ? leaf(now.kind, now.is_marked, now.is_frozen) : this;
  }
  std::vector<const Form*> parts;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts.push_back(parts_[i]->with(joined(path, component(i)), change));
  }
  return parts == parts_ ? this : FormTable::find(kind_, {}, names_, std::move(parts));
}

const Form* Form::find(std::string_view path) const {
  if (path.empty()) return this;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::string name = component(i);
    if (name.empty()) {
      if (const Form* found = parts_[i]->find(path)) return found;
    } else if (path.starts_with(name)) {
      if (path.size() == name.size()) return parts_[i];
      if (path[name.size()] != '/') continue;
      if (const Form* found = parts_[i]->find(path.substr(name.size() + 1))) return found;
    }
  }
  return nullptr;
}

std::string Form::to_string() const {
  if (kind_ == Kind::kNothing) return "nothing";
  if (kind_ == Kind::kLeaf) {
    const FormLeaf& only = leaves_[0];
    return fmt::format("{}{}{}", only.is_frozen ? "frozen " : "", only.is_marked ? "constant " : "",
                       kind_text(only.kind));
  }
  if (kind_ == Kind::kOptional) return parts_.empty() ? "absent" : parts_[0]->to_string();
  std::string out;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (i > 0) out += ", ";
    if (kind_ == Kind::kMap) out += "'" + names_[i] + "': ";
    if (kind_ == Kind::kFields) out += names_[i] + ": ";
    out += parts_[i]->to_string();
  }
  if (kind_ == Kind::kVariant) return fmt::format("alternative {} {}", names_[0], out);
  return kind_ == Kind::kList ? "[" + out + "]" : "{" + out + "}";
}

namespace internal {
namespace {

[[noreturn]] void throw_unaligned(const std::string& path, const std::string& fact) {
  ETUDE_THROW(kInvalidArgument, "{}{}. Make the tangent with zero_tangent",
              path.empty() ? "" : "part '" + path + "': ", fact);
}

class Alignment {
 public:
  std::vector<int32_t> found;

  // `first`: the number of the first leaf of `given`; -1: it has none.
  void add(const std::string& path, const Form& value, const Form* given, int32_t first) {
    using Kind = Form::Kind;
    if (given == nullptr || given == &value) {
      const auto leaves = static_cast<int32_t>(value.leaves().size());
      for (int32_t i = 0; i < leaves; ++i) found.push_back(given == nullptr ? -1 : first + i);
      return;
    }
    const bool is_same_kind = value.kind() == given->kind();
    if (!is_same_kind || (value.kind() == Kind::kLeaf)) {
      throw_unaligned(path, fmt::format("the value has a tangent of the form {}, and this is {}",
                                        value.to_string(), given->to_string()));
    }
    if (value.kind() == Kind::kList && value.parts().size() != given->parts().size()) {
      throw_unaligned(path, fmt::format("a tangent of length {} does not fit a value of length {}",
                                        given->parts().size(), value.parts().size()));
    }
    if (value.kind() == Kind::kOptional && value.parts().empty()) {
      throw_unaligned(path, "the value is absent, and its tangent is not");
    }
    for (const std::string& name : given->names()) {
      if (std::ranges::find(value.names(), name) == value.names().end()) {
        throw_unaligned(path,
                        fmt::format("the value has no part '{}', which its tangent has", name));
      }
    }
    for (std::size_t i = 0; i < value.parts().size(); ++i) {
      add_part(joined(path, value.component(i)), value, i, *given, first);
    }
  }

 private:
  void add_part(const std::string& path, const Form& value, std::size_t i, const Form& given,
                int32_t first) {
    using Kind = Form::Kind;
    std::size_t at = i;
    if (value.kind() == Kind::kMap || value.kind() == Kind::kFields) {
      at = static_cast<std::size_t>(std::ranges::find(given.names(), value.names()[i]) -
                                    given.names().begin());
      if (at == given.names().size() && value.kind() == Kind::kFields) {
        throw_unaligned(path, "the tangent has no such part");
      }
    }
    if (at >= given.parts().size()) return add(path, *value.parts()[i], nullptr, -1);
    for (std::size_t k = 0; k < at; ++k) {
      first += static_cast<int32_t>(given.parts()[k]->leaves().size());
    }
    add(path, *value.parts()[i], given.parts()[at], first);
  }
};

}  // namespace

std::vector<int32_t> align_tangents(const Form& value, const Form& given) {
  Alignment out;
  out.add("", value, &given, 0);
  return std::move(out.found);
}

}  // namespace internal
}  // namespace etude
