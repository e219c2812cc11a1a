// SPDX-License-Identifier: Apache-2.0
// Workloads of tiny operands: the cost of a call.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <type_traits>
#include <utility>

#include "benchmarks/workloads/training.h"
#include "benchmarks/workloads/workload.h"
#include "etude/autodiff/gradient.h"
#include "etude/autodiff/gradient_tape.h"
#include "etude/autodiff/parts_of.h"
#include "etude/base/structure.h"
#include "etude/core/context/device_scope.h"
#include "etude/ops.h"
#include "etude/stage/control_flow.h"
#include "etude/stage/function.h"

namespace etude::bench {
namespace {

class Add final : public Instance {
 public:
  std::vector<double> check() override { return digest({a_ + b_}); }
  void run() override { keep(a_ + b_); }

 private:
  Tensor a_ = hashed(1, {2, 2}), b_ = hashed(2, {2, 2});
};

class AddChain final : public Instance {
 public:
  std::vector<double> check() override { return digest({chain()}); }
  void run() override { keep(chain()); }

 private:
  Tensor chain() const {
    Tensor y = a_;
    for (int i = 0; i < 1000; ++i) y = y + b_;
    return y;
  }
  Tensor a_ = hashed(1, {2, 2}), b_ = hashed(2, {2, 2}, 1e-3);
};

// The same chain in a DeviceScope of the device of its operands. The difference to the chain
// without a scope is the cost of a scope for a call.
class AddInScope final : public Instance {
 public:
  std::vector<double> check() override {
    const DeviceScope on("cpu:0");
    return chain_.check();
  }
  void run() override {
    const DeviceScope on("cpu:0");
    chain_.run();
  }

 private:
  AddChain chain_;
};

// A chain of sums and its gradient: the cost of one taped call, forward and backward.
class TapeAdd final : public Instance {
 public:
  std::vector<double> check() override {
    const std::vector<Tensor> back = step();
    return {back[0].to_vector<double>()[3], back[1].to_vector<double>()[0]};
  }
  void run() override { keep(step()); }

 private:
  std::vector<Tensor> step() const {
    GradientTape tape;
    const std::vector<Tensor> sources = {x_, b_};
    tape.watch(sources);
    Tensor y = x_;
    for (int i = 0; i < 100; ++i) y = y + b_;
    return tape.gradient(y, sources);
  }

  Tensor x_ = hashed(1, {2, 2}), b_ = hashed(2, {2, 2}, .05);
};

// Sums and products in turn, on matrices of 2x2 or on their first elements.
class Tape100 final : public Instance {
 public:
  explicit Tape100(bool scalar) : scalar_(scalar) {
    if (!scalar) return;
    for (Tensor* t : {&x_, &b_, &c_}) *t = Tensor(t->to_vector<float>()[0]);
  }
  std::vector<double> check() override {
    const std::vector<Tensor> grads = step();
    if (!scalar_) return digest(grads);
    std::vector<double> out;
    for (const Tensor& g : grads) out.push_back(g.item<double>());
    return out;
  }
  void run() override { keep(step()); }

 private:
  std::vector<Tensor> step() const {
    GradientTape tape;
    const std::vector<Tensor> sources = {x_, b_, c_};
    tape.watch(sources);
    Tensor y = x_;
    for (int i = 0; i < 50; ++i) {
      y = y + b_;
      y = y * c_;
    }
    return tape.gradient(sum(y), sources);
  }

  bool scalar_;
  Tensor x_ = hashed(1, {2, 2}), b_ = hashed(2, {2, 2}, .05), c_ = hashed(3, {2, 2}, .05) + 1.0;
};

// Euler steps of x' = 2 - x^2 on one number.
class Scan final : public Instance {
 public:
  static constexpr int kSteps = 10000;

  explicit Scan(Mode mode) : mode_(mode) {}
  std::vector<double> check() override { return {end().item<double>()}; }
  void run() override { keep(end()); }

 private:
  Tensor end() const { return mode_ == Mode::kStaged ? staged_(Tensor(.5f), steps_) : by_host(); }
  static Tensor next(const Tensor& x) { return x + 1e-3 * (2.0 - x * x); }
  static Tensor by_host() {
    Tensor x = .5f;
    for (int i = 0; i < kSteps; ++i) x = next(x);
    return x;
  }
  static Tensor by_fold(const Tensor& x, const Tensor& steps) {
    return fold([](const Tensor& now, const Tensor&) { return next(now); }, x, steps);
  }

