// SPDX-License-Identifier: Apache-2.0
// Fashion-MNIST: 70,000 grey images of clothing, 28 by 28, in ten classes. The Debian package
// dataset-fashion-mnist contains the data set. Used by the examples and benchmarks.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "etude/data/rows.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace data {

struct FashionMnistOptions {
  // The folder of the four files, which may be compressed. Empty: $ETUDE_DATA/fashion-mnist, or the
  // folder of the Debian package if the variable is not set.
  std::string folder = {};
  bool standardize = false;  // mean 0 and standard deviation 1 over the training images
};

// 60,000 images for training and 10,000 for tests. Inputs are float32 [n,28,28,1], in [0,1] unless
// standardized. Labels are int32 [n] in [0,10).
struct FashionMnist {
  Samples train, test;
};

inline constexpr std::array<std::string_view, 10> kFashionMnistClasses = {
    "T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Boot"};

// throws: kNotFound, with the package to install, if a file is missing; kDataLoss if a file is
//         damaged or contains other data.
// cost:   about half a second and 220 MB.
FashionMnist fashion_mnist(const FashionMnistOptions& options = {},
                           CallSite where = CallSite::here());

}  // namespace data
}  // namespace etude
