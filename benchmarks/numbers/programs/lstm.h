// SPDX-License-Identifier: Apache-2.0
// A language model on characters: two layers of long short-term memory whose weights are diagonal,
// a softmax, and the mean log-likelihood of the next character, by all weights; an objective of the
// suite ADBench (Microsoft, 2018). The states are carried over the whole sequence.
//
// Parameters, each [kSize]: for each layer the weights of its four gates, then their biases; then
// the scale of the input, the scale and the bias of the output.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "benchmarks/numbers/programs/log_sum_exp.h"
#include "benchmarks/numbers/programs/random.h"

namespace etude::bench::numbers {

struct Lstm {
  static constexpr std::size_t kSize = 14, kLayers = 2, kSteps = 1000;
  static constexpr std::size_t kLayer = 8 * kSize, kExtra = kLayers * kLayer;
  static constexpr std::size_t kCount = kExtra + 3 * kSize;
  enum Gate : std::size_t { kForget, kInput, kOutput, kChange };

  std::vector<double> parameters = Random(23).uniforms(kCount, -1, 1);
  std::vector<double> sequence = make_sequence();  // [kSteps + 1, kSize], one 1 in each row

  template <class T>
  T operator()(const std::vector<T>& x) const {
    std::vector<T> hidden(kLayers * kSize, T(0)), cell(kLayers * kSize, T(0));
    std::vector<T> signal(kSize), scores(kSize);
    T loss(0);
    for (std::size_t t = 0; t < kSteps; ++t) {
      const double* now = &sequence[t * kSize];
      for (std::size_t j = 0; j < kSize; ++j) signal[j] = now[j] * x[kExtra + j];
      for (std::size_t layer = 0; layer < kLayers; ++layer) {
        run_layer(&x[layer * kLayer], signal, &hidden[layer * kSize], &cell[layer * kSize]);
      }
      for (std::size_t j = 0; j < kSize; ++j) {
        scores[j] = signal[j] * x[kExtra + kSize + j] + x[kExtra + 2 * kSize + j];
      }
      const T total = log_sum_exp<T>(scores);
      const double* next = now + kSize;
      for (std::size_t j = 0; j < kSize; ++j) loss -= next[j] * (scores[j] - total);
    }
    return loss / static_cast<double>(kSteps);
  }

  std::vector<double> hand() const;

 private:
  static std::vector<double> make_sequence() {
    std::vector<double> rows((kSteps + 1) * kSize);
    Random random(29);
    for (std::size_t t = 0; t <= kSteps; ++t) {
      rows[t * kSize + static_cast<std::size_t>(random.uniform(0, kSize))] = 1;
    }
    return rows;
  }
  template <class T>
  static T sigmoid(const T& x) {
    using std::exp;
    return 1.0 / (1.0 + exp(-x));
  }
  // One step of one layer: changes its state, and the signal into its output.
  template <class T>
  static void run_layer(const T* weight, std::vector<T>& signal, T* hidden, T* cell) {
    using std::tanh;
    const T* bias = weight + 4 * kSize;
    for (std::size_t j = 0; j < kSize; ++j) {
      const auto gate = [&](Gate g, const T& x) {
        return x * weight[g * kSize + j] + bias[g * kSize + j];
      };
      const T forget = sigmoid(gate(kForget, signal[j]));
      const T input = sigmoid(gate(kInput, hidden[j]));
      const T output = sigmoid(gate(kOutput, signal[j]));
      const T change = tanh(gate(kChange, hidden[j]));
      cell[j] = cell[j] * forget + input * change;
      hidden[j] = output * tanh(cell[j]);
      signal[j] = hidden[j];
    }
  }

  // The values of one number of one layer at one step that the reverse pass reads.
  struct Kept {
    double signal, hidden, cell;  // before the step
    double gates[4], tanh_cell;
  };
  struct Run;
};

// The way there with all that the way back reads, and the way back through time.
struct Lstm::Run {
  const Lstm& model;
  const double* x = model.parameters.data();
  std::vector<Kept> kept = std::vector<Kept>(kSteps * kLayers * kSize);
  std::vector<double> last = std::vector<double>(kSteps * kSize);    // signals of the last layer
  std::vector<double> chance = std::vector<double>(kSteps * kSize);  // of each character

