// SPDX-License-Identifier: Apache-2.0
// Measures plans with forks against the same steps one after another, on two threads. Each result
// is checked first: both give the same bits. A round times single runs of one and then of the
// other, and takes the tenth percentile of each, so that other work on the machine shows little. A
// line shows the medians of the rounds, and their ratios from the least to the most.
#include "etude/plan/forks.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "etude/etude.h"

namespace etude::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Tensors = std::vector<Tensor>;
using Staged = std::function<Tensors()>;

constexpr int kRounds = 9, kRuns = 60;

Tensor waves(const Shape& shape, float step) {
  return reshape(sin(astype(arange(shape.count()), kFloat32) * step), shape.to_vector());
}

// A chain of products of [64, 64], each too short for several threads.
Tensor tower(Tensor x, const Tensor& w, int layers) {
  for (int i = 0; i < layers; ++i) x = tanh(matmul(x, w) * 0.1F);
  return x;
}

// The same function, staged with this setting.
template <class F>
Staged staged(const F& f, const Tensors& in, internal::Forks setting) {
  internal::set_forks(setting);
  const auto made = function<Tensors(const Tensors&)>(f);
  made(in);
  internal::set_forks(internal::Forks::kIfFaster);
  return [made, in] { return made(in); };
}

double median(std::vector<double> x) {
  std::ranges::sort(x);
  return x[x.size() / 2];
}

double time_us(const Staged& f) {
  const auto start = Clock::now();
  f();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double tenth(std::vector<double> x) {
  std::ranges::sort(x);
  return x[x.size() / 10];
}

template <class F>
void measure(const std::string& name, const F& f, const Tensors& in) {
  const Staged serial = staged(f, in, internal::Forks::kNever);
  const Staged forked = staged(f, in, internal::Forks::kIfFaster);
  for (int i = 0; i < 20; ++i) {
    const Tensors want = serial(), got = forked();
    for (std::size_t k = 0; k < want.size(); ++k) {
      if (!same_value(got[k], want[k])) throw std::runtime_error(name + ": other bits");
    }
  }
  std::vector<double> a, b, ratio;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> in_turn, with_forks;
    for (int i = 0; i < kRuns; ++i) in_turn.push_back(time_us(serial));
    for (int i = 0; i < kRuns; ++i) with_forks.push_back(time_us(forked));
    a.push_back(tenth(in_turn));
    b.push_back(tenth(with_forks));
    ratio.push_back(b.back() / a.back());
  }
  const auto [least, most] = std::ranges::minmax_element(ratio);
  fmt::print("{:<28} {:>9.1f} us {:>9.1f} us   ratio {:.2f} ({:.2f} to {:.2f})\n", name, median(a),
             median(b), median(ratio), *least, *most);
}

void run() {
  set_thread_count(2);
  const Tensors in = {waves({64, 64}, 0.3F), waves({64, 64}, 0.7F), waves({64, 64}, 1.1F)};
  fmt::print("{:<28} {:>12} {:>12}\n", "", "in turn", "with forks");
  for (const int layers : {4, 20, 50, 200}) {
    measure(
        fmt::format("two towers of {} layers", layers),
        [layers](const Tensors& x) {
          return Tensors{tower(x[0], x[1], layers) + tower(x[0], x[2], layers)};
        },
        in);
  }
  measure(
      "one tower of 50 layers", [](const Tensors& x) { return Tensors{tower(x[0], x[1], 50)}; },
      in);
  measure(
      "gradient of two towers",
      [](const Tensors& x) {
        const auto loss = [&](const Tensor& v, const Tensor& w) {
          return sum(square(tower(x[0], v, 20) - tower(x[0], w, 20)));
        };
        const auto [v, w] = gradient(loss, x[1], x[2]);
        return Tensors{v, w};
      },
      in);
  measure(
      "two loops of 100 steps",
      [](const Tensors& x) {
        const auto loop = [&](const Tensor& w) {
          return fold([&](const Tensor& s, const Tensor& row) { return tower(s, w, 1) + row; },
                      x[0], tile(reshape(x[0], {1, 64, 64}), {100, 1, 1}));
        };
        return Tensors{loop(x[1]) + loop(x[2])};
      },
      in);
}

}  // namespace
}  // namespace etude::bench

int main() {
  etude::bench::run();
  return EXIT_SUCCESS;
}
