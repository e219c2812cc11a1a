// SPDX-License-Identifier: Apache-2.0
// The network of the programs lenet and save_lenet.
#pragma once

#include "etude/etude.h"

struct LeNet {
  etude::nn::Conv2D conv1{{5, 5}, 1, 6, {.padding = "same", .activation = etude::nn::relu}};
  etude::nn::MaxPool2D pool1{2};
  etude::nn::Conv2D conv2{{5, 5}, 6, 16, {.activation = etude::nn::relu}};
  etude::nn::MaxPool2D pool2{2};
  etude::nn::Flatten flatten;
  etude::nn::Dense fc1{400, 120, {.activation = etude::nn::relu}};
  etude::nn::Dense fc2{120, 84, {.activation = etude::nn::relu}};
  etude::nn::Dense fc3{84, 10};
  etude::Tensor operator()(const etude::Tensor& images) const {
    return etude::nn::sequenced(images, conv1, pool1, conv2, pool2, flatten, fc1, fc2, fc3);
  }
};
