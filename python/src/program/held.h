// SPDX-License-Identifier: Apache-2.0
// Python callables that graphs and tapes keep, and calls of them from the library.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "python/src/bind.h"

namespace etude::python {

// For std::function, whose copies share the reference. Made with the GIL; copied and destroyed with
// or without it.
using SharedObject = std::shared_ptr<const KeptObject>;
inline SharedObject share(nb::handle object) {
  return std::make_shared<const KeptObject>(nb::borrow(object));
}

// Runs f with the GIL, which this thread may hold or not.
template <class F>
auto with_gil(F&& f) -> decltype(f()) {
  const nb::gil_scoped_acquire gil;
  return std::forward<F>(f)();
}

// Adds the names of a source to the module. The names begin with _: the package wraps them.
void bind_tree(nb::module_& m);
void bind_function(nb::module_& m);
void bind_gradient(nb::module_& m);
void bind_tape(nb::module_& m);
void bind_custom_gradient(nb::module_& m);
void bind_control(nb::module_& m);
void bind_autograph(nb::module_& m);
void bind_host(nb::module_& m);
void bind_scopes(nb::module_& m);
void bind_layers(nb::module_& m);
void bind_optimizers(nb::module_& m);
void bind_pickling(nb::module_& m);
void bind_kinds(nb::module_& m);
void bind_batches(nb::module_& m);
void bind_pictures(nb::module_& m);
void bind_training(nb::module_& m);
void bind_saving(nb::module_& m);
void bind_saved(nb::module_& m);
void bind_settings(nb::module_& m);

}  // namespace etude::python
