// SPDX-License-Identifier: Apache-2.0
// Writes a folder of saved functions: files of tensors, graphs and assets under names that have
// their checksums, then the manifest. Files that no manifest names go last.
#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/internal/host_door.h"
#include "etude/files/atomic_file.h"
#include "etude/files/crc32c.h"
#include "etude/files/file_reader.h"
#include "etude/files/folder_lock.h"
#include "etude/graph/binary.h"
#include "etude/io/tensor_file.h"
#include "etude/saved/content.h"
#include "etude/saved/manifest.h"

namespace etude::saved::internal {
namespace {

namespace fs = std::filesystem;
using etude::internal::AtomicFile;
using etude::internal::crc32c;
using etude::internal::FunctionRef;

// Something that passes its bytes on.
using Source = FunctionRef<void(FunctionRef<void(std::span<const uint8_t>)>)>;

// Writes to a file "BEGIN<crc32c>-<bytes>END".
StoredFile write_file(const fs::path& folder, std::string_view begin, std::string_view end,
                      Source source) {
  // Bytes that the checksum has just read are still in the cache when they are written.
  constexpr std::size_t kStep = std::size_t{1} << 18;
  StoredFile out;
  AtomicFile file(folder / fmt::format("{}new{}", begin, end));
  source([&](std::span<const uint8_t> bytes) {
    out.bytes += bytes.size();
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min(bytes.size(), kStep));
      out.crc = crc32c(out.crc, part);
      file.write(part);
      bytes = bytes.subspan(part.size());
    }
  });
  out.name = fmt::format("{}{:08x}-{}{}", begin, out.crc, out.bytes, end);
  file.commit_as(out.name);
  return out;
}

struct Shards {
  std::vector<io::NamedTensors> files;
  int64_t bytes = 0;
  std::size_t add(std::string key, const Tensor& value, int64_t most) {
    if (files.empty() || (bytes > 0 && bytes + value.nbytes() > most)) {
      files.emplace_back();
      bytes = 0;
    }
    bytes += value.nbytes();
    files.back().emplace(std::move(key), value);
    return files.size() - 1;
  }
};

void write_tensors(const fs::path& folder, const Content& content, int64_t most,
                   Manifest& manifest) {
  Shards shards;
  for (std::size_t i = 0; i < content.variables.size(); ++i) {
    const SavedVariable& v = content.variables[i];
    manifest.shard_of_variable.push_back(
        v.value.has_value() ? shards.add(variable_key(i, v), v.value, most) : 0);
  }
  for (std::size_t i = 0; i < content.constants.size(); ++i) {
    manifest.shard_of_constant.push_back(shards.add(constant_key(i), content.constants[i], most));
  }
  for (const io::NamedTensors& tensors : shards.files) {
    manifest.shards.push_back(write_file(folder, kTensorsPrefix, ".safetensors", [&](auto write) {
      etude::internal::write_tensors(tensors, {}, write);
    }));
  }
}

