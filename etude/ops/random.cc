// SPDX-License-Identifier: Apache-2.0
// Random draws: ops that are pure functions of a key, and the public functions that take keys from
// the generator of the thread.
#include "etude/ops/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "etude/base/check.h"
#include "etude/base/philox.h"
#include "etude/core/call/builtin.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/context.h"
#include "etude/core/context/draws_scope.h"
#include "etude/core/context/placement.h"
#include "etude/core/dtype_functions.h"
#include "etude/core/internal/call.h"
#include "etude/core/op/batching.h"
#include "etude/kernels/cpu/random.h"
#include "etude/ops.h"
#include "etude/ops/axes.h"
#include "etude/ops/families.h"
#include "etude/ops/random_keys.h"

namespace etude::ops {
namespace {

using Ints = std::vector<int64_t>;

constexpr std::string_view kKeyed = "random numbers are a function of the key alone";

// A key [2], or keys [k.., 2] for the first axes of the draws.
void require_key(const TypeCall& call, const Shape& drawn) {
  const Shape& key = call.shape(0);
  const int axes = key.rank() - 1;
  const auto sizes = drawn.sizes();
  const bool fits = axes >= 0 && axes <= drawn.rank() && key[axes] == 2 &&
                    std::ranges::equal(key.sizes().first(static_cast<std::size_t>(axes)),
                                       sizes.first(static_cast<std::size_t>(axes)));
  ETUDE_REQUIRE(fits,
                "operand 'key' has shape {}, but a key is uint64[2], or there is one for each of "
                "the first axes of {}. Use random::key(seed)",
                key.to_string(), drawn.to_string());
}

Shape drawn_shape(const TypeCall& call) {
  Shape shape = shape_of(call.attrs, "shape");
  require_key(call, shape);
  return shape;
}

Types fold_in_type(const TypeCall& call) {
  Shape shape = call.shape(1);
  require_key(call, shape);
  shape.push_back(2);
  return {call.make(kUInt64, shape)};
}

// One key serves numbers of any shape, so that a batch of them is one call.
Values fold_in_batch(const BatchCall& call) {
  const bool is_one_key = !call.is_batched(0) && call.rank(0) == 1;
  return is_one_key ? batching::call_again(call, {call.in[0], call.in[1]}) : batching::same(call);
}

Types permutation_type(const TypeCall& call) {
  const Shape shape = drawn_shape(call);
  ETUDE_REQUIRE(shape.rank() == call.rank(0),
                "shape {} must have as many axes as the keys, which have shape {}",
                shape.to_string(), call.shape(0).to_string());
  return {call.make(kInt64, shape)};
}

Types float_type(const TypeCall& call) {
  const DType dtype = call.attrs.dtype("dtype");
  ETUDE_REQUIRE(is_floating(dtype), "dtype {} is not a floating one. Choose one of {}", name(dtype),
                describe(kFloating));
  return {call.make(dtype, drawn_shape(call))};
}

Types integer_type(const TypeCall& call) {
  const DType dtype = call.attrs.dtype("dtype");
  const int64_t low = call.attrs.integer("low"), high = call.attrs.integer("high");
  ETUDE_REQUIRE(is_integer(dtype), "dtype {} is not an integer one. Choose one of {}", name(dtype),
                describe(kIntegers));
  ETUDE_REQUIRE(low < high, "there is no whole number in [{}, {}). low must be less than high", low,
                high);
  const bool fits = visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      return std::in_range<T>(low) && std::in_range<T>(high - 1);
    } else {
      return false;
    }
  });
  ETUDE_REQUIRE(fits, "{} does not hold the numbers in [{}, {}). Choose a wider dtype", name(dtype),
                low, high);
  return {call.make(dtype, drawn_shape(call))};
}

Samples float_samples() {
  Samples samples;
  samples.calls = {{{"uint64[2]"}, {{"shape", Ints{3, 5}}, {"dtype", kFloat32}}},
                   {{"uint64[2]"}, {{"shape", Ints{}}, {"dtype", kFloat64}}},
                   {{"uint64[2]"}, {{"shape", Ints{7}}, {"dtype", kBFloat16}}},
                   {{"uint64[3,2]"}, {{"shape", Ints{3, 5}}, {"dtype", kFloat64}}},
                   {{"uint64[2,3,2]"}, {{"shape", Ints{2, 3}}, {"dtype", kFloat32}}}};
  return samples;
}

