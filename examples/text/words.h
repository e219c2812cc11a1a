// SPDX-License-Identifier: Apache-2.0
// A recurrent network computes the chance that a run of letters is a word, and dynamic programming
// goes over all ways to cut a text into words. Used by words.cc.
#pragma once

#include <algorithm>
#include <vector>

#include "etude/etude.h"

namespace words {

using namespace etude;

constexpr int64_t kLongest = 6, kEnd = 26;  // letters are 0 to 25; 26 begins and ends words

struct Model {
  nn::Embedding letters;
  nn::LSTMCell cell;
  nn::Dense next;
};
inline Model model_of(int64_t hidden) {
  return {nn::Embedding(27, 32), nn::LSTMCell(32, hidden), nn::Dense(hidden, 27)};
}

// Log chances that the letters [i, i + k) of a text are a word: [n, time, longest], k from 1.
inline Tensor word_scores(const Model& m, const Tensor& text) {
  const int64_t n = text.shape()[0], time = text.shape()[1];
  const Tensor more = pad(text, {0, 0, 0, kLongest}, {.value = double{kEnd}});
  Tensor input = full({n * time}, int32_t{kEnd}), sum = zeros({n * time});
  nn::LSTMState state = m.cell.zero_state(n * time);
  std::vector<Tensor> scores;
  for (int64_t k = 0; k <= kLongest; ++k) {
    state = m.cell(m.letters(input), state);
    const Tensor chances = nn::log_softmax(m.next(state.h));
    if (k > 0)
      scores.push_back(sum + reshape(slice(chances, {0, kEnd}, {n * time, kEnd + 1}), {-1}));
    input = reshape(slice(more, {0, k}, {n, k + time}), {n * time});
    sum += squeeze(take_along_axis(chances, expand_dims(input, {1}), {.axis = 1}), {1});
  }
  return reshape(stack(scores, {.axis = 1}), {n, time, kLongest});
}

// The scores of the ways to cut each text, joined at each letter: all of them by logsumexp, or the
// best one by max. `begins` gets, for each letter, the beginning of the last word of the best way.
template <class Join>
Tensor over_cuts(const Tensor& scores, const Join& join, std::vector<Tensor>* begins = nullptr) {
  const int64_t n = scores.shape()[0], time = scores.shape()[1];
  std::vector<Tensor> reached = {zeros({n})};
  for (int64_t end = 1; end <= time; ++end) {
    std::vector<Tensor> ways;
    for (int64_t k = 1; k <= std::min(kLongest, end); ++k) {
      const Tensor word = slice(scores, {0, end - k, k - 1}, {n, end - k + 1, k});
      ways.push_back(reached[static_cast<size_t>(end - k)] + reshape(word, {n}));
    }
    const Tensor all = stack(ways, {.axis = 1});
    reached.push_back(join(all));
    if (begins != nullptr)
      begins->push_back(int32_t(end - 1) - astype(argmax(all, {.axis = 1}), kInt32));
  }
  return reached.back();
}
inline Tensor log_chance(const Tensor& scores) {
  return over_cuts(scores, [](const Tensor& ways) { return logsumexp(ways, {.axis = {1}}); });
}

// The best cut (Viterbi): for each text, where its words begin, from the first to the last.
inline std::vector<std::vector<int>> best_cuts(const Tensor& scores) {
  std::vector<Tensor> begins;
  over_cuts(
      scores, [](const Tensor& ways) { return max(ways, {.axis = {1}}); }, &begins);
  std::vector<std::vector<int>> cuts(static_cast<size_t>(scores.shape()[0]));
  for (size_t i = 0; i < cuts.size(); ++i) {
    for (int64_t at = scores.shape()[1]; at > 0; at = cuts[i].front())
      cuts[i].insert(cuts[i].begin(), begins[static_cast<size_t>(at - 1)].at(i).item<int32_t>());
  }
  return cuts;
}

}  // namespace words
