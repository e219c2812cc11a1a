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

#include "etude/base/internal/function_ref.h"
#include "etude/files/json_writer.h"
#include "etude/parts/parts.h"

namespace etude::saved::internal {

// The place of a part without a value.
Parts nothing();
// A leaf of this kind without a tensor. `kind` is not kVariable or kHost.
Parts empty_leaf(const FormLeaf& leaf);
// Whether a file can hold the value.
bool is_storable(const Described& value);
void write_host(etude::internal::JsonWriter& out, const Described& value);
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

// Writes the structure. leaf(index) writes the value of each leaf.
using WriteLeaf = etude::internal::FunctionRef<void(std::size_t leaf)>;
void write_form(etude::internal::JsonWriter& out, const Form& form, WriteLeaf leaf);
// The reverse. `leaf` makes the leaves, in order. throws: kDataLoss for JSON of another form;
// kInvalidArgument for a name that is empty or repeated.
using LeafOfJson = std::function<Parts(const nlohmann::json& leaf)>;
Parts parts_of_json(const nlohmann::json& json, const LeafOfJson& leaf);

}  // namespace etude::saved::internal
