// SPDX-License-Identifier: Apache-2.0
#include "etude/saved/saved.h"

#include <cerrno>
#include <set>

#include <sys/stat.h>

#include "etude/base/check.h"
#include "etude/base/warning.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/option_ranges.h"
#include "etude/saved/content.h"
#include "etude/saved/gather.h"
#include "etude/saved/loaded.h"
#include "etude/saved/manifest.h"
#include "etude/variables/init_scope.h"

namespace etude::saved {

Entry::Entry(std::string name, const Function& f)
    : name_(std::move(name)),
      loaded_(f.program_),
      loaded_function_(static_cast<int64_t>(f.index_)) {}

Entry::Entry(std::string name, const Program& program)
    : name_(std::move(name)), loaded_(program.loaded_) {}

std::vector<std::pair<std::string, const void*>> Entry::cells_of(const io::Trackable& object) {
  std::vector<std::pair<std::string, const void*>> out;
  std::set<io::internal::Identity> seen;
  std::vector<std::pair<std::string, io::internal::TrackeePtr>> left{
      {"", io::internal::track_core(object.core())}};
  while (!left.empty()) {  // by edges; circles end at objects that were seen
    const auto [path, at] = left.back();
    left.pop_back();
    const io::internal::Identity id = at->identity();
    out.emplace_back(path, id.at);
    if (!seen.insert(id).second) continue;
    for (const io::internal::Edge& edge : at->edges()) {
      left.emplace_back(path.empty() ? edge.name : path + "/" + edge.name, edge.to);
    }
  }
  return out;
}

namespace {

// Reads the present values.
void read_values(internal::Content& content) {
  for (internal::SavedVariable& v : content.variables) {
    if (v.variable && v.variable->initialized()) v.value = v.variable->read();
  }
}

}  // namespace

void save(const std::string& folder, const std::vector<Entry>& entries, const SaveOptions& options,
          CallSite where) {
  etude::internal::located("saved::save", where, [&] {
    etude::internal::check_options("saved::save", options, where);
    const etude::internal::OutsideScope outside;
    internal::Gathered gathered = internal::gather(entries, options);
    for (const std::string& text : gathered.warnings) {
      etude::internal::warn("saved::save: " + text);
    }
    read_values(gathered.content);
    internal::write_content(folder, gathered.content, options.shard_bytes);
  });
}

void save(const std::string& folder, const Program& program, CallSite where) {
  etude::internal::located("saved::save", where, [&] {
    const etude::internal::OutsideScope outside;
    internal::Content content = program.loaded_->content;
    read_values(content);
    internal::write_content(folder, content, SaveOptions().shard_bytes);
  });
}

Program load(const std::string& folder, const LoadOptions& options, CallSite where) {
  return etude::internal::located("saved::load", where, [&] {
    etude::internal::check_options("saved::load", options, where);
    return Program(
        internal::make_loaded(folder, internal::read_content(folder, options.max_loop_steps)));
  });
}

bool is_saved(const std::string& folder) {
  struct stat facts {};
  const std::filesystem::path file = std::filesystem::path(folder) / internal::kManifest;
  // If the folder may not be searched, the error of load() has the reason.
  return ::lstat(file.c_str(), &facts) == 0 || errno == EACCES;
}

}  // namespace etude::saved
