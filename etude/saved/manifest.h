// SPDX-License-Identifier: Apache-2.0
// The manifest of a folder of saved functions, saved.json: all that is not a graph or a tensor.
//
//   {"crc32c":"01234567","saved":{"format":1, ...}}
//
// The number is the CRC-32C of the object after it. A manifest is written last, so a folder without
// it is a save that was cut short. Readers ignore keys that they do not know, so a new key that
// they must know raises `format`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "etude/saved/content.h"

namespace etude::saved::internal {

inline constexpr const char* kManifest = "saved.json";
inline constexpr int64_t kFormat = 1;
// Files of the folder that a saver writes, and removes when no manifest names them.
inline constexpr std::string_view kGraphsPrefix = "graphs-", kTensorsPrefix = "tensors-";
inline constexpr std::string_view kAssetsFolder = "assets";

// A file of the folder. Its name has its checksum, so a file of another content has another name.
struct StoredFile {
  std::string name;
  uint64_t bytes = 0;
  uint32_t crc = 0;
};

struct Manifest {
  StoredFile graphs;
  std::vector<StoredFile> shards;
  std::vector<StoredFile> assets;              // in the order of Content::assets
  std::vector<std::size_t> shard_of_variable;  // by Variable with a value
  std::vector<std::size_t> shard_of_constant;
};

// The names of tensors in shards.
std::string variable_key(std::size_t index, const SavedVariable& variable);
std::string constant_key(std::size_t index);
// The name of graph `graph` of a function in the container.
std::string graph_key(const std::string& function, std::size_t graph);

std::string manifest_text(const Content& content, const Manifest& manifest);

// Reads a manifest. Variables have no values yet, constants no elements, and graphs no Graph.
// throws: kDataLoss, with file and offset; kUnimplemented for a newer format.
Content read_manifest(std::string_view text, const std::string& file, Manifest& manifest);

}  // namespace etude::saved::internal