  Mode mode_;
  Tensor steps_ = arange(0, {.stop = kSteps});
  Function<Tensor(const Tensor&, const Tensor&)> staged_ = function(by_fold);
};

class MatmulMany final : public Instance {
 public:
  MatmulMany(int64_t n, Mode mode) : x_(hashed(5, {n, n})), w_(rotation(n)), mode_(mode) {}
  std::vector<double> check() override { return digest({result()}); }
  void run() override { keep(result()); }

 private:
  Tensor result() const { return mode_ == Mode::kStaged ? staged_(x_, w_) : chain(x_, w_); }
  static Tensor chain(const Tensor& from, const Tensor& w) {
    Tensor x = from;
    for (int i = 0; i < 100; ++i) x = matmul(x, w);
    return x;
  }
  Tensor x_, w_;
  Mode mode_;
  Function<Tensor(const Tensor&, const Tensor&)> staged_ = function(chain);
};

// The cost of one call of a staged function with so many arguments: (a0 + 1) + a1 + ...
class Call final : public Instance {
 public:
  explicit Call(uint64_t arguments) {
    for (uint64_t i = 0; i < arguments; ++i) a_.push_back(hashed(i, {2, 2}));
  }
  std::vector<double> check() override { return digest({call()}); }
  void run() override { keep(call()); }

 private:
  Tensor call() const {
    return a_.size() == 1 ? one_(a_[0])
                          : eight_(a_[0], a_[1], a_[2], a_[3], a_[4], a_[5], a_[6], a_[7]);
  }
  std::vector<Tensor> a_;
  Function<Tensor(const Tensor&)> one_ = function([](const Tensor& a) { return a + 1.0F; });
  using T = Tensor;
  Function<T(const T&, const T&, const T&, const T&, const T&, const T&, const T&, const T&)>
      eight_ =
          function([](const T& a, const T& b, const T& c, const T& d, const T& e, const T& f,
                      const T& g, const T& h) { return a + 1.0F + b + c + d + e + f + g + h; });
};

// The cost of one call of a function that has many graphs, one for each value of a host number. The
// calls go through all graphs.
class CallOfManyGraphs final : public Instance {
 public:
  static constexpr int kGraphs = 10000, kCalls = 1000;
  CallOfManyGraphs() {
    for (int k = 0; k < kGraphs; ++k) f_(k, x_);
  }
  std::vector<double> check() override { return digest({f_(1, x_), f_(kGraphs - 1, x_)}); }
  void run() override {
    constexpr int kStep = 7919;  // prime, so that the calls reach all graphs
    for (int i = 0; i < kCalls; ++i) {
      next_ = (next_ + kStep) % kGraphs;
      keep(f_(next_, x_));
    }
  }

 private:
  Tensor x_ = hashed(0, {2, 2});
  int next_ = 0;
  Function<Tensor(int, const Tensor&)> f_ =
      function([](int k, const Tensor& x) { return x * static_cast<float>(k); });
};

// The cost of one call with a structure of 100 tensors, which returns another: as a struct, and as
// Parts.
struct Hundred {
  std::array<Tensor, 100> items;
};
template <class Structure>
class CallOfStructure final : public Instance {
 public:
  CallOfStructure() {
    Hundred made;
    for (uint64_t i = 0; i < made.items.size(); ++i) made.items[i] = hashed(i, {2, 2});
    if constexpr (std::is_same_v<Structure, Parts>) {
      at_ = parts_of(made);
    } else {
      at_ = std::move(made);
    }
  }
  std::vector<double> check() override {
    Hundred out;
    if constexpr (std::is_same_v<Structure, Parts>) {
      assign_parts(out, staged_(at_));
    } else {
      out = staged_(at_);
    }
    return digest({out.items[0], out.items[99]});
  }
  void run() override {
    const Structure out = staged_(at_);
    if constexpr (std::is_same_v<Structure, Parts>) {
      keep(out.tensor("items/0"));
    } else {
      keep(out.items[0]);
    }
  }

 private:
  static Structure next(const Structure& x) {
    return map_leaves<Tensor>(x, [](const Tensor& item) { return item + 1.0F; });
  }
  Structure at_;
  Function<Structure(const Structure&)> staged_ = function(next);
};

// The gradient of a sum of squares, read one by one. Its time should grow as the number of reads.
class ReadGradient final : public Instance {
 public:
  static constexpr int64_t kReads = 4000;

