// SPDX-License-Identifier: Apache-2.0
#include "etude/runtime/gradient_tape.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "etude/base/check.h"
#include "etude/base/warning.h"
#include "etude/core/builtin.h"
#include "etude/core/call.h"
#include "etude/core/convert.h"
#include "etude/runtime/gradient.h"
#include "etude/runtime/tape.h"

namespace etude {

using internal::LeafList;
using internal::LeafRef;

namespace {

template <class F>
auto located(std::string_view name, CallSite where, F&& f) {
  try {
    return f();
  } catch (Error& error) {
    error.name_op(name);
    error.locate(where);
    throw;
  }
}

DType dtype_of_leaf(const LeafRef& leaf) {
  return leaf.tensor != nullptr ? leaf.tensor->dtype() : leaf.variable->dtype();
}

Tensor zeros_for(const LeafRef& leaf) {
  return leaf.tensor != nullptr ? zero_tangent(*leaf.tensor) : zero_tangent(*leaf.variable);
}

// A value where one element, or a row of elements, is one and all others are zero.
Tensor unit(const Type* type, int64_t start, int64_t step, int64_t count) {
  Tensor out = internal::make_tensor(type);
  char* data = static_cast<char*>(TensorAccess::rep(out)->data);
  std::memset(data, 0, static_cast<std::size_t>(type->bytes()));
  const double one = 1;
  for (int64_t i = 0; i < count; ++i) {
    internal::convert_elements(data + (start + i * step) * itemsize(type->dtype()), type->dtype(),
                               &one, kFloat64, 1);
  }
  return out;
}

std::vector<int64_t> sizes_of(const Shape& a, const Shape& b, int skip = 0) {
  std::vector<int64_t> out = a.to_vector();
  out.insert(out.end(), b.begin() + skip, b.end());
  return out;
}

// Tensors of one type joined along a new axis and reshaped, by ops, so that it can be
// differentiated.
Tensor join(const std::vector<Tensor>& rows, int64_t axis, const std::vector<int64_t>& shape) {
  const Op &stack = internal::op("stack"), &reshape = internal::op("reshape");
  const Tensor all = internal::only(internal::call_list(stack, rows, {axis}, {}));
  const OperandList in({&all});
  return internal::only(execute(reshape, in.view(), reshape.attrs({shape}), {}));
}

}  // namespace

struct GradientTape::Recorder {
  explicit Recorder(TapeOptions options) : tape(options) {}

