// SPDX-License-Identifier: Apache-2.0
// Converts structs to Parts (parts/parts.h) and back. A model becomes its named parts, and parts
// become a model again. struct_of() and assign_parts() also work inside an operator on Parts, such
// as a gradient. The layer state of the model then passes its updates on to the parts that the
// model was made from:
//
//   Parts parts = parts_of(net);
//   auto [loss, slopes] = value_with_gradient([&](const Parts& p) {
//     return loss_of(struct_of(net, p)(x), y);
//   }, parts);
//   optimizer.update(parts, slopes);
//   assign_parts(net, parts);
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "etude/autodiff/state_update.h"
#include "etude/autodiff/tangent.h"
#include "etude/base/fields.h"
#include "etude/base/structure.h"
#include "etude/diff/freezable.h"
#include "etude/parts/parts.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

template <class T>
struct HasNoParts {
  static constexpr bool is_known = sizeof(T*) == 0;
  static_assert(
      is_known,
      "etude: parts_of: a part is a tensor, a Variable, layer state, a container or plain struct "
      "of these, or a host value with == or host_key(). This type is none of these");
};
template <class T>
struct StateOfTensors {
  static constexpr bool holds_tensors = HasLeaf<T, Tensor, Marked::kVisit>::value;
  static_assert(holds_tensors, "etude: parts_of: the state of a layer holds tensors as Parts");
};

// The wrappers around a leaf, such as NoDerivative. The leaf of Parts stores them as flags.
struct PartFacts {
  bool is_marked = false, is_frozen = false, is_state = false, is_new_state = false;
  bool has_value = true;  // may be false for new state only
};

// The kinds of containers for PartsMaker and PartsReader.
template <class T>
concept SequenceOfParts =
    std::ranges::range<T> && !std::is_convertible_v<T, std::string_view> && !requires {
  typename T::mapped_type;
};
template <class T>
concept MapOfParts = requires {
  typename T::mapped_type;
  requires std::is_same_v<typename T::key_type, std::string>;
};
template <class T>
inline constexpr bool kIsFixedTuple = false;
template <class... T>
inline constexpr bool kIsFixedTuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool kIsFixedTuple<std::pair<A, B>> = true;
template <class T>
inline constexpr bool kIsOptionalPart = false;
template <class T>
inline constexpr bool kIsOptionalPart<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsVariantPart = false;
template <class... T>
inline constexpr bool kIsVariantPart<std::variant<T...>> = true;
template <class T>
inline constexpr bool kIsStateOf = false;
template <class T>
inline constexpr bool kIsStateOf<LayerState<T>> = true;
template <class T>
inline constexpr bool kIsNewStateOf = false;
template <class T>
inline constexpr bool kIsNewStateOf<NewState<T>> = true;

class PartsMaker {
 public:
  template <class X>
  static etude::Parts make(const X& x, const PartFacts& facts) {
    using T = std::remove_cv_t<X>;
    if constexpr (std::is_same_v<T, Tensor>) {
      return of_tensor(x, facts);
    } else if constexpr (std::is_same_v<T, Variable>) {
      return etude::Parts(x);
    } else if constexpr (RuntimeStructure<T>) {
      return of_parts(x, facts);
    } else if constexpr (std::is_same_v<T, NoTangent>) {
      return etude::Parts::without_values(Form::leaf(LeafKind::kHost)->tangent());
    } else if constexpr (kIsStateOf<T>) {
      static_cast<void>(sizeof(StateOfTensors<std::remove_cvref_t<decltype(x.value)>>));
      PartFacts inner = facts;
      inner.is_state = true;
      return make(x.value, inner);
    } else if constexpr (kIsNewStateOf<T>) {
      using V = typename std::remove_cvref_t<decltype(x.value)>::value_type;
      PartFacts inner = facts;
      inner.is_new_state = true;
      inner.has_value = x.value.has_value();
      return make(x.value ? *x.value : V(), inner);
    } else if constexpr (IsNoDerivative<T>::value) {
      PartFacts inner = facts;
      inner.is_marked = true;
      return make(x.value, inner);
    } else if constexpr (IsFreezable<T>::value) {
      PartFacts inner = facts;
      inner.is_frozen = facts.is_frozen || x.frozen;
      return etude::Parts::fields({{"value", make(x.value, inner)}});
    } else {
      return of_container(x, facts);
    }
  }

