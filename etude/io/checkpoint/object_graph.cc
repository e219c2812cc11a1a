// SPDX-License-Identifier: Apache-2.0
// The files of object graphs.
#include "etude/io/checkpoint/object_graph.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <filesystem>
#include <numeric>

#include <nlohmann/json.hpp>

#include "etude/base/check.h"
#include "etude/files/atomic_file.h"
#include "etude/files/canonical_json.h"
#include "etude/files/crc32c.h"
#include "etude/files/file_reader.h"
#include "etude/files/json_tree.h"
#include "etude/files/json_writer.h"
#include "etude/files/read_budget.h"
#include "etude/io/tensor_file.h"

namespace etude::io::internal {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kManifest = "manifest.json";
constexpr std::string_view kShardPrefix = "shard-";
constexpr int kFormat = 1;
constexpr int64_t kMaxCounter = int64_t{1} << 60;

// Shards of other writes to the same folder have other numbers, so that none is written over.
int64_t next_generation(const fs::path& folder) {
  int64_t last = 0;
  for (const fs::path& path : etude::internal::paths_in(folder)) {
    const std::string name = path.filename().string();
    if (!name.starts_with(kShardPrefix)) continue;
    int64_t number = 0;
    const char* begin = name.data() + kShardPrefix.size();
    if (std::from_chars(begin, name.data() + name.size(), number).ec == std::errc()) {
      last = std::max(last, number);
    }
  }
  return last + 1;
}

// Values in the order of the nodes, a new shard where one would grow beyond the limit.
std::vector<NamedTensors> in_shards(const LiveGraph& live, std::vector<SavedNode>& nodes,
                                    int64_t shard_bytes) {
  std::vector<NamedTensors> shards;
  int64_t bytes = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (auto& [attribute, value] : live.objects[i]->values()) {
      nodes[i].attributes.push_back(attribute);
      const int64_t more = value.nbytes();
      if (shards.empty() || (bytes > 0 && bytes + more > shard_bytes)) {
        shards.emplace_back();
        bytes = 0;
      }
      bytes += more;
      shards.back().emplace(key_of(path_of(nodes, i), attribute), value);
    }
  }
  return shards;
}

std::string manifest_text(int64_t counter, const std::vector<SavedNode>& nodes,
                          const std::vector<Shard>& files,
                          const std::vector<NamedTensors>& shards) {
  etude::internal::JsonWriter out;
  const auto edge = [&](const auto& named) {
    out.pair([&] { out.value(named.first); }, [&] { out.value(named.second); });
  };
  const auto node = [&](const SavedNode& n) {
    out.object([&] {
      out.member("edges", [&] { out.list(n.edges, edge); });
      out.member("values", [&] { out.list(n.attributes); });
    });
  };
  const auto file = [&](const Shard& shard) {
    out.object([&] {
      out.member("bytes", shard.bytes);
      out.member("crc32c", fmt::format("{:08x}", shard.crc));
      out.member("file", shard.file);
    });
  };
  std::vector<std::pair<std::string, std::size_t>> tensors;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const auto& [key, value] : shards[i]) tensors.emplace_back(key, i);
  }
  out.object([&] {  // sorted, as the reader expects them
    out.member("counter", counter);
    out.member("format", kFormat);
    out.member("nodes", [&] { out.list(nodes, node); });
    out.member("shards", [&] { out.list(files, file); });
    out.member("tensors", [&] { out.list(tensors, edge); });
  });
  return out.text();
}

Shard write_shard(const fs::path& path, const NamedTensors& tensors) {
  Shard shard{.file = path.filename().string()};
  etude::internal::AtomicFile file(path);
  etude::internal::write_tensors(tensors, {}, [&](std::span<const uint8_t> bytes) {
    shard.crc = etude::internal::crc32c(shard.crc, bytes);
    file.write(bytes);
  });
  file.commit();
  shard.bytes = file.size_bytes();
  return shard;
}

template <class Body>
void write_manifest(const fs::path& path, const Body& body) {
  std::string text;
  try {
    text = body();
  } catch (const json::exception&) {
    ETUDE_THROW(kInvalidArgument, "checkpoint '{}': the name of an object is not UTF-8",
                path.parent_path().string());
  }
  etude::internal::AtomicFile file(path);
  file.write(fmt::format("{{\"crc32c\":\"{:08x}\",\"checkpoint\":{}}}\n",
                         etude::internal::crc32c(0, text), text));
  file.commit();
}