  void forward() {
    std::vector<double> hidden(kLayers * kSize), cell(kLayers * kSize), scores(kSize);
    for (std::size_t t = 0; t < kSteps; ++t) {
      double* signal = &last[t * kSize];
      for (std::size_t j = 0; j < kSize; ++j) {
        signal[j] = model.sequence[t * kSize + j] * x[kExtra + j];
      }
      for (std::size_t layer = 0; layer < kLayers; ++layer) {
        Kept* keep = &kept[(t * kLayers + layer) * kSize];
        forward_layer(x + layer * kLayer, signal, &hidden[layer * kSize], &cell[layer * kSize],
                      keep);
      }
      for (std::size_t j = 0; j < kSize; ++j) {
        scores[j] = signal[j] * x[kExtra + kSize + j] + x[kExtra + 2 * kSize + j];
      }
      softmax(scores, std::span(&chance[t * kSize], kSize));
    }
  }
  static void forward_layer(const double* weight, double* signal, double* hidden, double* cell,
                            Kept* keep) {
    const double* bias = weight + 4 * kSize;
    for (std::size_t j = 0; j < kSize; ++j) {
      const auto gate = [&](Gate g, double at) {
        return at * weight[g * kSize + j] + bias[g * kSize + j];
      };
      Kept& k = keep[j];
      k.signal = signal[j], k.hidden = hidden[j], k.cell = cell[j];
      k.gates[kForget] = sigmoid(gate(kForget, signal[j]));
      k.gates[kInput] = sigmoid(gate(kInput, hidden[j]));
      k.gates[kOutput] = sigmoid(gate(kOutput, signal[j]));
      k.gates[kChange] = std::tanh(gate(kChange, hidden[j]));
      cell[j] = cell[j] * k.gates[kForget] + k.gates[kInput] * k.gates[kChange];
      k.tanh_cell = std::tanh(cell[j]);
      signal[j] = hidden[j] = k.gates[kOutput] * k.tanh_cell;
    }
  }

  void backward(std::vector<double>& out) const {
    std::vector<double> of_hidden(kLayers * kSize), of_cell(kLayers * kSize), of_signal(kSize);
    for (std::size_t t = kSteps; t-- > 0;) {
      const double* next = &model.sequence[(t + 1) * kSize];
      for (std::size_t j = 0; j < kSize; ++j) {
        const double of_score = (chance[t * kSize + j] - next[j]) / static_cast<double>(kSteps);
        out[kExtra + kSize + j] += of_score * last[t * kSize + j];
        out[kExtra + 2 * kSize + j] += of_score;
        of_signal[j] = of_score * x[kExtra + kSize + j];
      }
      for (std::size_t layer = kLayers; layer-- > 0;) {
        backward_layer(x + layer * kLayer, &kept[(t * kLayers + layer) * kSize],
                       &of_hidden[layer * kSize], &of_cell[layer * kSize], of_signal,
                       &out[layer * kLayer]);
      }
      for (std::size_t j = 0; j < kSize; ++j) {
        out[kExtra + j] += of_signal[j] * model.sequence[t * kSize + j];
      }
    }
  }
  static void backward_layer(const double* weight, const Kept* kept, double* of_hidden,
                             double* of_cell, std::vector<double>& of_signal, double* out) {
    for (std::size_t j = 0; j < kSize; ++j) {
      const Kept& k = kept[j];
      const auto [forget, input, output, change] = k.gates;
      const double of_output = of_hidden[j] + of_signal[j];
      const double through = of_cell[j] + of_output * output * (1 - k.tanh_cell * k.tanh_cell);
      const double of_gates[4] = {
          through * k.cell * forget * (1 - forget), through * change * input * (1 - input),
          of_output * k.tanh_cell * output * (1 - output), through * input * (1 - change * change)};
      of_cell[j] = through * forget;
      for (std::size_t g = 0; g < 4; ++g) {
        out[g * kSize + j] += of_gates[g] * (g == kForget || g == kOutput ? k.signal : k.hidden);
        out[(g + 4) * kSize + j] += of_gates[g];
      }
      const auto by_weight = [&](Gate g) { return of_gates[g] * weight[g * kSize + j]; };
      of_signal[j] = by_weight(kForget) + by_weight(kOutput);
      of_hidden[j] = by_weight(kInput) + by_weight(kChange);
    }
  }
};

inline std::vector<double> Lstm::hand() const {
  Run run{*this};
  run.forward();
  std::vector<double> out(kCount);
  run.backward(out);
  return out;
}

}  // namespace etude::bench::numbers
