// SPDX-License-Identifier: Apache-2.0
// Boxes into which layers put state updates (diff/layer_state.h), and the replay of a function that
// puts some there, which recompute_grad needs.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/diff/layer_state.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The number of vmaps that this thread is in.
int count_vmaps() noexcept;

// A point in time, shared by all threads: it orders the starts of boxes and runs.
uint64_t next_moment() noexcept;

// Holds the state update of one layer, for the copies that one run of an operator makes. While a
// function runs again, boxes from before that run show it their content of the first run; updates
// that arrive in them are dropped when it ends.
class StateBoxBase : public std::enable_shared_from_this<StateBoxBase> {
 public:
  StateBoxBase(const StateBoxBase&) = delete;
  StateBoxBase& operator=(const StateBoxBase&) = delete;
  virtual ~StateBoxBase() = default;
  // Passes the update on to the enclosing operator, whose copy of the model was copied. False if
  // there is no such operator or no update. throws: as update_state().
  virtual bool hand_on() = 0;
  // True during the run of the operator. Copies that outlive it pass their update to no operator.
  bool is_open() const;
  void close() noexcept { is_open_ = false; }
  // The latest update; null or empty: none.
  const std::any* held() const;
  void hold(std::any value);
  // The number of vmaps around the operator.
  int vmaps() const;
  // Makes this box a part of `box`: it is open as long as that one.
  void follow(std::shared_ptr<const StateBoxBase> box) { followed_ = std::move(box); }

  bool is_frozen = false;  // updates are dropped on purpose
  bool is_taken = true;    // the operator returns the update
  std::string layer;       // of the last update, unless is_taken
  CallSite where;

 protected:
  StateBoxBase(int vmaps, uint64_t since) : vmaps_(vmaps), since_(since) {}

 private:
  friend class StateHistory;
  friend class StateReplay;
  std::any value_;
  std::shared_ptr<const StateBoxBase> followed_;
  bool is_open_ = true;
  int vmaps_;
  uint64_t since_;
};

template <class T>
class StateBox final : public StateBoxBase {
 public:
  // Of an operator that began at `since`, with `vmaps` vmaps around it. `outer`: the box of the
  // model that it copied; null: none.
  StateBox(std::shared_ptr<StateBox> outer, int vmaps, uint64_t since)
      : StateBoxBase(vmaps, since), outer_(std::move(outer)) {}
  // Holds an update, and passes it on to the boxes of the parts that the layer was made of.
  void put(T value) {
    if (pass_on) pass_on(value, *this);
    hold(std::move(value));
  }
  std::function<void(const T&, const StateBoxBase&)> pass_on;  // empty: a layer of a struct
  // null: no update.
  const T* value() const { return std::any_cast<T>(held()); }
  // The latest update in this run or those around it; null: none.
  const T* latest() const {
    if (const T* mine = value()) return mine;
    return outer_ != nullptr && outer_->is_open() ? outer_->latest() : nullptr;
  }
  bool hand_on() override {
    const T* mine = value();
    for (StateBox* box = outer_.get(); mine != nullptr && box != nullptr; box = box->outer_.get()) {
      if (!box->is_open() || !box->is_taken) continue;
      box->put(StateCheck<T>::with_update(*mine, box->vmaps()));
      return true;
    }
    return false;
  }

 private:
  std::shared_ptr<StateBox> outer_;
};

// An open box from before the run of a function, and its content when the run first used it.
struct StateUse {
  std::shared_ptr<const StateBoxBase> box;
  std::any value;
};

// Records the content of older boxes while a function runs for the first time.
// threads: confined to its thread.
class StateHistory {
 public:
  StateHistory();
  StateHistory(const StateHistory&) = delete;
  StateHistory& operator=(const StateHistory&) = delete;
  ~StateHistory();
  std::vector<StateUse> take() { return std::move(uses_); }

 private:
  friend class StateBoxBase;
  // For the histories on this thread that began after the box and after the innermost replay.
  static void note(const StateBoxBase& box, const std::any* value);
  std::vector<StateUse> uses_;
  uint64_t since_ = next_moment();
  StateHistory* outer_;
};

// While alive, older boxes hold the content that `uses` recorded. Updates that the first run did
// not make are dropped without a warning.
// threads: confined to its thread.
class StateReplay {
 public:
  explicit StateReplay(std::vector<StateUse> uses);
  StateReplay(const StateReplay&) = delete;
  StateReplay& operator=(const StateReplay&) = delete;
  ~StateReplay();
  // Whether a function that began after `moment` is being replayed: warnings about earlier objects
  // are not repeated.
  static bool is_after(uint64_t moment) noexcept;

 private:
  friend class StateBoxBase;
  friend class StateHistory;
  // The innermost replay, if the box is older than it; null: the box holds its own value.
  static StateReplay* of(const StateBoxBase& box) noexcept;
  StateUse* find(const StateBoxBase& box) noexcept;
  std::vector<StateUse> uses_;
  uint64_t since_ = next_moment();
  StateReplay* outer_;
};

}  // namespace internal
}  // namespace etude
