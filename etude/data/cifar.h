// SPDX-License-Identifier: Apache-2.0
// CIFAR-10 in its binary form: small colour images in ten classes (A. Krizhevsky, "Learning
// multiple layers of features from tiny images", 2009). No Debian package contains the data set.
// Its files are in cifar-10-binary.tar.gz. Files are not trusted.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "etude/data/rows.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace data {

struct Cifar10Options {
  // The folder of data_batch_1.bin to data_batch_5.bin and test_batch.bin. Empty: the folder
  // cifar-10-batches-bin in $ETUDE_DATA, or in /usr/share/datasets if the variable is not set.
  std::string folder = {};
};

// 50,000 images for training and 10,000 for tests. Inputs are float32 [n,32,32,3] in [0,1]. Labels
// are int32 [n] in [0,10).
struct Cifar10 {
  Samples train, test;
};

inline constexpr std::array<std::string_view, 10> kCifar10Classes = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};

// throws: kNotFound, with advice, if a file is missing; kDataLoss as parse_cifar10.
// cost:   about half a second and 740 MB.
Cifar10 cifar10(const Cifar10Options& options = {}, CallSite where = CallSite::here());

// Parses the content of a file. `name` is for errors. A record has a label byte, and then 32 by 32
// bytes for each of red, green and blue.
//
// throws: kDataLoss, with the byte offset in the file, if the file is empty or its last record is
//         incomplete, and for a label outside [0,10).
Samples parse_cifar10(std::span<const uint8_t> file, std::string_view name,
                      CallSite where = CallSite::here());

}  // namespace data
}  // namespace etude
