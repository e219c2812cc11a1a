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

std::vector<Restore::Job> Restore::find(const TrackeePtr& to, int64_t node, Matches& matched,
                                        std::set<int64_t>& taken,
                                        std::vector<std::string>& doubled) const {
  std::vector<Job> jobs;
  std::deque<std::pair<TrackeePtr, int64_t>> queue{{to, node}};
  while (!queue.empty()) {
    const auto [object, id] = queue.front();
    queue.pop_front();
    const auto [at, is_new] = matched.try_emplace(object->identity(), Match{id, object->life()});
    if (!is_new && at->second.holds()) {
      taken.insert(id);  // two saved objects may be one live one; the first has given its values
      continue;
    }
    at->second = {id, object->life()};
    const SavedNode& saved = graph_->nodes()[static_cast<std::size_t>(id)];
    if (!taken.insert(id).second) {
      doubled.push_back(graph_->path_of(static_cast<std::size_t>(id)));
      continue;
    }
    jobs.push_back({object, id, {}});
    for (const Edge& edge : object->edges()) {
      if (const int64_t* next = saved.edge(edge.name)) queue.emplace_back(edge.to, *next);
    }
  }
  return jobs;
}

void Restore::match(const std::shared_ptr<Restore>& self, const TrackeePtr& to, int64_t node,
                    SavedGraph::Files& files) {
  auto matched = self->matched_;
  auto taken = self->taken_;
  auto doubled = self->doubled_;
  std::vector<Job> jobs = self->find(to, node, matched, taken, doubled);
  std::string unfit;
  std::map<int64_t, std::set<std::string>> left;
  for (Job& job : jobs) {
    const SavedNode& saved = self->graph_->nodes()[static_cast<std::size_t>(job.node)];
    if (saved.attributes.empty()) continue;
    if (!job.to->takes_values()) {
      left[job.node].insert(saved.attributes.begin(), saved.attributes.end());
      continue;
    }
    const std::string path = self->graph_->path_of(static_cast<std::size_t>(job.node));
    for (const std::string& attribute : saved.attributes) {
      job.values.emplace(attribute, files.read(key_of(path, attribute)));
    }
    const std::string problem = job.to->refuse(job.values);
    if (!problem.empty()) unfit += fmt::format("\n  {}: {}", path, problem);
  }
  ETUDE_REQUIRE(
      unfit.empty(),
      "checkpoint '{}' has values of other types than the objects; nothing was restored:{}",
      self->graph_->path(), unfit);
  for (Job& job : jobs) {
    if (!job.values.empty() && job.to->note_restore(self->order_)) self->give(job);
    if (const auto core = job.to->core()) core->wait_for({self, job.node});
  }
  for (std::size_t i = self->doubled_.size(); i < doubled.size(); ++i) {
    etude::internal::warn(fmt::format(
        "checkpoint '{}': '{}' belongs to two objects now, and was restored into the first. They "
        "were one when it was saved",
        self->graph_->path(), doubled[i]));
  }
  self->matched_ = std::move(matched);
  self->taken_ = std::move(taken);
  self->doubled_ = std::move(doubled);
  self->left_.merge(left);
}

void Restore::give(Job& job) const {
  try {
    job.to->restore(std::move(job.values));
  } catch (const std::exception& error) {
    ETUDE_THROW(
        kInvalidArgument,
        "checkpoint '{}': '{}' does not take its saved state; objects before it have theirs: "
        "{}",
        graph_->path(), graph_->path_of(static_cast<std::size_t>(job.node)), error.what());
  }
}

void Restore::release(const TrackeePtr& from) {
  for (const TrackeePtr& object : LiveGraph(from).objects) {
    const auto at = matched_.find(object->identity());
    if (at == matched_.end()) continue;
    taken_.erase(at->second.node);
    matched_.erase(at);
  }
}

std::vector<std::string> Restore::restored() const {
  std::vector<std::string> out;
  for (const int64_t id : taken_) {
    const SavedNode& saved = graph_->nodes()[static_cast<std::size_t>(id)];
    if (!saved.attributes.empty() && !left_.contains(id)) {
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
    if (!saved.attributes.empty() && (!taken_.contains(id) || left_.contains(id))) {
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
    const auto at = matched_.find(live.objects[i]->identity());
    if (at == matched_.end() || !at->second.holds()) out.push_back(path_of(live.nodes, i));
  }
  return out;
}

void TrackableCore::attach(const std::string& name, TrackeePtr to, bool replaces) {
  const auto at = std::find_if(edges_.begin(), edges_.end(),
                               [&](const Edge& edge) { return edge.name == name; });
  ETUDE_REQUIRE(replaces || at == edges_.end(),
                "there is an object '{}' already. Take another name, or replace() it", name);
  for (const Pending& pending : std::vector<Pending>(pending_)) {
    const SavedGraph& graph = pending.restore->graph();
    const SavedNode& saved = graph.nodes()[static_cast<std::size_t>(pending.node)];
    const int64_t* node = saved.edge(name);
    if (node == nullptr) continue;
    if (at != edges_.end()) pending.restore->release(at->to);
    SavedGraph::Files files(graph);
    Restore::match(pending.restore, to, *node, files);
  }
  if (at == edges_.end()) {
    edges_.push_back({name, std::move(to)});
  } else {
    at->to = std::move(to);
  }
}

void TrackableCore::detach(const std::string& name) {
  const auto count = std::erase_if(edges_, [&](const Edge& edge) { return edge.name == name; });
  ETUDE_REQUIRE_CODE(kNotFound, count > 0, "there is no object '{}'", name);
}

void TrackableCore::wait_for(Pending pending) {
  const auto edges_of = [](const Pending& p) -> const SavedNode& {
    return p.restore->graph().nodes()[static_cast<std::size_t>(p.node)];
  };
  const SavedNode& saved = edges_of(pending);
  std::erase_if(pending_, [&](const Pending& older) {
    const auto& names = edges_of(older).edges;
    return older.restore->order() <= pending.restore->order() &&
           std::all_of(names.begin(), names.end(),
                       [&](const auto& edge) { return saved.edge(edge.first) != nullptr; });
  });
  const auto at = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& other) {
    return other.restore->order() > pending.restore->order();
  });
  pending_.insert(at, std::move(pending));  // in the order of the calls
}

}  // namespace etude::io::internal
