// SPDX-License-Identifier: Apache-2.0
// Objects that checkpoints identify by the names of the edges between them; object_checkpoint.h
// saves and restores them. For programs that build objects piece by piece. A plain struct of
// tensors and layers is tracked without this.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "etude/io/internal/trackee.h"
#include "etude/io/safetensors.h"
#include "etude/variables/variable.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

// An object with named edges, as a base class. Neither copied nor moved.
//
//   struct Net : io::Trackable {
//     Variable scale = track("scale", Variable(1.0));
//     std::shared_ptr<nn::Dense> out = track("out", std::make_shared<nn::Dense>(2, 1));
//   };
//
// Edges may be added before or after a restore: an object attached later takes its saved value
// then.
// threads: thread-compatible.
class Trackable {
 public:
  Trackable(const Trackable&) = delete;
  Trackable& operator=(const Trackable&) = delete;

  // Adds the edge `name` to a Variable or to the object of a std::shared_ptr, and returns the
  // handle. If a saved value waits for the edge, it is restored at once.
  //
  // throws: kInvalidArgument for a name that exists, or a saved value of another type; the edge is
  //         then not added.
  template <class T>
  T track(const std::string& name, T handle, CallSite where = CallSite::here()) {
    attach(name, node_of(handle), false, where);
    return handle;
  }
  // Adds the edge `name` to a member: a struct of tensors, a tensor, a number, an optimiser, ...
  // throws: as above.
  template <class T>
  void track_member(const std::string& name, T& member, CallSite where = CallSite::here()) {
    attach(name, internal::trackee_of(member), false, where);
  }
  // Adds the edge `name` to state that two functions save and restore by name. All other objects
  // are restored before `restore` runs. If a `restore` throws, the whole restore is undone: each
  // `restore` that has run is called again with the earlier result of `save`. throws: as above.
  void track_state(const std::string& name, std::function<NamedTensors()> save,
                   std::function<void(NamedTensors)> restore, CallSite where = CallSite::here());
  // Redirects the edge `name` to another object, or adds the edge. The object takes the saved value
  // of the edge.
  // throws: kInvalidArgument for a saved value of another type.
  template <class T>
  T replace(const std::string& name, T handle, CallSite where = CallSite::here()) {
    attach(name, node_of(handle), true, where);
    return handle;
  }
  // Drops the edge. throws: kNotFound if there is none.
  void untrack(const std::string& name, CallSite where = CallSite::here());

  const std::shared_ptr<internal::TrackableCore>& core() const { return core_; }

 protected:
  Trackable();
  ~Trackable();

 private:
  template <class T>
  static internal::TrackeePtr node_of(T& handle) {
    if constexpr (std::is_same_v<T, Variable>) {
      return internal::trackee_of(handle);
    } else {
      static_assert(
          requires {
            typename T::element_type;
            handle.use_count();
          },
          "etude: track() takes a Variable or a std::shared_ptr; use track_member() for an object "
          "that is a member");
      return internal::keep_with(internal::trackee_of(*handle), handle);
    }
  }
  void attach(const std::string& name, internal::TrackeePtr to, bool replaces, CallSite where);

  std::shared_ptr<internal::TrackableCore> core_;
};

}  // namespace io
}  // namespace etude
