// SPDX-License-Identifier: Apache-2.0
// Texts of messages about names. Used by value.cc and resolve.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <typeinfo>

namespace etude::kinds {

// ". Similar: lr, eps": the names near `name`, at most three; empty if there are none.
std::string similar(std::string_view name, std::span<const std::string_view> names);
// "lr, eps"; "none" for an empty list.
std::string listed(std::span<const std::string_view> names);
// The name of a class in C++.
std::string type_name(const std::type_info& type);

}  // namespace etude::kinds