std::vector<ErrorCase> float_errors() {
  return {
      {{"uint64[3]"}, "a key is uint64[2]", {{"shape", Ints{2}}, {"dtype", kFloat32}}},
      {{"uint64[3,2]"},
       "has shape [3,2], but a key is uint64[2], or there is one for each of the first axes of [2]",
       {{"shape", Ints{2}}, {"dtype", kFloat32}}},
      {{"uint64[2]"}, "shape [-1] has a negative size", {{"shape", Ints{-1}}, {"dtype", kFloat32}}},
      {{"uint64[2]"},
       "dtype int32 is not a floating one",
       {{"shape", Ints{2}}, {"dtype", kInt32}}}};
}

OpDef float_draw(std::string_view name, std::string_view doc, PrepareRule kernel) {
  return {
      .name = name,
      .space = "internal",
      .doc = doc,
      .operands = {{"key@host", kUInt64}},
      .attrs = {{"shape", AttrKind::kInts},
                {"dtype", AttrKind::kDType},
                {"device", AttrKind::kText, none}},
      .type = float_type,
      .kernels = {.cpu = kernel},
      .batch = draw_batch,
      .no_derivative = kKeyed,
      .samples = float_samples(),
      .errors = float_errors(),
  };
}

}  // namespace

void define_random(Registry& r) {
  r.define(float_draw("random_uniform", "Uniform in [0, 1) from a key.",
                      kernels::cpu::prepare_random_uniform));
  r.define(float_draw("random_normal", "Normal with mean 0 and deviation 1 from a key.",
                      kernels::cpu::prepare_random_normal));
  r.define(float_draw("random_truncated_normal",
                      "Normal with mean 0 and deviation 1, cut off at two deviations, from a key.",
                      kernels::cpu::prepare_random_truncated_normal));
  r.define({
      .name = "random_integers",
      .space = "internal",
      .doc = "Whole numbers in [low, high) from a key.",
      .operands = {{"key@host", kUInt64}},
      .attrs = {{"shape", AttrKind::kInts},
                {"low", AttrKind::kInt},
                {"high", AttrKind::kInt},
                {"dtype", kInt32},
                {"device", AttrKind::kText, none}},
      .type = integer_type,
      .kernels = {.cpu = kernels::cpu::prepare_random_integers},
      .batch = draw_batch,
      .no_derivative = kKeyed,
      .samples = {.calls = {{{"uint64[2]"},
                             {{"shape", Ints{3, 5}}, {"low", int64_t{-2}}, {"high", int64_t{7}}}},
                            {{"uint64[2]"},
                             {{"shape", Ints{9}},
                              {"low", int64_t{0}},
                              {"high", int64_t{200}},
                              {"dtype", kUInt8}}},
                            {{"uint64[3,2]"},
                             {{"shape", Ints{3, 5}}, {"low", int64_t{-2}}, {"high", int64_t{7}}}}}},
      .errors =
          {{{"uint64[2]"},
            "low must be less than high",
            {{"shape", Ints{2}}, {"low", int64_t{3}}, {"high", int64_t{3}}}},
           {{"uint64[2]"},
            "int8 does not hold the numbers in [0, 300)",
            {{"shape", Ints{2}}, {"low", int64_t{0}}, {"high", int64_t{300}}, {"dtype", kInt8}}},
           {{"uint64[2]"},
            "dtype float32 is not an integer one",
            {{"shape", Ints{2}}, {"low", int64_t{0}}, {"high", int64_t{3}}, {"dtype", kFloat32}}}},
  });
  r.define({
      .name = "random_fold_in",
      .space = "internal",
      .doc = "A key for each number, from a key: element i of the result follows from the key and "
             "numbers[i]. Keys [.., 2] are for the first axes of the numbers.",
      .operands = {{"key@host", kUInt64}, {"numbers@host", kIntegers}},
      .type = fold_in_type,
      .kernels = {.cpu = kernels::cpu::prepare_random_fold_in},
      .batch = fold_in_batch,
      .no_derivative = kKeyed,
      .samples = {.calls = {{{"uint64[2]", "int64[]"}},
                            {{"uint64[2]", "int32[3]"}},
                            {{"uint64[3,2]", "int64[3,4]"}},
                            {{"uint64[3,2]", "int32[3]"}},
                            {{"uint64[2]", "uint8[2,0]"}}}},
      .errors = {{{"uint64[3]", "int64[]"}, "a key is uint64[2]"},
                 {{"uint64[3,2]", "int64[2]"}, "there is one for each of the first axes of [2]"},
                 {{"uint64[2]", "float32[]"}, "operand 'numbers' is float32"}},
  });
  r.define({
      .name = "random_permutation",
      .space = "internal",
      .doc =
          "The numbers 0 .. n - 1 in a random order from a key; for keys [.., 2] one order each.",
      .operands = {{"key@host", kUInt64}},
      .attrs = {{"shape", AttrKind::kInts}, {"device", AttrKind::kText, none}},
      .type = permutation_type,
      .kernels = {.cpu = kernels::cpu::prepare_random_permutation},
      .batch = draw_batch,
      .no_derivative = kKeyed,
      .samples = {.calls = {{{"uint64[2]"}, {{"shape", Ints{11}}}},
                            {{"uint64[2]"}, {{"shape", Ints{0}}}},
                            {{"uint64[3,2]"}, {{"shape", Ints{3, 11}}}}}},
      .errors = {{{"uint64[2]"},
                  "shape [2,3] must have as many axes as the keys",
                  {{"shape", Ints{2, 3}}}}},
  });
}

}  // namespace etude::ops

