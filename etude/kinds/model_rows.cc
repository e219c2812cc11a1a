// SPDX-License-Identifier: Apache-2.0
// Published models as classes, and the blocks that they are made of.
#include <string>
#include <utility>
#include <vector>

#include "etude/kinds/table.h"
#include "etude/nn/models/conv_net.h"
#include "etude/nn/models/models.h"
#include "etude/nn/models/transformers.h"

namespace etude::kinds {
namespace {

using Path = nn::ConvBlock::Path;

Description unit(int64_t in, int64_t out) { return {"nn.ConvUnit", {{"in", in}, {"out", out}}}; }

void add_units(Rows layers) {
  layers.add<nn::ConvUnit, nn::ConvUnitOptions, int64_t, int64_t>("nn.ConvUnit", {"in", "out"},
                                                                  {2, 2});
  const auto block = [](const nn::ConvBlockOptions& options, CallSite where,
                        std::vector<Path> paths, Path before) {
    return nn::ConvBlock(std::move(paths), options, std::move(before), where);
  };
  const Value paths = Values{Value(Values{unit(2, 2)})};
  layers.function<nn::ConvBlockOptions, std::vector<Path>, Path>(
      "nn.ConvBlock", block, {"paths", {"before", Values()}}, {paths});
  const Description one{"nn.ConvBlock", {{"paths", paths}}};
  const Description head{"nn.Dense", {{"in", 2}, {"out", 3}}};
  layers.add<nn::ConvNet, nn::ConvNetOptions, std::vector<nn::ConvBlock>, std::vector<nn::Dense>>(
      "nn.ConvNet", {"blocks", "head"}, {Values{one}, Values{head}});
}

void add_texts(Rows layers) {
  const Options small = {
      {"vocabulary", 5}, {"positions", 4}, {"dim", 4}, {"layers", 1}, {"heads", 1}};
  layers.add<nn::TextEncoder, nn::TextEncoderOptions>("nn.TextEncoder", {}, {}, small);
  layers.add<nn::TextDecoder, nn::TextDecoderOptions>("nn.TextDecoder", {}, {}, small);
}

void add_tables(Rows layers) {
  layers.add<nn::models::C3D, NoOptions, int64_t>("nn.models.C3D", {{"classes", 487}}, {2});
  layers.add<nn::models::DLRM, NoOptions, IntList, int64_t, IntList, IntList>(
      "nn.models.DLRM", {"tables", "dim", "bottom_sizes", "top_sizes"},
      {{3, 4}, 2, {5, 2}, {4, 1}});
  layers.add<nn::models::WideAndDeep, NoOptions, IntList, int64_t, int64_t, IntList>(
      "nn.models.WideAndDeep", {"tables", "dim", "numbers", "hidden"}, {{3, 4}, 2, 5, {4}});
}

}  // namespace

void add_models(Table& table) {
  const Rows layers(table, Group::kLayer);
  add_units(layers);
  add_texts(layers);
  add_tables(layers);
}

}  // namespace etude::kinds
