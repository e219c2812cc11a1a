// SPDX-License-Identifier: Apache-2.0
#include "serve/repository.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "etude/saved/saved.h"
#include "serve/refuse.h"

namespace etude::serve {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "saved.json";

bool is_model_name(const std::string& name) {
  return !name.empty() && name.size() <= 128 && name[0] != '.' &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

// "12"; empty for other names, such as "012" and "12.tmp".
std::optional<int64_t> version_number(const std::string& name) {
  const bool digits = !name.empty() && name.size() <= 18 && name[0] != '0' &&
                      std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
  return digits ? std::optional<int64_t>(std::stoll(name)) : std::nullopt;
}

// The folder that a symbolic link leads to now. All files of a version are read from it, also if
// the link is switched meanwhile.
fs::path target_of(const fs::path& folder) {
  std::error_code error;
  fs::path out = fs::canonical(folder, error);
  return error ? folder : out;
}

// "" if there is no such file.
std::string file_stamp(const fs::path& file) {
  struct stat info = {};
  if (::stat(file.c_str(), &info) != 0) return "";
  return fmt::format("{}.{}.{}.{}.{}", info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

// Changes when the manifest is written again, since savers replace it, and when a link to the
// folder is switched. "" if there is no manifest.
std::string stamp_of(const fs::path& folder) {
  const fs::path target = target_of(folder);
  const std::string manifest = file_stamp(target / kManifest);
  return manifest.empty() ? "" : manifest + " " + target.string();
}

// Empty if there is no such folder. The iterators of std::filesystem end the process if they get no
// memory.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  while (const dirent* entry = open ? ::readdir(open.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") out.push_back(folder / name);
  }
  return out;
}

// Changes when any file of the folder changes. A version that is seen while it is copied has its
// manifest before its last files.
std::string stamp_of_files(const fs::path& folder) {
  const fs::path target = target_of(folder);
  std::vector<std::string> all = {target.string()};
  for (const fs::path& file : entries_of(target)) {
    all.push_back(file.string() + " " + file_stamp(file));
  }
  std::ranges::sort(all);
  return fmt::format("{}", fmt::join(all, " "));
}

std::vector<fs::path> subfolders(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code ignored;
  for (fs::path& entry : entries_of(folder)) {
    if (fs::is_directory(entry, ignored)) out.push_back(std::move(entry));
  }
  std::ranges::sort(out);
  return out;
}

std::map<int64_t, fs::path> version_folders(const fs::path& folder) {
  if (!stamp_of(folder).empty()) return {{1, folder}};
  std::map<int64_t, fs::path> out;
  for (const fs::path& each : subfolders(folder)) {
    const std::optional<int64_t> version = version_number(each.filename().string());
    if (version && !stamp_of(each).empty()) out.emplace(*version, each);
  }
  return out;
}

// Also a folder whose versions are still to come: its subfolders are numbers.
bool is_model_folder(const fs::path& folder) {
  return !stamp_of(folder).empty() || std::ranges::any_of(subfolders(folder), [](const auto& each) {
    return version_number(each.filename().string()).has_value();
  });
}

// The last name of the path as it is written, also if it is a symbolic link. "." and ".." have
// none.
std::string name_of(const fs::path& folder) {
  fs::path path = folder.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "net/"
  if (path.empty() || path == "." || path.filename() == "..") path = target_of(folder);
  return path.filename().string();
}

}  // namespace

Repository::Repository(std::vector<fs::path> folders, const RepositoryOptions& options,
                       Metrics& metrics, std::function<void(const std::string&)> log)
    : folders_(std::move(folders)), options_(options), metrics_(metrics), log_(std::move(log)) {
  for (const fs::path& folder : folders_) {
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored)) {
      refuse(ErrorCode::kNotFound,
             "{} is no folder. Name a folder that saved::save() wrote, or a "
             "folder of such folders",
             folder.string());
    }
  }
  look();
  has_started_ = true;
  poller_.emplace("new versions of models", 1, [this](const auto& stop) { poll(stop); });
}

// An error at the start, if the command names the folder. Otherwise and later, it must not keep the
// other models from their versions.
void Repository::refuse_folder(const std::string& reason, bool is_named) {
  if (!has_started_ && is_named) refuse(ErrorCode::kInvalidArgument, "{}", reason);
  if (refused_.insert(reason).second) log_(reason);
}

// Each folder of the command line is a model, or has models. throws: as the constructor.
std::vector<std::string> Repository::find_models() {
  std::vector<std::string> names;
  std::map<std::string, fs::path> found;
  const auto add = [&](const fs::path& folder, bool is_named) {
    const std::string name = name_of(folder);
    if (!is_model_name(name)) {
      return refuse_folder(
          fmt::format(
              "{} cannot be a model: its name '{}' must have letters, digits, '.', '_' and '-' "
              "only, and no '.' at its beginning. Rename the folder",
              folder.string(), name),
          is_named);
    }
    const auto [at, is_new] = found.emplace(name, folder);
    if (!is_new) {
      return refuse_folder(fmt::format("two folders have the name of model '{}': {} and {}", name,
                                       at->second.string(), folder.string()),
                           true);
    }
    names.push_back(name);
  };
  for (const fs::path& folder : folders_) {
    if (is_model_folder(folder)) {
      add(folder, true);
      continue;
    }
    for (const fs::path& inner : subfolders(folder)) {
      if (is_model_folder(inner)) add(inner, false);
    }
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [name, folder] : found) models_.try_emplace(name, Served{folder, {}, false});
  for (const auto& [name, served] : models_) {  // one whose folder has gone loses its versions
    if (!found.contains(name)) names.push_back(name);
  }
  return names;
}

