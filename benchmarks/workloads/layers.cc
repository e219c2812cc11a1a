// SPDX-License-Identifier: Apache-2.0
// Layers of image and language models, forward and back with a cotangent.
#include <functional>
#include <utility>
#include <vector>

#include "benchmarks/workloads/workload.h"
#include "etude/autodiff/gradient.h"
#include "etude/ops.h"

namespace etude::bench {
namespace {

using Tensors = std::vector<Tensor>;
using Fn = std::function<Tensor(const Tensors&)>;

class Gradients final : public Instance {
 public:
  Gradients(Tensors arguments, Fn fn) : arguments_(std::move(arguments)), fn_(std::move(fn)) {}

  std::vector<double> check() override { return digest(results()); }
  void run() override { keep(results()); }

 private:
  Tensors results() const { return pullback(fn_, arguments_)(cotangent_); }

  Tensors arguments_;
  Fn fn_;
  Tensor cotangent_ = hashed(9, fn_(arguments_).shape());
};

// Makes its arguments on demand, since they are large.
Workload layer(std::string name, std::vector<double> expected, std::function<Tensors()> arguments,
               Fn fn) {
  return {.name = std::move(name),
          .expected = std::move(expected),
          .make = [arguments = std::move(arguments), fn = std::move(fn)] {
            return std::make_unique<Gradients>(arguments(), fn);
          }};
}

const IntList kOnePixel = {1, 1, 1, 1};
const Shape kImages = {8, 56, 56, 64};

}  // namespace

std::vector<Workload> layer_workloads() {
  return {
      layer(
          "depthwise_fb", {-.03638025, .2427163, 12.19373, 40.45814},
          [] {
            return Tensors{hashed(1, kImages), hashed(2, {3, 3, 64, 1}, .3)};
          },
          [](const Tensors& x) {
            return nn::depthwise_conv2d(x[0], x[1], {.explicit_padding = kOnePixel});
          }),
      layer(
          "separable_fb", {-.190222, .157834, 4.084151, 27.66316, 2.954776, 22.26892},
          [] {
            return Tensors{hashed(1, kImages), hashed(2, {3, 3, 64, 1}, .3),
                           hashed(3, {1, 1, 64, 128}, .1)};
          },
          [](const Tensors& x) {
            return nn::conv2d(nn::depthwise_conv2d(x[0], x[1], {.explicit_padding = kOnePixel}),
                              x[2]);
          }),
      layer(
          "transposed_fb", {-.1783965, .4531142, -.9310929, 21.10359},
          [] {
            return Tensors{hashed(1, {8, 28, 28, 64}), hashed(2, {3, 3, 32, 64}, .1)};
          },
          [](const Tensors& x) { return nn::conv_transpose2d(x[0], x[1], {.strides = 2}); }),
      // The images of a first layer need no gradient.
      {.name = "stem_fb",
       .expected = {-33.1339, 41.18},
       .make =
           [] {
             return std::make_unique<
                 Gradients>(Tensors{hashed(2, {7, 7, 3, 64}, .1)}, [x = hashed(1,
                                                                               {8, 112, 112, 3})](
                                                                       const Tensors& filter) {
               return nn::conv2d(x, filter[0], {.strides = 2, .explicit_padding = {3, 3, 3, 3}});
             });
           }},
      layer(
          "group_norm_fb", {.9075684, .86247, 101.4911, 80.21831, -41.10517, 68.29905},
          [] {
            return Tensors{hashed(1, kImages), 1.0 + hashed(2, {64}, .1), hashed(3, {64}, .1)};
          },
          [](const Tensors& x) {
            return nn::group_normalize(x[0], 8, {.epsilon = 1e-5, .scale = x[1], .offset = x[2]});
          }),
      layer(
          "layer_norm_fb", {.8533238, .863433, 13.91162, 14.5163, 15.64464, 14.29099},
          [] {
            return Tensors{hashed(1, {1024, 768}), 1.0 + hashed(2, {768}, .1),
                           hashed(3, {768}, .1)};
          },
          [](const Tensors& x) {
            return nn::layer_normalize(x[0], {-1},
                                       {.epsilon = 1e-5, .scale = x[1], .offset = x[2]});
          }),
  };
}

}  // namespace etude::bench
