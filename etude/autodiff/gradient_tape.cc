// SPDX-License-Identifier: Apache-2.0
#include "etude/autodiff/gradient_tape.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "etude/autodiff/batch.h"
#include "etude/autodiff/gradient.h"
#include "etude/autodiff/internal/unwatched.h"
#include "etude/autodiff/tape/tape.h"
#include "etude/base/check.h"
#include "etude/base/warning.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/internal/call.h"
#include "etude/core/internal/convert.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/op/batching.h"

namespace etude {

using internal::LeafList;
using internal::LeafRef;
using internal::located;

void LeafList::operator()(const Tensor& x) { items_.push_back({&x, nullptr}); }
void LeafList::operator()(const Variable& x) { items_.push_back({nullptr, &x}); }

namespace {

DType dtype_of_leaf(const LeafRef& leaf) {
  return leaf.tensor != nullptr ? leaf.tensor->dtype() : leaf.variable->dtype();
}

// The dtype of derivatives of a target with respect to a leaf.
DType dtype_of_rows(const Tensor& target, const LeafRef& leaf) {
  const DType dtype = dtype_of_leaf(leaf);
  return is_differentiable(dtype) ? dtype : target.dtype();
}

Tensor zeros_for(const LeafRef& leaf) {
  return leaf.tensor != nullptr ? zero_tangent(*leaf.tensor) : zero_tangent(*leaf.variable);
}

// The number of cotangents in one sweep of a jacobian: enough to make calls large, and few enough
// that a batch of them is small compared to a tape.
constexpr int64_t kSweepsAtOnce = 64;

// Cotangents [count, type's shape...] of a value of `rows` rows: in number k, element first + k of
// each row is one and all others are zero.
Tensor units(const Type* type, int64_t rows, int64_t first, int64_t count) {
  const std::vector<int64_t> sizes = batching::behind(count, type->shape().sizes());
  Tensor out = internal::make_tensor(intern_type(type->dtype(), Shape(sizes)));
  char* data = static_cast<char*>(internal::new_host_elements(out));
  std::memset(data, 0, static_cast<std::size_t>(out.nbytes()));
  const double one = 1;
  const int64_t width = type->count() / rows;
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t at = k * type->count() + row * width + first + k;
      internal::convert_elements(data + at * itemsize(type->dtype()), type->dtype(), &one, kFloat64,
                                 1);
    }
  }
  return internal::copied_to(out, type->device());
}

std::vector<int64_t> sizes_of(const Shape& a, const Shape& b, int skip = 0) {
  std::vector<int64_t> out = a.to_vector();
  out.insert(out.end(), b.begin() + skip, b.end());
  return out;
}

// Tensors [n, ...] joined along axis 0, by ops, so that it can be differentiated.
Tensor joined(const std::vector<Tensor>& parts) {
  return parts.size() == 1 ? parts[0] : internal::concat(parts);
}

// Reports it if the tape watched no source. `is_read(v)`: whether it watched the Variable.
template <class IsRead>
void check_watched(std::string_view op, const Tape& tape, const LeafList& sources,
                   const IsRead& is_read, CallSite where) {
  if (tape.is_used_up()) return;  // an error that the sweep reports
  constexpr std::size_t kMost = 4;
  std::string types;
  std::size_t count = 0;
  for (const LeafRef& leaf : sources.items()) {
    const bool is_present = leaf.variable != nullptr || leaf.tensor->has_value();
    if (!is_present || !is_differentiable(dtype_of_leaf(leaf))) continue;
    const bool is_variable = leaf.variable != nullptr;
    if (is_variable ? is_read(*leaf.variable) : tape.is_watched(*leaf.tensor)) return;
    if (++count > kMost) continue;
    const std::string name = is_variable && !leaf.variable->name().empty()
                                 ? "'" + leaf.variable->name() + "'"
                             : is_variable ? "a Variable"
                                           : leaf.tensor->type()->to_string();
    types += (count > 1 ? ", " : "") + name;
  }
  if (count > kMost) types += fmt::format(" and {} more", count - kMost);
  if (count > 0) internal::report_unwatched(op, types, where);
}

}  // namespace

void internal::report_unwatched(std::string_view op, std::string_view sources, CallSite where) {
  const Severity severity = diagnostics().independent_result;
  if (severity == Severity::kIgnore) return;
  const std::string text = fmt::format(
      "the tape watched none of the sources ({}), so that their gradients are absent or zeros. "
      "Call "
      "tape.watch(x) before x is used; a trainable Variable needs only to be read while the tape "
      "records",
      sources);
  if (severity == Severity::kError) {
    located(op, where, [&] { ETUDE_THROW(kInvalidArgument, "{}", text); });
  }
  const std::string place = fmt::format("{}:{}", where.file, where.line);
  warn_once("unwatched " + place, fmt::format("{}: {}\n  at {}", op, text, place));
}

struct GradientTape::Recorder {
  Recorder(TapeOptions options, CallSite where) : tape(options, where) {}

  Tape tape;
  std::optional<TapeContext> context;
};

GradientTape::GradientTape(TapeOptions options, CallSite where) : recorder_(options, where) {
  start({});
}

GradientTape::~GradientTape() {
  if (states_ != nullptr) states_->warn_untaken();
}

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
  if (recorder_->tape.options().watch_variables) since_ = internal::next_moment();
  start_reading();
}

void GradientTape::reset() {
  recorder_->tape.reset();
  variables_.clear();
  states_.reset();
}

