// SPDX-License-Identifier: Apache-2.0
// Recurrent and Bidirectional run a cell (cells.h) along the time axis of [n, time, size].
//
//   nn::Recurrent encoder(nn::LSTMCell(32, 64));
//   Tensor all = encoder(x);                      // [n, time, 64]
//   auto [outputs, last] = encoder.run(x, {.lengths = lengths});  // last.h, last.c
//
// In eager mode the steps are a loop of calls; in a staged function they are a single scan, with
// the same bits.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "etude/base/fields.h"
#include "etude/nn/layer.h"
#include "etude/nn/layers/cells.h"
#include "etude/stage/control_flow.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {

template <class State>
struct RunOptions {
  std::optional<State> initial = {};  // default: zeros
  // The number of steps of each example, integers [n]; default: all steps. In later steps the state
  // of the example does not change, and its outputs are 0.
  Tensor lengths = {};
};
// The outputs of all steps, [n, time, hidden..], and the state after the last step.
template <class State>
struct SequenceResult {
  Tensor outputs;
  State last;
};

namespace internal {

// [n, time, ..] as [time, n, ..], and back; [n, ..] as [n, 1, ..].
Tensor time_first(const Tensor& x);
Tensor as_one_step(const Tensor& x);
// x [n, time, ..] with the first `lengths` steps of each example reversed; later steps are
// unchanged.
Tensor reversed(const Tensor& x, const Tensor& lengths);
// [time, n, 1]: true where the index of the step is less than the length of the example.
// throws: kInvalidArgument unless lengths are integers [n].
Tensor steps_within(const Tensor& lengths, int64_t n, int64_t time);
// Replaces the elements of `now` where `mask` is false: by `was`, or by 0 if `was` is absent.
void keep_where(Tensor& now, const Tensor& mask, const Tensor& was);
// throws: kInvalidArgument unless `merge` is an option of Bidirectional.
void require_merge(const std::string& merge);
// Joins the outputs of both directions by `merge`.
Tensor merged(const Tensor& forward, const Tensor& backward, const std::string& merge);

struct MaskedInputs {
  Tensor inputs, mask;
};

// Returns cell.step as a function for many steps. Values that depend only on parameters are
// computed once, before the first step.
template <class Cell>
auto steps_of(const Cell& cell) {
  if constexpr (requires { cell.state_weight(); }) {
    return [&cell, weight = cell.state_weight()](const Tensor& inputs,
                                                 const typename Cell::State& state) {
      return cell.step(inputs, state, weight);
    };
  } else {
    return [&cell](const Tensor& inputs, const typename Cell::State& state) {
      return cell.step(inputs, state);
    };
  }
}

}  // namespace internal

struct RecurrentOptions {
  bool last_output = false;  // a call returns only the output of the last step
};

// Runs one cell along the time axis, from the first step to the last.
template <class Cell>
class Recurrent {
 public:
  using State = typename Cell::State;
  explicit Recurrent(Cell given, const RecurrentOptions& options = {})
      : cell(std::move(given)), options_(options) {}

  // shapes: x [n, time, input], result [n, time, hidden], or [n, hidden] for the last output.
  // throws: kInvalidArgument for another shape of x, and for zero steps if the last output is
  // requested.
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;
  // Returns all outputs and the last state. throws: as the call; kInvalidArgument for lengths that
  // are not integers [n].
  SequenceResult<State> run(const Tensor& x, const RunOptions<State>& options = {},
                            CallSite where = CallSite::here()) const;
  // The same for a list of steps [n, input], as a loop of cell calls. An empty list returns an
  // empty list.
  std::vector<Tensor> operator()(const std::vector<Tensor>& steps,
                                 CallSite where = CallSite::here()) const;

  Cell cell;
  ETUDE_FIELDS(Recurrent, cell);
  ETUDE_HOST_VALUES(options_);

 private:
  // Initial zeros, for steps with the shape and dtype of x.
  State first_state(const Tensor& x) const {
    if constexpr (requires { cell.zero_state(Shape(), x.dtype()); }) {
      std::vector<int64_t> step = x.shape().to_vector();
      step.erase(step.begin() + 1);
      return cell.zero_state(Shape(step), x.dtype());
    } else {
      return cell.zero_state(x.shape()[0], x.dtype());
    }
  }

  RecurrentOptions options_;
};

