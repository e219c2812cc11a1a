// SPDX-License-Identifier: Apache-2.0
// Features that go on around functions: manifolds, layers with state, precision, files, threads,
// exceptions and devices.
#include <array>
#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/devices/sim/sim_device.h"
#include "tests/pairs/features.h"
#include "tests/temp_folder.h"

namespace pairs {

using etude::Tensor;

// A direction: v has the length 1, and a step along a tangent keeps that.
struct Direction {
  Tensor v;
};

}  // namespace pairs

template <>
struct etude::DifferentiableTraits<pairs::Direction> {
  using Tangent = Tensor;
  static Tensor zero(const pairs::Direction& x) { return zeros_like(x.v); }
  static void move(pairs::Direction& x, const Tensor& by) {
    const Tensor t = x.v + by;
    x.v = t / sqrt(sum(t * t));
  }
};

namespace pairs {
namespace {

using TensorMap = LibraryRun::Map;
using NumberMap = JudgeRun::Map;

Tensor vector_of(double first, double second, double third) {
  return Tensor(std::vector<double>{first, second, third});
}
Numbers numbers_of(const std::array<double, kLength>& all) {
  return Numbers::made([&](std::size_t i) { return Number(all[i]); });
}

// Manifolds.

// Where functions are called on the sphere: x away from the middle, at a distance of 1.
const std::array<double, kLength> kAway = {2.0, 1.5, -2.0};
Direction direction(const Tensor& x) {
  const Tensor at = x + vector_of(kAway[0], kAway[1], kAway[2]);
  return {at / sqrt(sum(at * at))};
}
Tensor along_sphere(LibraryRun&, const TensorMap& f, const Tensor& x) {
  Direction at = direction(x);
  const Tensor slope = etude::gradient([f](const Direction& d) { return sum(f(d.v)); }, at);
  move(at, slope * 0.5);
  return at.v + slope;
}
Tensor slope_on_sphere(LibraryRun&, const TensorMap& f, const Tensor& x) {
  const Direction at = direction(x);
  return etude::jvp([f](const Direction& d) { return f(d.v); }, at, x * 0.5).second + x;
}
Numbers unit(const Numbers& x) { return x * power(sum(x * x), -0.5L); }
// The part of a step that is tangent to the sphere at v.
Numbers on_sphere(const Numbers& v, const Numbers& step) { return step - v * sum(v * step); }
Numbers sphere_step(JudgeRun& run, const NumberMap& f, const Numbers& x) {
  const Numbers v = unit(x + numbers_of(kAway)), slope = on_sphere(v, run.gradient(f, v));
  return unit(v + slope * 0.5) + slope;
}
Numbers sphere_slope(JudgeRun& run, const NumberMap& f, const Numbers& x) {
  const Numbers v = unit(x + numbers_of(kAway));
  return run.slope(f, v, on_sphere(v, x * 0.5)) + x;
}

// Layers.

Tensor as_layer(const auto& layer, const Tensor& x) {
  return reshape(layer(reshape(x, {3, 1})), {3});
}
// A training step of batch normalisation, then an inference.
template <class Slope>
Tensor normalised_by(const Slope& slope, const Tensor& x) {
  etude::nn::BatchNorm layer(1, {.momentum = 0.5, .epsilon = 0.25});
  const Tensor one(std::vector<double>{1}), zero(std::vector<double>{0});
  layer.scale = one;
  layer.offset = zero;
  layer.running.value = {zero, one};
  {
    const etude::PhaseScope training(etude::Phase::kTraining);
    move(layer, slope(layer, x) * 0.5);
  }
  const etude::PhaseScope inference(etude::Phase::kInference);
  return as_layer(layer, x);
}
auto slope_of_layer(const TensorMap& f) {
  return [f](const etude::nn::BatchNorm& layer, const Tensor& x) {
    const auto loss = [&](const etude::nn::BatchNorm& at) { return sum(as_layer(at, f(x)) * x); };
    return etude::gradient(loss, layer);
  };
}
Tensor normalised(LibraryRun&, const TensorMap& f, const Tensor& x) {
  return normalised_by(slope_of_layer(f), x);
}
Tensor normalised_by_staged(LibraryRun&, const TensorMap& f, const Tensor& x) {
  return normalised_by(etude::function(slope_of_layer(f)), x);
}
Numbers normalised_numbers(JudgeRun&, const NumberMap& f, const Numbers& x) {
  const Numbers y = f(x);
  const Number third(1.0L / 3), half(0.5L), mean = sum(y) * third;
  const Numbers centred = Numbers::made([&](std::size_t i) { return y.at[i] - mean; });
  const Number variance = sum(centred * centred) * third;
  const Number scale = Number(1) + sum(centred * power(variance + 0.25L, -0.5L) * x) * half;
  const Number offset = sum(x) * half;
  const Number now = held(mean) * half, spread = half + held(variance) * half;
  return Numbers::made([&](std::size_t i) {
    return (x.at[i] - now) * power(spread + 0.25L, -0.5L) * scale + offset;
  });
}

constexpr double kPartInHalf = 0.0625;  // so that loops do not make much of its rounding

struct Wave {
  Tensor factor;
  Tensor operator()(const Tensor& x) const { return sin(x * factor) + x; }
};
Tensor in_half(LibraryRun& run, const TensorMap& f, const Tensor& x) {
  using etude::nn::PrecisionPolicy;
  const etude::nn::Precision layer(Wave{run.captured}, PrecisionPolicy{.compute = etude::kFloat16,
                                                                       .parameter = etude::kFloat64,
                                                                       .output = etude::kFloat64});
  const Tensor y = f(x);
  return y + layer(y) * kPartInHalf;
}
Numbers wave(JudgeRun& run, const NumberMap& f, const Numbers& x) {
  const Numbers y = f(x), product = y * run.sources[kCaptured], out = sin(product) + y;
  for (const Numbers& stored : {y, product, out}) run.stores(stored, kHalf);
  run.takes_sine(product, kHalf);
  return y + out * kPartInHalf;
}

// Files.

std::string in(const etude::internal::TempFolder& folder) { return (folder.path() / "a").string(); }
Tensor through_file(LibraryRun&, const TensorMap& f, const Tensor& x) {
  const etude::internal::TempFolder folder;
  etude::io::save_safetensors(in(folder), {{"y", f(x)}});
  return etude::io::load_safetensors(in(folder)).tensors.at("y") + x;
}
Tensor through_checkpoint(LibraryRun& run, const TensorMap& f, const Tensor& x) {
  const etude::internal::TempFolder folder;
  run.state.assign(f(x));
  etude::io::Checkpoint checkpoint{{"state", run.state}};
  checkpoint.write(in(folder));
  run.state.assign(vector_of(0, 0, 0));
  checkpoint.restore(in(folder)).assert_consumed();
  return run.state.read() + x;
}
Numbers held_and_x(JudgeRun&, const NumberMap& f, const Numbers& x) { return held(f(x)) + x; }
Tensor with_loaded_weights(LibraryRun&, const TensorMap& f, const Tensor& x) {
  const etude::internal::TempFolder folder;
  etude::io::save(LibraryRun::Fields{vector_of(1, 0.5, -0.75), vector_of(0.25, 0, 1)}, in(folder));
  LibraryRun::Fields weights{vector_of(0, 0, 0), vector_of(0, 0, 0)};
  etude::io::load(weights, in(folder));
  return f(x * weights.a) + weights.b;
}
Numbers with_weights(JudgeRun&, const NumberMap& f, const Numbers& x) {
  return f(x * numbers_of({1, 0.5, -0.75})) + numbers_of({0.25, 0, 1});
}

// Threads.

// Runs f on another thread. Returns its result or throws its exception.
Tensor elsewhere(const std::function<Tensor()>& f) {
  Tensor out;
  std::exception_ptr error;
  std::thread([&] {
    try {
      out = f();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
  return out;
}
Tensor on_thread(LibraryRun&, const TensorMap& f, const Tensor& x) {
  return elsewhere([&] { return f(x); }) + x;
}
Tensor pulled_on_thread(LibraryRun&, const TensorMap& f, const Tensor& x) {
  const auto back = etude::pullback([f](const Tensor& q) { return f(q); }, x);
  return elsewhere([&] { return back(x * 2.0); }) + x;
}
Numbers held_pullback(JudgeRun& run, const NumberMap& f, const Numbers& x) {
  return held(run.gradient([&](const Numbers& q) { return f(q) * (x * 2.0); }, x)) + x;
}

// Exceptions.

// After a run in which call number `which` inside of it throws.
Tensor runs_again(LibraryRun& run, const TensorMap& f, const Tensor& x, int which) {
  run.throws_in = which;
  try {
    f(x);
  } catch (const InTheMiddle&) {
  }
  run.throws_in = 0;
  return f(x);
}
Tensor throws_inside(LibraryRun& run, const TensorMap& f, const Tensor& x) {
  return runs_again(run, f, x, 1);
}
// In loops, in second runs and in pullbacks.
Tensor throws_later(LibraryRun& run, const TensorMap& f, const Tensor& x) {
  return runs_again(run, f, x, 2);
}
Tensor traced_again(LibraryRun& run, const TensorMap& f, const Tensor& x) {
  const auto staged = etude::function([f](const Tensor& q) { return f(q); });
  return throws_inside(
      run, [&](const Tensor& q) { return staged(q); }, x);
}
Numbers same_numbers(JudgeRun&, const NumberMap& f, const Numbers& x) { return f(x); }

// Devices. A child process adds them: the thread of a simulated device would not survive a fork.

Tensor in_scope_of(const etude::Device& device, const TensorMap& f, const Tensor& x) {
  Tensor y;
  {
    const etude::DeviceScope on(device);
    y = f(x);
  }
  return y.to("cpu:0");
}
Tensor on_second_cpu(LibraryRun&, const TensorMap& f, const Tensor& x) {
  static const etude::Device second = etude::add_cpu_device();
  return in_scope_of(second, f, x);
}
Tensor on_sim(LibraryRun&, const TensorMap& f, const Tensor& x) {
  return in_scope_of(etude::sim::device(), f, x);
}

constexpr Feature kSurroundings[] = {
    {"manifold", along_sphere, sphere_step},
    {"manifold_jvp", slope_on_sphere, sphere_slope},
    {"layer_state", normalised, normalised_numbers},
    {"staged_layer_state", normalised_by_staged, normalised_numbers},
    {"half_precision", in_half, wave, 5e-2},
    {"file", through_file, held_and_x},
    {"checkpoint", through_checkpoint, held_and_x},
    {"loaded_weights", with_loaded_weights, with_weights},
    {"thread", on_thread, held_and_x},
    {"pullback_on_thread", pulled_on_thread, held_pullback},
    {"exception_inside", throws_inside, same_numbers},
    {"exception_later", throws_later, same_numbers},
    {"traced_again", traced_again, same_numbers},
    {"second_cpu", on_second_cpu, same_numbers},
    {"simulated_device", on_sim, same_numbers},
};

}  // namespace

std::span<const Feature> surroundings() { return kSurroundings; }

}  // namespace pairs
