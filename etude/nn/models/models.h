// SPDX-License-Identifier: Apache-2.0
// Published models with their published sizes and random parameters. Convolutional models are
// ConvNets (conv_net.h) for images [n, h, w, in]; transformers.h has models of text.
//
// throws, all of them: kInvalidArgument for a size that was not published; the message lists the
// published sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "etude/base/fields.h"
#include "etude/nn/layers/blocks.h"
#include "etude/nn/layers/convolution.h"
#include "etude/nn/layers/embedding.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/models/conv_net.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace nn {
namespace models {

struct ImageOptions {
  int64_t classes = 1000;
  int64_t in = 3;    // channels of the images
  double width = 1;  // factor for the width of all layers but the last

  static constexpr void ranges(const auto& option) {
    option("classes", &ImageOptions::classes, at_least(1));
    option("in", &ImageOptions::in, at_least(1));
    option("width", &ImageOptions::width, above(0));
  }
};

// K. He et al., "Deep residual learning for image recognition" (2015): depths 18, 34, 50, 101 and
// 152. S. Zagoruyko and N. Komodakis, "Wide residual networks" (2016): depths 50 and 101 with
// `inner` = 2, a factor for the channels in the middle of each block.
ConvNet resnet(int depth, const ImageOptions& options = {}, int64_t inner = 1,
               CallSite where = CallSite::here());
// The same for images of 32 by 32: depth 6 n + 2, with projections where the shape changes.
ConvNet resnet_cifar(int depth, const ImageOptions& options = {.classes = 10},
                     CallSite where = CallSite::here());
// K. He et al., "Identity mappings in deep residual networks" (2016): depths 50, 101, 152.
ConvNet resnet_v2(int depth, const ImageOptions& options = {}, CallSite where = CallSite::here());
// Wide residual networks for images of 32 by 32: depth 6 n + 4.
ConvNet wide_resnet_cifar(int depth, int64_t widen, const ImageOptions& options = {.classes = 10},
                          CallSite where = CallSite::here());
// A. Kolesnikov et al., "Big transfer" (2019): ResNet V2 with group norms and standardised filters;
// depths 50, 101, 152.
ConvNet big_transfer(int depth, const ImageOptions& options = {},
                     CallSite where = CallSite::here());

// G. Huang et al., "Densely connected convolutional networks" (2016): depths 121, 169, 201.
ConvNet densenet(int depth, const ImageOptions& options = {}, CallSite where = CallSite::here());
// K. Simonyan and A. Zisserman, "Very deep convolutional networks" (2014): depths 11, 13, 16, 19;
// images of 224 by 224, or of `image` by `image`, a multiple of 32.
ConvNet vgg(int depth, const ImageOptions& options = {}, int64_t image = 224,
            CallSite where = CallSite::here());
// F. Iandola et al., "SqueezeNet" (2016): versions "1.0" and "1.1".
ConvNet squeezenet(const std::string& version, const ImageOptions& options = {},
                   CallSite where = CallSite::here());
// F. Chollet, "Xception" (2016).
ConvNet xception(const ImageOptions& options = {}, CallSite where = CallSite::here());

// A. Howard et al., "MobileNets" (2017); M. Sandler et al., "MobileNetV2" (2018).
ConvNet mobilenet(const ImageOptions& options = {}, CallSite where = CallSite::here());
ConvNet mobilenet_v2(const ImageOptions& options = {}, CallSite where = CallSite::here());
// A. Howard et al., "Searching for MobileNetV3" (2019): sizes "small" and "large".
ConvNet mobilenet_v3(const std::string& size, const ImageOptions& options = {},
                     CallSite where = CallSite::here());
// M. Tan and Q. Le, "EfficientNet" (2019): B0 to B8.
ConvNet efficientnet(int b, const ImageOptions& options = {}, CallSite where = CallSite::here());
// N. Ma et al., "ShuffleNet V2" (2018): widths .5, 1, 1.5, 2.
ConvNet shufflenet_v2(const ImageOptions& options = {}, CallSite where = CallSite::here());

// D. Tran et al., "Learning spatiotemporal features with 3D convolutional networks" (2014). shapes:
// [n, 16, 112, 112, 3] to [n, classes].
class C3D {
 public:
  explicit C3D(int64_t classes = 487, CallSite where = CallSite::here());
  Tensor operator()(const Tensor& x, CallSite where = CallSite::here()) const;

  std::vector<Conv3D> convs;
  std::vector<Dense> head;
  Dropout dropout;
  ETUDE_FIELDS(C3D, convs, head, dropout);
};

// Inputs of recommenders: numbers [n, numbers] and, for each table, the index of a row [n, tables].
struct Columns {
  Tensor numbers;
  Tensor rows;
};

// M. Naumov et al., "Deep learning recommendation model" (2019). `bottom` maps the numbers to a
// vector. `top` receives that vector and the products of all pairs among the vector and the
// embedded columns. shapes: result [n, 1], logits. The sizes of `bottom` end with `dim`; the sizes
// of `top` omit the first size, which follows from the others.
class DLRM {
 public:
  DLRM(const IntList& tables, int64_t dim, const IntList& bottom_sizes, const IntList& top_sizes,
       CallSite where = CallSite::here());
  Tensor operator()(const Columns& x, CallSite where = CallSite::here()) const;

  std::vector<Embedding> tables;
  MLP bottom, top;
  ETUDE_FIELDS(DLRM, tables, bottom, top);
};

// H. Cheng et al., "Wide and deep learning for recommender systems" (2016). Wide: a linear function
// of the numbers, plus one learned number for each selected row. Deep: an MLP of the embedded
// columns and the numbers, with the hidden sizes `hidden`. The result is their sum. shapes: result
// [n, 1], logits.
class WideAndDeep {
 public:
  WideAndDeep(const IntList& tables, int64_t dim, int64_t numbers, const IntList& hidden,
              CallSite where = CallSite::here());
  Tensor operator()(const Columns& x, CallSite where = CallSite::here()) const;

  std::vector<Embedding> wide, tables;
  Dense wide_numbers;
  MLP deep;
  ETUDE_FIELDS(WideAndDeep, wide, tables, wide_numbers, deep);
};

}  // namespace models
}  // namespace nn
}  // namespace etude
