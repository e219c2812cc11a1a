// SPDX-License-Identifier: Apache-2.0
// Reads a folder of saved functions. Nothing in it is trusted: sizes and checksums are checked
// before content is used, names stay within the folder, and each graph is compared with its entry
// in the manifest.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <sys/stat.h>

#include "etude/base/check.h"
#include "etude/files/crc32c.h"
#include "etude/files/file_reader.h"
#include "etude/graph/binary.h"
#include "etude/io/tensor_file.h"
#include "etude/saved/content.h"
#include "etude/saved/manifest.h"
#include "etude/saved/saved.h"
#include "etude/saved/structure.h"
#include "etude/variables/open_shape.h"

namespace etude::saved::internal {
namespace {

namespace fs = std::filesystem;
using etude::internal::crc32c;
using etude::internal::FileReader;

// A link could lead to any file that this process may read.
void require_inside(const fs::path& path) {
  struct stat facts {};
  bool is_there = false;
  // A file that a saver replaces between the search for its path and the look at it has no name.
  constexpr int kMostTries = 1000;
  for (int i = 0; i < kMostTries; ++i) {
    is_there = ::lstat(path.c_str(), &facts) == 0;
    if (!is_there || facts.st_nlink > 0) break;
  }
  ETUDE_REQUIRE_CODE(kNotFound, is_there, "{}: there is no such file", path.string());
  ETUDE_REQUIRE_CODE(kDataLoss, S_ISREG(facts.st_mode),
                     "{}: offset 0: a saved function has regular files only, and no links",
                     path.string());
  ETUDE_REQUIRE_CODE(
      kDataLoss, facts.st_nlink == 1,
      "{}: offset 0: the file has another name too (a hard link), so it may belong to "
      "another folder. Copy the folder",
      path.string());
}

// A file of the folder, open.
class OpenFile {
 public:
  OpenFile(const fs::path& path, const StoredFile& stored)
      : stored_(stored), file_((require_inside(path), path)) {}

  // throws: kDataLoss unless it is the file that was written.
  void check() const {
    ETUDE_REQUIRE_CODE(kDataLoss, file_.size() == stored_.bytes,
                       "{}: offset {}: the file ends here, but was written with {} bytes",
                       file_.name(), file_.size(), stored_.bytes);
    constexpr uint64_t kStep = uint64_t{1} << 16;  // stays in the second cache
    std::vector<uint8_t> room;
    uint32_t crc = 0;
    for (uint64_t at = 0; at < file_.size(); at += kStep) {
      room.resize(std::min(kStep, file_.size() - at));
      file_.read(at, room);
      crc = crc32c(crc, room);
    }
    ETUDE_REQUIRE_CODE(kDataLoss, crc == stored_.crc,
                       "{}: offset 0: the CRC-32C of the file is not the one that was written; it "
                       "is damaged",
                       file_.name());
  }
  std::string bytes() const {
    std::string out(file_.size(), '\0');
    file_.read(0, {reinterpret_cast<uint8_t*>(out.data()), out.size()});
    return out;
  }
  const FileReader& reader() const { return file_; }

 private:
  const StoredFile& stored_;
  FileReader file_;
};

// Takes the tensors of the shards by their keys.
class TensorsIn {
 public:
  explicit TensorsIn(const std::vector<std::unique_ptr<OpenFile>>& files) {
    for (const auto& file : files) shards_.emplace_back(file->reader(), file->reader().name());
    left_.resize(shards_.size());
    for (std::size_t i = 0; i < shards_.size(); ++i) left_[i] = shards_[i].entries().size();
    for (const auto& file : files) names_.push_back(file->reader().name());
  }
  Tensor take(std::size_t shard, const std::string& key) {
    ETUDE_REQUIRE_CODE(kDataLoss, shards_[shard].entries().contains(key),
                       "{}: offset 0: there is no tensor '{:.200}'", names_[shard], key);
    --left_[shard];
    return shards_[shard].read(key);
  }
  void require_all_taken() const {
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      ETUDE_REQUIRE_CODE(kDataLoss, left_[i] == 0,
                         "{}: offset 0: it has {} tensors that no function uses", names_[i],
                         left_[i]);
    }
  }

 private:
  std::vector<etude::internal::TensorFile> shards_;
  std::vector<std::size_t> left_;
  std::vector<std::string> names_;
};

class FolderReader {
 public:
  FolderReader(const fs::path& folder, int64_t max_loop_steps)
      : folder_(folder), file_((folder / kManifest).string()), max_loop_steps_(max_loop_steps) {}

