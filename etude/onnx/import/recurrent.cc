// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM: a scan over the steps of a sequence for each direction.
#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "etude/onnx/import/importer.h"
#include "etude/ops.h"
#include "etude/stage/control_flow.h"

namespace etude::onnx::importing {
namespace recurrent {
namespace {

using Results = std::vector<Tensor>;
using Activation = std::function<Tensor(const Tensor&)>;

Activation activation_of(const NodeCall& n, std::string name, std::optional<double> alpha,
                         std::optional<double> beta) {
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (name == "sigmoid") return [](const Tensor& x) { return nn::sigmoid(x); };
  if (name == "tanh") return [](const Tensor& x) { return tanh(x); };
  if (name == "relu") return [](const Tensor& x) { return nn::relu(x); };
  if (name == "softsign") return [](const Tensor& x) { return nn::softsign(x); };
  if (name == "softplus") return [](const Tensor& x) { return nn::softplus(x); };
  const double a = alpha.value_or(name == "leakyrelu" ? 0.01 : name == "hardsigmoid" ? 0.2 : 1);
  const double b = beta.value_or(name == "hardsigmoid" ? 0.5 : name == "affine" ? 0 : 1);
  if (name == "affine") return [a, b](const Tensor& x) { return x * a + b; };
  if (name == "leakyrelu") return [a](const Tensor& x) { return nn::leaky_relu(x, {.slope = a}); };
  if (name == "elu") return [a](const Tensor& x) { return nn::elu(x, {.alpha = a}); };
  if (name == "thresholdedrelu") {
    return [a](const Tensor& x) { return where(x > a, x, zeros_like(x)); };
  }
  if (name == "scaledtanh") return [a, b](const Tensor& x) { return tanh(x * b) * a; };
  if (name == "hardsigmoid") {
    return [a, b](const Tensor& x) { return clip(x * a + b, {.min = 0.0, .max = 1.0}); };
  }
  n.refuse("the activation '{}' is not imported", name);
}

// The facts of a node. Weights are [directions, gates * hidden, ..].
class Recurrence {
 public:
  Recurrence(const NodeCall& n, int64_t gates, std::size_t states,
             std::vector<std::string> defaults)
      : n_(n), gates_(gates), states_(states) {
    const std::string direction = n.text("direction", "forward");
    n.require(direction == "forward" || direction == "reverse" || direction == "bidirectional",
              "the direction is '{}', not forward, reverse or bidirectional", direction);
    is_reverse_ = direction == "reverse";
    directions_ = direction == "bidirectional" ? 2 : 1;
    n.require(n.rank(0) == 3 && n.rank(1) == 3 && n.rank(2) == 3,
              "X, W and R have {}, {} and {} axes, but 3 are needed", n.rank(0), n.rank(1),
              n.rank(2));
    hidden_ = n.shape(2)[2];
    n.require(n.shape(2)[1] == gates * hidden_ && n.shape(1)[0] == directions_ &&
                  n.integer("hidden_size", hidden_) == hidden_,
              "W is {} and R is {}, which do not fit {} directions with {} gates",
              n.shape(1).to_string(), n.shape(2).to_string(), directions_, gates);
    is_batch_first_ = n.integer("layout", 0) != 0;
    x_ = is_batch_first_ ? swapaxes(n.x(0), 0, 1) : n.x(0);
    steps_ = x_.type()->shape()[0];
    batch_ = x_.type()->shape()[1];
    if (n.has(4)) lengths_ = as_dtype(n.x(4), kInt64);
    read_activations(std::move(defaults));
    if (n.has("clip")) clip_ = n.real("clip", 0);
  }

  // step(direction, gates of the input, states) returns the next states.
  using Step = std::function<std::vector<Tensor>(int64_t direction, const Tensor& input,
                                                 const std::vector<Tensor>& states)>;
  Results run(const Step& step) {
    std::vector<Tensor> all;
    std::vector<std::vector<Tensor>> last(states_);
    for (int64_t d = 0; d < directions_; ++d) {
      auto [states, outputs] = one(d, step);
      all.push_back(outputs);
      for (std::size_t s = 0; s < states_; ++s) last[s].push_back(states[s]);
    }
    Tensor y = stack(all, {.axis = 1});  // [steps, directions, batch, hidden]
    if (is_batch_first_) y = permute_dims(y, {2, 0, 1, 3});
    Results out = {y};
    for (const std::vector<Tensor>& each : last) {
      out.push_back(stack(each, {.axis = is_batch_first_ ? 1 : 0}));
    }
    return out;
  }

