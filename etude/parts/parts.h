// SPDX-License-Identifier: Apache-2.0
// Parts: a structure that is known only at run time, such as a model that a file describes or that
// another language made. Staged functions, all operators, control flow, optimisers and checkpoints
// accept Parts in place of a struct of tensors. The paths and the bits are the same.
//
//   Parts line = Parts::fields({{"w", w}, {"b", b}, {"scale", Described(2.0)}});
//   const auto loss_of = [&](const Parts& p) { return loss(x, p.tensor("w"), p.tensor("b")); };
//   move(line, -0.1 * gradient(loss_of, line));
//
// autodiff/parts_of.h converts structs to Parts and back.
#pragma once

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "etude/base/error.h"
#include "etude/base/structure.h"
#include "etude/core/tensor.h"
#include "etude/diff/differentiable.h"
#include "etude/diff/layer_state.h"
#include "etude/parts/described.h"
#include "etude/parts/form.h"
#include "etude/variables/variable.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Parts;
struct Named;

namespace internal {

// The types that the leaves of T may have, for decisions at compile time.
template <RuntimeStructure T>
struct PartTypes<T> {
  using Types = TypeList<Tensor, Variable, LayerState<Tensor>, NewState<Tensor>,
                         NoDerivative<Tensor>, Described>;
};

// Throws `error` again, with the path of its part. For catch blocks.
[[noreturn]] void throw_at_part(const Error& error, const std::string& path);
// throws: kInvalidArgument, always: `what` of `function` holds a Variable at `path`.
[[noreturn]] void throw_variable_in(std::string_view function, std::string_view what,
                                    const std::string& path);
// Checks a result of a staged function. throws: kInvalidArgument for a Variable in Parts.
template <class X>
void require_values(std::string_view function, std::string_view what, const X& x) {
  if constexpr (holds_runtime_structure<X>()) {
    for_each_leaf<Variable, Marked::kVisit>(x, [&](const std::string& path, const Variable&) {
      throw_variable_in(function, what, path);
    });
  }
}

}  // namespace internal

// Values with a Form. A copy shares tensors, as a copy of a Tensor does. The kind of a leaf never
// changes; put() replaces whole parts. If Parts are an argument of a staged function, their form
// and host values are fixed in the graph. A host number has no derivative. To train a number, make
// it a tensor.
//
// threads: thread-compatible.
class Parts {
 public:
  using RuntimeStructure = void;
  // The value of a leaf that is not a tensor.
  using Other = std::variant<Described, Variable, LayerState<Tensor>, NewState<Tensor>>;

  Parts();  // a struct without fields
  explicit Parts(Tensor leaf);
  explicit Parts(Variable leaf);
  explicit Parts(Described leaf);
  explicit Parts(LayerState<Tensor> leaf);
  explicit Parts(NewState<Tensor> leaf);

  // throws (fields, map): kInvalidArgument for a name that is empty or repeated.
  static Parts fields(std::vector<Named> parts);
  static Parts map(std::vector<Named> parts);  // sorts the parts by name
  static Parts alternative(std::size_t index, Parts held);
  static Parts list(std::vector<Parts> parts);
  static Parts optional(std::optional<Parts> part);
  // Parts of this form without values: all tensors are absent, also in layer state.
  // throws: kInvalidArgument for a form with Variables or host values.
  static Parts without_values(const Form* form);

  const Form* form() const noexcept { return form_; }
  // The number of leaves, and leaf i.
  std::size_t size() const noexcept { return form_->leaves().size(); }
  const FormLeaf& leaf(std::size_t i) const noexcept { return form_->leaves()[i]; }

  // The leaf at a path. state() returns a tensor that training changes without a derivative.
  // throws: kNotFound, with known paths; kInvalidArgument for a leaf of another kind and for a part
  //   that is not a leaf.
  Tensor& tensor(std::string_view path);
  const Tensor& tensor(std::string_view path) const;
  const Variable& variable(std::string_view path) const;
  const Described& host(std::string_view path) const;
  LayerState<Tensor>& state(std::string_view path);
  const LayerState<Tensor>& state(std::string_view path) const;
  const NewState<Tensor>& new_state(std::string_view path) const;
  bool has(std::string_view path) const { return form_->find(path) != nullptr; }

  // Returns a copy of the part at a path. throws: kNotFound.
  Parts part(std::string_view path) const;
  // Replaces the part at a path, and its form, by `parts`. throws: kNotFound.
  void put(std::string_view path, const Parts& parts);
  // Returns the same parts as constants, like NoDerivative. Derivatives and optimisers leave out
  // constants.
  Parts constant() const;

  // Calls fn(leaf, value) for each leaf in order. `value` is a Tensor, or an alternative of Other.
  template <class Fn>
  void each_part(Fn&& fn) {
    visit(*this, fn);
  }
  template <class Fn>
  void each_part(Fn&& fn) const {
    visit(*this, fn);
  }
  // Calls fn with the value of `leaf`, and returns the result.
  template <class Self, class Fn>
  static decltype(auto) at(Self& self, const FormLeaf& leaf, Fn&& fn);

  // Freezes or unfreezes the leaves whose path in the model begins with `prefix`, except host
  // values. `at` is the path of these Parts in the model. Returns the number of these leaves. For
  // freeze() and unfreeze().
  std::size_t set_frozen(std::string_view at, std::string_view prefix, bool frozen);

  // One line per leaf: "w: float32[3,1]", "rate: 0.1", "running/mean (state): float32[4]".
  std::string to_string() const;

