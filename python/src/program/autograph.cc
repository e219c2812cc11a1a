// SPDX-License-Identifier: Apache-2.0
// Functions for the conversion of Python's control flow: python/etude/autograph/backend.py.
#include "etude/core/internal/size_reads.h"
#include "etude/stage/signature.h"
#include "python/src/program/held.h"

namespace etude::python {
namespace {

// Lets the Python object hold another value, under all its names. That is no call: a branch or body
// of a graph starts with the values that its variables had before.
void set_value(nb::handle owner, nb::handle value) {
  if (!is_tensor(owner) || !is_tensor(value)) throw nb::type_error("_set_value: needs two tensors");
  mutable_tensor_of(owner) = tensor_of(value);
}

// The sizes of a tensor, which a trace does not note: branches and bodies are the same for all
// sizes.
nb::tuple sizes_of(nb::handle x) {
  if (!is_tensor(x)) throw nb::type_error("_sizes_of: needs a tensor");
  const internal::SizeReadsPause unnoted;
  nb::list out;
  for (const int64_t size : tensor_of(x).type()->shape()) out.append(size);
  return nb::tuple(out);
}

// Whether a signature leaves the number of rows open: then the number is a made-up one.
bool has_open_rows(nb::handle x) {
  const internal::SizeReadsPause unnoted;
  if (!is_tensor(x) || tensor_of(x).rank() == 0) return false;
  return internal::is_made_up(tensor_of(x).type()->shape()[0]);
}

}  // namespace

void bind_autograph(nb::module_& m) {
  m.def("_set_value", set_value);
  m.def("_sizes_of", sizes_of);
  m.def("_has_open_rows", has_open_rows);
}

}  // namespace etude::python
