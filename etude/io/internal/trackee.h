// SPDX-License-Identifier: Apache-2.0
// Nodes of the graph of live objects that a checkpoint saves, and the conversion of each kind of
// object to a node. Included by trackable.h.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/structure.h"
#include "etude/core/tensor.h"
#include "etude/io/internal/prepared_restore.h"
#include "etude/io/safetensors.h"
#include "etude/variables/variable.h"
#include "etude/version.h"

namespace ETUDE_API etude {
struct Generator;
namespace io {

class Trackable;

namespace internal {

class TrackableCore;
class Trackee;
using TrackeePtr = std::shared_ptr<const Trackee>;

// An object, or a part of it.
struct Identity {
  const void* at = nullptr;
  std::string part = {};
  friend auto operator<=>(const Identity&, const Identity&) = default;
};
struct Edge {
  std::string name;
  TrackeePtr to;
};

// A node of the graph of live objects. A handle; several handles may refer to one object.
class Trackee {
 public:
  virtual ~Trackee() = default;
  virtual Identity identity() const = 0;
  virtual std::vector<Edge> edges() const { return {}; }
  // Whether values can be restored to it, and whether it is incomplete without them.
  virtual bool takes_values() const { return false; }
  virtual bool needs_values() const { return takes_values(); }
  // Its current values, by attribute; "" is the attribute of a single value.
  virtual NamedTensors values() const { return {}; }
  // The reason why these values do not fit: "float32[2] here, ...". Changes nothing.
  virtual std::string refuse(const NamedTensors&) const { return ""; }
  // Prepares the restore of values that fit. `order` is the number of the restore: a Variable keeps
  // the values of a later one.
  virtual PreparedRestore prepare(NamedTensors /*values*/, int64_t /*order*/) const { return {}; }
  // Expires with the object. None for a borrowed object, which lives as long as the graph.
  virtual std::optional<std::weak_ptr<const void>> life() const { return std::nullopt; }
  // For Trackables: the place where restores wait for edges.
  virtual std::shared_ptr<TrackableCore> core() const { return nullptr; }
};

// Functions of an object that read and set its state. Objects of the library have `prepare` in
// place of `restore`: it checks the values and returns the exchange of a PreparedRestore.
struct Hooks {
  std::function<NamedTensors()> save = nullptr;
  std::function<void(NamedTensors)> restore = nullptr;
  std::function<std::function<void()>(NamedTensors)> prepare = nullptr;
};
PreparedRestore prepare_hooks(const Hooks& hooks, NamedTensors values);
TrackeePtr track_core(const std::shared_ptr<TrackableCore>& core);
TrackeePtr track_variable(const Variable& variable);
TrackeePtr track_tensor(Tensor& tensor);
TrackeePtr track_generator(Generator& generator);
TrackeePtr track_text(std::string& text);
TrackeePtr track_hooks(Identity identity, Hooks hooks);
// An object whose parts have these paths, "conv1/filter"; each component is an edge.
struct Part {
  std::string path;
  TrackeePtr to;
};
void add_part(std::vector<Part>& parts, const std::string& path, TrackeePtr node);
TrackeePtr track_parts(const void* at, std::function<std::vector<Part>()> parts);

template <class T>
concept HasState = requires(T& object, NamedTensors state) {
  { object.state() } -> std::convertible_to<NamedTensors>;
  object.restore(std::move(state));
};
template <class T>
concept HasPosition = requires(T& object) {
  object.seek(object.position());
};

template <class T>
Hooks state_hooks(T& object) {
  Hooks hooks;
  if constexpr (HasState<T>) hooks.save = [&object] { return NamedTensors(object.state()); };
  if constexpr (requires(NamedTensors state) { object.prepare_restore(std::move(state)); }) {
    hooks.prepare = [&object](NamedTensors state) {
      return object.prepare_restore(std::move(state));
    };
  } else {
    hooks.restore = [&object](NamedTensors state) { object.restore(std::move(state)); };
  }
  return hooks;
}
template <class T, class Position>
PreparedRestore prepare_seek(T& object, const Position& position) {
  if constexpr (requires { object.prepare_seek(position); }) {
    return {.exchange = object.prepare_seek(position)};
  } else {
    return {.run = [&object, position] { object.seek(position); },
            .undo = [&object, former = object.position()] { object.seek(former); }};
  }
}

// The numbers of a position, with the stages of a Dataset as text.
NamedTensors position_values(std::vector<int64_t> numbers, const std::string& pipeline);
// throws: kInvalidArgument for another pipeline, naming both, or for another count of numbers.
std::vector<int64_t> position_in(const NamedTensors& values, std::size_t count,
                                 const std::string& pipeline);

template <class T>
std::string pipeline_of(T& object) {
  if constexpr (requires { object.pipeline(); }) {
    return object.pipeline();
  } else {
    return "";
  }
}

// A position is a number, or a struct with `epoch` and `step`.
template <class T>
Hooks position_hooks(T& object) {
  constexpr bool kIsNumber = std::integral<std::remove_cvref_t<decltype(object.position())>>;
  Hooks hooks;
  hooks.save = [&object] {
    if constexpr (kIsNumber) {
      return position_values({static_cast<int64_t>(object.position())}, pipeline_of(object));
    } else {
      return position_values({object.position().epoch, object.position().step},
                             pipeline_of(object));
    }
  };
  const auto position = [&object](const NamedTensors& values) {
    using Position = std::remove_cvref_t<decltype(object.position())>;
    if constexpr (kIsNumber) {
      return static_cast<Position>(position_in(values, 1, pipeline_of(object))[0]);
    } else {
      const std::vector<int64_t> at = position_in(values, 2, pipeline_of(object));
      return Position{at[0], at[1]};
    }
  };
  if constexpr (requires { object.prepare_seek(object.position()); }) {
    hooks.prepare = [&object, position](const NamedTensors& values) {
      return object.prepare_seek(position(values));
    };
  } else {
    hooks.restore = [&object, position](const NamedTensors& values) {
      object.seek(position(values));
    };
  }
  return hooks;
}

template <class T>
TrackeePtr track_struct(T& object) {
  constexpr bool kHasTensors = HasLeaf<T, Tensor, Marked::kVisit>::value;
  constexpr bool kHasVariables = HasLeaf<T, Variable, Marked::kVisit>::value;
  static_assert(
      kHasTensors || kHasVariables,
      "etude: a checkpoint can save Trackables, Variables, tensors, numbers, texts, objects with "
      "state() and restore(), objects with position() and seek(), and structures of these");
  return track_parts(&object, [&object] {
    std::vector<Part> parts;
    if constexpr (kHasTensors) {
      for_each_leaf<Tensor, Marked::kVisit>(object, [&](const std::string& path, Tensor& x) {
        add_part(parts, path, track_tensor(x));
      });
    }
    if constexpr (kHasVariables) {
      for_each_leaf<Variable, Marked::kVisit>(object, [&](const std::string& path, Variable& x) {
        add_part(parts, path, track_variable(x));
      });
    }
    return parts;
  });
}

template <class T>
TrackeePtr track_number(T& number) {
  return track_hooks({&number, ""},
                     {.save =
                          [&number] {
                            return NamedTensors{{"", Tensor(std::vector<T>{number}, Shape{})}};
                          },
                      .prepare =
                          [&number](const NamedTensors& values) {
                            return exchange_with(number, values.at("").template item<T>());
                          }});
}

// Returns the node of an object, which is borrowed unless it is a handle.
template <class T>
TrackeePtr trackee_of(T& object) {
  if constexpr (std::derived_from<T, Trackable>) {
    return track_core(object.core());
  } else if constexpr (std::is_same_v<T, Variable>) {
    return track_variable(object);
  } else if constexpr (std::is_same_v<T, Tensor>) {
    return track_tensor(object);
  } else if constexpr (std::is_same_v<T, Generator>) {
    return track_generator(object);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return track_text(object);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return track_number(object);
  } else if constexpr (requires {
                         typename T::element_type;
                         object.get();
                         *object;
                       }) {
    return trackee_of(*object);
  } else if constexpr (HasState<T>) {
    return track_hooks({&object, ""}, state_hooks(object));
  } else if constexpr (HasPosition<T>) {
    return track_hooks({&object, ""}, position_hooks(object));
  } else {
    return track_struct(object);
  }
}

// Returns a node that keeps the object of a shared pointer alive.
TrackeePtr keep_with(TrackeePtr node, std::shared_ptr<const void> owner);

}  // namespace internal

}  // namespace io
}  // namespace etude
