// SPDX-License-Identifier: Apache-2.0
// Bodies whose costs are counted, not timed: hot paths, and whole training steps.
// tools/check_guards.py compares them with benchmarks/guards.json.
//
//   guards               the names
//   guards NAME          calls of ops, tensors and other memory of one turn, as JSON
//   guards NAME TURNS    so many turns inside guard_body, for callgrind
//
// Operands are small, so that the counts show calls and not arithmetic, and so that oneDNN does not
// run: counts must not depend on its version.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <new>
#include <numeric>
#include <utility>

#include "etude/etude.h"

namespace {
int64_t from_the_heap = 0;  // requests by new of this thread, the only one
}

// Allocations of the library arrive here, too.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++from_the_heap;
  void* made = std::malloc(size == 0 ? 1 : size);
  return made != nullptr ? made : throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  ++from_the_heap;
  const auto step = static_cast<std::size_t>(alignment);
  void* made = std::aligned_alloc(step, (size + step) / step * step);
  return made != nullptr ? made : throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace {

using namespace etude;  // NOLINT(google-build-using-namespace): a program
using Body = std::function<void()>;

// Runs a body a number of times. callgrind's --toggle-collect counts this function.
__attribute__((noinline)) void guard_body(const Body& body, long turns) {
  for (long i = 0; i < turns; ++i) body();
}

// ---- calls

const Tensor kA({{1.0, 2.0}, {3.0, 4.0}}), kB({{0.5, 0.25}, {0.125, 1.0}});

Body eager_add() {
  return [] { const Tensor c = kA + kB; };
}
Body small_product() {
  return [] { const Tensor c = matmul(kA, kB); };
}
Body in_place_update() {
  return [a = Tensor({{1.0, 2.0}, {3.0, 4.0}})]() mutable { a += kB; };
}
Body tensor_made_and_dropped() {
  return [] { const Tensor t = 1.0; };
}
Body taped_add() {
  return [] {
    GradientTape tape;
    tape.watch(kA);
    Tensor y = kA;
    for (int i = 0; i < 16; ++i) y = y + kB;
    const Tensor g = tape.gradient(y, kA);
  };
}

Body staged_call() {
  return [add = function([](const Tensor& x) { return x + 1.0; })] { const Tensor y = add(kA); };
}
struct Eight {
  std::array<Tensor, 8> x;
};
Body staged_call_of_8() {
  Eight given;
  given.x.fill(kA);
  return [given, add = function([](const Eight& all) { return all.x[0] + all.x[7]; })] {
    const Tensor y = add(given);
  };
}

// ---- training steps

// The numbers 0, 1, .. n - 1 as labels of `classes` classes.
Tensor labels(int64_t n, int64_t classes) { return remainder(arange(n), classes); }

// Forward, gradients of all parameters, plain descent.
template <class Model>
Body step(Model start, const Tensor& x, int64_t classes) {
  return [model = std::move(start), x, y = labels(x.shape()[0], classes)]() mutable {
    auto [loss, grads] = value_with_gradient(
        [&](const Model& m) { return nn::softmax_cross_entropy(m(x), y); }, model);
    move(model, scaled(grads, -0.01));
  };
}

struct Affine {
  Tensor w, b;
  Tensor operator()(const Tensor& x) const { return matmul(x, w) + b; }
};
Affine affine(int64_t in, int64_t out) { return {nn::glorot_uniform({in, out}), nn::zeros({out})}; }

struct Mlp {
  std::array<Affine, 3> layers;
  Tensor operator()(const Tensor& x) const {
    return layers[2](nn::relu(layers[1](nn::relu(layers[0](x)))));
  }
};
Body mlp_step() {
  return step(Mlp{{affine(16, 12), affine(12, 12), affine(12, 4)}}, random::normal({8, 16}), 4);
}

// Layers with options and member initialisers, as in examples/lenet.cc.
struct LeNet {
  nn::Conv2D conv1{{5, 5}, 1, 2, {.padding = "same", .activation = nn::relu}};
  nn::MaxPool2D pool1{2};
  nn::Conv2D conv2{{3, 3}, 2, 4, {.activation = nn::relu}};
  nn::MaxPool2D pool2{2};
  nn::Flatten flatten;
  nn::Dense fc1{16, 8, {.activation = nn::relu}};
  nn::Dense fc2{8, 4};

  Tensor operator()(const Tensor& images) const {
    return nn::sequenced(images, conv1, pool1, conv2, pool2, flatten, fc1, fc2);
  }
};
Body lenet_step() { return step(LeNet(), random::normal({2, 12, 12, 1}), 4); }

// Making one of these draws numbers: a step that constructs a model shows it.
struct Initialised {
  Tensor w = random::normal({4, 3});
  Tensor b = random::normal({3});
  Tensor operator()(const Tensor& x) const { return matmul(x, w) + b; }
};
Body initialised_step() { return step(Initialised(), random::normal({5, 4}), 3); }

struct Perceptron {
  nn::Dense hidden{6, 5, {.activation = nn::tanh}};
  nn::Dense out{5, 3};
  Tensor operator()(const Tensor& x) const { return out(hidden(x)); }
};
// One epoch of four batches by fit.
Body fit_epoch() {
  const data::Samples all{random::normal({16, 6}), labels(16, 3)};
  return [model = Perceptron(), adam = optim::Adam({.lr = 1e-3}),
          data = data::Loader(all, {.batch = 4, .prefetch = 0})]() mutable {
    nn::fit(model, adam, data, nn::softmax_cross_entropy, {.epochs = data.position().epoch + 1});
  };
}

struct Guard {
  const char* name;
  Body (*make)();
};
constexpr Guard kGuards[] = {
    {"eager_add", eager_add},
    {"small_product", small_product},
    {"in_place_update", in_place_update},
    {"tensor_made_and_dropped", tensor_made_and_dropped},
    {"taped_add_x16", taped_add},
    {"staged_call", staged_call},
    {"staged_call_of_8", staged_call_of_8},
    {"mlp_step", mlp_step},
    {"lenet_step", lenet_step},
    {"initialised_step", initialised_step},
    {"fit_epoch", fit_epoch},
};

void print_counts(const Body& body) {
  const MemoryScope memory;
  const int64_t before = from_the_heap;
  body();
  const int64_t heap = from_the_heap - before, tensors = memory.stats().allocations;
  const ProfileScope scope;
  body();
  const auto entries = scope.profile().entries();
  const int64_t calls =
      std::accumulate(entries.begin(), entries.end(), int64_t{0},
                      [](int64_t sum, const ProfileEntry& e) { return sum + e.calls; });
  std::cout << "{\"calls\": " << calls << ", \"tensors\": " << tensors << ", \"heap\": " << heap
            << "}\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) {
    for (const Guard& guard : kGuards) std::cout << guard.name << "\n";
    return 0;
  }
  for (const Guard& guard : kGuards) {
    if (std::strcmp(guard.name, argv[1]) != 0) continue;
    set_seed(1);
    const Body body = guard.make();
    for (int i = 0; i < 4; ++i) body();  // fills caches, pools and an optimiser's state
    if (argc == 2) {
      print_counts(body);
    } else {
      guard_body(body, std::atol(argv[2]));
    }
    return 0;
  }
  std::cerr << "no guard is called " << argv[1] << "\n";
  return 2;
}
