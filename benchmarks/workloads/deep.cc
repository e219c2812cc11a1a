// SPDX-License-Identifier: Apache-2.0
// Training steps where libraries meet: a residual network and a transformer block.
#include <cmath>
#include <tuple>

#include "benchmarks/workloads/training.h"
#include "etude/nn/layers/norm.h"
#include "etude/ops.h"

namespace etude::bench {
namespace {

constexpr double kEpsilon = 1e-5;

// A convolution without bias, then batch normalisation.
struct ConvNorm {
  ConvNorm(int64_t number, int64_t size, int64_t in, int64_t out, int64_t stride)
      : filter(hashed(static_cast<uint64_t>(100 + number), {size, size, in, out},
                      std::sqrt(6.0 / static_cast<double>(size * size * in)))),
        norm(out, {.momentum = .9, .epsilon = kEpsilon}),
        stride_(stride) {}

  Tensor operator()(const Tensor& x, nn::BatchStatistics& statistics) const {
    const int64_t pad = filter.shape()[0] / 2;
    return norm.train(
        nn::conv2d(x, filter, {.strides = stride_, .explicit_padding = {pad, pad, pad, pad}}),
        statistics);
  }

  Tensor filter;
  nn::BatchNorm norm;
  ETUDE_FIELDS(ConvNorm, filter, norm);
  auto host_values() const { return std::tie(stride_); }

 private:
  int64_t stride_;
};

struct Block {
  ConvNorm first, second;
  std::vector<ConvNorm> projection;  // none, or one
};

struct ResNet56 {
  ConvNorm stem{1, 3, 3, 16, 1};
  std::vector<Block> blocks = make_blocks();
  Tensor w = glorot(99, {64, 10}), b = zeros({10});

  static std::vector<Block> make_blocks() {
    std::vector<Block> out;
    int64_t number = 2, in = 16;
    for (const int64_t width : {16, 32, 64}) {
      for (int i = 0; i < 9; ++i, in = width) {
        const int64_t stride = width != in ? 2 : 1;
        Block block{{number, 3, in, width, stride}, {number + 1, 3, width, width, 1}, {}};
        number += 2;
        if (stride == 2) block.projection.push_back({number++, 1, in, width, stride});
        out.push_back(std::move(block));
      }
    }
    return out;
  }

  // The running statistics follow, in the order of the layers.
  Tensor operator()(Tensor x, std::vector<nn::BatchStatistics>& running) const {
    auto at = running.begin();
    x = nn::relu(stem(x, *at++));
    for (const Block& block : blocks) {
      Tensor y = block.second(nn::relu(block.first(x, *at++)), *at++);
      if (!block.projection.empty()) x = block.projection[0](x, *at++);
      x = nn::relu(std::move(y) + x);
    }
    return matmul(mean(x, {.axis = {1, 2}}), w) + b;
  }
};

std::vector<nn::BatchStatistics> statistics_of(const ResNet56& model) {
  std::vector<nn::BatchStatistics> out = {model.stem.norm.running.value};
  for (const Block& block : model.blocks) {
    for (const ConvNorm* layer : {&block.first, &block.second})
      out.push_back(layer->norm.running.value);
    for (const ConvNorm& layer : block.projection) out.push_back(layer.norm.running.value);
  }
  return out;
}

std::unique_ptr<Instance> resnet(int64_t batch, Mode mode) {
  ResNet56 model;
  std::vector<nn::BatchStatistics> statistics = statistics_of(model);
  const auto loss = [x = hashed(98, {batch, 32, 32, 3}), y = labels(batch)](
                        const ResNet56& m, std::vector<nn::BatchStatistics>& running) {
    return nn::softmax_cross_entropy(m(x, running), y);
  };
  return training(std::move(model), 1e-3, loss, mode, std::move(statistics));
}

struct Norm {
  Tensor scale = ones({256}), offset = zeros({256});
  Tensor operator()(const Tensor& x) const {
    return nn::layer_normalize(x, {-1}, {.epsilon = kEpsilon, .scale = scale, .offset = offset});
  }
};

struct TransformerBlock {
  static constexpr int64_t kWidth = 256, kHeads = 8, kTime = 128, kBatch = 8;

  Norm norm1, norm2;
  Tensor qkv = glorot(1, {kWidth, 3 * kWidth}), wo = glorot(2, {kWidth, kWidth});
  Tensor w1 = glorot(3, {kWidth, 4 * kWidth}), w2 = glorot(4, {4 * kWidth, kWidth});
  Tensor bqkv = zeros({3 * kWidth}), bo = zeros({kWidth}), c1 = zeros({4 * kWidth}),
         c2 = zeros({kWidth});

  static Tensor heads_of(const Tensor& x) {
    return permute_dims(reshape(x, {kBatch, kTime, kHeads, kWidth / kHeads}), {0, 2, 1, 3});
  }
  Tensor attention(const Tensor& x) const {
    const std::vector<Tensor> parts = split(matmul(x, qkv) + bqkv, 3, {.axis = -1});
    const Tensor q = heads_of(parts[0]), k = heads_of(parts[1]), v = heads_of(parts[2]);
    const double scale = 1 / std::sqrt(static_cast<double>(kWidth / kHeads));
    const Tensor p = nn::softmax(matmul(q * scale, k, {.transpose_y = true}));
    return reshape(permute_dims(matmul(p, v), {0, 2, 1, 3}), {kBatch, kTime, kWidth});
  }
  Tensor operator()(const Tensor& x) const {
    const Tensor y = x + (matmul(attention(norm1(x)), wo) + bo);
    const Tensor h = nn::gelu(matmul(norm2(y), w1) + c1, {.approximate = "tanh"});
    return y + (matmul(h, w2) + c2);
  }
};

std::unique_ptr<Instance> transformer(Mode mode) {
  using Block = TransformerBlock;
  const auto loss = [x = hashed(5, {Block::kBatch, Block::kTime, Block::kWidth})](const Block& m) {
    const Tensor y = m(x);
    return mean(y * y);
  };
  return training(Block{}, 1e-2, loss, mode);
}

}  // namespace

std::vector<Workload> deep_workloads() {
  return {
      in_both_modes(
          "resnet56_b32", {3.233409, 2.686391, 2.363857},
          [](Mode mode) { return resnet(32, mode); }, 5e-3),
      in_both_modes(
          "resnet56_b128", {3.351328, 3.137967, 2.975112},
          [](Mode mode) { return resnet(128, mode); }, 5e-3),
      in_both_modes("transformer", {.5719873, .5717317, .5714766}, transformer),
  };
}

}  // namespace etude::bench
