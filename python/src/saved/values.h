// SPDX-License-Identifier: Apache-2.0
// Values of Python as the Parts of saved functions, and back. Without Python classes: a loaded
// function knows names, dicts and sequences.
//
// All functions need the GIL.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/parts/parts.h"
#include "python/src/bind.h"
#include "python/src/program/tree.h"

namespace etude::python {

// A bool, a float, a text, or an integer of 64 bits; none for others.
std::optional<Described> described(nb::handle value);
// The host value with this text, as Described::text() returns it; none for other texts.
std::optional<Described> described_text(const std::string& text);
nb::object value_of_host(const Described& value);

// Whether host values among the parts are kept. A layer has its options as well.
enum class HostParts : uint8_t { kKeep, kDrop };
// Parts of the nesting of a tree. Host values that a file cannot hold are left out, and their paths
// and classes are added to `lost`.
struct LostPart {
  std::string path, type;
};
std::optional<Parts> saved_parts(const TreeDef& def, std::span<const nb::object> leaves,
                                 HostParts hosts, std::vector<LostPart>& lost);

// An argument of a loaded function: a lone leaf, or fields with the paths of the leaves, which are
// added to `leaves`. throws: kInvalidArgument for a leaf that is no tensor, Variable, number or
// text, naming function and parameter.
Parts argument_parts(nb::handle value, const std::string& function, const std::string& parameter,
                     std::vector<nb::object>& leaves);

// Maps are dicts, lists are tuples, fields are named tuples, or dicts if Python has no such names.
nb::object value_of_parts(const Parts& parts);

}  // namespace etude::python
