// SPDX-License-Identifier: Apache-2.0
// The match of saved graphs with live objects, and the edges of Trackables, at which it goes on.
#include <algorithm>
#include <atomic>
#include <deque>

#include "etude/base/check.h"
#include "etude/base/warning.h"
#include "etude/io/checkpoint/object_graph.h"

namespace etude::io::internal {
namespace {

int64_t next_order() {
  static std::atomic<int64_t> order{0};
  return ++order;
}

std::vector<Edge>::iterator find_edge(std::vector<Edge>& edges, std::string_view name) {
  return std::ranges::find(edges, name, &Edge::name);
}

// Adds a restore in the order of the calls, and drops older restores whose edges are all in the new
// restore.
void add_pending(std::vector<TrackableCore::Pending>& all, TrackableCore::Pending pending) {
  const auto node_of = [](const TrackableCore::Pending& p) -> const SavedNode& {
    return p.restore->graph().nodes()[static_cast<std::size_t>(p.node)];
  };
  const SavedNode& saved = node_of(pending);
  std::erase_if(all, [&](const TrackableCore::Pending& older) {
    const auto& names = node_of(older).edges;
    return older.restore->order() <= pending.restore->order() &&
           std::all_of(names.begin(), names.end(),
                       [&](const auto& edge) { return saved.edge(edge.first) != nullptr; });
  });
  const auto at = std::find_if(all.begin(), all.end(), [&](const TrackableCore::Pending& other) {
    return other.restore->order() > pending.restore->order();
  });
  all.insert(at, std::move(pending));
}

}  // namespace

LiveGraph::LiveGraph(const TrackeePtr& root) {
  std::map<Identity, int64_t> ids;
  ids[root->identity()] = 0;
  objects.push_back(root);
  nodes.emplace_back();
  for (std::size_t i = 0; i < objects.size(); ++i) {  // grows meanwhile: breadth first
    for (const Edge& edge : objects[i]->edges()) {
      const auto [at, is_new] =
          ids.try_emplace(edge.to->identity(), static_cast<int64_t>(objects.size()));
      if (is_new) {
        objects.push_back(edge.to);
        SavedNode& made = nodes.emplace_back();
        made.parent = static_cast<int64_t>(i);
        made.parent_edge = nodes[i].edges.size();
      }
      nodes[i].edges.emplace_back(edge.name, at->second);
    }
  }
}

Restore::Restore(std::shared_ptr<const SavedGraph> graph, std::weak_ptr<TrackableCore> root)
    : graph_(std::move(graph)), root_(std::move(root)), order_(next_order()) {}

Restore::~Restore() {
  if (is_silent_) return;
  try {
    const std::vector<std::string> rest = unused();
    if (rest.empty()) return;
    etude::internal::warn(fmt::format(
        "checkpoint '{}': {} of its values were not used, first '{}'. report() of the status lists "
        "them; expect_partial() says that it is meant",
        graph_->path(), rest.size(), rest[0]));
  } catch (...) {  // without memory there is no warning
  }
}

Restore::Found& Restoration::found_of(const std::shared_ptr<Restore>& restore) {
  return found_.try_emplace(restore, restore->found_).first->second;
}

Restoration::Pendings& Restoration::pending_of(const std::shared_ptr<TrackableCore>& core) {
  return pending_.try_emplace(core, core->pending_).first->second;
}

std::vector<Restoration::Job> Restoration::find(const SavedGraph& graph, const TrackeePtr& to,
                                                int64_t node, Restore::Found& found) {
  std::vector<Job> jobs;
  std::deque<std::pair<TrackeePtr, int64_t>> queue{{to, node}};
  while (!queue.empty()) {
    const auto [object, id] = queue.front();
    queue.pop_front();
    const Restore::Match here{id, object->life()};
    const auto [at, is_new] = found.matched.try_emplace(object->identity(), here);
    if (!is_new && at->second.holds()) {
      found.taken.insert(id);  // two saved objects may be one live object; the first set its values
      continue;
    }
    at->second = here;
    const SavedNode& saved = graph.nodes()[static_cast<std::size_t>(id)];
    if (!found.taken.insert(id).second) {
      found.doubled.push_back(graph.path_of(static_cast<std::size_t>(id)));
      continue;
    }
    jobs.push_back({object, id, {}, {}});
    for (const Edge& edge : object->edges()) {
      if (const int64_t* next = saved.edge(edge.name)) queue.emplace_back(edge.to, *next);
    }
  }
  return jobs;
}

void Restoration::read(std::vector<Job>& jobs, const SavedGraph& graph, SavedGraph::Files& files,
                       Restore::Found& found) {
  std::string unfit;
  for (Job& job : jobs) {
    const SavedNode& saved = graph.nodes()[static_cast<std::size_t>(job.node)];
    if (saved.attributes.empty()) continue;
    if (!job.to->takes_values()) {
      found.left[job.node].insert(saved.attributes.begin(), saved.attributes.end());
      continue;
    }
    job.path = graph.path_of(static_cast<std::size_t>(job.node));
    for (const std::string& attribute : saved.attributes) {
      job.values.emplace(attribute, files.read(key_of(job.path, attribute)));
    }
    const std::string problem = job.to->refuse(job.values);
    if (!problem.empty()) unfit += fmt::format("\n  {}: {}", job.path, problem);
  }
  ETUDE_REQUIRE(
      unfit.empty(),
      "checkpoint '{}' has values of other types than the objects; nothing was restored:{}",
      graph.path(), unfit);
}

void Restoration::match(const std::shared_ptr<Restore>& restore, const TrackeePtr& to, int64_t node,
                        SavedGraph::Files& files) {
  const SavedGraph& graph = restore->graph();
  source_ = graph.path();
  Restore::Found& found = found_of(restore);
  const std::size_t doubled = found.doubled.size();
  std::vector<Job> jobs = find(graph, to, node, found);
  read(jobs, graph, files, found);
  for (Job& job : jobs) {
    if (!job.values.empty()) {
      prepare_at(graph.path(), job.path, [&] {
        objects_.push_back(job.to->prepare(std::move(job.values), restore->order()));
      });
      objects_.back().path = std::move(job.path);
    }
    if (const auto core = job.to->core()) add_pending(pending_of(core), {restore, job.node});
  }
  for (std::size_t i = doubled; i < found.doubled.size(); ++i) {
    warnings_.push_back(fmt::format(
        "checkpoint '{}': '{}' belongs to two objects now, and was restored into the first. They "
        "were one when it was saved",
        graph.path(), found.doubled[i]));
  }
}

void Restoration::release(const std::shared_ptr<Restore>& restore, const TrackeePtr& from) {
  Restore::Found& found = found_of(restore);
  for (const TrackeePtr& object : LiveGraph(from).objects) {
    const auto at = found.matched.find(object->identity());
    if (at == found.matched.end()) continue;
    found.taken.erase(at->second.node);
    found.matched.erase(at);
  }
}

void Restoration::set_edge(const std::shared_ptr<TrackableCore>& core, Edge edge) {
  std::vector<Edge>& edges = core->edges_;
  if (edges.size() == edges.capacity()) edges.reserve(2 * edges.size() + 1);
  std::string name = edge.name;
  objects_.push_back({.exchange = [core, edge = std::move(edge), name = std::move(name)]() mutable {
    std::vector<Edge>& edges = core->edges_;
    const auto at = find_edge(edges, name);
    if (at == edges.end()) {
      edges.push_back(std::move(edge));
    } else {
      std::swap(at->to, edge.to);
      if (at->to == nullptr) edges.erase(at);  // it was added
    }
  }});
}

void Restoration::run() {
  for (auto& [restore, found] : found_) {
    objects_.push_back({.exchange = exchange_with(restore->found_, std::move(found))});
  }
  for (auto& [core, pending] : pending_) {
    objects_.push_back({.exchange = exchange_with(core->pending_, std::move(pending))});
  }
  for (const std::string& text : warnings_) etude::internal::warn(text);
  restore_all(std::move(objects_), source_);
}

std::vector<std::string> Restore::restored() const {
  std::vector<std::string> out;
  for (const int64_t id : found_.taken) {
    const SavedNode& saved = graph_->nodes()[static_cast<std::size_t>(id)];
    if (!saved.attributes.empty() && !found_.left.contains(id)) {
      out.push_back(graph_->path_of(static_cast<std::size_t>(id)));
    }
  }
  return out;
}

std::vector<std::string> Restore::unused() const {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < graph_->nodes().size(); ++i) {
    const auto id = static_cast<int64_t>(i);
    const SavedNode& saved = graph_->nodes()[i];
    if (!saved.attributes.empty() && (!found_.taken.contains(id) || found_.left.contains(id))) {
      out.push_back(graph_->path_of(i));
    }
  }
  return out;
}