  Tape tape;
  std::optional<TapeContext> context;
};

GradientTape::GradientTape(TapeOptions options) : recorder_(options) { start({}); }

GradientTape::~GradientTape() = default;

Tape& internal::GradientTapeAccess::tape(GradientTape& tape) { return tape.recorder_->tape; }

bool GradientTape::persistent() const { return recorder_->tape.options().persistent; }

bool GradientTape::recording() const { return recorder_->context.has_value(); }

bool GradientTape::should_record(std::span<const Tensor> inputs) const {
  return recorder_->tape.should_record(inputs);
}

void GradientTape::forget(const Tensor& x) { recorder_->tape.forget(x); }

std::size_t GradientTape::size() const { return recorder_->tape.size(); }

void GradientTape::stop() {
  stop_reading();
  recorder_->context.reset();
}

void GradientTape::freeze() {
  stop();
  recorder_->tape.freeze();
}

void GradientTape::start(CallSite where) {
  located("GradientTape::start", where, [&] {
    ETUDE_REQUIRE_CODE(kFailedPrecondition, !recording(),
                       "this tape is recording already. Call stop() first, or make a second tape");
  });
  recorder_->context.emplace(recorder_->tape);
  start_reading();
}

void GradientTape::reset() {
  recorder_->tape.reset();
  variables_.clear();
}

const GradientTape::Watched* GradientTape::find(const Variable& variable) const {
  for (const Watched& w : variables_) {
    if (w.variable.ref() == variable.ref()) return &w;
  }
  return nullptr;
}

void GradientTape::note(const Variable& variable, const Tensor& snapshot, bool is_asked_for) {
  auto* w = const_cast<Watched*>(find(variable));
  if (w == nullptr) w = &variables_.emplace_back(Watched{variable, {}, false});
  w->is_asked_for = w->is_asked_for || is_asked_for;
  recorder_->tape.watch(snapshot);
  const uint64_t id = TensorAccess::id(snapshot);
  if (w->snapshots.empty() || w->snapshots.back() != id) w->snapshots.push_back(id);
}

void GradientTape::variable_read(const Variable& variable, const Tensor& snapshot) {
  const Watched* known = find(variable);
  const bool wanted = (known != nullptr && known->is_asked_for) ||
                      (recorder_->tape.options().watch_variables && variable.trainable());
  if (wanted) note(variable, snapshot, false);
}

void GradientTape::watch_leaf(const LeafRef& leaf, CallSite where) {
  located("watch", where, [&] {
    if (leaf.tensor == nullptr) {
      note(*leaf.variable, internal::peek(*leaf.variable), true);
      return;
    }
    ETUDE_REQUIRE(!leaf.tensor->has_value() || !TensorAccess::is_sparse(*leaf.tensor),
                  "a sparse tensor cannot be watched. Watch x = to_dense(x), and use that");
    recorder_->tape.watch(*leaf.tensor);
  });
}

std::vector<Variable> GradientTape::watched_variables() const {
  std::vector<Variable> out;
  for (const Watched& w : variables_) out.push_back(w.variable);
  return out;
}

void GradientTape::record(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                          Pullback pullback, std::string_view name, CallSite where) {
  recorder_->tape.record(inputs, outputs, std::move(pullback), name, where);
}

std::vector<Tensor> GradientTape::sweep_ids(std::span<const Tensor> targets,
                                            const LeafList& sources,
                                            std::span<const Tensor> seeds) {
  // A Variable stands for all its snapshots.
  std::vector<uint64_t> ids;
  std::vector<std::size_t> ends;
  for (const LeafRef& leaf : sources.items()) {
    if (leaf.tensor != nullptr) {
      ids.push_back(leaf.tensor->has_value() ? TensorAccess::id_or_zero(*leaf.tensor) : 0);
    } else if (const Watched* w = find(*leaf.variable)) {
      ids.insert(ids.end(), w->snapshots.begin(), w->snapshots.end());
    }
    ends.push_back(ids.size());
  }
  std::vector<Tensor> found = recorder_->tape.gradient_by_id(targets, ids, seeds);
  std::vector<Tensor> out;
  std::size_t at = 0;
  for (const std::size_t end : ends) {
    Tensor sum;
    for (; at < end; ++at) {
      if (!found[at].has_value()) continue;
      sum = sum.has_value() ? internal::add(std::move(sum), found[at]) : std::move(found[at]);
    }
    out.push_back(std::move(sum));
  }
  return out;
}

std::vector<Tensor> GradientTape::sweep(const LeafList& targets, const LeafList& sources,
                                        GradientOptions options, CallSite where) {
  return located("gradient", where, [&] {
    if (!persistent()) {
      stop();
    } else if (recording() && !recorder_->tape.is_used_up()) {
      internal::warn_once(
          "persistent tape",
          "gradient() inside the scope of a persistent tape records the derivative "
          "rules as well, which costs time and memory. Call stop() or pause() first, "
          "unless you want second derivatives");
    }
    std::vector<Tensor> ys;
    for (const LeafRef& leaf : targets.items()) {
      ys.push_back(leaf.tensor != nullptr ? *leaf.tensor : internal::peek(*leaf.variable));
    }
    for (const LeafRef& leaf : sources.items()) {
      const bool present = leaf.variable != nullptr || leaf.tensor->has_value();
      if (!present || is_differentiable(dtype_of_leaf(leaf))) continue;
      internal::warn_once(
          fmt::format("source {}:{}", where.file, where.line),
          fmt::format("gradient: a source is {}, which has no gradient. Cast it to a "
                      "float before it is watched\n  at {}:{}",
                      name(dtype_of_leaf(leaf)), where.file, where.line));
    }
    std::vector<Tensor> out = sweep_ids(ys, sources, options.output_gradients);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (out[i].has_value() || options.unconnected != Unconnected::kZero) continue;
      out[i] = zeros_for(sources.items()[i]);
    }
    return out;
  });
}

std::vector<Tensor> GradientTape::sweep_arrived(const LeafList& targets,
                                                std::span<const Tensor> cotangents,
                                                const LeafList& sources) {
  if (!persistent()) stop();
  std::vector<Tensor> ys, seeds;
  for (std::size_t i = 0; i < cotangents.size(); ++i) {
    if (!cotangents[i].has_value()) continue;
    ys.push_back(*targets.items()[i].tensor);
    seeds.push_back(cotangents[i]);
  }
  return sweep_ids(ys, sources, seeds);
}