 private:
  static etude::Parts of_tensor(const Tensor& x, const PartFacts& facts);
  static etude::Parts of_parts(etude::Parts x, const PartFacts& facts);

  template <class T>
  static etude::Parts of_container(const T& x, const PartFacts& facts) {
    if constexpr (kIsOptionalPart<T>) {
      return etude::Parts::optional(x ? std::optional<etude::Parts>(make(*x, facts))
                                      : std::nullopt);
    } else if constexpr (kIsVariantPart<T>) {
      return std::visit(
          [&](const auto& held) { return etude::Parts::alternative(x.index(), make(held, facts)); },
          x);
    } else if constexpr (kIsFixedTuple<T>) {
      return std::apply(
          [&](const auto&... part) {
            return etude::Parts::list(std::vector<etude::Parts>{make(part, facts)...});
          },
          x);
    } else if constexpr (MapOfParts<T>) {
      std::vector<Named> parts;
      for (const auto& [key, value] : x) parts.emplace_back(key, make(value, facts));
      return etude::Parts::map(std::move(parts));
    } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
      return etude::Parts(Described(x));
    } else if constexpr (SequenceOfParts<T>) {
      std::vector<etude::Parts> parts;
      for (const auto& element : x) parts.push_back(make(element, facts));
      return etude::Parts::list(std::move(parts));
    } else if constexpr (Reflectable<T>) {
      return of_fields(x, facts, std::make_index_sequence<field_count<T>()>());
    } else if constexpr (Describable<T>) {
      return etude::Parts(Described(x));
    } else {
      static_cast<void>(sizeof(HasNoParts<T>));
      return etude::Parts();
    }
  }
  template <class T, std::size_t... I>
  static etude::Parts of_fields(const T& x, const PartFacts& facts, std::index_sequence<I...>) {
    [[maybe_unused]] const auto all = fields(x);
    std::vector<Named> parts;
    (parts.emplace_back(std::string(field_name<T, I>), make(std::get<I>(all), facts)), ...);
    return etude::Parts::fields(std::move(parts));
  }
};

// Assigns the leaves of Parts, one by one, to a structure of the same nesting.
class PartsReader {
 public:
  explicit PartsReader(const etude::Parts& parts) : parts_(parts) {}

  template <class T>
  void read(T& x, const Form& form) {
    if constexpr (std::is_same_v<T, Tensor>) {
      read_tensor(x, form);
    } else if constexpr (std::is_same_v<T, Variable>) {
      read_variable(x, form);
    } else if constexpr (RuntimeStructure<T>) {
      read_parts(x, form);
    } else if constexpr (kIsStateOf<T>) {
      const std::size_t first = next_;
      read(x.value, form);
      link(x, form, first);
    } else if constexpr (std::is_same_v<T, NoTangent>) {
      if (form.kind() != Form::Kind::kNothing) throw_at("the struct has no tangent here");
    } else if constexpr (kIsNewStateOf<T>) {
      read_update(x.value, form);
    } else if constexpr (IsNoDerivative<T>::value) {
      read(x.value, form);
    } else if constexpr (IsFreezable<T>::value) {
      require(form, Form::Kind::kFields, 1);
      const std::size_t first = next_;
      read_part("value", x.value, *form.parts()[0]);
      x.frozen = frozen_of(form, first, x.frozen);
    } else {
      read_container(x, form);
    }
  }