  std::string manifest_bytes() const {
    ETUDE_REQUIRE_CODE(kNotFound, is_saved(folder_.string()),
                       "there are no saved functions in '{}': no folder with a file {}",
                       folder_.string(), kManifest);
    require_inside(file_);
    return std::string(etude::internal::FileBytes(file_).text());
  }

  // Opens all files, so that a saver that replaces the folder does not disturb the reader.
  void open(std::string_view manifest) {
    content_ = read_manifest(manifest, file_, manifest_);
    shards_.clear();
    assets_.clear();
    graphs_ = std::make_unique<OpenFile>(folder_ / manifest_.graphs.name, manifest_.graphs);
    for (const StoredFile& shard : manifest_.shards) {
      shards_.push_back(std::make_unique<OpenFile>(folder_ / shard.name, shard));
    }
    if (manifest_.assets.empty()) return;
    const fs::path folder = folder_ / kAssetsFolder;
    struct stat facts {};
    ETUDE_REQUIRE_CODE(kDataLoss, ::lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode),
                       "{}: offset 0: it is no folder, but a link or nothing", folder.string());
    for (std::size_t i = 0; i < manifest_.assets.size(); ++i) {
      content_.assets[i].from = folder / manifest_.assets[i].name;
      assets_.push_back(std::make_unique<OpenFile>(content_.assets[i].from, manifest_.assets[i]));
    }
  }

  Content read() {
    for (const auto& file : assets_) file->check();
    read_tensors();
    read_graphs();
    return std::move(content_);
  }

 private:
  // Formats the text only if it is needed: a folder has thousands of values.
  template <class... Args>
  void require(bool holds, fmt::format_string<const Args&...> what, const Args&... args) const {
    ETUDE_REQUIRE_CODE(kDataLoss, holds, "{}: offset 0: {}", file_, fmt::format(what, args...));
  }

  void read_tensors() {
    for (const auto& shard : shards_) shard->check();
    TensorsIn tensors(shards_);
    for (std::size_t i = 0; i < content_.variables.size(); ++i) {
      SavedVariable& v = content_.variables[i];
      const std::size_t shard = manifest_.shard_of_variable[i];
      if (shard == ~std::size_t{0}) {
        require(v.shape.has_value(), "Variable '{:.200}' has no shape", v.paths[0]);
        continue;
      }
      v.value = tensors.take(shard, variable_key(i, v));
      const bool fits = v.value.dtype() == v.dtype &&
                        (!v.shape || etude::internal::admits(*v.shape, v.value.shape()));
      if (fits) continue;
      require(false, "Variable '{:.200}' has a value of type {}", v.paths[0],
              v.value.type()->to_string());
    }
    for (std::size_t i = 0; i < content_.constants.size(); ++i) {
      content_.constants[i] = tensors.take(manifest_.shard_of_constant[i], constant_key(i));
    }
    tensors.require_all_taken();
    for (SavedObject& object : content_.objects) {
      for (std::size_t i = 0; i < object.parts.size(); ++i) {
        if (object.values[i] < 0 || object.is_variable[i] != 0) continue;
        set_tensor(object.parts, i, content_.constants[static_cast<std::size_t>(object.values[i])]);
      }
    }
  }

