// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/precision.h"

#include <algorithm>
#include <map>

#include "etude/base/check.h"
#include "etude/core/option_ranges.h"
#include "etude/ops.h"

namespace etude::nn::internal {

Tensor in_precision(const Tensor& x, DType dtype) {
  if (!x.has_value() || !is_floating(x.dtype()) || x.dtype() == dtype) return x;
  return astype(x, dtype);
}

void check_policy(const PrecisionPolicy& policy, CallSite where) {
  etude::internal::located("Precision", where, [&] {
    const std::pair<const char*, DType> all[] = {
        {"compute", policy.compute}, {"parameter", policy.parameter}, {"output", policy.output}};
    for (const auto& [option, dtype] : all) {
      ETUDE_REQUIRE(is_floating(dtype), "{} is {}, but must be one of {}", option, name(dtype),
                    describe(kFloating));
    }
  });
}

DType state_dtype(DType parameter) { return parameter == kFloat64 ? kFloat64 : kFloat32; }

bool KeptTensors::holds(const Tensor* x) const {
  return std::find(all_.begin(), all_.end(), x) != all_.end();
}

class WatchedCopy::Translator final : public LayerObserver {
 public:
  Translator(LayerObserver* outer, const std::vector<Part>& originals,
             const std::vector<Part>& copies)
      : outer_(outer) {
    for (std::size_t i = 0; i < copies.size(); ++i) {
      original_of_.emplace(copies[i].id, originals[i].id);
    }
  }
  void called(const LayerId& layer, const char* kind, const Shape& result, int64_t flops) override {
    const auto found = original_of_.find(layer);
    outer_->called(found == original_of_.end() ? layer : found->second, kind, result, flops);
  }

 private:
  LayerObserver* outer_;
  std::map<LayerId, LayerId> original_of_;
};

void WatchedCopy::watch(const std::vector<Part>& originals, const std::vector<Part>& copies) {
  ETUDE_CHECK(originals.size() == copies.size(), "a copy has {} parts, but its original {}",
              copies.size(), originals.size());
  outer_ = layer_observer();
  translator_ = std::make_unique<Translator>(outer_, originals, copies);
  layer_observer() = translator_.get();
}

WatchedCopy::~WatchedCopy() {
  if (translator_ != nullptr) layer_observer() = outer_;
}

}  // namespace etude::nn::internal