std::vector<std::string> Restore::unmatched() const {
  std::vector<std::string> out;
  const auto root = root_.lock();
  if (root == nullptr) return out;
  const LiveGraph live(track_core(root));
  for (std::size_t i = 0; i < live.objects.size(); ++i) {
    if (!live.objects[i]->needs_values()) continue;
    const auto at = found_.matched.find(live.objects[i]->identity());
    if (at == found_.matched.end() || !at->second.holds()) out.push_back(path_of(live.nodes, i));
  }
  return out;
}

void TrackableCore::attach(const std::string& name, TrackeePtr to, bool replaces) {
  const auto at = find_edge(edges_, name);
  ETUDE_REQUIRE(replaces || at == edges_.end(),
                "there is an object '{}' already. Take another name, or replace() it", name);
  Restoration restoration;
  for (const Pending& pending : pending_) {
    const SavedGraph& graph = pending.restore->graph();
    const SavedNode& saved = graph.nodes()[static_cast<std::size_t>(pending.node)];
    const int64_t* node = saved.edge(name);
    if (node == nullptr) continue;
    if (at != edges_.end()) restoration.release(pending.restore, at->to);
    SavedGraph::Files files(graph);
    restoration.match(pending.restore, to, *node, files);
  }
  restoration.set_edge(shared_from_this(), {name, std::move(to)});
  restoration.run();
}

void TrackableCore::detach(const std::string& name) {
  const auto count = std::erase_if(edges_, [&](const Edge& edge) { return edge.name == name; });
  ETUDE_REQUIRE_CODE(kNotFound, count > 0, "there is no object '{}'", name);
}

}  // namespace etude::io::internal
