// SPDX-License-Identifier: Apache-2.0
// Cells of recurrent layers, layers over one of several classes, and layers over any layer.
#include <utility>
#include <vector>

#include "etude/kinds/table.h"
#include "etude/nn/erased_layer.h"
#include "etude/nn/layers/adapters.h"
#include "etude/nn/layers/cells.h"
#include "etude/nn/layers/convolution.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/layers/recurrent.h"
#include "etude/nn/precision.h"

namespace etude::kinds {
namespace {

void add_cells(Rows cells) {
  cells.add<nn::SimpleRNNCell, nn::CellOptions, int64_t, int64_t>("nn.SimpleRNNCell",
                                                                  {"input", "hidden"}, {3, 4});
  cells.add<nn::LSTMCell, nn::LSTMCellOptions, int64_t, int64_t>("nn.LSTMCell", {"input", "hidden"},
                                                                 {3, 4});
  cells.add<nn::GRUCell, nn::CellOptions, int64_t, int64_t>("nn.GRUCell", {"input", "hidden"},
                                                            {3, 4});
  cells.add<nn::ConvLSTM2DCell, nn::LSTMCellOptions, IntList, int64_t, int64_t>(
      "nn.ConvLSTM2DCell", {"window", "in", "out"}, {3, 2, 2});
}

const auto kRecurrent = []<class Cell>(const Cell& cell, const Value* values, CallSite where) {
  return internal::object_of_type(
      nn::Recurrent<Cell>(cell, internal::read_options<nn::RecurrentOptions>(values + 1, where)));
};
const auto kBidirectional = []<class Cell>(const Cell& cell, const Value* values, CallSite where) {
  const Cell backward = object_of(values[1], where).template as<Cell>(where);
  return internal::object_of_type(nn::Bidirectional<Cell>(cell, backward, values[2].text(), where));
};
const auto kWeightNorm = []<class Layer>(const Layer& layer, const Value*, CallSite) {
  return internal::object_of_type(nn::WeightNorm<Layer>(layer));
};
const auto kSpectralNorm = []<class Layer>(const Layer& layer, const Value*, CallSite) {
  return internal::object_of_type(nn::SpectralNorm<Layer>(layer));
};

// An nn::Layer as the layer of a template. No other type converts to it: the compiler would look
// for a conversion of TimeDistributed<nn::Layer> to nn::Layer while it decides whether that can be
// copied.
class AnyLayer : public nn::Layer {
 public:
  explicit AnyLayer(nn::Layer layer) : nn::Layer(std::move(layer)) {}
};

const auto kSequential = [](const NoOptions&, CallSite, std::vector<nn::Layer> layers) {
  return nn::Layer::sequential(std::move(layers));
};

const auto kTimeDistributed = [](const NoOptions&, CallSite, nn::Layer layer) {
  return nn::TimeDistributed<AnyLayer>(AnyLayer(std::move(layer)));
};
const auto kPrecision = [](const NoOptions&, CallSite where, nn::Layer layer,
                           nn::PrecisionPolicy policy) {
  return nn::Precision<AnyLayer>(AnyLayer(std::move(layer)), policy, where);
};

void add_over_any(Rows layers, const Description& dense) {
  layers.function<NoOptions, std::vector<nn::Layer>>("nn.Sequential", kSequential, {"layers"},
                                                     {Values{dense}});
  layers.function<NoOptions, nn::Layer>("nn.TimeDistributed", kTimeDistributed, {"layer"}, {dense});
  const Value mixed = Converter<nn::PrecisionPolicy>::write(nn::kMixedBFloat16);
  layers.function<NoOptions, nn::Layer, nn::PrecisionPolicy>("nn.Precision", kPrecision,
                                                             {"layer", {"policy", mixed}}, {dense});
}

Description cell_of(const char* kind) { return {kind, {{"input", 3}, {"hidden", 4}}}; }

}  // namespace

void add_wrappers(Table& table) {
  add_cells({table, Group::kCell});
  Rows layers(table, Group::kLayer);
  using nn::ConvLSTM2DCell, nn::GRUCell, nn::LSTMCell, nn::SimpleRNNCell;
  layers.wrapper<decltype(kRecurrent), nn::RecurrentOptions, SimpleRNNCell, LSTMCell, GRUCell,
                 ConvLSTM2DCell>(
      "nn.Recurrent", kRecurrent,
      {{"cell", internal::any_of<SimpleRNNCell, LSTMCell, GRUCell, ConvLSTM2DCell>(Group::kCell)}},
      {cell_of("nn.LSTMCell")});
  const ParameterType cell = internal::any_of<SimpleRNNCell, LSTMCell, GRUCell>(Group::kCell);
  layers.wrapper<decltype(kBidirectional), NoOptions, SimpleRNNCell, LSTMCell, GRUCell>(
      "nn.Bidirectional", kBidirectional,
      {{"forward_cell", cell},
       {"backward_cell", cell},
       {{"merge", "concat"}, Converter<std::string>::type()}},
      {cell_of("nn.GRUCell"), cell_of("nn.GRUCell")});

  using nn::Conv1D, nn::Conv2D, nn::Conv3D, nn::Dense;
  const ParameterType weighted = internal::any_of<Dense, Conv1D, Conv2D, Conv3D>(Group::kLayer);
  const Description dense{"nn.Dense", {{"in", 3}, {"out", 4}}};
  layers.wrapper<decltype(kWeightNorm), NoOptions, Dense, Conv1D, Conv2D, Conv3D>(
      "nn.WeightNorm", kWeightNorm, {{"layer", weighted}}, {dense});
  layers.wrapper<decltype(kSpectralNorm), NoOptions, Dense, Conv1D, Conv2D, Conv3D>(
      "nn.SpectralNorm", kSpectralNorm, {{"layer", weighted}}, {dense});
  add_over_any(layers, dense);
}

}  // namespace etude::kinds