void Repository::look() {
  const std::lock_guard loading(loading_);
  for (const std::string& name : find_models()) refresh(name, false);
}

// Without memory for its line, an error is not reported.
void Repository::report(const std::exception& error) const noexcept {
  try {
    log_(fmt::format("the folders cannot be read: {}", error_of(error).text()));
  } catch (const std::exception&) {  // the next look may report it
  }
}

void Repository::poll(const Threads::Stop& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait_for(lock, stop, options_.poll, [] { return false; });
    if (stop.stop_requested()) return;
    lock.unlock();
    try {
      look();
      reap();
    } catch (const std::exception& error) {
      report(error);
    }
    lock.lock();
  }
}

Repository::Version Repository::load_version(const std::string& name, int64_t version,
                                             const fs::path& folder) {
  Version out{stamp_of(folder), nullptr, ""};
  const std::string files = stamp_of_files(folder);  // before they are read
  const Labels labels = {{"model", name}};
  log_(fmt::format("loading model '{}' version {}", name, version));
  try {
    const CountScope loading(
        metrics_.gauge("etude_serve_loading", "Loads that are running.",
                       {{"model", name}, {"version", std::to_string(version)}}));
    const saved::Program program = saved::load(
        target_of(folder).string(), {.max_loop_steps = options_.model.max_loop_steps}, CallSite{});
    out.model =
        std::make_shared<Model>(name, std::to_string(version), program, options_.model, metrics_);
    metrics_.counter("etude_serve_loads_total", "Versions that were loaded.", labels).add();
    std::string joins = options_.model.max_rows > 1 ? "requests stay alone: " : "";
    if (out.model->joining() != Joining::kNone) {
      joins =
          fmt::format("joins requests up to {} rows, with {}", options_.model.max_rows,
                      out.model->joining() == Joining::kEqual ? "equal bits" : "other last digits");
    }
    log_(fmt::format("model '{}' version {} is ready{}{}{}", name, version,
                     joins.empty() ? "" : "; ", joins, out.model->joining_reason()));
    const int64_t workers = std::max<int64_t>(options_.model.workers, 1);
    if (static_cast<int64_t>(out.model->workers()) < workers) {
      log_(
          fmt::format("model '{}' version {} has {} of {} workers: the process gets no further "
                      "thread",
                      name, version, out.model->workers(), workers));
    }
    if (!out.model->sizes_reason().empty()) {
      log_(fmt::format(
          "model '{}' version {}: the shapes of its outputs are not known, since calls with "
          "ones and with zeros failed: {}",
          name, version, out.model->sizes_reason()));
    }
  } catch (const std::exception& error) {
    out.error = error_of(error).text();
    out.stamp = files;
    metrics_
        .counter("etude_serve_load_failures_total", "Versions that could not be loaded.", labels)
        .add();
    log_(fmt::format("model '{}' version {} cannot be loaded: {}", name, version, out.error));
  }
  return out;
}

// Requests hold a model for a moment; the poller ends it when they do not.
void Repository::retire(std::shared_ptr<Model> model) {
  if (!model) return;
  retired_.push_back(model);
  model->retire();
  log_(fmt::format("model '{}' version {} is unloaded", model->name(), model->version()));
}

void Repository::reap() {
  std::vector<std::shared_ptr<Model>> dead;
  {
    const std::lock_guard lock(mutex_);
    const auto rest =
        std::ranges::partition(retired_, [](const auto& m) { return m.use_count() > 1; });
    for (auto& model : rest) dead.push_back(std::move(model));
    retired_.erase(rest.begin(), rest.end());
  }
  dead.clear();  // outside of the lock, since it waits for the last calls
}

