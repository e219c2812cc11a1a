// SPDX-License-Identifier: Apache-2.0
// Finds words in text without spaces, learned from such text alone (after Kawakami, Dyer and
// Blunsom, 2019). The loss sums over all ways to cut a text; its derivative by the score of a word
// is the probability of that word. Prints texts with the spaces that it found.
//   ./dev run words [STEPS [HIDDEN]]     the paper has 512
#include "examples/text/words.h"

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

using namespace words;

struct Text {
  std::string letters;
  std::vector<int> begins;  // of its words
};
Text text_of(int64_t length) {
  static const char* const kWords[] = {"the", "cat",  "dog", "sees",  "bird", "a",
                                       "on",  "roof", "old", "likes", "it",   "in"};
  static std::mt19937 generator(1);  // NOLINT(cert-msc51-cpp): the same texts each time
  Text text;
  while (std::ssize(text.letters) != length) {
    if (std::ssize(text.letters) > length) text = {};
    text.begins.push_back(static_cast<int>(text.letters.size()));
    text.letters += kWords[generator() % 12];
  }
  return text;
}
Tensor ids_of(const std::vector<Text>& texts) {
  std::vector<int32_t> ids;
  for (const Text& text : texts) {
    for (const char c : text.letters) ids.push_back(c - 'a');
  }
  const auto n = std::ssize(texts);
  return reshape(Tensor(ids), {n, std::ssize(ids) / n});
}
std::vector<Text> texts_of(size_t n, int64_t length) {
  std::vector<Text> texts(n);
  for (Text& text : texts) text = text_of(length);
  return texts;
}
int main(int argc, char** argv) try {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 1000;
  set_seed(1);
  Model model = model_of(argc > 2 ? std::atoll(argv[2]) : 128);
  optim::Adam adam({.lr = optim::cosine(5e-3, steps)});
  const auto step = function([](Model& m, optim::Adam& optimizer, const Tensor& ids) {
    const auto [cost, slopes] = value_with_gradient(
        [&](const Model& now) { return -mean(log_chance(word_scores(now, ids))) / 14.0F; }, m);
    optimizer.update(m, slopes);
    return cost;
  });
  for (int k = 0; k < steps; ++k) {
    const float cost = step(model, adam, ids_of(texts_of(16, 14))).item<float>();
    if (k % 50 == 0) std::printf("step %3d  %.3f a letter\n", k, cost);
  }
  for (const int64_t length : {4, 8, 14}) {
    std::vector<Text> texts = texts_of(50, length);
    const Tensor scores = word_scores(model, ids_of(texts));
    // Probabilities of words around a letter sum to 1: length times derivative is the length.
    const Tensor likely = gradient([](const Tensor& s) { return sum(log_chance(s)); }, scores);
    const float covered =
        sum(likely * (1.0F + astype(arange(kLongest), kFloat32))).item<float>() / 50;
    const auto cuts = best_cuts(scores);
    double found = 0, words = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      for (const int begin : texts[i].begins) found += std::ranges::count(cuts[i], begin) > 0;
      words += static_cast<double>(std::max(texts[i].begins.size(), cuts[i].size()));
    }
    std::string& shown = texts[0].letters;
    for (size_t k = cuts[0].size(); --k > 0;) shown.insert(static_cast<size_t>(cuts[0][k]), 1, ' ');
    std::printf("%2lld letters: %.3f of words, covered %.4f: %s\n", static_cast<long long>(length),
                found / words, covered, shown.c_str());
  }
} catch (const Error& error) {
  std::fprintf(stderr, "words: %s\n", error.what());
  return 1;
}
