// SPDX-License-Identifier: Apache-2.0
// Lists of names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "etude/onnx/import/file.h"

namespace etude::onnx::importing {

// The names of a list that is separated by spaces.
std::vector<std::string_view> words_of(std::string_view list);
// Names of a file for messages: joined, and cut.
std::string listed(const std::vector<std::string>& names, std::string_view between = ", ");
// The operators, or names, that are nearest to a name of a file, for messages.
std::string nearest_listed(std::string_view name, const std::vector<std::string_view>& names);
// The names that the needed nodes of a graph, and its results, read.
std::vector<std::string> names_read(const FileGraph& graph);

}  // namespace etude::onnx::importing
