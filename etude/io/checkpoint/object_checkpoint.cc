// SPDX-License-Identifier: Apache-2.0
#include "etude/io/checkpoint/object_checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "etude/base/check.h"
#include "etude/files/atomic_file.h"
#include "etude/files/file_reader.h"
#include "etude/files/folder_lock.h"
#include "etude/io/checkpoint/object_graph.h"
#include "etude/io/tensor_file.h"

namespace etude::io {
namespace {

namespace fs = std::filesystem;
using etude::internal::append_paths;
constexpr const char* kLatest = "latest";  // the file that names the latest checkpoint

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// The number in "PREFIX-12"; nothing for another name.
std::optional<int64_t> number_in(const std::string& name, const std::string& prefix) {
  if (!name.starts_with(prefix + "-")) return std::nullopt;
  int64_t number = 0;
  const char *begin = name.data() + prefix.size() + 1, *end = name.data() + name.size();
  const auto [rest, problem] = std::from_chars(begin, end, number);
  constexpr int64_t kMost = int64_t{1} << 59;
  if (problem != std::errc() || rest != end || number < 1 || number > kMost) return std::nullopt;
  return number;
}

struct Numbered {
  int64_t number;
  std::string path;
};
// The whole checkpoints of a folder, by their numbers.
std::vector<Numbered> numbered_in(const fs::path& folder, const std::string& prefix) {
  std::vector<Numbered> out;
  for (const fs::path& path : etude::internal::paths_in(folder)) {
    const auto number = number_in(path.filename().string(), prefix);
    if (number && internal::is_checkpoint(path.string())) out.push_back({*number, path.string()});
  }
  std::sort(out.begin(), out.end(),
            [](const Numbered& a, const Numbered& b) { return a.number < b.number; });
  return out;
}

// Makes the folder of a checkpoint, in which a lock is then taken.
void make_folder_of(const fs::path& path) {
  std::error_code code;
  fs::create_directories(folder_of(path), code);
  ETUDE_REQUIRE_CODE(kFailedPrecondition, !code && fs::is_directory(folder_of(path), code),
                     "checkpoint '{}': the folder cannot be made: {}", path.string(),
                     code ? code.message() : "there is a file of that name");
}

// Removes folders of checkpoints that were never finished. By the lock no saver is at work.
void remove_unfinished(const fs::path& folder, const std::string& prefix) {
  std::vector<std::string> found;
  std::error_code none;
  for (const fs::path& path : etude::internal::paths_in(folder)) {
    if (!number_in(path.filename().string(), prefix)) continue;
    if (fs::is_directory(path, none) && !internal::is_checkpoint(path.string())) {
      found.push_back(path.string());
    }
  }
  for (const std::string& path : found) internal::remove_checkpoint(path);
}

// Best effort: the checkpoint `newest` is saved, and an older one does no harm.
void drop_oldest(const std::string& folder, const CheckpointManagerOptions& options,
                 const std::string& newest) noexcept {
  try {
    std::vector<Numbered> all = numbered_in(folder, options.prefix);
    std::erase_if(all, [&](const Numbered& one) { return one.path == newest; });
    const auto superfluous = static_cast<int64_t>(all.size()) + 1 - options.max_to_keep;
    for (int64_t i = 0; i < superfluous; ++i) {
      internal::remove_checkpoint(all[static_cast<std::size_t>(i)].path);
    }
  } catch (const std::exception&) {  // the checkpoints stay
  }
}

// The file that names the latest checkpoint; "" if it names none.
std::string latest_name(const fs::path& folder) {
  constexpr uint64_t kMostBytes = 4096;
  try {
    const etude::internal::FileReader file(folder / kLatest);
    std::string out(std::min(file.size(), kMostBytes), '\0');
    file.read(0, {reinterpret_cast<uint8_t*>(out.data()), out.size()});
    out.resize(std::min(out.find('\n'), out.size()));
    return out.find('/') == out.npos && out.find('\0') == out.npos ? out : "";
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kResourceExhausted) throw;  // it may well name one
    return "";
  }
}

}  // namespace

std::string RestoreReport::to_string() const {
  std::string text = fmt::format("{} restored, {} unused, {} without a value, {} doubled",
                                 restored.size(), unused.size(), unmatched.size(), doubled.size());
  append_paths(text, "unused", unused);
  append_paths(text, "without a value", unmatched);
  append_paths(text, "doubled", doubled);
  return text;
}

RestoreReport RestoreStatus::report() const {
  if (restore_ == nullptr) return {};
  return {restore_->restored(), restore_->unused(), restore_->unmatched(), restore_->doubled()};
}

void RestoreStatus::fail(std::string_view what, CallSite where) const {
  etude::internal::located("RestoreStatus", where, [&] {
    if (restore_ == nullptr) ETUDE_THROW(kFailedPrecondition, "{}: there was no checkpoint", what);
    ETUDE_THROW(kFailedPrecondition, "{} of checkpoint '{}': {}", what, restore_->graph().path(),
                report().to_string());
  });
}

