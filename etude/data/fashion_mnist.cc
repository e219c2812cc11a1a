// SPDX-License-Identifier: Apache-2.0
#include "etude/data/fashion_mnist.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/internal/host_door.h"
#include "etude/data/idx.h"

namespace etude::data {
namespace {

namespace fs = std::filesystem;

// Of all training pixels, as fractions.
constexpr float kMean = 0.2860406f;
constexpr float kDeviation = 0.3530242f;

fs::path folder_of(const FashionMnistOptions& options) {
  if (!options.folder.empty()) return options.folder;
  const char* root = std::getenv("ETUDE_DATA");
  return fs::path(root != nullptr ? root : "/usr/share/datasets") / "fashion-mnist";
}

IdxArray read(const fs::path& folder, const std::string& name) {
  fs::path path = folder / (name + ".gz");
  if (!fs::exists(path)) path = folder / name;
  ETUDE_REQUIRE_CODE(
      kNotFound, fs::exists(path),
      "Fashion-MNIST: there is no '{}' or '{}.gz'. Install the Debian package "
      "dataset-fashion-mnist, or set ETUDE_DATA to the folder that holds fashion-mnist/",
      path.string(), path.string());
  return read_idx(path.string());
}

Samples read_samples(const fs::path& folder, const std::string& part, bool standardize) {
  const IdxArray images = read(folder, part + "-images-idx3-ubyte");
  const IdxArray labels = read(folder, part + "-labels-idx1-ubyte");
  constexpr uint8_t kUint8 = 0x08;
  ETUDE_REQUIRE_CODE(kDataLoss,
                     images.type_code == kUint8 && images.shape.size() == 3 &&
                         images.shape[1] == 28 && images.shape[2] == 28,
                     "Fashion-MNIST: the {} images in {} are not bytes of shape [n,28,28]", part,
                     folder.string());
  ETUDE_REQUIRE_CODE(
      kDataLoss,
      labels.type_code == kUint8 && labels.shape.size() == 1 && labels.shape[0] == images.shape[0],
      "Fashion-MNIST: the {} labels in {} are not {} bytes, one for each image", part,
      folder.string(), images.shape[0]);
  ETUDE_REQUIRE_CODE(kDataLoss,
                     std::all_of(labels.bytes.begin(), labels.bytes.end(),
                                 [](uint8_t label) { return label < 10; }),
                     "Fashion-MNIST: a {} label in {} is outside [0,10)", part, folder.string());

  std::array<float, 256> levels{};
  for (int i = 0; i < 256; ++i) {
    const float x = static_cast<float>(i) / 255.0f;
    levels[static_cast<std::size_t>(i)] = standardize ? (x - kMean) / kDeviation : x;
  }
  Samples out;
  out.inputs = etude::internal::make_tensor(intern_type(kFloat32, {images.shape[0], 28, 28, 1}));
  auto* pixels = static_cast<float*>(etude::internal::host_elements_for_writing(out.inputs));
  std::transform(images.bytes.begin(), images.bytes.end(), pixels,
                 [&](uint8_t level) { return levels[level]; });
  out.labels = Tensor(std::vector<int32_t>(labels.bytes.begin(), labels.bytes.end()));
  return out;
}

}  // namespace

FashionMnist fashion_mnist(const FashionMnistOptions& options, CallSite where) {
  return etude::internal::located("", where, [&]() -> FashionMnist {
    const fs::path folder = folder_of(options);
    return {.train = read_samples(folder, "train", options.standardize),
            .test = read_samples(folder, "t10k", options.standardize)};
  });
}

}  // namespace etude::data
