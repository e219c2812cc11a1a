// SPDX-License-Identifier: Apache-2.0
// Parts of pickled objects: layers, optimisers and kinds from their descriptions, tensors of a
// file.
#include <utility>

#include <nanobind/stl/string.h>

#include "etude/base/check.h"
#include "etude/io/safetensors.h"
#include "etude/ops/random.h"
#include "python/src/program/held.h"
#include "python/src/program/layers.h"
#include "python/src/program/optimizers.h"

namespace etude::python {
namespace {

// The kind of each leaf of a form, for the pickling of its structure. The state of an optimiser is
// pickled with the optimiser.
void add_kinds(const TreeDef& def, nb::list& out) {
  if (def.kind == NodeKind::kOptimizer) {
    for (std::size_t i = 0; i < def.leaves.size(); ++i) out.append("optimizer");
    return;
  }
  if (def.parts.empty()) {
    for (const NodeKind kind : def.leaves) {
      out.append(kind == NodeKind::kTensor  ? "tensor"
                 : kind == NodeKind::kState ? "state"
                                            : "other");
    }
    return;
  }
  for (const TreeDef* part : def.parts) add_kinds(*part, out);
}

nb::list leaf_kinds(nb::handle form) {
  nb::list out;
  add_kinds(*static_cast<const TreeDef*>(PyCapsule_GetPointer(form.ptr(), nullptr)), out);
  return out;
}

nb::dict load_tensors(const std::string& path) {
  const CallSite where = here();
  const io::SafetensorsFile file =
      with_user_line_released([&] { return io::load_safetensors(path, where); });
  nb::dict out;
  for (const auto& [name, tensor] : file.tensors) out[name.c_str()] = wrap(tensor);
  return out;
}

// An object of a described kind. It draws no random numbers of the program.
kinds::Made made_from(const std::string& json) {
  const SeedScope own(Generator(0));
  const CallSite where = here();
  return kinds::make(kinds::from_json(json, where), where);
}

nb::object layer_from(nb::handle type, const std::string& json, nb::handle leaves) {
  std::vector<nb::object> own;
  for (const nb::handle leaf : nb::iter(leaves)) own.push_back(nb::borrow(leaf));
  const nb::object like = layer_object(type, made_from(json));
  ETUDE_REQUIRE_CODE(kDataLoss, leaves_of_layer(like).size() == own.size(),
                     "the pickled layer has {} tensors, but its description makes {}", own.size(),
                     leaves_of_layer(like).size());
  return layer_with(like, std::move(own));
}

nb::object optimizer_from(nb::handle type, const std::string& json) {
  kinds::Made made = made_from(json);
  auto rule = kinds::optimizer_of(made, here());
  nb::object out = nb::inst_alloc(type);
  new (nb::inst_ptr<OptimizerObject>(out))
      OptimizerObject(optimizer_object(std::move(made), std::move(rule)));
  nb::inst_mark_ready(out);
  return out;
}

nb::object kind_from(nb::handle type, const std::string& json) {
  nb::object out = nb::inst_alloc(type);
  new (nb::inst_ptr<KindObject>(out)) KindObject{made_from(json)};
  nb::inst_mark_ready(out);
  return out;
}

}  // namespace

void bind_pickling(nb::module_& m) {
  m.def("_leaf_kinds", leaf_kinds);
  m.def("_load_tensors", load_tensors);
  m.def("_layer_from", layer_from);
  m.def("_optimizer_from", optimizer_from);
  m.def("_kind_from", kind_from);
  m.def("_make_state", [](nb::handle x) { return wrap_state(LayerState<Tensor>(as_tensor(x))); });
}

}  // namespace etude::python
