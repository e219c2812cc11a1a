// SPDX-License-Identifier: Apache-2.0
// Layers as Python objects: the computation of an nn::Layer, and its parameters as objects of
// Python, so that an item assignment to layer.weight changes the layer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "etude/kinds/kinds.h"
#include "etude/nn/erased_layer.h"
#include "etude/nn/metrics/metric.h"
#include "python/src/bind.h"
#include "python/src/program/several_inputs.h"
#include "python/src/program/tree.h"

namespace etude::python {

struct LayerObject {
  nn::Layer code;                  // its parts have no tensors
  std::vector<nb::object> leaves;  // by leaf of its form, without host values
  std::optional<kinds::Made> made;
  std::shared_ptr<const SeveralInputs> several = nullptr;  // null: called with one tensor
  // Equal for layers with equal descriptions, whose code is equal; 0: not yet computed.
  uint64_t key = 0;

  Parts parts() const;
};

// The kind of an object: a loss, a schedule, a callback, an initialiser.
struct KindObject {
  kinds::Made made;
};
// A metric that counts.
struct MetricObject {
  nn::Metric metric;
};

// A number for a text: equal for equal texts. Texts are never freed, as the TreeDefs that they
// distinguish.
uint64_t number_of_text(const std::string& text);
// The description of an object as JSON; `otherwise` if it holds objects of the program.
std::string options_text(const kinds::Made& made, uint64_t otherwise);

// A new object of a class of layers.
nb::object layer_object(nb::handle type, const kinds::Made& made);

// A Python value as an argument of a kind. A callable is an activation of the program.
kinds::Value kind_value(nb::handle value);
kinds::Made make_kind(const std::string& name, nb::handle args, nb::handle options);

}  // namespace etude::python
