// SPDX-License-Identifier: Apache-2.0
// Parts taken apart and put together leaf by leaf, for saving and loading.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "etude/parts/parts.h"

namespace etude::saved::internal {

// The place of a part without a value.
Parts nothing();
// A leaf of this kind without a tensor. `kind` is not kVariable or kHost.
Parts empty_leaf(const FormLeaf& leaf);
// Whether a file can hold the value, and its JSON.
bool is_storable(const Described& value);
nlohmann::json host_json(const Described& value);
// throws: kDataLoss for any other JSON.
Described described_of(const nlohmann::json& value);

// The tensor of a leaf; absent for a Variable, a host value and an update without a value.
Tensor tensor_of(const Parts& parts, std::size_t leaf);
// Sets it. throws: kInternal for a Variable or a host value.
void set_tensor(Parts& parts, std::size_t leaf, Tensor value);

// A copy of the structure with each leaf replaced by leaf(index). Where that is none, the element
// of a list is nothing, and the entry of a map or a struct is left out. None if nothing is left.
using MakeLeaf = std::function<std::optional<Parts>(std::size_t leaf)>;
std::optional<Parts> rebuilt(const Parts& parts, const MakeLeaf& leaf);

// The structure as JSON, with leaf(index) for each leaf.
using LeafJson = std::function<nlohmann::json(std::size_t leaf)>;
nlohmann::json form_json(const Form& form, const LeafJson& leaf);
// The reverse. `leaf` makes the leaves, in order. throws: kDataLoss for JSON of another form;
// kInvalidArgument for a name that is empty or repeated.
using LeafOfJson = std::function<Parts(const nlohmann::json& leaf)>;
Parts parts_of_json(const nlohmann::json& json, const LeafOfJson& leaf);

}  // namespace etude::saved::internal