  std::map<std::string, NamedGraph> named_graphs() const {
    graphs_->check();
    std::map<std::string, NamedGraph> out;
    if (manifest_.graphs.bytes == 0) return out;
    try {
      for (NamedGraph& graph : read_binary_graphs(graphs_->bytes())) {
        out.emplace(graph.name, std::move(graph));
      }
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}: {}", graphs_->reader().name(), error.what()));
    }
    return out;
  }

  void read_graphs() {
    std::map<std::string, NamedGraph> graphs = named_graphs();
    std::size_t taken = 0;
    for (SavedFunction& function : content_.functions) {
      for (std::size_t i = 0; i < function.graphs.size(); ++i) {
        const auto found = graphs.find(graph_key(function.name, i));
        require(found != graphs.end(), "graph {} of function '{:.200}' is missing", i,
                function.name);
        SavedGraph& graph = function.graphs[i];
        graph.graph = found->second.graph;
        graph.symbolic = found->second.symbolic;
        check(function, graph);
        ++taken;
      }
      check_export(function);
    }
    require(taken == graphs.size(), "a graph belongs to no function");
  }

  // An exported signature names the results of each graph.
  void check_export(const SavedFunction& function) const {
    if (!function.exported) return;
    const std::string title = fmt::format("the exported signature of '{:.200}'", function.name);
    require(!function.graphs.empty(), "{} has no graph", title);
    const SavedResult& first = function.graphs.front().result;
    for (const SavedGraph& graph : function.graphs) {
      const SavedResult& result = graph.result;
      const auto same_path = [](const FormLeaf& a, const FormLeaf& b) { return a.path == b.path; };
      require(result.parts.size() == function.exported->outputs.size() &&
                  std::ranges::count(result.is_present, 0) == 0 &&
                  std::ranges::equal(result.parts.form()->leaves(), first.parts.form()->leaves(),
                                     same_path),
              "{} does not fit the results of its graphs", title);
    }
  }

  // The manifest and the graph agree about inputs, outputs and state.
  void check(const SavedFunction& function, const SavedGraph& saved) const {
    const Graph& graph = saved.sample();
    const std::string title = fmt::format("function '{:.200}': ", function.name);
    std::vector<const Type*> expected;
    std::size_t next = 0;
    const auto inputs = graph.inputs();
    const auto take = [&](InputRole role, std::string_view what) {
      const std::string_view quote = role == InputRole::kArgument ? "'" : "";
      require(next < inputs.size() && inputs[next].role == role,
              "{}its graph has no input for {}{}{}", title, quote, what, quote);
      return inputs[next++].type;
    };
    for (const SavedTensor& x : saved.tensors) {
      if (x.is_absent) continue;
      const Type* type = take(InputRole::kArgument, x.path);
      if (x.state >= 0) require_state(title, x.state, type);
    }
    while (next < inputs.size() && inputs[next].role == InputRole::kKey) ++next;
    for (const SavedUse& use : saved.uses) {
      if (!use.is_read) continue;
      const Type* type = take(InputRole::kVariable, "a Variable");
      if (use.variable >= 0) require_state(title, use.variable, type);
    }
    for (const int64_t c : saved.captures) {
      const Type* type = take(InputRole::kCapture, "a constant");
      require(content_.constants[static_cast<std::size_t>(c)].type() == type,
              "{}a constant has another type than its graph", title);
    }
    require(next == inputs.size(), "{}its graph has further inputs", title);
    check_outputs(title, saved, graph);
    if (max_loop_steps_ > 0) require_loop_limits(graph, max_loop_steps_, file_);
  }

  void require_state(const std::string& title, int64_t index, const Type* type) const {
    const SavedVariable& v = content_.variables[static_cast<std::size_t>(index)];
    const bool fits = v.dtype == type->dtype() &&
                      (!v.value.has_value() || v.value.shape().rank() == type->rank());
    require(fits, "{}Variable '{:.200}' has another type than its graph needs", title, v.paths[0]);
  }

  void check_outputs(const std::string& title, const SavedGraph& saved, const Graph& graph) const {
    std::size_t count = static_cast<std::size_t>(
        std::ranges::count_if(saved.result.is_present, [](uint8_t is) { return is != 0; }));
    for (const SavedTensor& x : saved.tensors) count += x.is_changed ? 1 : 0;
    for (const SavedUse& use : saved.uses) count += use.is_written ? 1 : 0;
    const auto outputs = graph.outputs();
    require(count == outputs.size() && std::ranges::count(outputs, kNoValue) == 0,
            "{}its graph has {} results, but {} are needed", title, outputs.size(), count);
  }

  const fs::path& folder_;
  const std::string file_;
  const int64_t max_loop_steps_;
  Manifest manifest_;
  Content content_;
  std::unique_ptr<OpenFile> graphs_;
  std::vector<std::unique_ptr<OpenFile>> shards_, assets_;
};

}  // namespace

Content read_content(const fs::path& folder, int64_t max_loop_steps) {
  constexpr int kMostTries = 100;
  for (int tries = 1;; ++tries) {
    FolderReader reader(folder, max_loop_steps);
    const std::string manifest = reader.manifest_bytes();
    try {
      reader.open(manifest);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotFound) throw;
      // A saver removes files after it has replaced their manifest.
      const bool is_replaced = reader.manifest_bytes() != manifest;
      ETUDE_REQUIRE_CODE(kDataLoss, is_replaced && tries < kMostTries,
                         "{}. The folder of saved functions '{}' is damaged", error.what(),
                         folder.string());
      continue;
    }
    return reader.read();
  }
}

}  // namespace etude::saved::internal