  explicit ReadGradient(Mode mode) : is_staged_(mode == Mode::kStaged) {}
  static Tensor x() { return hashed(30, {kReads}); }
  std::vector<double> check() override { return digest({slope(x_)}); }
  void run() override { keep(slope(x_)); }
  // The slope of log(time) by log(n).
  std::vector<std::pair<std::string, double>> details() override {
    constexpr int kTimes = 4;
    const Tensor few = hashed(31, {kReads / kTimes});
    return {{"slope", std::log(seconds(x_) / seconds(few)) / std::log(kTimes)}};
  }

 private:
  static Tensor reads(const Tensor& x) {
    Tensor s(0.0F);
    for (int64_t i = 0; i < x.size(); ++i) s += x.at(i) * x.at(i);
    return s;
  }
  static Tensor slope_of_reads(const Tensor& x) { return gradient(reads, x); }
  Tensor slope(const Tensor& x) const { return is_staged_ ? staged_(x) : slope_of_reads(x); }
  double seconds(const Tensor& x) const {
    using Clock = std::chrono::steady_clock;
    std::chrono::duration<double> best = Clock::duration::max();
    for (int i = 0; i < 5; ++i) {
      const Clock::time_point start = Clock::now();
      keep(slope(x));
      best = std::min<std::chrono::duration<double>>(best, Clock::now() - start);
    }
    return best.count();
  }

  bool is_staged_;
  Tensor x_ = x();
  Function<Tensor(const Tensor&)> staged_ = function(slope_of_reads);
};

}  // namespace

std::vector<Workload> small_workloads() {
  return {
      {.name = "add_2x2",
       .expected = {.3667149, .8493364},
       .make = [] { return std::make_unique<Add>(); }},
      {.name = "add_chain_2x2",
       .expected = {.3667208, .84934},
       .units = 1000,
       .make = [] { return std::make_unique<AddChain>(); }},
      {.name = "add_in_scope_2x2",
       .expected = {.3667208, .84934},
       .units = 1000,
       .make = [] { return std::make_unique<AddInScope>(); }},
      {.name = "tape_add_2x2",
       .expected = {1, 100},
       .units = 100,
       .make = [] { return std::make_unique<TapeAdd>(); }},
      {.name = "tape100_2x2",
       .expected = {.5482334, .4172545, 31.07351, 31.02837, 13.34077, 17.69263},
       .units = 100,
       .make = [] { return std::make_unique<Tape100>(false); }},
      {.name = "tape100_scalar",
       .expected = {.3856547, 31.93231, 38.93129},
       .units = 100,
       .make = [] { return std::make_unique<Tape100>(true); }},
      in_both_modes("matmul_many_2x2", {-.2164536, .4956818},
                    [](Mode mode) { return std::make_unique<MatmulMany>(2, mode); }),
      in_both_modes("matmul_many_16x16", {-.3436749, .501836},
                    [](Mode mode) { return std::make_unique<MatmulMany>(16, mode); }),
      {.name = "call_1",
       .expected = {1.359849, 1.077256},
       .staged = [] { return std::make_unique<Call>(1); }},
      {.name = "call_8",
       .expected = {1.745935, 1.717928},
       .staged = [] { return std::make_unique<Call>(8); }},
      {.name = "call_many_graphs",
       .expected = {.6448672, .4638059, 6448.027, 4637.595},
       .units = CallOfManyGraphs::kCalls,
       .staged = [] { return std::make_unique<CallOfManyGraphs>(); }},
      {.name = "call_100",
       .expected = {1.359849, 1.077256, 0.2915962, 1.218503},
       .staged = [] { return std::make_unique<CallOfStructure<Hundred>>(); }},
      {.name = "call_100_parts",
       .expected = {1.359849, 1.077256, 0.2915962, 1.218503},
       .staged = [] { return std::make_unique<CallOfStructure<Parts>>(); }},
      {.name = "scan",
       .expected = {1.414193},
       .units = Scan::kSteps,
       .make = [] { return std::make_unique<Scan>(Mode::kEager); },
       .staged = [] { return std::make_unique<Scan>(Mode::kStaged); }},
      in_both_modes("read_gradient", digest({2.0 * ReadGradient::x()}),
                    [](Mode mode) { return std::make_unique<ReadGradient>(mode); }),
  };
}

}  // namespace etude::bench
