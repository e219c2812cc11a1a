// SPDX-License-Identifier: Apache-2.0
// Writes object graphs as files: nodes, named edges and the values of nodes, in a folder with
// safetensors shards and a manifest. The manifest is written last, and each file has its CRC-32C.
// Also matches a saved graph with live objects. Used by trackable.cc and object_checkpoint.cc.
// Files are not trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/base/internal/function_ref.h"
#include "etude/io/checkpoint/trackable.h"

namespace etude::io::internal {

// A node has no path of its own: the paths of a long chain would be quadratic in its length.
struct SavedNode {
  std::vector<std::pair<std::string, int64_t>> edges;
  std::vector<std::string> attributes;  // of its values
  int64_t parent = -1;                  // on a shortest path from the root; -1 for the root
  std::size_t parent_edge = 0;          // the edge from there

  // Makes edge() fast, when all edges are there. Returns whether their names differ.
  bool index_edges();
  // The node that the edge leads to; null for none. Call index_edges() before. cost: logarithmic.
  const int64_t* edge(std::string_view name) const;

 private:
  std::vector<uint32_t> by_name_;  // edges in the order of their names
};

// The shortest path from the root: names of edges, joined by '/'. They are escaped in keys.
// cost: linear in the path.
enum class PathForm : uint8_t { kEscaped, kPlain };
std::string path_of(const std::vector<SavedNode>& nodes, std::size_t node,
                    PathForm form = PathForm::kEscaped);

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
// Writes the objects to the folder `path`. Its files count only after the manifest is in place; an
// older checkpoint there stays whole until then. The caller has the lock of the folder of `path`.
//
// throws: kInvalidArgument for a Variable without a value; for files: the errors of AtomicFile.
void write_graph(const std::string& path, const TrackeePtr& root, const WriteOptions& options);
// Whether `path` is a folder with a manifest.
bool is_checkpoint(const std::string& path);
// Removes the files of a checkpoint, finished or not, and the folder unless other files are in it.
// Removes the manifest first, so that a partly removed folder is not mistaken for a checkpoint.
// Best effort. The caller has the lock of the folder of `path`.
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
  std::string path_of(std::size_t node) const { return internal::path_of(nodes_, node); }

  // The open shards during reading. throws: kDataLoss, with the file, for a damaged shard.
  class Files {
   public:
    explicit Files(const SavedGraph& graph);
    ~Files();
    Tensor read(const std::string& key);
    // Opens all shards: a saver that replaces or removes the checkpoint does not disturb them then.
    // throws: kNotFound, with the file.
    void open_all();
    // Reads and checks all shards.
    void check_all();

   private:
    struct Open;
    Open& open(std::size_t shard);
    Open& checked(std::size_t shard);
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

// The checkpoint at `path`, and its shards, which are open. If a saver replaces it meanwhile, the
// new one.
//
// throws: kNotFound if there is none, or no more; kDataLoss, with the file, if it is damaged.
struct OpenGraph {
  std::shared_ptr<const SavedGraph> graph;
  std::unique_ptr<SavedGraph::Files> files;
};
OpenGraph open_graph(const std::string& path);

// One restore: the parts of the saved graph that have found their objects. Owned by the status and
// by every Trackable that may still get an edge.
class Restore {
 public:
  Restore(std::shared_ptr<const SavedGraph> graph, std::weak_ptr<TrackableCore> root);
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;
  ~Restore();  // warns of unused values, unless disabled

  const SavedGraph& graph() const { return *graph_; }
  int64_t order() const { return order_; }
  std::weak_ptr<TrackableCore> root() const { return root_; }
  void be_silent() { is_silent_ = true; }

  std::vector<std::string> restored() const;   // paths in the file of used values
  std::vector<std::string> unused() const;     // paths of unused values
  std::vector<std::string> unmatched() const;  // of live objects without a value
  const std::vector<std::string>& doubled() const { return found_.doubled; }

 private:
  friend class Restoration;
  struct Match {
    int64_t node;
    std::optional<std::weak_ptr<const void>> life;  // another object may reuse the address
    bool holds() const { return !life || !life->expired(); }
  };
  struct Found {
    std::map<Identity, Match> matched;
    std::set<int64_t> taken;
    std::map<int64_t, std::set<std::string>> left;  // attributes that their object did not take
    std::vector<std::string> doubled;
  };

  std::shared_ptr<const SavedGraph> graph_;
  std::weak_ptr<TrackableCore> root_;
  int64_t order_;
  Found found_;
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
  // Adds or redirects an edge, and restores the saved values that wait for it. throws: as
  // Restoration; nothing is changed then.
  void attach(const std::string& name, TrackeePtr to, bool replaces);
  void detach(const std::string& name);

 private:
  friend class Restoration;
  std::vector<Edge> edges_;
  std::vector<Pending> pending_;
};

// Values, matches and edges that are restored together, or not at all. Everything is prepared
// before run(), in copies.
class Restoration {
 public:
  // Matches `to` with the node, then everything that both reach, breadth first, and prepares the
  // restore of their values.
  //
  // throws: kInvalidArgument for values of another type, naming all of them, and for values that an
  //         object does not take.
  void match(const std::shared_ptr<Restore>& restore, const TrackeePtr& to, int64_t node,
             SavedGraph::Files& files);
  // Releases the values of the objects that `from` reaches, so that another object can take them.
  void release(const std::shared_ptr<Restore>& restore, const TrackeePtr& from);
  // Adds the edge, or redirects the edge of this name.
  void set_edge(const std::shared_ptr<TrackableCore>& core, Edge edge);
  // throws: as restore_all.
  void run();

 private:
  using Pendings = std::vector<TrackableCore::Pending>;
  struct Job {
    TrackeePtr to;
    int64_t node;
    NamedTensors values;
    std::string path;  // in the file, if there are values
  };
  Restore::Found& found_of(const std::shared_ptr<Restore>& restore);
  Pendings& pending_of(const std::shared_ptr<TrackableCore>& core);
  static std::vector<Job> find(const SavedGraph& graph, const TrackeePtr& to, int64_t node,
                               Restore::Found& found);
  static void read(std::vector<Job>& jobs, const SavedGraph& graph, SavedGraph::Files& files,
                   Restore::Found& found);

  std::map<std::shared_ptr<Restore>, Restore::Found> found_;    // after the change
  std::map<std::shared_ptr<TrackableCore>, Pendings> pending_;  // after the change
  std::vector<PreparedRestore> objects_;
  std::vector<std::string> warnings_;
  std::string source_;  // the last checkpoint
};

// Calls `prepare` for the object at `path`. throws: its error, as kInvalidArgument with `source`,
// the path and the reason; the error itself if there was no memory.
void prepare_at(std::string_view source, std::string_view path,
                etude::internal::FunctionRef<void()> prepare);

}  // namespace etude::io::internal
