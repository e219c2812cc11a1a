// SPDX-License-Identifier: Apache-2.0
// The workloads where calls cost more than arithmetic, in libtorch: PyTorch's C++ library, without
// its interpreter. run.py compiles this against the installed wheel.
#include "benchmarks/worker.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <numbers>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/version.h>

#include "benchmarks/workloads/values.h"

namespace etude::bench {
namespace {

using torch::Tensor;
using Shape = std::vector<int64_t>;
using torch::autograd::grad;

Tensor from_values(std::vector<float> values, const Shape& shape) {
  return torch::from_blob(values.data(), shape, torch::kFloat32).clone();
}

Tensor hashed(uint64_t seed, const Shape& shape, double scale = 1) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return from_values(hashed_values(seed, static_cast<std::size_t>(count), scale), shape);
}

Tensor glorot(uint64_t seed, const Shape& shape) {
  return hashed(seed, shape, glorot_scale(shape));
}

std::vector<double> digest(const std::vector<Tensor>& arrays) {
  std::vector<double> out;
  for (const Tensor& array : arrays) {
    const Tensor flat = array.detach().contiguous();
    const float* data = flat.data_ptr<float>();
    add_digest(out, std::vector<float>(data, data + flat.numel()));
  }
  return out;
}

void keep(const Tensor& x) {
  const void* volatile sink = x.unsafeGetTensorImpl();
  static_cast<void>(sink);
}

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

class TapeAdd final : public Instance {
 public:
  std::vector<double> check() override {
    const std::vector<Tensor> back = step();
    return {back[0][1][1].item<double>(), back[1][0][0].item<double>()};
  }
  void run() override { keep(step()[0]); }

 private:
  std::vector<Tensor> step() const {
    Tensor y = x_;
    for (int i = 0; i < 100; ++i) y = y + b_;
    return grad({y}, {x_, b_}, {torch::ones({2, 2})});
  }
  Tensor x_ = hashed(1, {2, 2}).requires_grad_(), b_ = hashed(2, {2, 2}, .05).requires_grad_();
};

class Tape100 final : public Instance {
 public:
  explicit Tape100(bool scalar) : scalar_(scalar) {
    for (Tensor* t : {&x_, &b_, &c_}) {
      if (scalar) *t = (*t)[0][0].clone();
      t->requires_grad_();
    }
  }
  std::vector<double> check() override {
    const std::vector<Tensor> grads = step();
    if (!scalar_) return digest(grads);
    std::vector<double> out;
    for (const Tensor& g : grads) out.push_back(g.item<double>());
    return out;
  }
  void run() override { keep(step()[0]); }

 private:
  std::vector<Tensor> step() const {
    Tensor y = x_;
    for (int i = 0; i < 50; ++i) {
      y = y + b_;
      y = y * c_;
    }
    return grad({y.sum()}, {x_, b_, c_});
  }
  bool scalar_;
  Tensor x_ = hashed(1, {2, 2}), b_ = hashed(2, {2, 2}, .05), c_ = 1 + hashed(3, {2, 2}, .05);
};

class MatmulMany final : public Instance {
 public:
  explicit MatmulMany(int64_t n)
      : x_(hashed(5, {n, n})),
        w_(from_values(rotation_values(static_cast<std::size_t>(n)), {n, n})) {}
  std::vector<double> check() override { return digest({chain()}); }
  void run() override { keep(chain()); }

 private:
  Tensor chain() const {
    Tensor x = x_;
    for (int i = 0; i < 100; ++i) x = torch::matmul(x, w_);
    return x;
  }
  Tensor x_, w_;
};

class Scan final : public Instance {
 public:
  std::vector<double> check() override { return {end().item<double>()}; }
  void run() override { keep(end()); }

 private:
  static Tensor end() {
    Tensor x = torch::tensor(.5f);
    for (int i = 0; i < 10000; ++i) x = x + 1e-3 * (2 - x * x);
    return x;
  }
};

// Steps of plain SGD on `parameters`; the check is the losses of the first three.
class Training : public Instance {
 public:
  explicit Training(double rate) : rate_(rate) {}
  std::vector<double> check() override {
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(step().item<double>());
    return losses;
  }
  void run() override { keep(step()); }