  // Vector arithmetic on tangents, leaf by leaf. throws: kInvalidArgument, with the path, for
  // another form.
  Parts& operator+=(const Parts& other);
  Parts& operator-=(const Parts& other);
  Parts& operator*=(double by);
  Parts& operator/=(double by);
  friend Parts operator+(Parts a, const Parts& b) { return std::move(a += b); }
  friend Parts operator-(Parts a, const Parts& b) { return std::move(a -= b); }
  friend Parts operator-(Parts a) { return std::move(a *= -1); }
  friend Parts operator*(double by, Parts t) { return std::move(t *= by); }
  friend Parts operator*(Parts t, double by) { return std::move(t *= by); }
  friend Parts operator/(Parts t, double by) { return std::move(t /= by); }

 private:
  template <class Self, class Fn>
  static void visit(Self& self, Fn& fn) {
    for (const FormLeaf& leaf : self.form_->leaves()) {
      at(self, leaf, [&](auto& value) { fn(leaf, value); });
    }
  }
  static Parts made_of(Form::Kind kind, std::vector<std::string> names, std::vector<Parts> parts);
  // Returns the leaf of this kind at a path.
  const FormLeaf& find(std::string_view path, LeafKind kind) const;
  // Returns the index of the first leaf of the part at a path, and the form of the part.
  // throws: kNotFound.
  std::pair<std::size_t, const Form*> locate(std::string_view path) const;

  const Form* form_;
  std::vector<Tensor> tensors_;
  std::vector<Other> others_;
};

// A part and its name.
struct Named {
  template <class T>
  requires(std::is_constructible_v<Parts, T&&> || std::is_same_v<std::decay_t<T>, Parts>)
      Named(std::string name_, T&& part_)
      : name(std::move(name_)), parts(std::forward<T>(part_)) {}
  std::string name;
  Parts parts;
};

std::ostream& operator<<(std::ostream& out, const Parts& parts);

template <class Self, class Fn>
decltype(auto) Parts::at(Self& self, const FormLeaf& leaf, Fn&& fn) {
  switch (leaf.kind) {
    case LeafKind::kTensor:
      return fn(self.tensors_[leaf.slot]);
    case LeafKind::kVariable:
      return fn(*std::get_if<Variable>(&self.others_[leaf.slot]));
    case LeafKind::kState:
      return fn(*std::get_if<LayerState<Tensor>>(&self.others_[leaf.slot]));
    case LeafKind::kNewState:
      return fn(*std::get_if<NewState<Tensor>>(&self.others_[leaf.slot]));
    case LeafKind::kHost:
      break;
  }
  return fn(*std::get_if<Described>(&self.others_[leaf.slot]));
}

// The tangent has the same nesting. Tensors and Variables become tensors, and layer state becomes
// NewState. Host values and constants have no tangent. The tangent of a frozen leaf is zero.
// Include autodiff/tangent.h to use the tangent, as for tensors.
template <internal::RuntimeStructure T>
struct DifferentiableTraits<T> : internal::MoveByLeaves<T, DifferentiableTraits<T>> {
  using Tangent = Parts;

  template <class Y, class Fn>
  static void each(Y& x, Fn& fn) {
    x.each_part([&](const FormLeaf& leaf, auto& value) {
      if (leaf.tangent < 0) return;
      if (!leaf.is_frozen) {
        internal::each_leaf(value, fn);
      } else if constexpr (requires { fn.frozen(value); }) {
        fn.frozen(value);
      }
    });
  }
  template <class Fn>
  static Parts build(const T& x, Fn& fn) {
    Parts out = Parts::without_values(x.form()->tangent());
    if constexpr (requires { fn.enter(); }) fn.enter();
    x.each_part([&](const FormLeaf& leaf, const auto& value) {
      using Leaf = std::remove_cvref_t<decltype(value)>;
      if constexpr (!std::is_same_v<Leaf, Described>) {
        if (leaf.tangent < 0) return;
        const auto put = [&](tangent_t<Leaf> made) {
          Parts::at(out, out.leaf(static_cast<std::size_t>(leaf.tangent)), [&](auto& to) {
            if constexpr (std::is_same_v<std::remove_cvref_t<decltype(to)>, tangent_t<Leaf>>) {
              to = std::move(made);
            }
          });
        };
        if (!leaf.is_frozen) return put(internal::build_tangent(value, fn));
        if constexpr (requires { fn.frozen(value); }) fn.frozen(value);
        put(zero_tangent(value));
      }
    });
    if constexpr (requires { fn.leave(); }) fn.leave();
    return out;
  }
  template <class Y, class U, class Fn>
  static void zip(Y& x, U& t, Fn& fn) {
    const Form* tangent = x.form()->tangent();
    std::vector<int32_t> found;
    if (tangent != t.form()) found = internal::align_tangents(*tangent, *t.form());
    x.each_part([&](const FormLeaf& leaf, auto& value) {
      using Leaf = std::remove_cvref_t<decltype(value)>;
      if constexpr (!std::is_same_v<Leaf, Described>) {
        if (leaf.tangent < 0 || leaf.is_frozen) return;
        int32_t at = leaf.tangent;
        if (!found.empty()) at = found[static_cast<std::size_t>(at)];
        if (at < 0) return;
        try {
          Parts::at(t, t.leaf(static_cast<std::size_t>(at)), [&](auto& other) {
            using Other = std::remove_cvref_t<decltype(other)>;
            if constexpr (std::is_same_v<Other, tangent_t<Leaf>>) {
              internal::zip_leaves(value, other, fn);
            }
          });
        } catch (const Error& error) {
          internal::throw_at_part(error, leaf.path);
        }
      }
    });
  }
};

}  // namespace etude
