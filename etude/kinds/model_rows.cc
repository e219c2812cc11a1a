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

using nn::models::ImageOptions;

// Functions of nn::models as functions of rows, which take the options first.
template <auto of>
constexpr auto kModel =
    [](const ImageOptions& options, CallSite where) { return of(options, where); };
template <class T, auto of>
constexpr auto kModelOf =
    [](const ImageOptions& options, CallSite where, T given) { return of(given, options, where); };
template <auto of>
constexpr auto kTextModel =
    [](const NoOptions&, CallSite where, std::string size) { return of(size, where); };

// Options of small models, for tests.
Options of_width(double width) { return {{"classes", 2}, {"width", width}}; }

void add_image_models(Rows rows) {
  using namespace nn::models;  // NOLINT(google-build-using-namespace): a table
  rows.function<ImageOptions>("nn.models.xception", kModel<xception>, {}, {}, of_width(0.1));
  rows.function<ImageOptions>("nn.models.mobilenet", kModel<mobilenet>, {}, {}, of_width(0.1));
  rows.function<ImageOptions>("nn.models.mobilenet_v2", kModel<mobilenet_v2>, {}, {},
                              of_width(0.1));
  rows.function<ImageOptions>("nn.models.shufflenet_v2", kModel<shufflenet_v2>, {}, {},
                              of_width(0.5));
  rows.function<ImageOptions, int>("nn.models.resnet_v2", kModelOf<int, resnet_v2>, {"depth"}, {50},
                                   of_width(0.1));
  rows.function<ImageOptions, int>("nn.models.big_transfer", kModelOf<int, big_transfer>, {"depth"},
                                   {50}, of_width(0.5));
  rows.function<ImageOptions, int>("nn.models.densenet", kModelOf<int, densenet>, {"depth"}, {121},
                                   of_width(0.1));
  rows.function<ImageOptions, int>("nn.models.efficientnet", kModelOf<int, efficientnet>, {"b"},
                                   {0}, of_width(0.1));
  rows.function<ImageOptions, std::string>("nn.models.squeezenet",
                                           kModelOf<std::string, squeezenet>, {"version"}, {"1.1"},
                                           of_width(0.1));
  rows.function<ImageOptions, std::string>("nn.models.mobilenet_v3",
                                           kModelOf<std::string, mobilenet_v3>, {"size"}, {"small"},
                                           of_width(0.1));
  rows.function<ImageOptions, int>("nn.models.resnet_cifar", kModelOf<int, resnet_cifar>, {"depth"},
                                   {8}, of_width(0.1), {.classes = 10});
}

// Models with a second size after the options.
void add_sized_models(Rows rows) {
  rows.function<ImageOptions, int, int64_t>(
      "nn.models.resnet",
      [](const ImageOptions& options, CallSite where, int depth, int64_t inner) {
        return nn::models::resnet(depth, options, inner, where);
      },
      {"depth", {"inner", 1}}, {18}, of_width(0.1));
  rows.function<ImageOptions, int, int64_t>(
      "nn.models.wide_resnet_cifar",
      [](const ImageOptions& options, CallSite where, int depth, int64_t widen) {
        return nn::models::wide_resnet_cifar(depth, widen, options, where);
      },
      {"depth", "widen"}, {10, 1}, of_width(0.1), {.classes = 10});
  rows.function<ImageOptions, int, int64_t>(
      "nn.models.vgg",
      [](const ImageOptions& options, CallSite where, int depth, int64_t image) {
        return nn::models::vgg(depth, options, image, where);
      },
      {"depth", {"image", 224}}, {11, 32}, of_width(0.1));
}

void add_text_models(Rows rows) {
  using namespace nn::models;  // NOLINT(google-build-using-namespace): a table
  using Size = std::string;
  rows.function<NoOptions, Size>("nn.models.bert", kTextModel<bert>, {"size"}, {"base"});
  rows.function<NoOptions, Size>("nn.models.roberta", kTextModel<roberta>, {"size"}, {"base"});
  rows.function<NoOptions, Size>("nn.models.albert", kTextModel<albert>, {"size"}, {"base"});
  rows.function<NoOptions, Size>("nn.models.electra", kTextModel<electra>, {"size"}, {"small"});
  rows.function<NoOptions, Size>("nn.models.gpt2", kTextModel<gpt2>, {"size"}, {"small"});
}

}  // namespace

void add_models(Table& table) {
  const Rows layers(table, Group::kLayer);
  add_units(layers);
  add_texts(layers);
  add_tables(layers);
  add_image_models(layers);
  add_sized_models(layers);
  add_text_models(layers);
}

}  // namespace etude::kinds