const RestoreStatus& RestoreStatus::assert_consumed(CallSite where) const {
  const RestoreReport found = report();
  if (restore_ == nullptr || !found.unused.empty() || !found.unmatched.empty() ||
      !found.doubled.empty()) {
    fail(
        "assert_consumed: not everything was restored. If that is meant, take "
        "assert_existing_objects_matched() or expect_partial()",
        where);
  }
  return *this;
}

const RestoreStatus& RestoreStatus::assert_existing_objects_matched(CallSite where) const {
  if (restore_ == nullptr || !report().unmatched.empty()) {
    fail(
        "assert_existing_objects_matched: there are objects without a value. If that is meant, "
        "take "
        "expect_partial()",
        where);
  }
  return *this;
}

const RestoreStatus& RestoreStatus::assert_nontrivial_match(CallSite where) const {
  if (restore_ == nullptr || report().restored.empty()) {
    fail(
        "assert_nontrivial_match: nothing was restored. Names of edges have to be those of the "
        "checkpoint",
        where);
  }
  return *this;
}

const RestoreStatus& RestoreStatus::expect_partial() const {
  if (restore_ != nullptr) restore_->be_silent();
  return *this;
}

Checkpoint::Checkpoint(std::initializer_list<Entry> entries, CallSite where) {
  etude::internal::located("Checkpoint", where, [&] {
    for (const Entry& entry : entries) core()->attach(entry.name, entry.to, false);
  });
}

void Checkpoint::write(const std::string& path, const ObjectCheckpointOptions& options,
                       CallSite where) {
  etude::internal::check_options("Checkpoint::write", options, where);
  etude::internal::located("Checkpoint::write", where, [&] {
    make_folder_of(path);
    const etude::internal::FolderLock lock(folder_of(path));
    internal::write_graph(path, internal::track_core(core()),
                          {.shard_bytes = options.shard_bytes, .counter = counter_});
  });
}

std::string Checkpoint::save_locked(const std::string& prefix,
                                    const ObjectCheckpointOptions& options) {
  const int64_t counter = counter_ + 1;
  const std::string path = fmt::format("{}-{}", prefix, counter);
  internal::write_graph(path, internal::track_core(core()),
                        {.shard_bytes = options.shard_bytes, .counter = counter});
  etude::internal::AtomicFile latest(folder_of(path) / kLatest);
  latest.write(fs::path(path).filename().string() + "\n");
  latest.commit();
  counter_ = counter;
  return path;
}

std::string Checkpoint::save(const std::string& prefix, const ObjectCheckpointOptions& options,
                             CallSite where) {
  etude::internal::check_options("Checkpoint::save", options, where);
  return etude::internal::located("Checkpoint::save", where, [&] {
    make_folder_of(prefix);
    const etude::internal::FolderLock lock(folder_of(prefix));
    return save_locked(prefix, options);
  });
}

RestoreStatus Checkpoint::restore(const std::string& path, CallSite where) {
  if (path.empty()) return RestoreStatus(nullptr);
  return etude::internal::located("Checkpoint::restore", where, [&] {
    const auto [graph, files] = internal::open_graph(path);
    files->check_all();
    auto restore = std::make_shared<internal::Restore>(graph, core());
    try {
      internal::Restoration restoration;
      restoration.match(restore, internal::track_core(core()), 0, *files);
      restoration.run();
    } catch (...) {
      restore->be_silent();
      throw;
    }
    counter_ = graph->counter();
    return RestoreStatus(std::move(restore));
  });
}

std::string latest_checkpoint(const std::string& folder) {
  const std::string name = latest_name(folder);
  if (name.empty()) return "";
  std::string path = (fs::path(folder) / name).string();
  if (internal::is_checkpoint(path)) return path;
  const std::vector<Numbered> others = numbered_in(folder, name.substr(0, name.rfind('-')));
  return others.empty() ? "" : others.back().path;
}

CheckpointManager::CheckpointManager(Checkpoint& checkpoint, std::string folder,
                                     CheckpointManagerOptions options, CallSite where)
    : checkpoint_(&checkpoint), folder_(std::move(folder)), options_(std::move(options)) {
  etude::internal::check_options("CheckpointManager", options_, where);
  ETUDE_REQUIRE(!options_.prefix.empty() && options_.prefix.find('/') == std::string::npos,
                "CheckpointManager: the prefix '{}' is no name of a file", options_.prefix);
}

std::string CheckpointManager::save(CallSite where) {
  return etude::internal::located("CheckpointManager::save", where, [&] {
    make_folder_of(fs::path(folder_) / options_.prefix);
    const etude::internal::FolderLock lock(folder_);
    remove_unfinished(folder_, options_.prefix);
    const std::vector<Numbered> before = numbered_in(folder_, options_.prefix);
    if (!before.empty()) {
      checkpoint_->counter_ = std::max(checkpoint_->counter_, before.back().number);
    }
    const std::string path = checkpoint_->save_locked(
        (fs::path(folder_) / options_.prefix).string(), {.shard_bytes = options_.shard_bytes});
    if (options_.max_to_keep == 0) return path;
    drop_oldest(folder_, options_, path);
    return path;
  });
}

std::vector<std::string> CheckpointManager::checkpoints() const {
  std::vector<std::string> out;
  for (const Numbered& one : numbered_in(folder_, options_.prefix)) out.push_back(one.path);
  return out;
}

}  // namespace etude::io
