// SPDX-License-Identifier: Apache-2.0
#include "python/src/program/several_inputs.h"

#include <type_traits>
#include <utility>

#include "etude/base/check.h"
#include "etude/nn/layers/attention.h"
#include "etude/nn/layers/cells.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/models/models.h"

namespace etude::python {
namespace {

using Results = std::vector<Tensor>;
using Inputs = std::span<const Tensor>;

Results list_of(const Tensor& state) { return {state}; }
Results list_of(const nn::LSTMState& state) { return {state.h, state.c}; }

template <class State>
State state_from(Inputs tensors) {
  if constexpr (std::is_same_v<State, Tensor>) {
    return tensors[0];
  } else {
    return {tensors[0], tensors[1]};
  }
}

template <class Cell>
SeveralInputs cell(std::string name, const Cell& like) {
  using State = typename Cell::State;
  constexpr bool is_pair = !std::is_same_v<State, Tensor>;
  SeveralInputs out;
  out.name = std::move(name);
  out.arguments = is_pair ? "(x, (h, c))" : "(x, state)";
  out.counts = {1, is_pair ? 2U : 1U};
  out.returns_pair = is_pair;
  out.call = [like](const Parts& parts, Inputs in, CallSite where) {
    return list_of(struct_of(like, parts)(in[0], state_from<State>(in.subspan(1)), where));
  };
  if constexpr (requires { like.zero_state(int64_t{1}, kFloat32); }) {
    out.zero_state = [like](const Parts& parts, int64_t n, DType dtype) {
      return list_of(struct_of(like, parts).zero_state(n, dtype));
    };
  }
  out.parts = parts_of(like);
  return out;
}

template <class Layer>
SeveralInputs pair(std::string name, std::string arguments, const Layer& like) {
  SeveralInputs out;
  out.name = std::move(name);
  out.arguments = std::move(arguments);
  out.counts = {1, 1};
  out.call = [like](const Parts& parts, Inputs in, CallSite where) -> Results {
    if constexpr (std::is_invocable_v<const Layer&, const Tensor&, const Tensor&, CallSite>) {
      return {struct_of(like, parts)(in[0], in[1], where)};
    } else {
      return {struct_of(like, parts)(nn::models::Columns{in[0], in[1]}, where)};
    }
  };
  out.parts = parts_of(like);
  return out;
}

template <class T>
bool is(const kinds::Made& made) {
  return made.is<T>();
}

std::optional<SeveralInputs> found(const kinds::Made& made) {
  if (is<nn::SimpleRNNCell>(made)) {
    return cell("nn.SimpleRNNCell", made.as<nn::SimpleRNNCell>());
  }
  if (is<nn::LSTMCell>(made)) return cell("nn.LSTMCell", made.as<nn::LSTMCell>());
  if (is<nn::GRUCell>(made)) return cell("nn.GRUCell", made.as<nn::GRUCell>());
  if (is<nn::ConvLSTM2DCell>(made)) {
    return cell("nn.ConvLSTM2DCell", made.as<nn::ConvLSTM2DCell>());
  }
  if (is<nn::Bilinear>(made)) return pair("nn.Bilinear", "(x, y)", made.as<nn::Bilinear>());
  if (is<nn::TransformerDecoderLayer>(made)) {
    return pair("nn.TransformerDecoderLayer", "(x, memory)",
                made.as<nn::TransformerDecoderLayer>());
  }
  if (is<nn::models::DLRM>(made)) {
    return pair("nn.models.DLRM", "(numbers, rows)", made.as<nn::models::DLRM>());
  }
  if (is<nn::models::WideAndDeep>(made)) {
    return pair("nn.models.WideAndDeep", "(numbers, rows)", made.as<nn::models::WideAndDeep>());
  }
  return std::nullopt;
}

}  // namespace

std::shared_ptr<const SeveralInputs> several_inputs(const kinds::Made& made) {
  std::optional<SeveralInputs> out = found(made);
  return out ? std::make_shared<const SeveralInputs>(*std::move(out)) : nullptr;
}

nn::Layer layer_of_several(std::shared_ptr<const SeveralInputs> several) {
  Parts parts = several->parts;
  return nn::Layer(std::move(parts), [several](const Parts&, const Tensor&) -> Tensor {
    ETUDE_THROW(kInvalidArgument, "{} is called with several tensors: {}", several->name,
                several->arguments);
  });
}

}  // namespace etude::python