internal::TapedStates* GradientTape::states() {
  if (!recorder_->tape.options().watch_variables) return nullptr;  // a tape of an operator
  if (states_ == nullptr) {
    states_ =
        std::make_unique<internal::TapedStates>(internal::count_vmaps(*recorder_->context), since_);
  }
  return states_.get();
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
  // Ids grow, so a greater id is new. A smaller id may be known already: code that is traced
  // between two reads of this Variable reads the Variable of the trace.
  std::vector<uint64_t>& known = w->snapshots;
  const bool is_new = known.empty() || known.back() < id ||
                      std::find(known.rbegin(), known.rend(), id) == known.rend();
  if (is_new) known.push_back(id);
}

bool GradientTape::takes_derivative(const Variable& variable) const {
  const Watched* known = find(variable);
  return (known != nullptr && known->is_asked_for) ||
         (recorder_->tape.options().watch_variables && variable.trainable());
}

void GradientTape::variable_read(const Variable& variable, const Tensor& snapshot) {
  if (takes_derivative(variable)) note(variable, snapshot, false);
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
  // A Variable means all its snapshots.
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
  check_watched(
      "gradient", recorder_->tape, sources, [&](const Variable& v) { return find(v) != nullptr; },
      where);
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

// Cotangents of the sources for units of the target, [size of a row of the target, source...] each;
// absent if no cotangent arrives.
std::vector<Tensor> GradientTape::sweep_units(const Tensor& target, const LeafList& sources,
                                              int64_t rows, bool vectorize) {
  const Tensor ys[] = {target};
  const int64_t width = target.size() / rows;
  // Pullbacks of users may read numbers, which a batch of cotangents does not have.
  const bool at_once = vectorize && !recorder_->tape.has_pullbacks();
  const Tape::Sweeps sweeps(recorder_->tape);
  std::vector<std::vector<Tensor>> parts(sources.items().size());
  for (int64_t first = 0; first < width;) {
    const int64_t count = at_once ? std::min(kSweepsAtOnce, width - first) : 1;
    Tensor seed = units(target.type(), rows, first, count);
    std::optional<BatchContext> batch;
    if (at_once) {
      batch.emplace(count);
      seed = batch->example_of(seed);
    } else {
      seed = internal::reshaped(seed, target.shape());
    }
    std::vector<Tensor> found = sweep_ids(ys, sources, {&seed, 1});
    for (std::size_t s = 0; s < found.size(); ++s) {
      Tensor g = to_dense(found[s]);
      if (!g.has_value()) continue;
      parts[s].push_back(
          at_once ? batch->batch_of(g)
                  : internal::reshaped(g, Shape(batching::behind(1, g.shape().sizes()))));
    }
    first += count;
  }
  std::vector<Tensor> out;
  for (const std::vector<Tensor>& all : parts) out.push_back(all.empty() ? Tensor() : joined(all));
  return out;
}

std::vector<Tensor> GradientTape::sweep_elements(const Tensor& target, const LeafList& sources,
                                                 JacobianOptions options, CallSite where) {
  check_watched(
      "jacobian", recorder_->tape, sources, [&](const Variable& v) { return find(v) != nullptr; },
      where);
  return located("jacobian", where, [&] {
    require_sweeps(target, options);
    if (!persistent()) stop();
    std::vector<Tensor> out = sweep_units(target, sources, 1, options.vectorize);
    for (std::size_t s = 0; s < out.size(); ++s) {
      const LeafRef& leaf = sources.items()[s];
      const Shape shape = leaf.tensor != nullptr ? leaf.tensor->shape() : leaf.variable->shape();
      const std::vector<int64_t> sizes = sizes_of(target.shape(), shape);
      if (out[s].has_value()) {
        out[s] = internal::reshaped(out[s], Shape(sizes));
      } else if (options.unconnected == Unconnected::kZero || target.size() == 0) {
        out[s] = internal::full(intern_type(dtype_of_rows(target, leaf), Shape(sizes)), 0);
      }
    }
    return out;
  });
}

Tensor GradientTape::batch_jacobian(const Tensor& target, const Tensor& source,
                                    JacobianOptions options, CallSite where) {
  const LeafList sources(source);
  check_watched(
      "batch_jacobian", recorder_->tape, sources, [](const Variable&) { return false; }, where);
  return located("batch_jacobian", where, [&]() -> Tensor {
    require_sweeps(target, options);
    if (!persistent()) stop();
    ETUDE_REQUIRE(
        target.rank() >= 2 && source.rank() >= 2 && target.shape()[0] == source.shape()[0],
        "target has shape {} and source has shape {}. Both need rank 2 or more and equal "
        "first sizes; use jacobian for anything else",
        target.shape().to_string(), source.shape().to_string());
    const std::vector<int64_t> sizes = sizes_of(target.shape(), source.shape(), 1);
    const Tensor columns =
        target.size() == 0 ? Tensor()
                           : sweep_units(target, sources, target.shape()[0], options.vectorize)[0];
    if (columns.has_value()) {
      return internal::reshaped(internal::with_first_axis_second(columns), Shape(sizes));
    }
    if (target.size() != 0 && options.unconnected == Unconnected::kNone) return {};
    return internal::full(intern_type(dtype_of_rows(target, sources.items()[0]), Shape(sizes)), 0);
  });
}

void GradientTape::require_sweeps(const Tensor& target, const JacobianOptions& options) const {
  ETUDE_REQUIRE(target.has_value(), "the target is nothing. Does the function return its value?");
  ETUDE_REQUIRE(!is_complex(target.dtype()),
                "the target is {}, but must be real: of a complex element, a tape follows the real "
                "part alone. Take the derivatives of real(target) and of imag(target)",
                name(target.dtype()));
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
