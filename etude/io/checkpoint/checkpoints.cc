// SPDX-License-Identifier: Apache-2.0
#include "etude/io/checkpoint/checkpoints.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

#include "etude/base/check.h"
#include "etude/files/atomic_file.h"
#include "etude/files/folder_lock.h"
#include "etude/io/checkpoint/object_graph.h"
#include "etude/io/checkpoint/run_record.h"

namespace etude::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kOldSuffix = ".safetensors";
constexpr const char *kBestName = "best", *kOldBestName = "best.safetensors";
constexpr const char* kScore = "etude.best";  // metadata: the score of the best epoch

struct Saved {
  int64_t updates = 0;
  fs::path path = {};
  bool is_file = false;  // of an earlier release
};

// The checkpoint "step-00000469" or "step-00000469.safetensors"; nothing for another name.
std::optional<Saved> saved_at(const fs::path& path) {
  Saved out{.path = path};
  std::string name = path.filename().string();
  if (!name.starts_with(kPrefix)) return {};
  out.is_file = name.ends_with(kOldSuffix);
  if (out.is_file) name.resize(name.size() - kOldSuffix.size());
  const char *begin = name.data() + kPrefix.size(), *end = name.data() + name.size();
  const auto [rest, code] = std::from_chars(begin, end, out.updates);
  if (begin == end || code != std::errc() || rest != end || out.updates < 0) return {};
  return out;
}

// The whole or the unfinished checkpoints of a folder, oldest first.
std::vector<Saved> saved_in(const fs::path& folder, bool are_whole = true) {
  std::vector<Saved> out;
  std::error_code none;
  for (const fs::path& path : etude::internal::paths_in(folder)) {
    std::optional<Saved> saved = saved_at(path);
    if (!saved || fs::is_directory(path, none) == saved->is_file) continue;
    const bool is_whole = saved->is_file || internal::is_checkpoint(path.string());
    if (is_whole == are_whole) out.push_back(std::move(*saved));
  }
  std::sort(out.begin(), out.end(), [](const Saved& a, const Saved& b) {
    return std::pair(a.updates, !a.is_file) < std::pair(b.updates, !b.is_file);
  });
  return out;
}

// Best effort: a checkpoint that stays does no harm.
void remove_saved(const Saved& saved) {
  std::error_code none;
  if (saved.is_file) {
    fs::remove(saved.path, none);
  } else {
    internal::remove_checkpoint(saved.path.string());
  }
}

class Checkpoints {
 public:
  Checkpoints(fs::path folder, const CheckpointOptions& options, internal::CheckpointRun run)
      : folder_(std::move(folder)), options_(options), run_(std::move(run)) {}

  void operator()(nn::Event event, const nn::FitState& state) {
    if (event == nn::Event::kFitStart) {
      start();
    } else if (event == nn::Event::kBatchEnd) {
      ++batches_;
      if (options_.every_steps > 0 && batches_ % options_.every_steps == 0) save();
    } else if (event == nn::Event::kEpochEnd) {
      if (options_.every_epochs > 0 && (state.epoch + 1) % options_.every_epochs == 0) save();
      if (options_.best != Best::kNone) keep_best(state);
    } else if (event == nn::Event::kFitEnd) {
      save();
      lock_.reset();
    }
  }

 private:
  void start() {
    std::error_code code;
    fs::create_directories(folder_, code);
    ETUDE_REQUIRE_CODE(kFailedPrecondition, !code, "checkpoints: {}: the folder cannot be made: {}",
                       folder_.string(), code.message());
    if (!lock_) {
      lock_.emplace(folder_, etude::internal::FolderLock::kRun, std::chrono::milliseconds(0));
    }
    for (const Saved& unfinished : saved_in(folder_, false)) remove_saved(unfinished);
    const std::vector<Saved> files = saved_in(folder_);
    ETUDE_REQUIRE_CODE(
        kFailedPrecondition, files.empty() || files.back().updates <= run_.updates(),
        "checkpoints: {} is further on than this run, which is at update {}. Load it with "
        "load_checkpoint(*newest_checkpoint(folder), ...), or take another folder",
        files.back().path.string(), run_.updates());
    etude::internal::AtomicFile record(folder_ / fmt::format("run-{:08}.json", run_.updates()));
    record.write(internal::run_record(run_.updates(), run_.settings()));
    record.commit();
    last_ = -1;
    batches_ = 0;
    losses_ = 0;
    best_ = -INFINITY;
    fs::path best = folder_ / kBestName;
    if (!internal::is_checkpoint(best.string())) best = folder_ / kOldBestName;
    if (options_.best == Best::kNone || !fs::exists(best)) return;
    const Metadata metadata = internal::load_run_metadata(best.string());
    const auto score = metadata.find(kScore);
    if (score != metadata.end()) best_ = std::strtod(score->second.c_str(), nullptr);
  }

  void save() {
    const int64_t updates = run_.updates();
    if (updates == last_) return;
    run_.save((folder_ / fmt::format("{}{:08}", kPrefix, updates)).string(), {});
    last_ = updates;
    if (options_.keep > 0) drop_oldest();
  }

  // Best effort: a checkpoint that stays does no harm.
  void drop_oldest() const noexcept {
    try {
      const std::vector<Saved> files = saved_in(folder_);
      const auto superfluous = static_cast<int64_t>(files.size()) - options_.keep;
      for (int64_t i = 0; i < superfluous; ++i) remove_saved(files[static_cast<std::size_t>(i)]);
    } catch (const std::exception&) {  // the checkpoints stay
    }
  }

  void keep_best(const nn::FitState& state) {
    const nn::EpochRecord& epoch = state.history.epochs.back();
    if (options_.best != Best::kLoss && !epoch.has_validation) {
      ETUDE_REQUIRE_CODE(kFailedPrecondition, state.cancel != nn::Cancel::kNothing,
                         "checkpoints: the best epoch is known by its validation, but fit has "
                         "none. Pass it as .validation, or take Best::kLoss");
      return;  // called off before it
    }
    const std::size_t losses = state.history.batch_losses.size();
    if (std::exchange(losses_, losses) == losses) return;  // called off before its first batch
    const double score = options_.best == Best::kLoss             ? -epoch.loss
                         : options_.best == Best::kValidationLoss ? -epoch.validation_loss
                                                                  : epoch.validation_accuracy;
    if (!(score > best_)) return;  // also where it is no number
    run_.save((folder_ / kBestName).string(), {{kScore, fmt::format("{:.17g}", score)}});
    std::error_code none;
    fs::remove(folder_ / kOldBestName, none);
    best_ = score;
  }

  fs::path folder_;
  CheckpointOptions options_;
  internal::CheckpointRun run_;
  std::optional<etude::internal::FolderLock> lock_;  // of the run
  int64_t last_ = -1, batches_ = 0;
  std::size_t losses_ = 0;
  double best_ = -INFINITY;
};

}  // namespace

namespace internal {

nn::Callback checkpoint_callback(const std::string& folder, const CheckpointOptions& options,
                                 CheckpointRun run) {
  auto state = std::make_shared<Checkpoints>(folder, options, std::move(run));
  return [state](nn::Event event, nn::FitState& fit) { (*state)(event, fit); };
}

}  // namespace internal

std::optional<std::string> newest_checkpoint(const std::string& folder) {
  const std::vector<Saved> files = saved_in(folder);
  if (files.empty()) return {};
  return files.back().path.string();
}

}  // namespace etude::io
