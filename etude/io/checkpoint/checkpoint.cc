// SPDX-License-Identifier: Apache-2.0
#include "etude/io/checkpoint/checkpoint.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include <fcntl.h>

#include "etude/base/check.h"
#include "etude/core/context/ambient.h"
#include "etude/files/atomic_file.h"
#include "etude/files/folder_lock.h"
#include "etude/io/checkpoint/object_checkpoint.h"
#include "etude/io/checkpoint/object_graph.h"

namespace etude::io::internal {
namespace {

Tensor take(NamedTensors& all, const std::string& name, const Type* type, std::string_view file) {
  const auto found = all.find(name);
  ETUDE_REQUIRE_CODE(kDataLoss, found != all.end() && found->second.type() == type,
                     "{}: is no checkpoint: it has no '{}' of type {}", file, name,
                     type->to_string());
  Tensor out = std::move(found->second);
  all.erase(found);
  return out;
}

}  // namespace

Run take_run(NamedTensors& all, std::string_view file, std::vector<PreparedRestore>& parts) {
  const Tensor position = take(all, "position", intern_type(kInt64, {2}), file);
  const Tensor saved = take(all, "generator", intern_type(kUInt64, {3}), file);
  const auto words = saved.data<uint64_t>();
  Generator generator(words[0], words[1]);
  generator.position = words[2];
  parts.push_back({.exchange = exchange_with(ambient().generator, generator)});
  const auto at = position.data<int64_t>();
  return {at[0], at[1]};
}

namespace {

struct Setting {
  const char* key;
  int64_t RunSettings::*value;
  const char* name;
};
constexpr std::array kSettings = {
    Setting{"etude.seed", &RunSettings::seed, "the seed of the data"},
    Setting{"etude.batch", &RunSettings::batch, "the batch"},
    Setting{"etude.samples", &RunSettings::samples, "the number of samples"},
    Setting{"etude.shuffle", &RunSettings::shuffle, "shuffle"},
    Setting{"etude.keep_remainder", &RunSettings::keep_remainder, "keep_remainder"},
    Setting{"etude.ranks", &RunSettings::ranks, "the number of ranks"}};
constexpr const char* kEpochs = "etude.epochs";

}  // namespace

void add_settings(Metadata& metadata, const RunSettings& settings) {
  for (const Setting& s : kSettings) metadata[s.key] = std::to_string(settings.*s.value);
  metadata[kEpochs] = std::to_string(settings.epochs);
}

int64_t check_settings(const Metadata& metadata, const RunSettings& settings,
                       std::string_view file) {
  for (const Setting& s : kSettings) {
    const auto kept = metadata.find(s.key);
    const std::string now = std::to_string(settings.*s.value);
    ETUDE_REQUIRE(kept == metadata.end() || kept->second == now,
                  "{}: the checkpoint was made with {}, but here {} is {}. Go on with {}", file,
                  kept->second, s.name, now, kept->second);
  }
  const auto kept = metadata.find(kEpochs);
  return kept == metadata.end() ? 0 : std::strtoll(kept->second.c_str(), nullptr, 10);
}

NamedTensors take_below(NamedTensors& all, const std::string& prefix) {
  NamedTensors out;
  const std::string folder = prefix + "/";
  for (auto it = all.begin(); it != all.end();) {
    if (!it->first.starts_with(folder)) {
      ++it;
      continue;
    }
    out.emplace(it->first.substr(folder.size()), std::move(it->second));
    it = all.erase(it);
  }
  return out;
}

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRun = "run", kPosition = "data/position";

// The root of a run: its parts.
class RunTrackee final : public Trackee {
 public:
  explicit RunTrackee(std::vector<Edge> parts) : parts_(std::move(parts)) {}
  Identity identity() const override { return {this, ""}; }
  std::vector<Edge> edges() const override { return parts_; }

