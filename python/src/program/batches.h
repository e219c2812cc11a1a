// SPDX-License-Identifier: Apache-2.0
// The batches of a training run of Python: a Loader of the library, or any iterable of pairs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "etude/data/loader.h"
#include "python/src/bind.h"
#include "python/src/program/held.h"

namespace etude::python {

struct LoaderObject {
  data::Loader<data::Samples> loader;
};

data::Samples samples_of(nb::handle inputs, nb::handle labels);

// Batches (inputs, labels) of an object of Python: an iterable, or a function that returns one. One
// pass is an epoch. Without a known number of steps it reads one batch ahead, to know the last.
//
// throws (next): kInvalidArgument for an item that is no pair, and for a pass without batches; the
//                errors of the object. Without the GIL, which it takes for a batch.
class IterableBatches {
 public:
  // `steps`: batches of an epoch; none: len(source), or a whole pass. Requires the GIL.
  IterableBatches(nb::handle source, std::optional<int64_t> steps);

  data::Samples next();
  data::Position position() const { return position_; }
  int64_t steps_per_epoch() const { return steps_.value_or(0); }
  void seek(data::Position position);

 private:
  void start_pass();
  std::optional<data::Samples> read();
  [[noreturn]] void throw_no_batches() const;

  SharedObject source_;
  SharedObject iterator_;  // of the current pass
  std::optional<int64_t> steps_;
  bool is_once_;  // an iterator, which can be read once
  bool counts_;   // whether steps_ was given: passes and epochs are independent
  std::optional<data::Samples> ahead_;
  data::Position position_;
  int64_t read_ = 0;  // batches of this pass
};

// The data of fit.
class FitData {
 public:
  explicit FitData(data::Loader<data::Samples>& loader) : loader_(&loader) {}
  explicit FitData(IterableBatches batches)
      : batches_(std::make_shared<IterableBatches>(std::move(batches))) {}

  // A step may run no code of Python, which would look for Ctrl-C.
  data::Samples next() {
    with_gil([] {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    });
    return loader_ != nullptr ? loader_->next() : batches_->next();
  }
  data::Position position() const {
    return loader_ != nullptr ? loader_->position() : batches_->position();
  }
  int64_t steps_per_epoch() const {
    return loader_ != nullptr ? loader_->steps_per_epoch() : batches_->steps_per_epoch();
  }
  void seek(data::Position position) {
    if (loader_ != nullptr) return loader_->seek(position);
    batches_->seek(position);
  }
  const data::LoaderPlan& plan() const { return loader_ != nullptr ? loader_->plan() : plan_; }
  void set_plan(data::LoaderPlan plan) {
    if (loader_ != nullptr) return loader_->set_plan(std::move(plan));
    plan_ = std::move(plan);
  }

 private:
  data::Loader<data::Samples>* loader_ = nullptr;
  std::shared_ptr<IterableBatches> batches_;
  data::LoaderPlan plan_;
};

}  // namespace etude::python
