// SPDX-License-Identifier: Apache-2.0
// Training steps of small networks: forward, gradients of all parameters, plain SGD; and an epoch
// of a whole program. Models are plain structs; the check is the losses of the first three steps.
#include <array>

#include "benchmarks/workloads/training.h"
#include "etude/data/loader.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"

namespace etude::bench {
namespace {

constexpr double kRate = .05;

struct Layer {
  Tensor w, b;
};

Layer layer(uint64_t seed, const Shape& shape) {
  return {glorot(seed, shape), full({shape[shape.rank() - 1]}, 0.0)};
}

Tensor dense(const Layer& l, const Tensor& x) { return matmul(x, l.w) + l.b; }

struct Mlp {
  std::array<Layer, 3> layers = {layer(1, {784, 256}), layer(2, {256, 256}), layer(3, {256, 10})};

  Tensor operator()(const Tensor& x) const {
    return dense(layers[2], nn::relu(dense(layers[1], nn::relu(dense(layers[0], x)))));
  }
};

struct LeNet {
  Layer conv1 = layer(1, {5, 5, 1, 6}), conv2 = layer(2, {5, 5, 6, 16});
  std::array<Layer, 3> layers = {layer(3, {400, 120}), layer(4, {120, 84}), layer(5, {84, 10})};

  Tensor operator()(const Tensor& x) const {
    Tensor h = nn::conv2d(x, conv1.w, {.padding = "same", .bias = conv1.b});
    h = nn::avg_pool2d(nn::relu(h), {2, 2});
    h = nn::conv2d(h, conv2.w, {.bias = conv2.b});
    h = nn::avg_pool2d(nn::relu(h), {2, 2});
    h = reshape(h, {-1, 400});
    return dense(layers[2], nn::relu(dense(layers[1], nn::relu(dense(layers[0], h)))));
  }
};

// Batches taken from all images in memory, and Adam: a tenth of an epoch is timed.
class Epoch final : public Instance {
 public:
  static constexpr int64_t kImages = 60000, kBatch = 128, kTimed = 47;
  static constexpr double kUnits = static_cast<double>(kTimed * kBatch) / kImages;

  std::vector<double> check() override {
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(step().item<double>());
    return losses;
  }
  void run() override {
    for (int64_t i = 0; i < kTimed; ++i) keep(step());
  }

 private:
  Tensor step() {
    const data::Samples batch = batches_.next();
    const auto [loss, grads] = value_with_gradient(
        [&](const LeNet& m) { return nn::softmax_cross_entropy(m(batch.inputs), batch.labels); },
        model_);
    adam_.update(model_, grads);
    return loss;
  }

  data::Loader<data::Samples> batches_{{hashed(6, {kImages, 28, 28, 1}), labels(kImages)},
                                       {.batch = kBatch, .shuffle = false}};
  LeNet model_;
  optim::Adam adam_{{.lr = 1e-3}};
};

template <class Model>
std::unique_ptr<Instance> classification(const Tensor& x, Mode mode) {
  const auto loss = [x, y = labels(x.shape()[0])](const Model& m) {
    return nn::softmax_cross_entropy(m(x), y);
  };
  return training(Model{}, kRate, loss, mode);
}

}  // namespace

std::vector<Workload> network_workloads() {
  const auto mlp = [](int64_t batch) {
    return [batch](Mode mode) { return classification<Mlp>(hashed(4, {batch, 784}), mode); };
  };
  const auto lenet = [](int64_t batch) {
    return [batch](Mode mode) {
      return classification<LeNet>(hashed(6, {batch, 28, 28, 1}), mode);
    };
  };
  return {
      in_both_modes("mlp_b32", {2.347079, 2.079925, 1.848816}, mlp(32)),
      in_both_modes("mlp_b128", {2.404194, 2.329789, 2.260331}, mlp(128)),
      in_both_modes("lenet_b64", {2.298409, 2.297743, 2.297112}, lenet(64)),
      in_both_modes("lenet_b128", {2.301838, 2.301542, 2.301272}, lenet(128)),
      {.name = "epoch", .units = Epoch::kUnits, .make = [] { return std::make_unique<Epoch>(); }},
  };
}

}  // namespace etude::bench