// Runs one cell forward in time and another, with its own parameters, backward. `merge` joins the
// outputs of a step: "concat" along the last axis, "sum", "average", "multiply", or "stack" along a
// new axis after time.
template <class Cell>
class Bidirectional {
 public:
  using State = typename Cell::State;
  // throws: kInvalidArgument for another merge.
  Bidirectional(Cell forward_cell, Cell backward_cell, std::string merge = "concat",
                CallSite where = CallSite::here())
      : forward(std::move(forward_cell)),
        backward(std::move(backward_cell)),
        merge_(std::move(merge)) {
    etude::internal::located("Bidirectional", where, [&] { internal::require_merge(merge_); });
  }

  // shapes: x [n, time, input]. With lengths, each example is read backward from its last step.
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const {
    return run(x, {}, where);
  }
  Tensor run(const Tensor& x, const Tensor& lengths, CallSite where = CallSite::here()) const;

  Recurrent<Cell> forward, backward;
  ETUDE_FIELDS(Bidirectional, forward, backward);
  ETUDE_HOST_VALUES(merge_);

 private:
  std::string merge_;
};

template <class Cell>
auto Recurrent<Cell>::run(const Tensor& x, const RunOptions<State>& options, CallSite where) const
    -> SequenceResult<State> {
  return internal::run_layer(this, "Recurrent", where, 0, [&] {
    internal::require_input(x, -3, -1, {}, "");
    const int64_t n = x.shape()[0], time = x.shape()[1];
    State state = options.initial ? *options.initial : first_state(x);
    const Tensor inputs = cell.inputs(internal::time_first(x));
    const auto step_of = internal::steps_of(cell);
    const auto finish = [&](std::pair<State, Tensor> all) {
      return SequenceResult<State>{internal::time_first(all.second), std::move(all.first)};
    };
    if (!options.lengths.has_value()) {
      return finish(scan(
          [&](const State& s, const Tensor& step) {
            State next = step_of(step, s);
            Tensor output = Cell::output(next);
            return std::pair(std::move(next), std::move(output));
          },
          std::move(state), inputs, where));
    }
    const internal::MaskedInputs masked{inputs, internal::steps_within(options.lengths, n, time)};
    return finish(scan(
        [&](const State& s, const internal::MaskedInputs& step) {
          State next = step_of(step.inputs, s);
          Tensor output = Cell::output(next);
          internal::keep_where(output, step.mask, Tensor());
          const std::vector<Tensor> was = etude::internal::tensors_of(s);
          std::size_t i = 0;
          for_each_leaf<Tensor>(next,
                                [&](Tensor& t) { internal::keep_where(t, step.mask, was[i++]); });
          return std::pair(std::move(next), std::move(output));
        },
        std::move(state), masked, where));
  });
}

template <class Cell>
Tensor Recurrent<Cell>::operator()(const Tensor& x, CallSite where) const {
  if (!options_.last_output) return run(x, {}, where).outputs;
  return Tensor(Cell::output(run(x, {}, where).last));
}

template <class Cell>
std::vector<Tensor> Recurrent<Cell>::operator()(const std::vector<Tensor>& steps,
                                                CallSite where) const {
  std::vector<Tensor> outputs;
  std::optional<State> state;
  for (const Tensor& x : steps) {
    if (!state) state = first_state(internal::as_one_step(x));
    state = cell(x, *state, where);
    outputs.push_back(Cell::output(*state));
  }
  if (options_.last_output && !outputs.empty()) outputs = {outputs.back()};
  return outputs;
}

template <class Cell>
Tensor Bidirectional<Cell>::run(const Tensor& x, const Tensor& lengths, CallSite where) const {
  return internal::run_layer(this, "Bidirectional", where, 0, [&] {
    internal::require_input(x, -3, -1, {}, "");
    const Tensor ahead = forward.run(x, {.initial = {}, .lengths = lengths}, where).outputs;
    const Tensor back =
        backward.run(internal::reversed(x, lengths), {.initial = {}, .lengths = lengths}, where)
            .outputs;
    return internal::merged(ahead, internal::reversed(back, lengths), merge_);
  });
}

#define ETUDE_INTERNAL_RECURRENT(linkage, Cell) \
  linkage template class Recurrent<Cell>;       \
  linkage template class Bidirectional<Cell>
ETUDE_INTERNAL_RECURRENT(extern, SimpleRNNCell);
ETUDE_INTERNAL_RECURRENT(extern, LSTMCell);
ETUDE_INTERNAL_RECURRENT(extern, GRUCell);
extern template class Recurrent<ConvLSTM2DCell>;

}  // namespace nn
}  // namespace etude