 private:
  template <class T>
  void read_part(const std::string& component, T& x, const Form& form) {
    const std::size_t length = path_.enter(component);
    read(x, form);
    path_.leave(length);
  }
  // Reads an update of layer state from a tangent. Either all of its tensors are present, or none.
  template <class T>
  void read_update(std::optional<T>& x, const Form& form) {
    T value = x ? *x : T();
    read(value, form);
    bool has_all = true;
    each_state_tensor(value, [&](const Tensor& t) { has_all = has_all && t.has_value(); });
    x.reset();
    if (has_all) x.emplace(std::move(value));
  }
  template <class T>
  void read_container(T& x, const Form& form) {
    using Kind = Form::Kind;
    if constexpr (kIsOptionalPart<T>) {
      require(form, Kind::kOptional, form.parts().size());
      if (form.parts().empty()) {
        x.reset();
      } else {
        if (!x) emplace(x);
        read(*x, *form.parts()[0]);
      }
    } else if constexpr (kIsVariantPart<T>) {
      require(form, Kind::kVariant, 1);
      if (form.names()[0] != std::to_string(x.index())) throw_alternative(form, x.index());
      std::visit([&](auto& held) { read(held, *form.parts()[0]); }, x);
    } else if constexpr (kIsFixedTuple<T>) {
      require(form, Kind::kList, std::tuple_size_v<T>);
      std::size_t i = 0;
      std::apply(
          [&](auto&... part) {
            (
                [&] {
                  read_part(std::to_string(i), part, *form.parts()[i]);
                  ++i;
                }(),
                ...);
          },
          x);
    } else if constexpr (MapOfParts<T>) {
      read_map(x, form);
    } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
      read_host(x, form);
    } else if constexpr (SequenceOfParts<T>) {
      using Element = std::remove_cvref_t<decltype(*std::begin(x))>;
      if constexpr (std::is_default_constructible_v<Element> && requires { x.resize(1); }) {
        require(form, Kind::kList, form.parts().size());
        x.resize(form.parts().size());
      } else {
        require(form, Kind::kList, std::size(x));
      }
      std::size_t i = 0;
      for (auto& element : x) {
        read_part(std::to_string(i), element, *form.parts()[i]);
        ++i;
      }
    } else if constexpr (Reflectable<T>) {
      read_fields_of(x, form, std::make_index_sequence<field_count<T>()>());
    } else {
      read_host(x, form);
    }
  }
  template <class T>
  void read_map(T& x, const Form& form) {
    require(form, Form::Kind::kMap, form.parts().size());
    std::erase_if(x, [&](const auto& entry) { return !has_name(form, entry.first); });
    for (std::size_t i = 0; i < form.parts().size(); ++i) {
      const std::string& name = form.names()[i];
      auto found = x.find(name);
      if constexpr (std::is_default_constructible_v<typename T::mapped_type>) {
        if (found == x.end()) found = x.try_emplace(name).first;
      } else {
        if (found == x.end()) throw_new_part(name);
      }
      read_part(name, found->second, *form.parts()[i]);
    }
  }
  template <class T, std::size_t... I>
  void read_fields_of(T& x, const Form& form, std::index_sequence<I...>) {
    static constexpr std::string_view kNames[] = {field_name<T, I>..., ""};
    require_fields(form, {kNames, sizeof...(I)});
    [[maybe_unused]] auto all = fields(x);
    (read_part(std::string(field_name<T, I>), std::get<I>(all), *form.parts()[I]), ...);
  }
  template <class T>
  void read_host(T& x, const Form& form) {
    const Described& host = next_host(form);
    try {
      x = host.get<T>();
    } catch (const Error& error) {
      throw_at_part(error, path_.text());
    }
  }
  template <class T>
  void emplace(std::optional<T>& x) {
    if constexpr (std::is_default_constructible_v<T>) {
      x.emplace();
    } else {
      throw_new_part(path_.text());
    }
  }

  // Links `x` to its leaves in the parts. `first` is the index of the first of these leaves. If an
  // operator waits for updates of the leaves, `x` passes its updates on to them.
  template <class T>
  void link(LayerState<T>& x, const Form& form, std::size_t first) {
    const std::vector<std::shared_ptr<StateBox<Tensor>>> boxes =
        open_boxes(parts_, first, form.leaves().size());
    if (boxes.empty()) return StateAccess::set_box(x, std::shared_ptr<StateBox<T>>());
    auto box = std::make_shared<StateBox<T>>(nullptr, boxes[0]->vmaps(), next_moment());
    box->follow(boxes[0]);
    box->is_taken = boxes[0]->is_taken;
    box->is_frozen = boxes[0]->is_frozen;
    if (std::optional<std::vector<Tensor>> latest = latest_of(boxes)) {
      T value = x.value;
      std::size_t i = 0;
      each_state_tensor(value, [&](Tensor& tensor) { tensor = (*latest)[i++]; });
      box->hold(std::move(value));
    }
    box->pass_on = [boxes](const T& value, const StateBoxBase& from) {
      std::size_t i = 0;
      each_state_tensor(value, [&](const Tensor& tensor) { put_state(*boxes[i++], tensor, from); });
    };
    StateAccess::set_box(x, std::move(box));
  }

  void read_tensor(Tensor& x, const Form& form);
  void read_variable(Variable& x, const Form& form);
  void read_parts(etude::Parts& x, const Form& form);
  const Described& next_host(const Form& form);
  bool frozen_of(const Form& form, std::size_t first, bool was) const;
  static bool has_name(const Form& form, const std::string& name);
  void require(const Form& form, Form::Kind kind, std::size_t size) const;
  void require_fields(const Form& form, std::span<const std::string_view> names) const;
  [[noreturn]] void throw_alternative(const Form& form, std::size_t held) const;
  [[noreturn]] void throw_new_part(const std::string& name) const;
  [[noreturn]] void throw_at(const std::string& fact) const;
  static std::vector<std::shared_ptr<StateBox<Tensor>>> open_boxes(const etude::Parts& parts,
                                                                   std::size_t first,
                                                                   std::size_t count);
  static std::optional<std::vector<Tensor>> latest_of(
      const std::vector<std::shared_ptr<StateBox<Tensor>>>& boxes);
  static void put_state(StateBox<Tensor>& box, const Tensor& value, const StateBoxBase& from);

  const etude::Parts& parts_;
  std::size_t next_ = 0;
  PathBuffer path_;
};

