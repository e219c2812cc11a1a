// SPDX-License-Identifier: Apache-2.0
// Softmax cross entropy: a fused loss on rows, its fused gradient, and the public composition.
#include "etude/kernels/cpu/reduce/cross_entropy.h"

#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/op/batching.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/calls.h"
#include "etude/ops/families.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

constexpr DTypeSet kLabels = kIntegers | kFloating;

std::vector<AttrDef> row_attrs() {
  return {{"label_smoothing", 0.0}, {"ignore_index", AttrKind::kInt, none}};
}

// The requirements of both row ops on logits [rows, n], labels and class weights.
void require_rows(const TypeCall& call) {
  const Shape& z = call.shape(0);
  ETUDE_REQUIRE(z.rank() == 2, "operand 'logits' has shape {}, but must be [rows, classes]",
                z.to_string());
  const bool numbers = is_integer(call.dtype(1));
  ETUDE_REQUIRE(call.shape(1) == (numbers ? Shape({z[0]}) : z),
                "operand 'labels' has shape {}, but must be {} for logits of shape {}",
                call.shape(1).to_string(), numbers ? "[rows]" : "the shape of the logits",
                z.to_string());
  ETUDE_REQUIRE(!numbers || call.dtype(1) == kInt32 || call.dtype(1) == kInt64,
                "operand 'labels' is {}, but must be int32, int64 or floating",
                name(call.dtype(1)));
  ETUDE_REQUIRE(numbers || call.dtype(1) == call.dtype(0),
                "operand 'labels' is {} and operand 'logits' is {}", name(call.dtype(1)),
                name(call.dtype(0)));
  ETUDE_REQUIRE(!call.has(2) || (call.shape(2) == Shape({z[1]}) && call.dtype(2) == call.dtype(0)),
                "operand 'class_weights' is {}, but must be {}[{}]", call.types[2]->to_string(),
                name(call.dtype(0)), z[1]);
}

// The attributes of an op on rows, from the attributes of another op.
std::vector<AttrValue> row_values(const Attrs& attrs) {
  return {attrs.value("label_smoothing"), attrs.value("ignore_index")};
}

// Logits, labels as probabilities, weighted and smoothed: the targets q, in public ops.
Tensor targets(const Tensor& logits, const Tensor& labels, const Tensor& weights,
               const Attrs& attrs) {
  const DType dtype = logits.dtype();
  const int64_t n = logits.shape()[1];
  const double smoothing = attrs.real("label_smoothing");
  Tensor p = labels;
  if (is_integer(labels.dtype())) {
    const Tensor classes = arange(0, {.stop = static_cast<double>(n), .dtype = kInt64});
    const Tensor column = reshaped(internal::cast(labels, kInt64), {labels.shape()[0], 1});
    p = internal::cast(column == classes, dtype);
  }
  Tensor q = smoothing == 0 ? p : p * (1 - smoothing) + smoothing / static_cast<double>(n);
  if (weights.has_value()) q = q * weights;
  if (attrs.has("ignore_index") && is_integer(labels.dtype())) {
    const Tensor ignored = internal::adapt(Arg(attrs.integer("ignore_index")), labels.dtype());
    const Tensor kept = internal::cast(labels == ignored, dtype);
    q = q * reshaped(1.0 - kept, {labels.shape()[0], 1});
  }
  return q;
}

Tensor column_of(const Tensor& x) { return reshaped(x, {x.shape()[0], 1}); }

Values rows_vjp(const VjpCall& call) {
  Values out(call.in.size());
  const Tensor& logits = call.in[0];
  const Tensor& labels = call.in[1];
  const Tensor weights = call.in.has(2) ? call.in[2] : Tensor();
  if (call.wants(0)) {
    const Tensor& ct = call.ct();
    out[0] =
        run(op<"cross_entropy_grad">(), {&logits, &labels, &weights, &ct}, row_values(call.attrs));
  }
  const bool to_labels = call.wants(1) && is_floating(labels.dtype());
  const bool to_weights = call.wants(2) && weights.has_value();
  if (!to_labels && !to_weights) return out;
  const Tensor cost = -nn::log_softmax(logits) * column_of(call.ct());
  if (to_labels) {
    const Tensor scaled = cost * (1 - call.attrs.real("label_smoothing"));
    out[1] = weights.has_value() ? scaled * weights : scaled;
  }
  if (to_weights)
    out[2] =
        internal::sum_to(cost * targets(logits, labels, Tensor(), call.attrs), weights.shape());
  return out;
}

