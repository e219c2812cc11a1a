// SPDX-License-Identifier: Apache-2.0
// Initialisers and activations: functions, and functions with numbers.
#include <cstddef>
#include <iterator>
#include <utility>

#include "etude/kinds/initializer_names.h"
#include "etude/kinds/table.h"
#include "etude/nn/init.h"
#include "etude/nn/layers/activations.h"
#include "etude/ops.h"

namespace etude::kinds {
namespace {

using N = NoOptions;

// A row of kInitializers.
template <std::size_t i>
internal::Object make_initializer(const Value*, CallSite) {
  return internal::object_of_type(nn::Initializer(kInitializers[i].function));
}

void add_functions(Rows rows) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    const auto add = [&](const char* name, auto make) {
      Kind& kind = rows.begin(name);
      kind.type = &typeid(nn::Initializer);
      kind.make = make;
    };
    (add(kInitializers[I].kind, make_initializer<I>), ...);
  }
  (std::make_index_sequence<std::size(kInitializers)>());
}

template <nn::Initializer (*make)(double, double)>
void pair(Rows& rows, const char* name, Positional first, Positional second) {
  rows.function<N, double, double>(
      name, [](const N&, CallSite, double a, double b) { return make(a, b); },
      {std::move(first), std::move(second)});
}

template <Tensor (*op)(const Arg&)>
void plain(Rows& rows, const char* name) {
  Kind& kind = rows.begin(name);
  kind.type = &typeid(nn::Activation);
  kind.make = [](const Value*, CallSite) { return internal::object_of_type(nn::Activation(op)); };
}

template <class O, Tensor (*op)(const Arg&, const O&)>
void with_options(Rows& rows, const char* name) {
  rows.function<O>(name, [](const O& options, CallSite) {
    return nn::Activation([options](const Tensor& x) { return op(x, options); });
  });
}

}  // namespace

void add_initializers(Table& table) {
  Rows rows(table, Group::kInitializer);
  add_functions(rows);
  rows.function<N, double>("nn.constant",
                           [](const N&, CallSite, double value) { return nn::constant(value); },
                           {"value"}, {0.5});
  pair<nn::random_uniform>(rows, "nn.random_uniform", {"low", -0.05}, {"high", 0.05});
  pair<nn::random_normal>(rows, "nn.random_normal", {"mean", 0}, {"stddev", 0.05});
  pair<nn::truncated_normal>(rows, "nn.truncated_normal", {"mean", 0}, {"stddev", 0.05});
  rows.function<nn::VarianceScalingOptions>(
      "nn.variance_scaling", [](const nn::VarianceScalingOptions& options, CallSite where) {
        return nn::variance_scaling(options, where);
      });
  rows.function<N, double>("nn.orthogonal",
                           [](const N&, CallSite, double gain) { return nn::orthogonal(gain); },
                           {{"gain", 1}});
}

void add_activations(Table& table) {
  Rows rows(table, Group::kActivation);
  plain<nn::sigmoid>(rows, "nn.sigmoid");
  plain<nn::log_sigmoid>(rows, "nn.log_sigmoid");
  plain<nn::softplus>(rows, "nn.softplus");
  plain<nn::softsign>(rows, "nn.softsign");
  plain<nn::silu>(rows, "nn.silu");
  plain<nn::swish>(rows, "nn.swish");
  plain<nn::mish>(rows, "nn.mish");
  plain<nn::relu>(rows, "nn.relu");
  plain<nn::relu6>(rows, "nn.relu6");
  plain<nn::selu>(rows, "nn.selu");
  plain<nn::hard_sigmoid>(rows, "nn.hard_sigmoid");
  plain<nn::hard_swish>(rows, "nn.hard_swish");
  plain<nn::tanh>(rows, "nn.tanh");
  with_options<nn::LeakyReluOptions, nn::leaky_relu>(rows, "nn.leaky_relu");
  with_options<nn::EluOptions, nn::elu>(rows, "nn.elu");
  with_options<nn::GeluOptions, nn::gelu>(rows, "nn.gelu");
  with_options<nn::SoftmaxOptions, nn::softmax>(rows, "nn.softmax");
  with_options<nn::LogSoftmaxOptions, nn::log_softmax>(rows, "nn.log_softmax");
}

}  // namespace etude::kinds