// Under loading_. A version that fails leaves the older ones as they are.
void Repository::refresh(const std::string& name, bool forced) {
  fs::path folder;
  std::map<int64_t, std::pair<std::string, bool>> known;  // stamps; whether the version failed
  {
    const std::lock_guard lock(mutex_);
    const Served& served = models_.at(name);
    if (served.is_unloaded) return;
    folder = served.folder;
    for (const auto& [number, version] : served.versions) {
      const bool has_failed = !version.error.empty();
      if (!forced || !has_failed) known.try_emplace(number, version.stamp, has_failed);
    }
  }
  std::map<int64_t, fs::path> there = version_folders(folder);
  while (static_cast<int64_t>(there.size()) > std::max<int64_t>(options_.versions, 1)) {
    there.erase(there.begin());
  }
  std::map<int64_t, Version> made;
  for (const auto& [number, path] : there) {
    const auto before = known.find(number);
    if (before != known.end()) {
      const auto& [stamp, has_failed] = before->second;
      if (stamp == (has_failed ? stamp_of_files(path) : stamp_of(path))) continue;
    }
    made.emplace(number, load_version(name, number, path));
  }
  const std::lock_guard lock(mutex_);
  Served& served = models_.at(name);
  for (auto& [number, version] : made) {
    Version& at = served.versions[number];
    if (version.model || !at.model) {
      retire(std::move(at.model));
      at = std::move(version);
    } else {  // saved again, damaged: the former content goes on
      at.stamp = version.stamp;
      at.error = version.error;
    }
  }
  bool newest_is_ready = false;
  if (!there.empty()) {
    const auto newest = served.versions.find(there.rbegin()->first);
    newest_is_ready = newest != served.versions.end() && newest->second.model != nullptr;
  }
  for (auto at = served.versions.begin(); at != served.versions.end();) {
    // Until the newest version is ready, an older version stays.
    const bool wanted =
        there.contains(at->first) || (!newest_is_ready && at->second.model && !there.empty());
    if (wanted) {
      ++at;
      continue;
    }
    retire(std::move(at->second.model));
    at = served.versions.erase(at);
  }
  std::error_code ignored;
  const bool is_named = std::ranges::find(folders_, folder) != folders_.end();
  if (!is_named && !fs::exists(folder, ignored)) models_.erase(name);
}

std::shared_ptr<Model> Repository::find(const std::string& name, const std::string& version) const {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(name);
  if (found == models_.end()) {
    std::vector<std::string> names;
    for (const auto& [known, served] : models_) names.push_back(known);
    refuse(ErrorCode::kNotFound, "there is no model '{}'. There are: {}", name.substr(0, 128),
           fmt::join(names, ", "));
  }
  const Served& served = found->second;
  std::vector<std::string> ready;
  std::string error = served.is_unloaded ? "it was unloaded" : "it has no version yet";
  std::shared_ptr<Model> newest;
  for (const auto& [number, each] : served.versions) {
    if (!each.model) {
      if (version.empty() || version == std::to_string(number)) error = each.error;
      continue;
    }
    if (version == std::to_string(number)) return each.model;
    newest = each.model;
    ready.push_back(std::to_string(number));
  }
  if (version.empty() && newest) return newest;
  const bool failed = version_number(version) && served.versions.contains(*version_number(version));
  if (!version.empty() && !failed && !ready.empty()) {
    refuse(ErrorCode::kNotFound, "model '{}' has no version '{}'. Its versions: {}", name,
           version.substr(0, 32), fmt::join(ready, ", "));
  }
  refuse(ErrorCode::kUnavailable, "model '{}' is not ready: {}", name, error);
}

std::vector<std::string> Repository::versions_of(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  const auto found = models_.find(name);
  if (found == models_.end()) return out;
  for (const auto& [number, each] : found->second.versions) {
    if (each.model) out.push_back(std::to_string(number));
  }
  return out;
}

std::vector<IndexEntry> Repository::index() const {
  const std::lock_guard lock(mutex_);
  std::vector<IndexEntry> out;
  for (const auto& [name, served] : models_) {
    if (served.versions.empty()) {
      out.push_back({name, "", "UNAVAILABLE", served.is_unloaded ? "unloaded" : "no version"});
    }
    for (const auto& [number, each] : served.versions) {
      out.push_back(
          {name, std::to_string(number), each.model ? "READY" : "UNAVAILABLE", each.error});
    }
  }
  return out;
}

bool Repository::is_ready() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(models_, [](const auto& entry) {
    const Served& served = entry.second;
    return served.is_unloaded || std::ranges::any_of(served.versions, [](const auto& version) {
             return version.second.model != nullptr;
           });
  });
}

void Repository::load(const std::string& name) {
  const std::lock_guard loading(loading_);
  static_cast<void>(find_models());
  {
    const std::lock_guard lock(mutex_);
    const auto found = models_.find(name);
    if (found == models_.end()) {
      refuse(ErrorCode::kNotFound, "there is no model '{}'", name.substr(0, 128));
    }
    found->second.is_unloaded = false;
  }
  refresh(name, true);
  const std::shared_ptr<Model> served = find(name, "");  // its error, if there is no version
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(name);
  if (found == models_.end() || found->second.versions.empty()) return;
  const auto& [number, newest] = *found->second.versions.rbegin();
  if (!newest.error.empty()) {
    refuse(ErrorCode::kUnavailable,
           "model '{}' version {} cannot be loaded: {}. Version {} is still served", name, number,
           newest.error, served->version());
  }
}

void Repository::unload(const std::string& name) {
  const std::lock_guard loading(loading_);
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(name);
  if (found == models_.end()) {
    refuse(ErrorCode::kNotFound, "there is no model '{}'", name.substr(0, 128));
  }
  found->second.is_unloaded = true;
  for (auto& [number, version] : found->second.versions) retire(std::move(version.model));
  found->second.versions.clear();
}

}  // namespace etude::serve