// The gradient ct (sum(q) softmax(z) - q), differentiated by way of public ops.
Values grad_vjp(const VjpCall& call) {
  Values out(call.in.size());
  const Tensor& logits = call.in[0];
  const Tensor& labels = call.in[1];
  const Tensor weights = call.in.has(2) ? call.in[2] : Tensor();
  const Tensor q = targets(logits, labels, weights, call.attrs);
  const Tensor total = sum(q, {.axis = 1, .keepdims = true});
  const Tensor y = nn::softmax(logits);
  const Tensor ct = column_of(call.in[3]);
  const Tensor along = sum(call.ct() * y, {.axis = 1, .keepdims = true});
  if (call.wants(0)) out[0] = ct * total * (y * (call.ct() - along));
  const Tensor by_q = ct * (along - call.ct());  // cotangent of q
  if (call.wants(1) && is_floating(labels.dtype())) {
    const Tensor scaled = by_q * (1 - call.attrs.real("label_smoothing"));
    out[1] = weights.has_value() ? scaled * weights : scaled;
  }
  if (call.wants(2) && weights.has_value()) {
    out[2] =
        internal::sum_to(by_q * targets(logits, labels, Tensor(), call.attrs), weights.shape());
  }
  if (call.wants(3)) out[3] = sum(call.ct() * (total * y - q), {.axis = 1});
  return out;
}

Types loss_type(const TypeCall& call) {
  const Shape& z = call.shape(0);
  const std::string& reduction = call.attrs.text("reduction");
  const double smoothing = call.attrs.real("label_smoothing");
  ETUDE_REQUIRE(reduction == "mean" || reduction == "sum" || reduction == "none",
                "reduction is \"{}\", but must be \"mean\", \"sum\" or \"none\"", reduction);
  ETUDE_REQUIRE(smoothing >= 0 && smoothing <= 1, "label_smoothing is {}, but must lie in [0, 1]",
                smoothing);
  ETUDE_REQUIRE(z.rank() >= 1 && z[z.rank() - 1] != 0,
                "operand 'logits' of shape {} has no classes. The last axis holds them",
                z.to_string());
  const Shape rows = reduced_shape(z, {z.rank() - 1}, false);
  const bool numbers = is_integer(call.dtype(1));
  ETUDE_REQUIRE(call.shape(1) == (numbers ? rows : z),
                "operand 'labels' has shape {}, but logits of shape {} need labels of shape {}: {}",
                call.shape(1).to_string(), z.to_string(), (numbers ? rows : z).to_string(),
                numbers ? "one number for each row" : "one probability for each class");
  ETUDE_REQUIRE(!call.has(2) || call.shape(2) == Shape({z[z.rank() - 1]}),
                "operand 'class_weights' has shape {}, but there are {} classes",
                call.has(2) ? call.shape(2).to_string() : "", z[z.rank() - 1]);
  return {call.make(call.dtype(0), reduction == "none" ? rows : Shape())};
}

// How much each row counts in the mean: its class weight; nothing if it is ignored.
Tensor row_weights(const Tensor& logits, const Tensor& labels, const Tensor& weights,
                   const Attrs& attrs) {
  const bool numbers = is_integer(labels.dtype());
  if (!numbers || (!weights.has_value() && !attrs.has("ignore_index"))) return {};
  const Attrs unsmoothed = op<"cross_entropy_rows">().attrs({0.0, attrs.value("ignore_index")});
  return sum(targets(logits, labels, weights, unsmoothed), {.axis = 1});
}

Values lower_loss(Operands in, const Attrs& attrs) {
  const Shape& shape = in[0].shape();
  const DType dtype = in[0].dtype();
  const int64_t n = shape[shape.rank() - 1];
  const Shape rows = reduced_shape(shape, {shape.rank() - 1}, false);
  const int64_t count = rows.count();
  const bool numbers = is_integer(in[1].dtype());
  const Tensor logits = reshaped(in[0], {count, n});
  const bool narrow = numbers && in[1].dtype() != kInt32 && in[1].dtype() != kInt64;
  Tensor labels =
      numbers ? reshaped(in[1], {count}) : reshaped(internal::cast(in[1], dtype), {count, n});
  if (narrow) labels = internal::cast(labels, kInt64);
  const Tensor weights = in.has(2) ? internal::cast(in[2], dtype) : Tensor();
  const Tensor loss =
      run(op<"cross_entropy_rows">(), {&logits, &labels, &weights}, row_values(attrs));
  const std::string& reduction = attrs.text("reduction");
  if (reduction == "none") return {reshaped(loss, rows)};
  if (reduction == "sum") return {sum(loss)};
  const Tensor weight = row_weights(logits, labels, weights, attrs);
  return {weight.has_value() ? sum(loss) / sum(weight) : mean(loss)};
}