// Removes shards except these. Best effort: a file that stays does no harm.
void remove_others(const fs::path& folder, const std::vector<Shard>& shards) noexcept {
  try {
    std::error_code none;
    for (const fs::path& path : etude::internal::paths_in(folder)) {
      const std::string name = path.filename().string();
      const bool is_ours = std::any_of(shards.begin(), shards.end(),
                                       [&](const Shard& shard) { return shard.file == name; });
      if (name.starts_with(kShardPrefix) && !is_ours) fs::remove(path, none);
    }
  } catch (const std::exception&) {  // the files stay
  }
}

// Reads the manifest of a folder, and checks all of it before use.
class ManifestReader {
 public:
  explicit ManifestReader(const std::string& folder)
      : path_((fs::path(folder) / kManifest).string()) {}

  etude::internal::JsonTree<json> body(std::string_view text) const {
    constexpr std::string_view kBegin = "{\"crc32c\":\"",
                               kMiddle = "\",\"checkpoint\":", kEnd = "}\n";
    constexpr std::size_t kDigits = 8, kBody = kBegin.size() + kDigits + kMiddle.size();
    require(text.size() > kBody + kEnd.size() && text.starts_with(kBegin) &&
                text.substr(kBegin.size() + kDigits).starts_with(kMiddle) && text.ends_with(kEnd),
            text.size(), "it is cut off, or no manifest of a checkpoint");
    const std::string_view part = text.substr(kBody, text.size() - kBody - kEnd.size());
    etude::internal::ReadBudget budget(path_, text.size());
    etude::internal::count_json(part, budget);
    require(text.substr(kBegin.size(), kDigits) ==
                fmt::format("{:08x}", etude::internal::crc32c(0, part)),
            kBody, "the CRC-32C does not match the rest");
    etude::internal::JsonTree<json> tree = etude::internal::read_canonical_json(part);
    const json& out = tree.root();
    require(!out.is_discarded(), kBody, "it was not written by Etude");
    require(out.is_object() && out.contains("format") && out["format"] == kFormat, kBody,
            "it is not of format 1");
    return tree;
  }

  int64_t number(const json& from, const char* name) const {
    const auto at = from.is_object() ? from.find(name) : from.end();
    require(from.is_object() && at != from.end() && is_number(*at), 0,
            fmt::format("'{}' is missing or no number", name));
    return at->get<int64_t>();
  }
  const std::string& text(const json& from) const {
    require(from.is_string(), 0, "a name is missing");
    return from.get_ref<const std::string&>();
  }
  const json& list(const json& from, const char* name) const {
    const auto at = from.is_object() ? from.find(name) : from.end();
    require(from.is_object() && at != from.end() && at->is_array(), 0,
            fmt::format("'{}' is missing or no list", name));
    return *at;
  }
  static bool is_number(const json& value) {
    return value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  }
  void require(bool holds, std::size_t offset, std::string_view what) const {
    ETUDE_REQUIRE_CODE(kDataLoss, holds, "{}: offset {}: {}", path_, offset, what);
  }

 private:
  std::string path_;
};

std::vector<SavedNode> read_nodes(const ManifestReader& reader, const json& list) {
  std::vector<SavedNode> nodes;
  for (const json& entry : list) {
    SavedNode& node = nodes.emplace_back();
    for (const json& edge : reader.list(entry, "edges")) {
      reader.require(edge.is_array() && edge.size() == 2 && ManifestReader::is_number(edge[1]) &&
                         edge[1].get<uint64_t>() < list.size(),
                     0, "an edge leads nowhere");
      node.edges.emplace_back(reader.text(edge[0]), edge[1].get<int64_t>());
    }
    reader.require(node.index_edges(), 0, "two edges have one name");
    for (const json& attribute : reader.list(entry, "values")) {
      node.attributes.push_back(reader.text(attribute));
    }
  }
  reader.require(!nodes.empty(), 0, "there is no object");
  // Paths are the shortest ones, as they were when it was written.
  std::vector<bool> seen(nodes.size());
  std::deque<std::size_t> queue{0};
  seen[0] = true;
  std::size_t count = 0;
  for (; !queue.empty(); ++count) {
    const std::size_t at = queue.front();
    queue.pop_front();
    for (std::size_t i = 0; i < nodes[at].edges.size(); ++i) {
      const auto next = static_cast<std::size_t>(nodes[at].edges[i].second);
      if (seen[next]) continue;
      seen[next] = true;
      nodes[next].parent = static_cast<int64_t>(at);
      nodes[next].parent_edge = i;
      queue.push_back(next);
    }
  }
  reader.require(count == nodes.size(), 0, "an object cannot be reached");
  return nodes;
}

}  // namespace