  // The weights of a direction.
  Tensor row(std::size_t input, int64_t d) const {
    return squeeze(span_of(n_.x(input), 0, d, d + 1), 0);
  }
  // Gate g of a vector or a matrix of gates, along its last axis.
  Tensor gate(const Tensor& x, int64_t g) const {
    return span_of(x, x.type()->rank() - 1, g * hidden_, (g + 1) * hidden_);
  }
  Tensor clipped(const Tensor& x) const {
    return clip_ ? etude::clip(x, {.min = -*clip_, .max = *clip_}) : x;
  }
  const Activation& f(int64_t direction, std::size_t number) const {
    return activations_[static_cast<std::size_t>(direction) * each_ + number];
  }
  int64_t hidden() const { return hidden_; }

 private:
  void read_activations(std::vector<std::string> defaults) {
    each_ = defaults.size();
    std::vector<std::string> names = n_.texts("activations");
    const auto needed = each_ * static_cast<std::size_t>(directions_);
    if (names.empty()) {
      for (int64_t d = 0; d < directions_; ++d) {
        names.insert(names.end(), defaults.begin(), defaults.end());
      }
    }
    n_.require(names.size() >= needed, "there are {} activations, but {} are needed", names.size(),
               needed);
    const std::vector<double> alpha = n_.reals("activation_alpha"),
                              beta = n_.reals("activation_beta");
    const auto number = [](const std::vector<double>& all, std::size_t i) {
      return i < all.size() ? std::optional(all[i]) : std::nullopt;
    };
    for (std::size_t i = 0; i < needed; ++i) {
      activations_.push_back(activation_of(n_, names[i], number(alpha, i), number(beta, i)));
    }
  }

  std::pair<std::vector<Tensor>, Tensor> one(int64_t d, const Step& step) {
    const bool is_reverse = is_reverse_ || d == 1;
    Tensor input = matmul(x_, row(1, d), {.transpose_y = true});
    if (n_.has(3)) input = input + gate_range(row(3, d), 0);
    std::vector<Tensor> states;
    for (std::size_t s = 0; s < states_; ++s) {
      const std::size_t at = 5 + s;
      Tensor first = zeros({batch_, hidden_}, {.dtype = x_.dtype()});
      if (n_.has(at)) {
        const Tensor given = is_batch_first_ ? swapaxes(n_.x(at), 0, 1) : n_.x(at);
        first = squeeze(slice(given, {d, 0, 0}, {d + 1, batch_, hidden_}), 0);
      }
      states.push_back(first);
    }
    Tensor numbers = numbered(steps_);
    if (is_reverse) {
      input = flip(input, {.axis = {0}});
      numbers = flip(numbers, {.axis = {0}});
    }
    const std::vector<Tensor> rows = {input, numbers};
    auto [last, outputs] = scan(
        [&](const std::vector<Tensor>& now, const std::vector<Tensor>& in) {
          std::vector<Tensor> next = step(d, in[0], now);
          Tensor y = next[0];
          if (lengths_.has_value()) {  // steps after the end keep the states, and return zeros
            const Tensor is_inside = expand_dims(in[1] < lengths_, 1);
            y = where(is_inside, y, zeros_like(y));
            for (std::size_t s = 0; s < next.size(); ++s) {
              next[s] = where(is_inside, next[s], now[s]);
            }
          }
          return std::pair(std::move(next), std::move(y));
        },
        states, rows);
    if (is_reverse) outputs = flip(outputs, {.axis = {0}});
    return {last, outputs};
  }
  // The biases of the input (part 0) or of the recurrence (part 1).
  Tensor gate_range(const Tensor& bias, int64_t part) const {
    return slice(bias, {part * gates_ * hidden_}, {(part + 1) * gates_ * hidden_});
  }

 public:
  Tensor recurrent_bias(int64_t d) const { return n_.has(3) ? gate_range(row(3, d), 1) : Tensor(); }

