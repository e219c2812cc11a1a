// SPDX-License-Identifier: Apache-2.0
// BucketedLoader: a Loader (loader.h) for samples of different sizes. The samples of a batch have
// similar sizes, so a batch needs little padding. For sequences and images in memory. For streams
// use Dataset::buckets.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "etude/data/loader.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace data {

struct BucketOptions {
  // The number of batches whose samples are sorted together. 1 keeps the random order. A larger
  // number means less padding and less randomness.
  int64_t batches_per_sort = 100;
  double value = 0;  // the value of the padding

  static constexpr void ranges(const auto& option) {
    option("batches_per_sort", &BucketOptions::batches_per_sort, at_least(1));
  }
};

namespace internal {

template <class S>
struct ListStore {
  std::shared_ptr<const std::vector<S>> samples;
  double value = 0;
  int64_t count() const { return static_cast<int64_t>(samples->size()); }
  S take(std::span<const int64_t> rows) const {
    std::vector<S> chosen;
    for (const int64_t row : rows) chosen.push_back((*samples)[static_cast<std::size_t>(row)]);
    return collate_padded(std::span<const S>(chosen), value);
  }
};

}  // namespace internal

// Makes padded batches of single samples, which a vector holds. A sample is a pytree of tensors
// without a sample axis. The batch with the largest sample is the first of each epoch, so that a
// lack of memory shows at once.
//
//   data::BucketedLoader loader(sentences, [](const Tensor& s) { return s.shape()[0]; },
//                               {.batch = 32, .seed = 1});
//
// Otherwise as Loader.
template <class S>
class BucketedLoader : public internal::LoaderBase<S, internal::ListStore<S>> {
 public:
  // `size` is called once for each sample. throws: as Loader.
  template <class Size>
  BucketedLoader(std::vector<S> samples, const Size& size, LoaderOptions options = {},
                 BucketOptions buckets = {}, CallSite where = CallSite::here())
      : internal::LoaderBase<S, internal::ListStore<S>>(
            {std::make_shared<const std::vector<S>>(std::move(samples)), buckets.value}, options) {
    etude::internal::located("BucketedLoader", where, [&] {
      etude::internal::check_options("BucketedLoader", options, where);
      etude::internal::check_options("BucketedLoader", buckets, where);
      std::vector<int64_t> sizes;
      for (const S& sample : *this->store().samples) {
        sizes.push_back(static_cast<int64_t>(size(sample)));
      }
      this->set_order(internal::EpochOrder(std::move(sizes), buckets.batches_per_sort, options));
    });
  }
};

// A deprecated name. The next release removes it.
template <class S>
using BucketedEpochs [[deprecated("data::BucketedEpochs is data::BucketedLoader")]] =
    BucketedLoader<S>;

}  // namespace data
}  // namespace etude