 protected:
  virtual Tensor loss() const = 0;
  std::vector<Tensor> parameters_;

 private:
  Tensor step() {
    for (const Tensor& p : parameters_) p.requires_grad_();
    const Tensor value = loss();
    const std::vector<Tensor> grads = grad({value}, parameters_);
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < grads.size(); ++i) parameters_[i].sub_(grads[i], rate_);
    return value;
  }
  double rate_;
};

class L2hmc final : public Training {
 public:
  explicit L2hmc(int64_t n)
      : Training(1e-5), x0_(hashed(250, {n, 2}, 2)), v0_(hashed(251, {n, 2}, 1.5)) {
    for (std::size_t i = 0; i < 2; ++i) {
      nets_[i] = net(i == 0 ? 200 : 220);
      parameters_.insert(parameters_.end(), nets_[i].begin(), nets_[i].end());
    }
    parameters_.push_back(eps_);
    for (int i = 0; i < 10; ++i) {
      const double angle = 2 * std::numbers::pi * i / 10;
      times_.push_back(torch::tensor(
          {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))}));
    }
  }

 private:
  struct Out {
    Tensor s, q, f;
  };
  using Net = std::vector<Tensor>;

  static Net net(uint64_t s) {
    using torch::zeros;
    return {hashed(s, {2, 10}, .5),
            hashed(s + 1, {2, 10}, .5),
            hashed(s + 2, {2, 10}, .5),
            zeros({10}),
            hashed(s + 3, {10, 10}, .5),
            zeros({10}),
            hashed(s + 4, {10, 2}, .5),
            zeros({2}),
            hashed(s + 5, {10, 2}, .5),
            zeros({2}),
            hashed(s + 6, {10, 2}, .5),
            zeros({2}),
            zeros({2}),
            zeros({2})};
  }
  static Out steer(const Net& n, const Tensor& a, const Tensor& b, const Tensor& t) {
    using namespace torch;
    Tensor h = relu(matmul(a, n[0]) + matmul(b, n[1]) + matmul(t, n[2]) + n[3]);
    h = relu(addmm(n[5], h, n[4]));
    return {tanh(addmm(n[7], h, n[6])) * exp(n[12]), addmm(n[11], h, n[10]),
            tanh(addmm(n[9], h, n[8])) * exp(n[13])};
  }
  void momentum(const Tensor& x, Tensor& v, Tensor& logdet, const Tensor& t) const {
    const Tensor g = torch::matmul(x, precision_);
    const auto [s, q, f] = steer(nets_[1], x, g, t);
    const Tensor half = .5 * eps_;
    v = v * torch::exp(half * s) - half * (torch::exp(eps_ * q) * g - f);
    logdet = logdet + half * s.sum(-1);
  }
  void position(Tensor& x, const Tensor& v, Tensor& logdet, const Tensor& t, const Tensor& k,
                const Tensor& u) const {
    const auto [s, q, f] = steer(nets_[0], v, k * x, t);
    x = k * x + u * (x * torch::exp(eps_ * s) + eps_ * (torch::exp(eps_ * q) * v + f));
    logdet = logdet + eps_ * (u * s).sum(-1);
  }
  Tensor energy(const Tensor& x, const Tensor& v) const {
    return .5 * (torch::matmul(x, precision_) * x).sum(-1) + .5 * (v * v).sum(-1);
  }
  Tensor loss() const override {
    Tensor x = x0_, v = v0_, logdet = torch::tensor(0.f);
    for (std::size_t i = 0; i < times_.size(); ++i) {
      const Tensor &k = masks_[i % 2], &u = masks_[1 - i % 2], &t = times_[i];
      momentum(x, v, logdet, t);
      position(x, v, logdet, t, k, u);
      position(x, v, logdet, t, u, k);
      momentum(x, v, logdet, t);
    }
    const Tensor change = energy(x0_, v0_) - energy(x, v) + logdet, away = x0_ - x;
    const Tensor far = (away * away).sum(-1) * torch::exp(torch::clamp_max(change, 0)) + 1e-4;
    return (.1 / far - far / .1).mean();
  }

  std::array<Net, 2> nets_;
  Tensor eps_ = torch::tensor(.1f), x0_, v0_;
  Tensor precision_ = torch::tensor({2.f, .6f, .6f, 1.f}).reshape({2, 2});
  std::array<Tensor, 2> masks_ = {torch::tensor({1.f, 0.f}), torch::tensor({0.f, 1.f})};
  std::vector<Tensor> times_;
};

