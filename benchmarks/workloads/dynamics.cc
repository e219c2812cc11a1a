// SPDX-License-Identifier: Apache-2.0
// Training steps that are long chains of small calls: a sampler whose leapfrog steps are steered by
// two small networks, and a recurrent cell over fifty time steps.
#include <array>
#include <cmath>
#include <numbers>

#include "benchmarks/workloads/training.h"
#include "etude/ops.h"
#include "etude/stage/control_flow.h"

namespace etude::bench {
namespace {

// Scale, translation of the state and translation of the gradient, from two states and the time.
struct Net {
  explicit Net(uint64_t s)
      : wa(hashed(s, {2, 10}, .5)),
        wb(hashed(s + 1, {2, 10}, .5)),
        wt(hashed(s + 2, {2, 10}, .5)),
        w2(hashed(s + 3, {10, 10}, .5)),
        ws(hashed(s + 4, {10, 2}, .5)),
        wf(hashed(s + 5, {10, 2}, .5)),
        wq(hashed(s + 6, {10, 2}, .5)) {}

  Tensor wa, wb, wt, w2, ws, wf, wq;
  Tensor b1 = zeros({10}), b2 = zeros({10}), bs = zeros({2}), bf = zeros({2}), bq = zeros({2});
  Tensor cs = zeros({2}), cf = zeros({2});
  ETUDE_FIELDS(Net, wa, wb, wt, b1, w2, b2, ws, bs, wf, bf, wq, bq, cs, cf);

  struct Out {
    Tensor s, q, f;
  };
  Out operator()(const Tensor& a, const Tensor& b, const Tensor& t) const {
    Tensor h = nn::relu(matmul(a, wa) + matmul(b, wb) + matmul(t, wt) + b1);
    h = nn::relu(matmul(h, w2) + b2);
    return {tanh(matmul(h, ws) + bs) * exp(cs), matmul(h, wq) + bq,
            tanh(matmul(h, wf) + bf) * exp(cf)};
  }
};

struct Sampler {
  std::array<Net, 2> nets = {Net(200), Net(220)};  // of positions, of momenta
  Tensor eps = .1f;
};

// One proposal of n chains: ten leapfrog steps through both networks.
class Proposal {
 public:
  explicit Proposal(int64_t n)
      : precision_({{2, .6f}, {.6f, 1}}), x_(hashed(250, {n, 2}, 2)), v_(hashed(251, {n, 2}, 1.5)) {
    for (int i = 0; i < 10; ++i) {
      const double angle = 2 * std::numbers::pi * i / 10;
      times_.push_back(Tensor(std::vector<float>{static_cast<float>(std::cos(angle)),
                                                 static_cast<float>(std::sin(angle))}));
    }
  }

  // How far accepted proposals go, as a loss.
  Tensor operator()(const Sampler& sampler) const {
    State at{x_, v_, Tensor(0.f)};
    for (std::size_t i = 0; i < times_.size(); ++i) {
      const Tensor &k = masks_[i % 2], &u = masks_[1 - i % 2], &t = times_[i];
      momentum(sampler, at, t);
      position(sampler, at, t, k, u);
      position(sampler, at, t, u, k);
      momentum(sampler, at, t);
    }
    const Tensor change = energy(x_, v_) - energy(at.x, at.v) + at.log_determinant;
    const Tensor accept = exp(minimum(0.0, change)), away = x_ - at.x;
    const Tensor far = sum(away * away, {.axis = {-1}}) * accept + 1e-4;
    return mean(.1 / far - far / .1);
  }

 private:
  struct State {
    Tensor x, v, log_determinant;
  };

  void momentum(const Sampler& sampler, State& at, const Tensor& t) const {
    const Tensor g = matmul(at.x, precision_), &eps = sampler.eps;
    const auto [s, q, f] = sampler.nets[1](at.x, g, t);
    const Tensor half = .5 * eps;
    at.v = at.v * exp(half * s) - half * (exp(eps * q) * g - f);
    at.log_determinant = at.log_determinant + half * sum(s, {.axis = {-1}});
  }
  void position(const Sampler& sampler, State& at, const Tensor& t, const Tensor& k,
                const Tensor& u) const {
    const Tensor& eps = sampler.eps;
    const auto [s, q, f] = sampler.nets[0](at.v, k * at.x, t);
    at.x = k * at.x + u * (at.x * exp(eps * s) + eps * (exp(eps * q) * at.v + f));
    at.log_determinant = at.log_determinant + eps * sum(u * s, {.axis = {-1}});
  }
  Tensor energy(const Tensor& x, const Tensor& v) const {
    return .5 * sum(matmul(x, precision_) * x, {.axis = {-1}}) + .5 * sum(v * v, {.axis = {-1}});
  }

  Tensor precision_, x_, v_;
  std::array<Tensor, 2> masks_ = {Tensor({1.f, 0.f}), Tensor({0.f, 1.f})};
  std::vector<Tensor> times_;
};

struct Cell {
  Tensor wx = glorot(1, {64, 64}), wh = glorot(2, {64, 64}), b = hashed(3, {64}, .1);

  Tensor operator()(const Tensor& x, const Tensor& h) const {
    return tanh(matmul(x, wx) + matmul(h, wh) + b);
  }
};

std::unique_ptr<Instance> recurrent(Mode mode) {
  const Tensor xs = hashed(4, {50, 16, 64});
  const auto by_host = [rows = unstack(xs)](const Cell& cell) {
    Tensor h = zeros({16, 64});
    for (const Tensor& x : rows) h = cell(x, h);
    return mean(h * h);
  };
  const auto by_fold = [xs](const Cell& cell) {
    const Tensor last =
        fold([&](const Tensor& h, const Tensor& x) { return cell(x, h); }, zeros({16, 64}), xs);
    return mean(last * last);
  };
  if (mode == Mode::kStaged) return training(Cell{}, 1e-2, by_fold, mode);
  return training(Cell{}, 1e-2, by_host, mode);
}

}  // namespace

std::vector<Workload> dynamic_workloads() {
  const auto l2hmc = [](int64_t chains) {
    return [chains](Mode mode) { return training(Sampler{}, 1e-5, Proposal(chains), mode); };
  };
  return {
      in_both_modes("l2hmc_10", {-21.04338, -23.47849, -26.04367}, l2hmc(10)),
      in_both_modes("l2hmc_200", {-18.49098, -19.70679, -20.97344}, l2hmc(200)),
      in_both_modes("rnn_fb", {.3065847, .3062464, .3059086}, recurrent),
  };
}

}  // namespace etude::bench
