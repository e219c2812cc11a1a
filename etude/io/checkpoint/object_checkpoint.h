// SPDX-License-Identifier: Apache-2.0
// Checkpoints of object graphs: any objects, saved and restored by the names of the edges between
// them. Objects may be created before or after the restore. For a model, an optimiser and data
// together, as fit saves them: checkpoint.h, which writes the same format.
//
// Several threads and processes may save into one folder: a save has the lock of the folder, and
// others wait for it, five minutes at most.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "etude/core/option_ranges.h"
#include "etude/io/checkpoint/trackable.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

namespace internal {
class Restore;
}

// The result of restoring the values of a checkpoint.
struct RestoreReport {
  std::vector<std::string> restored;   // paths of restored values
  std::vector<std::string> unused;     // saved, but not taken by an object so far
  std::vector<std::string> unmatched;  // objects without a value
  std::vector<std::string> doubled;    // one object when saved, two objects now
  // Counts, then the paths of each kind.
  std::string to_string() const;
};

// The result of a restore, updated when further objects are attached. Its checks throw
// kFailedPrecondition with the report. When it is destroyed and no object can take values any more,
// a single warning states the number of unused values.
class RestoreStatus {
 public:
  // Requires that every saved value was used and every live object got its value.
  const RestoreStatus& assert_consumed(CallSite where = CallSite::here()) const;
  // Requires that every live object got its value.
  const RestoreStatus& assert_existing_objects_matched(CallSite where = CallSite::here()) const;
  // Requires that some value was restored.
  const RestoreStatus& assert_nontrivial_match(CallSite where = CallSite::here()) const;
  // Disables the warning.
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
  // maximum size of a file; one tensor may exceed it
  int64_t shard_bytes = int64_t{2} << 30;

  static constexpr void ranges(const auto& option) {
    option("shard_bytes", &ObjectCheckpointOptions::shard_bytes, at_least(1));
  }
};

// Named objects, which are borrowed: Trackables, Variables, structs of tensors, optimisers, data,
// numbers, texts, generators, and pointers to these.
//
//   io::Checkpoint checkpoint{{"net", net}, {"optimizer", optimizer}, {"data", batches}};
//   checkpoint.restore(io::latest_checkpoint("run"));  // nothing in the first run
//   checkpoint.save("run/model");                      // run/model-1, run/model-2, ...
//
// A checkpoint is a folder of safetensors files and a manifest with checksums. The manifest is
// written last, so the checkpoint appears whole or not at all. A restore that meets a save into the
// same folder restores the older or the newer one.
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

  // Writes to the folder "PREFIX-n" and records it as the latest in the folder of the prefix. n
  // counts from 1, or from the number after the restored checkpoint. Returns the path of the
  // folder.
  //
  // throws: kFailedPrecondition for a Variable without a value, for a Variable in a function that
  //         is being traced, and for a folder that cannot be made; kUnavailable, with process and
  //         machine, if another saver does not release the folder; for files: the errors of
  //         AtomicFile. Existing files are then unchanged.
  std::string save(const std::string& prefix, const ObjectCheckpointOptions& options = {},
                   CallSite where = CallSite::here());
  // Writes to the folder `path`, without counting or recording. throws: as above.
  void write(const std::string& path, const ObjectCheckpointOptions& options = {},
             CallSite where = CallSite::here());
  // Restores the values of a checkpoint to all objects that edges of the same names reach,
  // including objects that are attached later. An empty path restores nothing, which the status
  // shows.
  //
  // throws: kNotFound, with the path; kDataLoss, with file and offset, for a damaged checkpoint;
  //         kInvalidArgument, with all paths, for values of another type; kFailedPrecondition for a
  //         Variable in a function that is being traced. Nothing is restored then.
  RestoreStatus restore(const std::string& path, CallSite where = CallSite::here());

  int64_t save_counter() const { return counter_; }

 private:
  friend class CheckpointManager;
  std::string save_locked(const std::string& prefix, const ObjectCheckpointOptions& options);
  int64_t counter_ = 0;
};

// The path of the latest checkpoint saved in a folder. If it was removed, the path of the newest
// checkpoint there; "" if there is none, or no folder.
std::string latest_checkpoint(const std::string& folder);

struct CheckpointManagerOptions {
  int64_t max_to_keep = 5;  // 0: all
  std::string prefix = "checkpoint";
  int64_t shard_bytes = ObjectCheckpointOptions{}.shard_bytes;

  static constexpr void ranges(const auto& option) {
    option("max_to_keep", &CheckpointManagerOptions::max_to_keep, at_least(0));
    option("shard_bytes", &CheckpointManagerOptions::shard_bytes, at_least(1));
  }
};

// Saves into a folder, and removes the oldest checkpoints after newer checkpoints are in place, and
// unfinished checkpoints of killed processes. Managers of several processes may share a folder:
// their checkpoints have different numbers. `checkpoint` is borrowed.
class CheckpointManager {
 public:
  CheckpointManager(Checkpoint& checkpoint, std::string folder,
                    CheckpointManagerOptions options = {}, CallSite where = CallSite::here());
  // As Checkpoint::save; numbers continue after the numbers in the folder.
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
