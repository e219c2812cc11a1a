// SPDX-License-Identifier: Apache-2.0
// etude._core: the library for Python. The package etude (python/etude/) is the face of it.
#include "python/src/bind.h"
#include "python/src/program/held.h"

namespace etude::python {
namespace {

// In the order in which they need each other. A function of another source takes the place of the
// op of its name.
constexpr Bind kBinds[] = {
    bind_errors,       bind_warnings, bind_frames,    bind_dtype,  bind_device,
    bind_device_scope, bind_tensor,   bind_create,    bind_dlpack, bind_variable,
    bind_ops,          bind_random,   bind_tree,      bind_layers, bind_optimizers,
    bind_pickling,     bind_function, bind_gradient,  bind_tape,   bind_custom_gradient,
    bind_control,      bind_host,     bind_scopes,    bind_kinds,  bind_batches,
    bind_pictures,     bind_training, bind_autograph, bind_saved,  bind_saving,
    bind_settings,
};

}  // namespace
}  // namespace etude::python

namespace nb = nanobind;

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);  // dtypes and classes of errors live as long as the process
  m.attr("__version__") = etude::version();
  for (const etude::python::Bind bind : etude::python::kBinds) bind(m);
}
