// SPDX-License-Identifier: Apache-2.0
// The common parts of the model makers. Used by models_*.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/option_ranges.h"
#include "etude/nn/models/models.h"
#include "etude/ops.h"

namespace etude::nn::models {

using Path = ConvBlock::Path;
using Blocks = std::vector<ConvBlock>;

// A block without branches. Make its units in braces: they are then made in order, so that a seed
// has the same parameters with each compiler.
inline ConvBlock chain_of(Path path) { return ConvBlock({std::move(path)}); }

// The nearest multiple of 8, but at least nine tenths of `channels`: as in "MobileNetV2".
inline int64_t rounded(double channels) {
  const auto near = std::max<int64_t>(8, static_cast<int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(near) < 0.9 * channels ? near + 8 : near;
}
inline int64_t scaled(int64_t channels, const ImageOptions& options) {
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(channels) * options.width));
}

// Checks the options and runs `make`; errors name `model`.
template <class Make>
ConvNet make_model(const char* model, const ImageOptions& options, CallSite where,
                   const Make& make) {
  etude::internal::check_options(model, options, where);
  const CallScope scope(where);
  return etude::internal::located(model, where, make);
}

// The value of `key`. throws: kInvalidArgument with all keys.
template <class Key, class Value>
Value published(const char* what, const Key& key,
                std::initializer_list<std::pair<Key, Value>> known) {
  std::string keys;
  for (const auto& [k, value] : known) {
    if (k == key) return value;
    keys += fmt::format("{}{}", keys.empty() ? "" : ", ", k);
  }
  ETUDE_REQUIRE(false, "there is no {} {}; published are {}", what, key, keys);
  __builtin_unreachable();
}

}  // namespace etude::nn::models