bool SavedNode::index_edges() {
  by_name_.resize(edges.size());
  std::iota(by_name_.begin(), by_name_.end(), uint32_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return edges[a].first < edges[b].first; });
  return std::adjacent_find(by_name_.begin(), by_name_.end(), [&](uint32_t a, uint32_t b) {
           return edges[a].first == edges[b].first;
         }) == by_name_.end();
}

const int64_t* SavedNode::edge(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](uint32_t i, std::string_view key) { return edges[i].first < key; });
  return at == by_name_.end() || edges[*at].first != name ? nullptr : &edges[*at].second;
}

std::string path_of(const std::vector<SavedNode>& nodes, std::size_t node, PathForm form) {
  std::vector<const std::string*> names;
  while (nodes[node].parent >= 0) {
    const auto parent = static_cast<std::size_t>(nodes[node].parent);
    names.push_back(&nodes[parent].edges[nodes[node].parent_edge].first);
    node = parent;
  }
  std::string out;
  for (std::size_t i = names.size(); i-- > 0;) {
    out += form == PathForm::kEscaped ? escaped(*names[i]) : *names[i];
    if (i > 0) out += '/';
  }
  return out;
}

std::string escaped(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '%' || c == '/' || c == '.') {
      out += c == '%' ? "%25" : c == '/' ? "%2F" : "%2E";
    } else {
      out += c;
    }
  }
  return out;
}

std::string key_of(const std::string& path, const std::string& attribute) {
  if (attribute.empty()) return path;
  return (path.empty() ? "." : path + "/.") + attribute;
}

void write_graph(const std::string& path, const TrackeePtr& root, const WriteOptions& options) {
  const LiveGraph live(root);
  std::vector<SavedNode> nodes = live.nodes;
  const std::vector<NamedTensors> shards = in_shards(live, nodes, options.shard_bytes);
  const fs::path folder(path);
  std::error_code code;
  const bool is_new = fs::create_directories(folder, code);
  ETUDE_REQUIRE_CODE(kFailedPrecondition, !code && fs::is_directory(folder),
                     "checkpoint '{}': the folder cannot be made: {}", path,
                     code ? code.message() : "there is a file of that name");
  if (is_new) {  // its name is durable before its content; nothing may fail after the content
    etude::internal::sync_folder(folder.has_parent_path() ? folder.parent_path() : ".");
  }
  const int64_t generation = next_generation(folder);
  std::vector<Shard> written;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("{}{:05}-{:05}-of-{:05}.safetensors", kShardPrefix,
                                         generation, i + 1, shards.size());
    written.push_back(write_shard(folder / name, shards[i]));
  }
  write_manifest(folder / kManifest,
                 [&] { return manifest_text(options.counter, nodes, written, shards); });
  remove_others(folder, written);
}

bool is_checkpoint(const std::string& path) {
  std::error_code none;
  return fs::is_regular_file(fs::path(path) / kManifest, none);
}

void remove_checkpoint(const std::string& path) {
  std::error_code none;
  if (etude::internal::fault_of_test() != 0) return;
  fs::remove(fs::path(path) / kManifest, none);
  if (etude::internal::fault_of_test() != 0) return;
  remove_others(path, {});
  etude::internal::remove_leftovers(path);
  fs::remove(path, none);  // unless it has other files
}

namespace {
std::string manifest_of(const std::string& path) {
  ETUDE_REQUIRE_CODE(kNotFound, is_checkpoint(path),
                     "there is no checkpoint '{}': no folder with a file {}", path, kManifest);
  return std::string(etude::internal::FileBytes(fs::path(path) / kManifest).text());
}
}  // namespace

SavedGraph::SavedGraph(std::string path) : SavedGraph(path, manifest_of(path)) {}