 private:
  std::vector<Edge> parts_;
};

NamedTensors texts_of(const Metadata& metadata) {
  NamedTensors out;
  for (const auto& [key, text] : metadata) {
    out.emplace(key, Tensor(std::vector<uint8_t>(text.begin(), text.end())));
  }
  return out;
}

// Writes the checkpoint where a file is, as earlier releases wrote: aside, then both change places.
void write_over_file(const fs::path& path, const TrackeePtr& root, const WriteOptions& options) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const fs::path aside = folder / (".etude-aside-" + path.filename().string());
  std::error_code none;
  remove_checkpoint(aside.string());
  write_graph(aside.string(), root, options);
  const int fault = etude::internal::fault_of_test();
  if (fault != 0 ||
      ::renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0) {
    const int error = fault != 0 ? fault : errno;
    remove_checkpoint(aside.string());
    ETUDE_THROW(kFailedPrecondition,
                "checkpoint '{}': the file there cannot be replaced by a folder: {}. Remove it, or "
                "take another path",
                path.string(), std::generic_category().message(error));
  }
  etude::internal::sync_folder(folder);
  fs::remove(aside, none);  // the file
}

}  // namespace

void save_run(const std::string& path, std::vector<Edge> parts, const Metadata& metadata) {
  const fs::path file(path);
  const etude::internal::FolderLock lock(file.has_parent_path() ? file.parent_path() : ".");
  const NamedTensors texts = texts_of(metadata);
  parts.push_back({"generator", track_generator(ambient().generator)});
  parts.push_back(
      {std::string(kRun), track_hooks({&metadata, ""}, {.save = [&] { return texts; }})});
  const auto root = std::make_shared<RunTrackee>(std::move(parts));
  const WriteOptions options{.shard_bytes = ObjectCheckpointOptions{}.shard_bytes};
  std::error_code none;
  if (fs::is_regular_file(fs::symlink_status(file, none))) {
    write_over_file(file, root, options);
  } else {
    write_graph(path, root, options);
  }
}

namespace {

std::string text_of(const Tensor& tensor, std::string_view file) {
  ETUDE_REQUIRE_CODE(kDataLoss, tensor.dtype() == kUInt8 && tensor.rank() == 1,
                     "{}: its metadata is no text", file);
  const auto bytes = tensor.data<uint8_t>();
  return {bytes.begin(), bytes.end()};
}

// Calls fn(name, key) for each value whose name begins with `begin`. Its name is the names of the
// edges from the root and its attribute, joined by '/'.
template <class Fn>
void each_value(const SavedGraph& graph, std::string_view begin, const Fn& fn) {
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const SavedNode& node = graph.nodes()[i];
    if (node.attributes.empty()) continue;
    const std::string plain = path_of(graph.nodes(), i, PathForm::kPlain);
    if (!plain.starts_with(begin)) continue;
    const std::string saved = graph.path_of(i);
    for (const std::string& attribute : node.attributes) {
      fn(attribute.empty() ? plain : plain + "/" + attribute, key_of(saved, attribute));
    }
  }
}

Metadata metadata_in(const SavedGraph& graph, SavedGraph::Files& files) {
  Metadata out;
  each_value(graph, kRun, [&](const std::string& name, const std::string& key) {
    if (!name.starts_with(std::string(kRun) + "/")) return;
    out.emplace(name.substr(kRun.size() + 1), text_of(files.read(key), graph.path()));
  });
  return out;
}

bool is_folder(const std::string& path) {
  std::error_code none;
  return fs::is_directory(path, none);
}

}  // namespace

SafetensorsFile load_run(const std::string& path) {
  if (!is_folder(path)) return load_safetensors(path);
  const auto [graph, files] = open_graph(path);
  files->check_all();
  SafetensorsFile out;
  each_value(*graph, "", [&](const std::string& name, const std::string& key) {
    out.tensors[name == kPosition ? "position" : name] = files->read(key);
  });
  out.metadata = metadata_in(*graph, *files);
  return out;
}

Metadata load_run_metadata(const std::string& path) {
  if (!is_folder(path)) return load_safetensors(path).metadata;
  const auto [graph, files] = open_graph(path);
  return metadata_in(*graph, *files);
}

}  // namespace etude::io::internal