 private:
  const NodeCall& n_;
  const int64_t gates_;
  const std::size_t states_;
  bool is_reverse_ = false, is_batch_first_ = false;
  int64_t directions_ = 1, hidden_ = 0, steps_ = 0, batch_ = 0;
  Tensor x_, lengths_;
  std::size_t each_ = 0;
  std::vector<Activation> activations_;
  std::optional<double> clip_;
};

Results rnn(const NodeCall& n) {
  Recurrence of(n, 1, 1, {"Tanh"});
  return of.run([&](int64_t d, const Tensor& input, const std::vector<Tensor>& states) {
    Tensor sums = input + matmul(states[0], of.row(2, d), {.transpose_y = true});
    const Tensor bias = of.recurrent_bias(d);
    if (bias.has_value()) sums = sums + bias;
    return std::vector<Tensor>{of.f(d, 0)(of.clipped(sums))};
  });
}

// Gates z, r, h.
Results gru(const NodeCall& n) {
  Recurrence of(n, 3, 1, {"Sigmoid", "Tanh"});
  const bool is_linear = n.integer("linear_before_reset", 0) != 0;
  return of.run([&](int64_t d, const Tensor& input, const std::vector<Tensor>& states) {
    const Tensor& h = states[0];
    const Tensor weights = of.row(2, d), bias = of.recurrent_bias(d);
    Tensor all = matmul(h, weights, {.transpose_y = true});
    if (bias.has_value()) all = all + bias;
    const Tensor z = of.f(d, 0)(of.clipped(of.gate(input, 0) + of.gate(all, 0)));
    const Tensor r = of.f(d, 0)(of.clipped(of.gate(input, 1) + of.gate(all, 1)));
    Tensor candidate;
    if (is_linear) {
      candidate = of.gate(input, 2) + r * of.gate(all, 2);
    } else {
      const int64_t hidden = of.hidden();
      const Tensor last = slice(weights, {2 * hidden, 0}, {3 * hidden, hidden});
      candidate = of.gate(input, 2) + matmul(r * h, last, {.transpose_y = true});
      if (bias.has_value()) candidate = candidate + of.gate(bias, 2);
    }
    const Tensor next = of.f(d, 1)(of.clipped(candidate));
    return std::vector<Tensor>{(1.0 - z) * next + z * h};
  });
}

// Gates i, o, f, c, with peepholes from the state of the cell.
Results lstm(const NodeCall& n) {
  Recurrence of(n, 4, 2, {"Sigmoid", "Tanh", "Tanh"});
  const bool couples = n.integer("input_forget", 0) != 0;
  return of.run([&](int64_t d, const Tensor& input, const std::vector<Tensor>& states) {
    const Tensor &h = states[0], &c = states[1];
    Tensor sums = input + matmul(h, of.row(2, d), {.transpose_y = true});
    const Tensor bias = of.recurrent_bias(d);
    if (bias.has_value()) sums = sums + bias;
    Tensor peephole;
    if (n.has(7)) peephole = of.row(7, d);
    const auto with_peephole = [&](int64_t gate, int64_t number, const Tensor& cell) {
      const Tensor at = of.gate(sums, gate);
      return of.clipped(peephole.has_value() ? at + of.gate(peephole, number) * cell : at);
    };
    const Tensor i = of.f(d, 0)(with_peephole(0, 0, c));
    const Tensor f = couples ? 1.0 - i : of.f(d, 0)(with_peephole(2, 2, c));
    const Tensor next = f * c + i * of.f(d, 1)(of.clipped(of.gate(sums, 3)));
    const Tensor o = of.f(d, 0)(with_peephole(1, 1, next));
    return std::vector<Tensor>{o * of.f(d, 2)(next), next};
  });
}

}  // namespace
}  // namespace recurrent

void add_recurrent_imports(Imports& to) {
  using namespace recurrent;
  to.insert(
      to.end(),
      {{"RNN", "X W R B? sequence_lens? initial_h?",
        "activation_alpha activation_beta activations clip direction hidden_size layout "
        "output_sequence",
        rnn},
       {"GRU", "X W R B? sequence_lens? initial_h?",
        "activation_alpha activation_beta activations clip direction hidden_size layout "
        "linear_before_reset output_sequence",
        gru},
       {"LSTM", "X W R B? sequence_lens? initial_h? initial_c? P?",
        "activation_alpha activation_beta activations clip direction hidden_size input_forget "
        "layout output_sequence",
        lstm}});
}

}  // namespace etude::onnx::importing
