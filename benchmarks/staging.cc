// SPDX-License-Identifier: Apache-2.0
// Measures the staging of a training step of a residual network of 56 layers: its first and its
// second call, each pass, and the formats of a stored graph. The images are small, so that the
// calls cost little.
#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "etude/etude.h"

namespace etude::bench {
namespace {

struct Layer {
  Layer(int64_t in, int64_t out, int64_t stride)
      : filter(0.1F * random::normal({3, 3, in, out})), norm(out), stride_(stride) {}
  Tensor operator()(const Tensor& x) const {
    nn::BatchStatistics statistics = norm.running.value;
    return norm.train(nn::conv2d(x, filter, {.strides = stride_, .padding = "same"}), statistics);
  }

  Tensor filter;
  nn::BatchNorm norm;
  ETUDE_FIELDS(Layer, filter, norm);
  auto host_values() const { return std::tie(stride_); }

 private:
  int64_t stride_;
};

struct Block {
  Layer first, second;
  std::vector<Layer> projection;  // none, or one
  Tensor operator()(const Tensor& x) const {
    const Tensor y = second(nn::relu(first(x)));
    return nn::relu(y + (projection.empty() ? x : projection[0](x)));
  }
};

struct Network {
  Layer stem{3, 16, 1};
  std::vector<Block> blocks = make_blocks();
  Tensor w = 0.1F * random::normal({64, 10});

  static std::vector<Block> make_blocks() {
    std::vector<Block> out;
    int64_t in = 16;
    for (const int64_t width : {16, 32, 64}) {
      for (int i = 0; i < 9; ++i, in = width) {
        Block block{{in, width, width != in ? 2 : 1}, {width, width, 1}, {}};
        if (width != in) block.projection.emplace_back(in, width, 2);
        out.push_back(std::move(block));
      }
    }
    return out;
  }
  Tensor operator()(Tensor x) const {
    x = nn::relu(stem(x));
    for (const Block& block : blocks) x = block(x);
    return matmul(mean(x, {.axis = {1, 2}}), w);
  }
};

double milliseconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

// The best of ten.
template <class F>
double best_of(F&& f) {
  double best = 1e9;
  for (int i = 0; i < 10; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    best = std::min(best, milliseconds(std::chrono::steady_clock::now() - start));
  }
  return best;
}

void compare_forms(const Graph& graph) {
  const std::string text = to_text(graph), bytes = to_binary(graph);
  if (!read_binary(bytes)->same(graph) || !parse_graph(text)->same(graph)) {
    throw std::runtime_error("what is read is another graph");
  }
  fmt::print("{} nodes: text {:.0f} KB, written in {:.2f} ms, read in {:.2f} ms; ", graph.size(),
             1e-3 * static_cast<double>(text.size()), best_of([&] { to_text(graph); }),
             best_of([&] { parse_graph(text); }));
  fmt::print("binary {:.0f} KB, {:.2f} ms, {:.2f} ms\n", 1e-3 * static_cast<double>(bytes.size()),
             best_of([&] { to_binary(graph); }), best_of([&] { read_binary(bytes); }));
}

void run() {
  const Tensor x = random::normal({2, 8, 8, 3}), y = random::normal({2, 10});
  for (int round = 0; round < 3; ++round) {
    Network model;
    const auto step = function([&](Network& net) {
      const auto [loss, slope] =
          value_with_gradient([&](const Network& n) { return mean(square(n(x) - y)); }, net);
      move(net, -1e-3F * slope);
      return loss;
    });
    const auto start = std::chrono::steady_clock::now();
    step(model);
    const auto first = std::chrono::steady_clock::now();
    step(model);
    const auto second = std::chrono::steady_clock::now();
    std::vector<PassReport> reports;
    run_passes(step.traces()[0].graph(), &reports);
    fmt::print("first call {:.1f} ms, second {:.1f} ms, so staging {:.1f} ms\n{}",
               milliseconds(first - start), milliseconds(second - first),
               milliseconds(first - start) - milliseconds(second - first), to_string(reports));
    if (round == 0) compare_forms(step.traces()[0].graph());
  }
}

}  // namespace
}  // namespace etude::bench

int main() { etude::bench::run(); }