Samples row_samples(bool has_ct) {
  Samples samples;
  const auto with = [&](std::vector<std::string_view> operands,
                        std::vector<std::pair<std::string_view, AttrValue>> attrs = {}) {
    if (has_ct) operands.push_back("[3]");
    samples.calls.push_back(
        {std::move(operands), std::move(attrs), {{-2, 2}, {0, 3}, {0.5, 2}, {-2, 2}}});
  };
  with({"[3,4]", "int32[3]", "-"});
  with({"[3,4]", "int64[3]", "[4]"}, {{"label_smoothing", 0.1}});
  with({"[3,4]", "int32[3]", "[4]"}, {{"ignore_index", int64_t{2}}});
  with({"[3,4]", "[3,4]", "-"});
  with({"[3,4]", "[3,4]", "[4]"}, {{"label_smoothing", 0.25}});
  return samples;
}

}  // namespace

void define_cross_entropy(Registry& r) {
  r.define({
      .name = "cross_entropy_rows",
      .space = "internal",
      .doc =
          "Softmax cross entropy of each row of logits, by labels as numbers or as probabilities.",
      .operands = {"logits", {"labels", kLabels}, {"class_weights?", kFloating}},
      .attrs = row_attrs(),
      .dtypes = kFloating,
      .type =
          [](const TypeCall& call) {
            require_rows(call);
            return Types{call.make(call.dtype(0), {call.shape(0)[0]})};
          },
      .kernels = {.cpu = kernels::cpu::prepare_cross_entropy},
      .vjp = rows_vjp,
      .batch = batching::joined<0b011>,
      .samples = row_samples(false),
      .errors = {{{"float32[3]", "int32[3]", "-"}, "must be [rows, classes]"},
                 {{"float32[3,4]", "int32[2]", "-"}, "must be [rows]"}},
  });
  r.define({
      .name = "cross_entropy_grad",
      .space = "internal",
      .doc = "The cotangent of the logits in cross_entropy_rows, in one pass.",
      .operands = {"logits", {"labels", kLabels}, {"class_weights?", kFloating}, "ct"},
      .attrs = row_attrs(),
      .dtypes = kFloating,
      .type =
          [](const TypeCall& call) {
            require_rows(call);
            ETUDE_REQUIRE(call.types[3] == call.make(call.dtype(0), {call.shape(0)[0]}),
                          "operand 'ct' is {}, but must be {}[{}]", call.types[3]->to_string(),
                          name(call.dtype(0)), call.shape(0)[0]);
            return Types{call.types[0]};
          },
      .kernels = {.cpu = kernels::cpu::prepare_cross_entropy_grad},
      .vjp = grad_vjp,
      .batch = batching::joined<0b1011>,
      .samples = row_samples(true),
      .errors = {{{"float32[3,4]", "int32[3]", "-", "float32[2]"},
                  "operand 'ct' is float32[2], but must be float32[3]"}},
  });
  r.define({
      .name = "softmax_cross_entropy",
      .space = "nn",
      .kind = Kind::kComposition,
      .doc = "Cross entropy of softmax(logits) with labels: integers [..] or probabilities [.., "
             "classes]. Smoothing mixes labels with the uniform distribution. Rows whose label is "
             "ignore_index do not count. Class weights multiply each class, and the mean is then "
             "the weighted mean.",
      .operands = {"logits", {"labels", kLabels}, {"class_weights?", kFloating}},
      .attrs = {{"reduction", "mean"},
                {"label_smoothing", 0.0},
                {"ignore_index", AttrKind::kInt, none}},
      .dtypes = kFloating,
      .type = loss_type,
      .lower = lower_loss,
      .samples = {.calls = {{{"[3,4]", "int32[3]", "-"}, {}, {{-2, 2}, {0, 3}}},
                            {{"[2,3,4]", "int64[2,3]", "[4]"},
                             {{"reduction", std::string("none")}, {"label_smoothing", 0.1}},
                             {{-2, 2}, {0, 3}, {0.5, 2}}},
                            {{"[3,4]", "[3,4]", "-"},
                             {{"reduction", std::string("sum")}},
                             {{-2, 2}, {0, 1}}},
                            {{"[3,4]", "int32[3]", "[4]"},
                             {{"ignore_index", int64_t{2}}},
                             {{-2, 2}, {0, 3}, {0.5, 2}}}}},
      .errors = {{{"float32[3,4]", "int32[3]", "-"},
                  "reduction is \"avg\"",
                  {{"reduction", std::string("avg")}}},
                 {{"float32[3,4]", "int32[3]", "-"},
                  "label_smoothing is 2",
                  {{"label_smoothing", 2.0}}},
                 {{"float32[3,4]", "int32[4]", "-"}, "need labels of shape [3]"},
                 {{"float32[3,4]", "float32[3]", "-"}, "need labels of shape [3,4]"},
                 {{"float32[3,4]", "int32[3]", "float32[3]"}, "there are 4 classes"},
                 {{"float32[3,0]", "int32[3]", "-"}, "has no classes"}},
  });
}

}  // namespace etude::ops