class Rnn final : public Training {
 public:
  Rnn() : Training(1e-2), xs_(hashed(4, {50, 16, 64}).unbind()) {
    parameters_ = {glorot(1, {64, 64}), glorot(2, {64, 64}), hashed(3, {64}, .1)};
  }

 private:
  Tensor loss() const override {
    const Tensor &wx = parameters_[0], &wh = parameters_[1], &b = parameters_[2];
    Tensor h = torch::zeros({16, 64});
    for (const Tensor& x : xs_) h = torch::tanh(torch::addmm(b, x, wx) + torch::matmul(h, wh));
    return (h * h).mean();
  }
  std::vector<Tensor> xs_;
};

class Mlp final : public Training {
 public:
  explicit Mlp(int64_t batch) : Training(.05), x_(hashed(4, {batch, 784})) {
    constexpr std::array<int64_t, 4> kSizes = {784, 256, 256, 10};
    for (std::size_t i = 0; i < 3; ++i) {
      parameters_.push_back(glorot(i + 1, {kSizes[i], kSizes[i + 1]}));
      parameters_.push_back(torch::zeros({kSizes[i + 1]}));
    }
    labels_ = torch::tensor(label_values<int64_t>(batch));
  }

 private:
  Tensor loss() const override {
    const std::vector<Tensor>& p = parameters_;
    Tensor h = torch::relu(torch::addmm(p[1], x_, p[0]));
    h = torch::relu(torch::addmm(p[3], h, p[2]));
    return torch::cross_entropy_loss(torch::addmm(p[5], h, p[4]), labels_);
  }
  Tensor x_, labels_;
};

template <class T, class... Args>
Workload workload(std::string name, double units, std::vector<double> expected, Args... args) {
  return {.name = std::move(name), .expected = std::move(expected), .units = units, .make = [=] {
            return std::make_unique<T>(args...);
          }};
}

std::vector<Workload> workloads() {
  return {
      workload<Add>("add_2x2", 1, {.3667149, .8493364}),
      workload<AddChain>("add_chain_2x2", 1000, {.3667208, .84934}),
      workload<TapeAdd>("tape_add_2x2", 100, {1, 100}),
      workload<Tape100>("tape100_2x2", 100,
                        {.5482334, .4172545, 31.07351, 31.02837, 13.34077, 17.69263}, false),
      workload<Tape100>("tape100_scalar", 100, {.3856547, 31.93231, 38.93129}, true),
      workload<MatmulMany>("matmul_many_2x2", 1, {-.2164536, .4956818}, 2),
      workload<MatmulMany>("matmul_many_16x16", 1, {-.3436749, .501836}, 16),
      workload<Scan>("scan", 10000, {1.414193}),
      workload<L2hmc>("l2hmc_10", 1, {-21.04338, -23.47849, -26.04367}, 10),
      workload<L2hmc>("l2hmc_200", 1, {-18.49098, -19.70679, -20.97344}, 200),
      workload<Rnn>("rnn_fb", 1, {.3065847, .3062464, .3059086}),
      workload<Mlp>("mlp_b32", 1, {2.347079, 2.079925, 1.848816}, 32),
      workload<Mlp>("mlp_b128", 1, {2.404194, 2.329789, 2.260331}, 128),
  };
}

}  // namespace
}  // namespace etude::bench

int main(int argc, char** argv) {
  const char* threads = std::getenv("BENCH_THREADS");
  at::set_num_threads(threads != nullptr ? std::atoi(threads) : 1);
  at::globalContext().setFlushDenormal(true);
  return etude::bench::run_worker(argc, argv, {"libtorch", TORCH_VERSION},
                                  etude::bench::workloads());
}