StoredFile write_graphs(const fs::path& folder, const Content& content) {
  std::vector<NamedGraph> graphs;
  for (const SavedFunction& function : content.functions) {
    for (std::size_t i = 0; i < function.graphs.size(); ++i) {
      const SavedGraph& graph = function.graphs[i];
      graphs.push_back({graph_key(function.name, i), graph.graph, graph.symbolic});
    }
  }
  const std::string bytes = graphs.empty() ? std::string() : to_binary(graphs);
  return write_file(folder, kGraphsPrefix, ".etude", [&](auto write) {
    write({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  });
}

// Equal files are stored once. The copy has the extension of the file.
void write_assets(const fs::path& folder, const Content& content, Manifest& manifest) {
  if (content.assets.empty()) return;
  const fs::path to = folder / kAssetsFolder;
  std::error_code code;
  fs::create_directories(to, code);
  ETUDE_REQUIRE_CODE(kFailedPrecondition, !code, "folder '{}' cannot be made: {}", to.string(),
                     code.message());
  for (const SavedAsset& asset : content.assets) {
    const etude::internal::FileReader file(asset.from);
    StoredFile stored =
        write_file(to, "", fs::path(asset.name).extension().string(), [&](auto write) {
          constexpr uint64_t kStep = uint64_t{1} << 20;
          std::vector<uint8_t> room;
          for (uint64_t at = 0; at < file.size(); at += kStep) {
            room.resize(std::min(kStep, file.size() - at));
            file.read(at, room);
            write(room);
          }
        });
    const auto same = std::ranges::find_if(manifest.assets, [&](const StoredFile& known) {
      return known.crc == stored.crc && known.bytes == stored.bytes;
    });
    if (same != manifest.assets.end()) stored.name = same->name;
    manifest.assets.push_back(std::move(stored));
  }
}

// Removes files that the manifest does not name.
void remove_unnamed(const fs::path& folder, const Manifest& manifest) {
  std::set<std::string> named{manifest.graphs.name}, assets;
  for (const StoredFile& file : manifest.shards) named.insert(file.name);
  for (const StoredFile& file : manifest.assets) assets.insert(file.name);
  std::error_code none;
  std::vector<fs::path> lost;
  for (const fs::path& path : etude::internal::paths_in(folder)) {
    const std::string name = path.filename().string();
    const bool is_ours = name.starts_with(kGraphsPrefix) || name.starts_with(kTensorsPrefix);
    if (is_ours && !named.contains(name)) lost.push_back(path);
  }
  for (const fs::path& path : etude::internal::paths_in(folder / kAssetsFolder)) {
    if (!assets.contains(path.filename().string())) lost.push_back(path);
  }
  for (const fs::path& path : lost) {
    if (etude::internal::fault_of_test() == 0) fs::remove(path, none);
  }
}
// Best effort: a file that stays does no harm.
void remove_others(const fs::path& folder, const Manifest& manifest) noexcept {
  try {
    remove_unnamed(folder, manifest);
  } catch (const std::exception&) {  // the files stay
  }
}

std::set<fs::path> files_in(const fs::path& folder) {
  std::set<fs::path> out;
  for (const fs::path& part : {folder, folder / kAssetsFolder}) {
    const std::vector<fs::path> paths = etude::internal::paths_in(part);
    out.insert(paths.begin(), paths.end());
  }
  return out;
}
// Best effort, after an error such as a full disk: the next save would remove these files, too.
void remove_new(const fs::path& folder, const std::set<fs::path>& before) noexcept {
  try {
    std::error_code none;
    for (const fs::path& path : files_in(folder)) {
      const std::string name = path.filename().string();
      const bool is_ours = name.starts_with(kGraphsPrefix) || name.starts_with(kTensorsPrefix) ||
                           path.parent_path() != folder;
      if (is_ours && !before.contains(path)) fs::remove(path, none);
    }
  } catch (const std::exception&) {  // the files stay
  }
}

void write_parts(const fs::path& folder, const Content& content, int64_t shard_bytes) {
  const etude::internal::FolderLock lock(folder);
  const std::set<fs::path> before = files_in(folder);
  Manifest manifest;
  std::optional<AtomicFile> file;
  try {
    write_tensors(folder, content, shard_bytes, manifest);
    manifest.graphs = write_graphs(folder, content);
    write_assets(folder, content, manifest);
    file.emplace(folder / kManifest);
    file->write(manifest_text(content, manifest));
  } catch (...) {
    remove_new(folder, before);
    throw;
  }
  // After an error here the manifest may be in place, so that its files must stay.
  file->commit();
  remove_others(folder, manifest);
}

}  // namespace

void write_content(const fs::path& folder, const Content& content, int64_t shard_bytes) {
  std::error_code code;
  const bool is_new = fs::create_directories(folder, code);
  ETUDE_REQUIRE_CODE(kFailedPrecondition, !code && fs::is_directory(folder),
                     "folder '{}' cannot be made: {}", folder.string(),
                     code ? code.message() : "there is a file of that name");
  try {
    if (is_new) {  // its name is durable before its content; nothing may fail after the content
      etude::internal::sync_folder(folder.has_parent_path() ? folder.parent_path() : ".");
    }
    write_parts(folder, content, shard_bytes);
  } catch (...) {
    if (is_new) fs::remove(folder, code);  // if it is empty
    throw;
  }
}

}  // namespace etude::saved::internal
