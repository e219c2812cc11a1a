// SPDX-License-Identifier: Apache-2.0
#include "etude/data/cifar.h"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/internal/host_door.h"
#include "etude/data/read_file.h"

namespace etude::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSide = 32, kPlane = kSide * kSide, kColours = 3;
constexpr std::size_t kRecord = 1 + kColours * kPlane;

fs::path folder_of(const Cifar10Options& options) {
  if (!options.folder.empty()) return options.folder;
  const char* root = std::getenv("ETUDE_DATA");
  return fs::path(root != nullptr ? root : "/usr/share/datasets") / "cifar-10-batches-bin";
}

// throws: kDataLoss unless the file is a number of whole records.
void check_records(std::span<const uint8_t> file, std::string_view name) {
  const std::size_t rest = file.size() % kRecord;
  ETUDE_REQUIRE_CODE(
      kDataLoss, !file.empty() && rest == 0,
      "'{}': records of CIFAR-10 have {} bytes, but that at byte {} has {}: the file "
      "is cut off, or is not one of cifar-10-binary.tar.gz",
      name, kRecord, file.size() - rest, rest);
  for (std::size_t at = 0; at < file.size(); at += kRecord) {
    ETUDE_REQUIRE_CODE(kDataLoss, file[at] < kCifar10Classes.size(),
                       "'{}': the label at byte {} is {}, but classes are 0 to 9", name, at,
                       file[at]);
  }
}

// Bytes of checked records: plane by plane in the file, pixel by pixel in tensors.
Samples samples_of(std::span<const uint8_t> records) {
  const std::size_t count = records.size() / kRecord;
  Samples out;
  out.inputs =
      etude::internal::make_tensor(intern_type(kFloat32, {static_cast<int64_t>(count), 32, 32, 3}));
  auto* pixel = static_cast<float*>(etude::internal::host_elements_for_writing(out.inputs));
  std::vector<int32_t> labels;
  for (std::size_t k = 0; k < count; ++k) {
    const uint8_t* record = records.data() + k * kRecord;
    labels.push_back(record[0]);
    for (std::size_t i = 0; i < kPlane; ++i) {
      for (std::size_t colour = 0; colour < kColours; ++colour)
        *pixel++ = static_cast<float>(record[1 + colour * kPlane + i]) / 255.0F;
    }
  }
  out.labels = Tensor(labels);
  return out;
}

std::vector<uint8_t> read_records(const fs::path& path) {
  ETUDE_REQUIRE_CODE(
      kNotFound, fs::exists(path),
      "CIFAR-10: there is no '{}'. Unpack cifar-10-binary.tar.gz, and set ETUDE_DATA "
      "to the folder that holds cifar-10-batches-bin/",
      path.string());
  std::vector<uint8_t> bytes = internal::read_file(path.string());
  check_records(bytes, path.string());
  return bytes;
}

}  // namespace

Samples parse_cifar10(std::span<const uint8_t> file, std::string_view name, CallSite where) {
  return etude::internal::located("", where, [&] {
    check_records(file, name);
    return samples_of(file);
  });
}

Cifar10 cifar10(const Cifar10Options& options, CallSite where) {
  return etude::internal::located("", where, [&] {
    const fs::path folder = folder_of(options);
    std::vector<uint8_t> train;
    for (int k = 1; k <= 5; ++k) {
      const auto part = read_records(folder / fmt::format("data_batch_{}.bin", k));
      train.insert(train.end(), part.begin(), part.end());
    }
    return Cifar10{.train = samples_of(train),
                   .test = samples_of(read_records(folder / "test_batch.bin"))};
  });
}

}  // namespace etude::data