// Returns a copy of `parts`. An operator or a tape may wait for state updates of `parts`. The layer
// state of the returned copy, and of further copies, passes its updates on to that operator or
// tape.
etude::Parts with_open_states(const etude::Parts& parts);

}  // namespace internal

// The parts of a structure. Fields and keys are named; elements of sequences are numbered. Each
// tensor, Variable, tensor of layer state, and host value is a leaf. Paths are the same as in
// for_each_leaf, checkpoints and optimisers. Members that ETUDE_FIELDS omits are not parts.
template <class X>
[[nodiscard]] Parts parts_of(const X& x) {
  return internal::PartsMaker::make(x, {});
}

// Assigns parts of the same nesting and names to x. The shapes and dtypes of tensors may differ. A
// vector gets the length of its part, and a map gets the keys of its part. An optional has a value
// exactly if its part has one. New elements need a default constructor.
//
// throws: kInvalidArgument, with the path, if the form of the parts does not fit x. x is then
// unchanged.
template <class X>
void assign_parts(X& x, const Parts& parts) {
  X copy = x;
  internal::PartsReader(parts).read(copy, *parts.form());
  x = std::move(copy);
}
// Returns a copy of `like` with these parts. throws: the errors of assign_parts().
template <class X>
[[nodiscard]] X struct_of(X like, const Parts& parts) {
  internal::PartsReader(parts).read(like, *parts.form());
  return like;
}

}  // namespace etude
