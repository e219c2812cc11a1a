// SPDX-License-Identifier: Apache-2.0
// Checkpoints of object graphs: any objects, saved and restored by the names of the edges between
// them, in any order of making and restoring. For a model, an optimiser and data in one file, as
// fit saves them: checkpoint.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "etude/core/option_ranges.h"
#include "etude/io/trackable.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

namespace internal {
class Restore;
}

// What became of the values of a checkpoint.
struct RestoreReport {
  std::vector<std::string> restored;   // paths whose values were taken
  std::vector<std::string> unused;     // in the checkpoint, and no object took them yet
  std::vector<std::string> unmatched;  // objects that got no value
  std::vector<std::string> doubled;    // one object when saved, two now
  // Counts, then the paths of each kind.
  std::string to_string() const;
};

// What a call of restore found, and what it finds later. Its checks throw kFailedPrecondition with
// the report. If it is dropped, and no object waits any more, one warning counts what was not used.
class RestoreStatus {
 public:
  // Everything saved was used, and every live object got its value.
  const RestoreStatus& assert_consumed(CallSite where = CallSite::here()) const;
  // Every live object got its value.
  const RestoreStatus& assert_existing_objects_matched(CallSite where = CallSite::here()) const;
  // Something was restored.
  const RestoreStatus& assert_nontrivial_match(CallSite where = CallSite::here()) const;
  // No warning, whatever is left.
  const RestoreStatus& expect_partial() const;
  RestoreReport report() const;

 private:
  friend class Checkpoint;
  explicit RestoreStatus(std::shared_ptr<internal::Restore> restore)
      : restore_(std::move(restore)) {}
  void fail(std::string_view what, CallSite where) const;

  std::shared_ptr<internal::Restore> restore_;  // null: nothing was restored
};

struct ObjectCheckpointOptions {
  std::int64_t shard_bytes = std::int64_t{2} << 30;  // a file grows no further; one tensor may

  static constexpr void ranges(const auto& row) {
    row("shard_bytes", &ObjectCheckpointOptions::shard_bytes, at_least(1));
  }
};

// Objects by name, which are borrowed: Trackables, Variables, structs of tensors, optimisers, data,
// numbers, texts, generators, pointers to these.
//
//   io::Checkpoint checkpoint{{"net", net}, {"optimizer", optimizer}, {"data", batches}};
//   checkpoint.restore(io::latest_checkpoint("run"));  // nothing in the first run
//   checkpoint.save("run/model");                      // run/model-1, run/model-2, ...
//
// A checkpoint is a folder of safetensors files and a manifest with checksums, which is written
// last: it is there as a whole or not at all.
// threads: thread-compatible.
class Checkpoint : public Trackable {
 public:
  struct Entry {
    template <class T>
    Entry(std::string name_, T& object)
        : name(std::move(name_)), to(internal::trackee_of(object)) {}
    std::string name;
    internal::TrackeePtr to;
  };
  // throws: kInvalidArgument for a name that is given twice.
  Checkpoint(std::initializer_list<Entry> entries = {}, CallSite where = CallSite::here());

  // Writes to the folder "PREFIX-n", n counting from 1 and on from what was restored, and notes it
  // as the latest in the folder of the prefix. Gives its path.
  //
  // throws: kFailedPrecondition for a Variable without a value, for one in a function that is being
  //         traced, and for a folder that cannot be made; for files: what AtomicFile throws. What
  //         was there is still there then.
  std::string save(const std::string& prefix, const ObjectCheckpointOptions& options = {},
                   CallSite where = CallSite::here());
  // Writes to the folder `path`; counts and notes nothing. throws: as above.
  void write(const std::string& path, const ObjectCheckpointOptions& options = {},
             CallSite where = CallSite::here());
  // Restores values of a checkpoint to all objects that edges of the same names lead to, and to
  // those that come later. An empty path is nothing to restore: only the status tells.
  //
  // throws: kNotFound, with the path; kDataLoss, with file and offset, for a damaged one;
  //         kInvalidArgument, with all paths, for values of another type; kFailedPrecondition for a
  //         Variable in a function that is being traced. Nothing is restored then.
  RestoreStatus restore(const std::string& path, CallSite where = CallSite::here());

  std::int64_t save_counter() const { return counter_; }

 private:
  friend class CheckpointManager;
  std::int64_t counter_ = 0;
};

// The path of the latest checkpoint that was saved in a folder; "" if there is none, or no folder.
std::string latest_checkpoint(const std::string& folder);

struct CheckpointManagerOptions {
  std::int64_t max_to_keep = 5;  // 0: all
  std::string prefix = "checkpoint";
  std::int64_t shard_bytes = ObjectCheckpointOptions{}.shard_bytes;

  static constexpr void ranges(const auto& row) {
    row("max_to_keep", &CheckpointManagerOptions::max_to_keep, at_least(0));
    row("shard_bytes", &CheckpointManagerOptions::shard_bytes, at_least(1));
  }
};

// Saves into a folder and removes the oldest, once the newer ones are in place. `checkpoint` is
// borrowed.
class CheckpointManager {
 public:
  CheckpointManager(Checkpoint& checkpoint, std::string folder,
                    CheckpointManagerOptions options = {}, CallSite where = CallSite::here());
  // As Checkpoint::save; numbers go on behind those in the folder.
  std::string save(CallSite where = CallSite::here());
  // Paths, oldest first.
  std::vector<std::string> checkpoints() const;
  std::string latest() const { return latest_checkpoint(folder_); }

 private:
  Checkpoint* checkpoint_;
  std::string folder_;
  CheckpointManagerOptions options_;
};

}  // namespace io
}  // namespace etude