SavedGraph::SavedGraph(std::string path, std::string_view manifest) : path_(std::move(path)) {
  const ManifestReader reader(path_);
  const etude::internal::JsonTree<json> tree = reader.body(manifest);
  const json& body = tree.root();
  counter_ = reader.number(body, "counter");
  reader.require(counter_ < kMaxCounter, 0, "the counter is no number of a checkpoint");
  nodes_ = read_nodes(reader, reader.list(body, "nodes"));
  for (const json& entry : reader.list(body, "shards")) {
    Shard& shard = shards_.emplace_back();
    shard.bytes = static_cast<uint64_t>(reader.number(entry, "bytes"));
    const auto file = entry.find("file"), crc = entry.find("crc32c");
    reader.require(file != entry.end() && crc != entry.end(), 0, "a shard has no file");
    shard.file = reader.text(*file);
    const std::string& digits = reader.text(*crc);
    const auto [end, problem] =
        std::from_chars(digits.data(), digits.data() + digits.size(), shard.crc, 16);
    reader.require(problem == std::errc() && digits.size() == 8 && end == digits.data() + 8, 0,
                   "a shard has no checksum");
    reader.require(shard.file.starts_with(kShardPrefix) && shard.file.find('/') == shard.file.npos,
                   0, "a shard lies elsewhere");
  }
  for (const json& entry : reader.list(body, "tensors")) {
    reader.require(entry.is_array() && entry.size() == 2 && ManifestReader::is_number(entry[1]) &&
                       entry[1].get<uint64_t>() < shards_.size(),
                   0, "a value lies in no shard");
    shard_of_[reader.text(entry[0])] = entry[1].get<std::size_t>();
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].attributes.empty()) continue;
    const std::string node_path = path_of(i);
    for (const std::string& attribute : nodes_[i].attributes) {
      reader.require(shard_of_.contains(key_of(node_path, attribute)), 0,
                     fmt::format("the value of '{:.200}' lies nowhere", node_path));
    }
  }
}

struct SavedGraph::Files::Open {
  explicit Open(const fs::path& path) : file(path) {}
  void check(const Shard& shard) {
    if (tensors) return;
    ETUDE_REQUIRE_CODE(kDataLoss, file.size() == shard.bytes,
                       "{}: offset {}: the file ends here, but was written with {} bytes",
                       file.name(), file.size(), shard.bytes);
    ETUDE_REQUIRE_CODE(
        kDataLoss, checksum() == shard.crc,
        "{}: offset 0: the CRC-32C of the file is not the one that was written; it is "
        "damaged. Restore an older checkpoint",
        file.name());
    tensors.emplace(file, file.name());
  }
  uint32_t checksum() const {
    constexpr uint64_t kStep = uint64_t{1} << 20;
    std::vector<uint8_t> room;
    uint32_t out = 0;
    for (uint64_t at = 0; at < file.size(); at += kStep) {
      room.resize(std::min(kStep, file.size() - at));
      file.read(at, room);
      out = etude::internal::crc32c(out, room);
    }
    return out;
  }
  etude::internal::FileReader file;
  std::optional<etude::internal::TensorFile> tensors;
};

SavedGraph::Files::Files(const SavedGraph& graph) : graph_(graph) {}
SavedGraph::Files::~Files() = default;

SavedGraph::Files::Open& SavedGraph::Files::open(std::size_t shard) {
  std::unique_ptr<Open>& at = open_[shard];
  if (at == nullptr) {
    at = std::make_unique<Open>(fs::path(graph_.path_) / graph_.shards_[shard].file);
  }
  return *at;
}

SavedGraph::Files::Open& SavedGraph::Files::checked(std::size_t shard) {
  Open& at = open(shard);
  at.check(graph_.shards_[shard]);
  return at;
}

Tensor SavedGraph::Files::read(const std::string& key) {
  return checked(graph_.shard_of_.at(key)).tensors->read(key);
}

void SavedGraph::Files::open_all() {
  for (std::size_t i = 0; i < graph_.shards_.size(); ++i) open(i);
}

void SavedGraph::Files::check_all() {
  for (std::size_t i = 0; i < graph_.shards_.size(); ++i) checked(i);
}

OpenGraph open_graph(const std::string& path) {
  constexpr int kMostTries = 100;
  for (int tries = 1;; ++tries) {
    const std::string manifest = manifest_of(path);
    OpenGraph out;
    out.graph = std::make_shared<const SavedGraph>(path, manifest);
    out.files = std::make_unique<SavedGraph::Files>(*out.graph);
    try {
      out.files->open_all();
      return out;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotFound) throw;
      // A saver removes shards after it has replaced or removed their manifest.
      const bool is_replaced = manifest_of(path) != manifest;
      ETUDE_REQUIRE_CODE(
          kDataLoss, is_replaced && tries < kMostTries,
          "{}. It belongs to checkpoint '{}', which is damaged. Restore an older one", error.what(),
          path);
    }
  }
}

}  // namespace etude::io::internal
