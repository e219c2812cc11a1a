// SPDX-License-Identifier: Apache-2.0
// Where layers leave what their state becomes (diff/layer_state.h), and how a function that leaves
// state there runs again as it ran, which recompute_grad needs.
#pragma once

#include <any>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/diff/layer_state.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// How many vmaps this thread is in.
int count_vmaps() noexcept;

// A point in time, for all threads: boxes and runs know by it which began first.
std::uint64_t next_moment() noexcept;

// Where the copies of a layer that one run of an operator makes leave new state. While a function
// runs again, the boxes from before that hold for it what they held in its first run, and what
// comes to them is gone when it ends.
class StateBoxBase : public std::enable_shared_from_this<StateBoxBase> {
 public:
  StateBoxBase(const StateBoxBase&) = delete;
  StateBoxBase& operator=(const StateBoxBase&) = delete;
  virtual ~StateBoxBase() = default;
  // Passes what came to the operator around this one, whose copy of the model was copied. False if
  // there is none, or nothing came. throws: as announce().
  virtual bool hand_on() = 0;
  // During the run of the operator; copies that outlive it announce to nobody.
  bool is_open() const;
  void close() noexcept { is_open_ = false; }
  // What came last; null or empty: nothing.
  const std::any* held() const;
  void hold(std::any value);
  // How many vmaps are around the operator.
  int vmaps() const;

  bool is_frozen = false;  // what comes is meant to be dropped
  bool is_taken = true;    // the operator hands it back
  std::string layer;       // that announced last, if it is not taken
  CallSite where;

 protected:
  StateBoxBase(int vmaps, std::uint64_t since) : vmaps_(vmaps), since_(since) {}

 private:
  friend class StateHistory;
  friend class StateReplay;
  std::any value_;
  bool is_open_ = true;
  int vmaps_;
  std::uint64_t since_;
};

template <class T>
class StateBox final : public StateBoxBase {
 public:
  // Of an operator that began at `since`, with `vmaps` around it; `outer`: the box of the model
  // that it copied; null: none.
  StateBox(std::shared_ptr<StateBox> outer, int vmaps, std::uint64_t since)
      : StateBoxBase(vmaps, since), outer_(std::move(outer)) {}
  // null: nothing came.
  const T* value() const { return std::any_cast<T>(held()); }
  // The latest that was announced in this run or those around it; null: nothing.
  const T* latest() const {
    if (const T* mine = value()) return mine;
    return outer_ != nullptr && outer_->is_open() ? outer_->latest() : nullptr;
  }
  bool hand_on() override {
    const T* mine = value();
    for (StateBox* box = outer_.get(); mine != nullptr && box != nullptr; box = box->outer_.get()) {
      if (!box->is_open() || !box->is_taken) continue;
      box->hold(StateCheck<T>::announced(*mine, box->vmaps()));
      return true;
    }
    return false;
  }

 private:
  std::shared_ptr<StateBox> outer_;
};

// An open box from before the run of a function, and what it held when the run came to it first.
struct StateUse {
  std::shared_ptr<const StateBoxBase> box;
  std::any value;
};

// Notes what boxes from before hold, as a function runs for the first time. confined to its thread.
class StateHistory {
 public:
  StateHistory() noexcept;
  StateHistory(const StateHistory&) = delete;
  StateHistory& operator=(const StateHistory&) = delete;
  ~StateHistory();
  std::vector<StateUse> take() { return std::move(uses_); }

 private:
  friend class StateBoxBase;
  // For those on this thread that began after the box, and after the innermost second run.
  static void note(const StateBoxBase& box, const std::any* value);
  std::vector<StateUse> uses_;
  std::uint64_t since_ = next_moment();
  StateHistory* outer_;
};

// While alive, boxes from before hold what `uses` say, and what they did not have in the first run
// is dropped without a word. confined to its thread.
class StateReplay {
 public:
  explicit StateReplay(std::vector<StateUse> uses) noexcept;
  StateReplay(const StateReplay&) = delete;
  StateReplay& operator=(const StateReplay&) = delete;
  ~StateReplay();
  // Whether a function runs again that began after `moment`: of what was there then, nobody is told
  // a second time.
  static bool is_after(std::uint64_t moment) noexcept;

 private:
  friend class StateBoxBase;
  friend class StateHistory;
  // The innermost one, if the box is from before it; null: the box holds its own value.
  static StateReplay* of(const StateBoxBase& box) noexcept;
  StateUse* find(const StateBoxBase& box) noexcept;
  std::vector<StateUse> uses_;
  std::uint64_t since_ = next_moment();
  StateReplay* outer_;
};

}  // namespace internal
}  // namespace etude
