// SPDX-License-Identifier: Apache-2.0
// Writes object graphs as files: nodes, named edges and the values of nodes, in a folder with
// safetensors shards and a manifest. The manifest is written last, and each file has its CRC-32C.
// Also matches a saved graph with live objects. Used by trackable.cc and object_checkpoint.cc.
// Files are not trusted.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/io/checkpoint/trackable.h"

namespace etude::io::internal {

struct SavedNode {
  std::vector<std::pair<std::string, int64_t>> edges;
  std::vector<std::string> attributes;  // of its values
  std::string path;                     // the shortest from the root: escaped names, joined by '/'
  const int64_t* edge(const std::string& name) const;
};

// An edge name in keys: '%', '/' and '.' are escaped as %25, %2F and %2E.
std::string escaped(std::string_view name);
// The key of a value: "net/out/weight", "optimizer/.mean/conv1/filter".
std::string key_of(const std::string& path, const std::string& attribute);

// The graph of the live objects that are reachable from `root`. Node 0 is the root.
struct LiveGraph {
  explicit LiveGraph(const TrackeePtr& root);
  std::vector<SavedNode> nodes;
  std::vector<TrackeePtr> objects;  // of each node
};

struct WriteOptions {
  int64_t shard_bytes = 0;
  int64_t counter = 0;
};
// Writes the objects to the folder `path`. Its files count only after the manifest is written;
// until then an older checkpoint there is unchanged.
//
// throws: kInvalidArgument for a Variable without a value; for files: the errors of AtomicFile.
void write_graph(const std::string& path, const TrackeePtr& root, const WriteOptions& options);
// Whether `path` is a folder with a manifest.
bool is_checkpoint(const std::string& path);
// Removes the manifest first, so that a partly removed folder is not mistaken for a checkpoint.
// Best effort.
void remove_checkpoint(const std::string& path);

struct Shard {
  std::string file;
  uint64_t bytes = 0;
  uint32_t crc = 0;
};

// The content of a folder. Values are read from the files when they are requested.
class SavedGraph {
 public:
  // Reads the manifest.
  //
  // throws: kNotFound if there is none; kDataLoss, with the file, if it is damaged.
  explicit SavedGraph(std::string path);
  // The same, but takes `manifest`, the content of the manifest file.
  SavedGraph(std::string path, std::string_view manifest);
  const std::string& path() const { return path_; }
  const std::vector<SavedNode>& nodes() const { return nodes_; }
  int64_t counter() const { return counter_; }

  // The open shards during reading. throws: kDataLoss, with the file, for a damaged shard.
  class Files {
   public:
    explicit Files(const SavedGraph& graph);
    ~Files();
    Tensor read(const std::string& key);
    // Reads and checks all shards.
    void check_all();

   private:
    struct Open;
    Open& open(std::size_t shard);
    const SavedGraph& graph_;
    std::map<std::size_t, std::unique_ptr<Open>> open_;
  };

 private:
  std::string path_;
  int64_t counter_ = 0;
  std::vector<SavedNode> nodes_;
  std::vector<Shard> shards_;
  std::map<std::string, std::size_t> shard_of_;  // by key
};

// One restore: the parts of the saved graph that are matched with objects. Owned by the status and
// by every Trackable to which a matching edge may still be added.
class Restore {
 public:
  Restore(std::shared_ptr<const SavedGraph> graph, std::weak_ptr<TrackableCore> root);
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;
  ~Restore();  // warns of unused values, unless disabled

  // Matches `to` with the node, then everything that both reach, breadth first, and restores
  // values.
  //
  // throws: kInvalidArgument for values of another type, naming all of them; nothing is then
  // changed.
  static void match(const std::shared_ptr<Restore>& self, const TrackeePtr& to, int64_t node,
                    SavedGraph::Files& files);

  // Releases the values of the objects that `from` reaches, so that another object can take them.
  void release(const TrackeePtr& from);

  const SavedGraph& graph() const { return *graph_; }
  int64_t order() const { return order_; }
  std::weak_ptr<TrackableCore> root() const { return root_; }
  void be_silent() { is_silent_ = true; }

  std::vector<std::string> restored() const;   // paths in the file of used values
  std::vector<std::string> unused() const;     // paths of unused values
  std::vector<std::string> unmatched() const;  // of live objects without a value
  const std::vector<std::string>& doubled() const { return doubled_; }

 private:
  struct Job {
    TrackeePtr to;
    int64_t node;
    NamedTensors values;
  };
  struct Match {
    int64_t node;
    std::optional<std::weak_ptr<const void>> life;  // another object may reuse the address
    bool holds() const { return !life || !life->expired(); }
  };
  using Matches = std::map<Identity, Match>;
  void give(Job& job) const;
  std::vector<Job> find(const TrackeePtr& to, int64_t node, Matches& matched,
                        std::set<int64_t>& taken, std::vector<std::string>& doubled) const;

  std::shared_ptr<const SavedGraph> graph_;
  std::weak_ptr<TrackableCore> root_;
  int64_t order_;
  Matches matched_;
  std::set<int64_t> taken_;
  std::map<int64_t, std::set<std::string>> left_;  // attributes that their object did not take
  std::vector<std::string> doubled_;
  bool is_silent_ = false;
};

// The edges of a Trackable, and the restores that wait for its edges.
class TrackableCore : public std::enable_shared_from_this<TrackableCore> {
 public:
  struct Pending {
    std::shared_ptr<Restore> restore;
    int64_t node;
  };
  const std::vector<Edge>& edges() const { return edges_; }
  void attach(const std::string& name, TrackeePtr to, bool replaces);
  void detach(const std::string& name);
  // Adds a restore, and drops older restores whose edges are all in the new restore.
  void wait_for(Pending pending);

 private:
  std::vector<Edge> edges_;
  std::vector<Pending> pending_;
};

}  // namespace etude::io::internal