std::vector<Tensor> GradientTape::sweep_elements(const Tensor& target, const LeafList& sources,
                                                 JacobianOptions options, CallSite where) {
  return located("jacobian", where, [&] {
    require_sweeps(options);
    if (!persistent()) stop();
    ETUDE_REQUIRE(target.has_value(), "the target is nothing. Does the function return its value?");
    std::vector<std::vector<Tensor>> rows(sources.items().size());
    const Tape::Sweeps sweeps(recorder_->tape);
    for (int64_t i = 0; i < target.size(); ++i) {
      const Tensor ys[] = {target};
      const Tensor seeds[] = {unit(target.type(), i, 0, 1)};
      std::vector<Tensor> found = sweep_ids(ys, sources, seeds);
      for (std::size_t s = 0; s < found.size(); ++s) rows[s].push_back(to_dense(found[s]));
    }
    std::vector<Tensor> out(rows.size());
    for (std::size_t s = 0; s < rows.size(); ++s) {
      const LeafRef& leaf = sources.items()[s];
      const bool connected = std::any_of(rows[s].begin(), rows[s].end(),
                                         [](const Tensor& r) { return r.has_value(); });
      if (!connected && options.unconnected == Unconnected::kNone) continue;
      for (Tensor& r : rows[s]) {
        if (!r.has_value()) r = zeros_for(leaf);
      }
      const Shape shape = leaf.tensor != nullptr ? leaf.tensor->shape() : leaf.variable->shape();
      out[s] = rows[s].empty()
                   ? internal::full(
                         intern_type(target.dtype(), Shape(sizes_of(target.shape(), shape))), 0)
                   : join(rows[s], 0, sizes_of(target.shape(), shape));
    }
    return out;
  });
}

Tensor GradientTape::batch_jacobian(const Tensor& target, const Tensor& source,
                                    JacobianOptions options, CallSite where) {
  return located("batch_jacobian", where, [&]() -> Tensor {
    require_sweeps(options);
    if (!persistent()) stop();
    ETUDE_REQUIRE(
        target.rank() >= 2 && source.rank() >= 2 && target.shape()[0] == source.shape()[0],
        "target has shape {} and source has shape {}. Both need rank 2 or more and equal "
        "first sizes; use jacobian for anything else",
        target.shape().to_string(), source.shape().to_string());
    const int64_t batch = target.shape()[0], width = batch == 0 ? 0 : target.size() / batch;
    std::vector<Tensor> columns;
    bool connected = false;
    const LeafList sources(source);
    const Tape::Sweeps sweeps(recorder_->tape);
    for (int64_t i = 0; i < width; ++i) {
      const Tensor ys[] = {target};
      const Tensor seeds[] = {unit(target.type(), i, width, batch)};
      columns.push_back(to_dense(sweep_ids(ys, sources, seeds)[0]));
      connected = connected || columns.back().has_value();
    }
    if (!connected && options.unconnected == Unconnected::kNone) return {};
    for (Tensor& c : columns) {
      if (!c.has_value()) c = zero_tangent(source);
    }
    const std::vector<int64_t> shape = sizes_of(target.shape(), source.shape(), 1);
    return columns.empty() ? internal::full(intern_type(target.dtype(), Shape(shape)), 0)
                           : join(columns, 1, shape);
  });
}

void GradientTape::require_sweeps(const JacobianOptions& options) const {
  ETUDE_REQUIRE_CODE(
      kFailedPrecondition, options.vectorize || persistent(),
      "without vectorize, a jacobian sweeps the tape once per element, which needs a "
      "persistent one: GradientTape tape({{.persistent = true}})");
}

std::string GradientTape::explain(const Tensor& target, const Tensor& source) const {
  return recorder_->tape.explain(target, source);
}

std::string GradientTape::explain(const Tensor& target, const Variable& source) const {
  const std::string name = source.name().empty() ? "the Variable" : "'" + source.name() + "'";
  const Watched* w = find(source);
  if (w != nullptr && !w->snapshots.empty()) {
    return recorder_->tape.explain_id(target, source.dtype(), w->snapshots.back());
  }
  if (!source.trainable() || !recorder_->tape.options().watch_variables) {
    return fmt::format("{} is not watched by itself{}: watch it by hand before it is read", name,
                       source.trainable() ? " by this tape" : ", as it is not trainable");
  }
  return name + " was not read while the tape recorded";
}

}  // namespace etude
