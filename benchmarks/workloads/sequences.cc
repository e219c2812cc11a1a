// SPDX-License-Identifier: Apache-2.0
// Recurrent layers, attention, a large table, and a model of many small parameters.
#include <vector>

#include "benchmarks/workloads/training.h"
#include "etude/nn/layers/embedding.h"
#include "etude/nn/layers/recurrent.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"

namespace etude::bench {
namespace {

constexpr int64_t kBatch = 32, kTime = 50, kHidden = 128;

nn::LSTMCell lstm_cell() {
  nn::LSTMCell cell(kHidden, kHidden);
  cell.weight = glorot(1, {2 * kHidden, 4 * kHidden});
  return cell;
}
nn::GRUCell gru_cell() {
  nn::GRUCell cell(kHidden, kHidden);
  cell.weight = glorot(1, {kHidden, 3 * kHidden});
  cell.recurrent = glorot(2, {kHidden, 3 * kHidden});
  return cell;
}

template <class Cell>
std::unique_ptr<Instance> recurrent(const Cell& cell, Mode mode) {
  const auto loss = [x = hashed(4, {kBatch, kTime, kHidden})](const nn::Recurrent<Cell>& layer) {
    const Tensor y = layer(x);
    return sum(y * y) / static_cast<double>(kBatch);
  };
  return training(nn::Recurrent<Cell>(cell), 4e-3, loss, mode);
}

// The three gradients of attention of eight heads.
class Attention final : public Instance {
 public:
  explicit Attention(int64_t steps) : shape_({1, 8, steps, 64}) {}

  std::vector<double> check() override { return digest(results()); }
  void run() override { keep(results()); }

 private:
  std::vector<Tensor> results() const {
    const auto [dq, dk, dv] =
        pullback([](const Tensor& q, const Tensor& k,
                    const Tensor& v) { return nn::scaled_dot_product_attention(q, k, v); },
                 q_, k_, v_)(cotangent_);
    return {dq, dk, dv};
  }

  Shape shape_;
  Tensor q_ = hashed(1, shape_, 2), k_ = hashed(2, shape_, 2), v_ = hashed(3, shape_);
  Tensor cotangent_ = hashed(9, shape_);
};

// Rows of a table of 50,000 words are moved by Adam.
class EmbeddingStep final : public Instance {
 public:
  static constexpr int64_t kRows = 50000, kSize = 128, kIds = 1024;

  EmbeddingStep() : words_(kRows, kSize) {
    words_.table = hashed(1, {kRows, kSize}, .05);
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < kIds; ++i) ids.push_back(i * 48271 % kRows);
    ids_ = Tensor(ids);
  }
  std::vector<double> check() override {
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(step().item<double>());
    return losses;
  }
  void run() override { keep(step()); }

 private:
  Tensor step() {
    const auto [loss, grads] = value_with_gradient(
        [&](const nn::Embedding& m) { return mean(square(m(ids_) - wanted_)); }, words_);
    adam_.update(words_, grads);
    return loss;
  }

  nn::Embedding words_;
  Tensor ids_, wanted_ = hashed(2, {kIds, kSize});
  optim::Adam adam_{{.lr = 1e-2}};
};

// Adam over 500 tensors of 1,000 numbers, with gradients that are there.
class ManyTensors final : public Instance {
 public:
  ManyTensors() {
    for (uint64_t i = 0; i < 500; ++i) {
      parameters_.push_back(hashed(2 * i, {1000}));
      gradients_.push_back(hashed(2 * i + 1, {1000}));
    }
  }
  std::vector<double> check() override {
    for (int i = 0; i < 3; ++i) adam_.update(parameters_, gradients_);
    return digest({parameters_.front(), parameters_.back()});
  }
  void run() override {
    adam_.update(parameters_, gradients_);
    keep(parameters_.back());
  }

 private:
  std::vector<Tensor> parameters_, gradients_;
  optim::Adam adam_{{.lr = 1e-3}};
};

Workload attention(std::string name, int64_t steps, std::vector<double> expected) {
  return {.name = std::move(name), .expected = std::move(expected), .make = [steps] {
            return std::make_unique<Attention>(steps);
          }};
}

}  // namespace

std::vector<Workload> sequence_workloads() {
  return {
      in_both_modes("lstm_fb", {51.12349, 50.15818, 49.21868},
                    [](Mode mode) { return recurrent(lstm_cell(), mode); }),
      in_both_modes("gru_fb", {299.8787, 279.5302, 261.0835},
                    [](Mode mode) { return recurrent(gru_cell(), mode); }),
      attention("attention_512", 512,
                {-.04400985, .02880728, -.01498746, .02909784, .03274145, .04542269}),
      attention("attention_2048", 2048,
                {-.01711175, .01526882, .0009551058, .01545196, .01378115, .02354978}),
      {.name = "embedding_adam",
       .expected = {.3336786, .3237926, .3141094},
       .make = [] { return std::make_unique<EmbeddingStep>(); }},
      {.name = "adam_500",
       .expected = {-.06715813, .494662, -.2932614, .5004452},
       .make = [] { return std::make_unique<ManyTensors>(); }},
  };
}

}  // namespace etude::bench