namespace etude::random {
namespace {

Tensor key_or_next(const Tensor& given) { return given.has_value() ? given : internal::next_key(); }

// The values of an option, where they can be looked at: while recording, a tensor may have none.
std::vector<double> known_values(const Tensor& x) {
  if (!x.has_value() || !TensorAccess::has_elements(x)) return {};
  return x.to_vector<double>();
}

Tensor fit(const Tensor& x, DType dtype) { return internal::cast(x, dtype); }
// x as an operand of a call with the draws: of their dtype and on their device.
Tensor fit(const Tensor& x, const Tensor& draws) {
  return internal::moved(fit(x, draws.dtype()), draws.device());
}

// A device as an attribute: absent for the device of the scope.
std::optional<std::string> attr_of(const std::optional<Device>& device) {
  return device ? std::optional(device->to_string()) : std::nullopt;
}

// y scaled and moved, for options that may be absent.
Tensor reparameterized(Tensor y, const Tensor& shift, const Tensor& scale, const Shape& shape) {
  for (const Tensor* option : {&shift, &scale}) {
    if (option->has_value()) broadcast(option->shape(), shape);  // the caller's line, not this one
  }
  if (scale.has_value()) y = y * fit(scale, y);
  if (shift.has_value()) y = y + fit(shift, y);
  ETUDE_REQUIRE(y.shape() == shape,
                "options of shape {} do not broadcast to the requested shape {}",
                y.shape().to_string(), shape.to_string());
  return y;
}

// The number of the dtype before `high`, but not below `low`.
Tensor before(const Tensor& high, const Tensor& low) {
  if (high.dtype() == kFloat32 || high.dtype() == kFloat64) return nextafter(high, low);
  // Half the distance to the next number or more, and twice that: the first that is another one.
  const Tensor wide = fit(high, kFloat32), step = abs(wide) * (finfo(high.dtype()).eps / 2);
  const Tensor near = fit(wide - step, high.dtype()), far = fit(wide - 2.0 * step, high.dtype());
  return maximum(etude::where(near < high, near, etude::where(far < high, far, low)), low);
}

// Replaces draws that were rounded up to `high`, as happens in ranges of few numbers, by the number
// before it. The derivatives of the draws are unchanged.
Tensor below(const Tensor& draws, const Tensor& low, const Tensor& high) {
  const Tensor excess = etude::where(draws < high, 0.0, before(high, low) - draws);
  return draws + internal::stop_gradient(excess);
}

Tensor normal_from(const char* name, const Op& draw, const IntList& shape,
                   const NormalOptions& options, CallSite where) {
  return internal::located(name, where, [&] {
    const internal::DrawsScope undo;
    for (const double s : known_values(options.stddev)) {
      ETUDE_REQUIRE(s >= 0, "stddev is {}, but must be 0 or more", s);
    }
    const DType dtype = options.dtype.value_or(ambient().default_dtype);
    const Tensor key = key_or_next(options.key);
    const Tensor y = internal::run(draw, {&key}, {shape, dtype, attr_of(options.device)}, where);
    return reparameterized(y, options.mean, options.stddev, Shape(shape.values()));
  });
}

}  // namespace

Tensor key(uint64_t seed) {
  const std::array<uint64_t, 2> words = {seed, 0};
  return Tensor(std::span<const uint64_t>(words), {2});
}

Tensor fold_in(const Tensor& key, const Arg& number) {
  return internal::located("random.fold_in", number.where(), [&] {
    const bool is_host = number.tensor() == nullptr;
    const Tensor numbers = is_host ? internal::adapt(number, kInt64) : *number.tensor();
    return internal::run(internal::op<"random_fold_in">(), {&key, &numbers}, {}, number.where());
  });
}

Tensor split(const Tensor& key, int64_t n, CallSite where) {
  return etude::internal::located("random.split", where, [&] {
    ETUDE_REQUIRE(n >= 0, "n is {}, but must be 0 or more", n);
    ETUDE_REQUIRE(key.shape() == Shape({2}), "key has shape {}, but one key, uint64[2], is split",
                  key.shape().to_string());
    const Tensor numbers = arange(0, {.stop = static_cast<double>(n), .dtype = kInt64});
    return internal::run(internal::op<"random_fold_in">(), {&key, &numbers}, {}, where);
  });
}

Tensor uniform(const IntList& shape, const UniformOptions& options, CallSite where) {
  return internal::located("random.uniform", where, [&] {
    const internal::DrawsScope undo;
    const Tensor low =
        options.low.has_value() || !options.high.has_value() ? options.low : Tensor(0.0);
    const Tensor high =
        options.high.has_value() || !options.low.has_value() ? options.high : Tensor(1.0);
    const std::vector<double> lows = known_values(low), highs = known_values(high);
    if (!lows.empty() && !highs.empty()) {
      const double top = *std::max_element(lows.begin(), lows.end());
      const double bottom = *std::min_element(highs.begin(), highs.end());
      const bool apart = lows.size() == 1 || highs.size() == 1;
      ETUDE_REQUIRE(!apart || top <= bottom,
                    "low is {} and high is {}, but low must not be above high", top, bottom);
    }
    const DType dtype = options.dtype.value_or(ambient().default_dtype);
    const Tensor key = key_or_next(options.key);
    Tensor u = internal::run(internal::op<"random_uniform">(), {&key},
                             {shape, dtype, attr_of(options.device)}, where);
    if (!low.has_value()) return u;
    const Tensor from = fit(low, u), to = fit(high, u);
    // Halves, since the width of a range may be above all numbers of the dtype.
    const Tensor half = 0.5 * from, width = 0.5 * to - half;
    return below(2.0 * reparameterized(std::move(u), half, width, Shape(shape.values())), from, to);
  });
}

Tensor normal(const IntList& shape, const NormalOptions& options, CallSite where) {
  return normal_from("random.normal", internal::op<"random_normal">(), shape, options, where);
}

Tensor truncated_normal(const IntList& shape, const NormalOptions& options, CallSite where) {
  return normal_from("random.truncated_normal", internal::op<"random_truncated_normal">(), shape,
                     options, where);
}

Tensor randint(const IntList& shape, int64_t low, int64_t high, const DrawOptions& options,
               CallSite where) {
  return internal::located("random.randint", where, [&] {
    const internal::DrawsScope undo;
    const Tensor key = key_or_next(options.key);
    return internal::run(
        internal::op<"random_integers">(), {&key},
        {shape, low, high, options.dtype.value_or(kInt32), attr_of(options.device)}, where);
  });
}

Tensor bernoulli(const Tensor& p, const IntList& shape, const DrawOptions& options,
                 CallSite where) {
  return internal::located("random.bernoulli", where, [&] {
    const internal::DrawsScope undo;
    for (const double value : known_values(p)) {
      ETUDE_REQUIRE(value >= 0 && value <= 1, "p is {}, but a probability lies in [0, 1]", value);
    }
    const std::optional<Device> device = internal::device_of_draws(options.device, p);
    const Tensor chance =
        internal::moved(is_floating(p.dtype()) ? p : fit(p, kFloat32), device.value_or(Device()));
    const Shape to = shape.is_given() ? Shape(shape.values()) : p.shape();
    const Tensor key = key_or_next(options.key);
    const Tensor u = internal::run(internal::op<"random_uniform">(), {&key},
                                   {IntList(to), chance.dtype(), attr_of(device)}, where);
    const Tensor hit = chance > u;
    ETUDE_REQUIRE(hit.shape() == to, "p of shape {} does not broadcast to the requested shape {}",
                  p.shape().to_string(), to.to_string());
    return options.dtype ? fit(hit, *options.dtype) : hit;
  });
}

Tensor permutation(int64_t n, const DrawOptions& options, CallSite where) {
  return internal::located("random.permutation", where, [&] {
    const internal::DrawsScope undo;
    ETUDE_REQUIRE(n >= 0, "n is {}, but must be 0 or more", n);
    const Tensor key = key_or_next(options.key);
    const Tensor order = internal::run(internal::op<"random_permutation">(), {&key},
                                       {IntList(n), attr_of(options.device)}, where);
    return fit(order, options.dtype.value_or(kInt64));
  });
}

}  // namespace etude::random
