// SPDX-License-Identifier: Apache-2.0
// A small GPT-2 of letters. It learns one text, is fine-tuned to another with a tenth of the steps,
// and continues a text of yours letter by letter, with an attention cache.
//   ./dev run gpt [STEPS [TEXT [OTHER_TEXT [BEGINNING]]]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "etude/etude.h"

using namespace etude;

constexpr int64_t kBatch = 16, kTime = 64, kLetters = 128;

Tensor read_letters(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() <= kTime) throw Error(ErrorCode::kNotFound, path + " is no text of 65 letters");
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c) % kLetters);
  return Tensor(ids);
}

// Windows of the text from random places: [batch, time + 1].
Tensor windows(const Tensor& text) {
  const Tensor start = random::randint({kBatch, 1}, 0, text.size() - kTime);
  return take(text, start + expand_dims(arange(kTime + 1, {.dtype = kInt32}), {0}), {.axis = 0});
}
Tensor loss(const nn::TextDecoder& gpt, const Tensor& w) {
  return nn::softmax_cross_entropy(gpt(slice(w, {0, 0}, {kBatch, kTime})),
                                   slice(w, {0, 1}, {kBatch, kTime + 1}));
}

std::string go_on(const nn::TextDecoder& gpt, std::string text, int letters) {
  std::vector<nn::AttentionCache> caches;
  std::vector<int32_t> ids(text.begin(), text.end());
  for (int k = 0; k < letters; ++k) {
    const Tensor logits = gpt.extend(expand_dims(Tensor(ids), {0}), caches);
    ids = {random::categorical(1.5F * logits.at(0, -1)).item<int32_t>()};
    text += static_cast<char>(ids[0]);
  }
  return text;
}

int main(int argc, char** argv) try {
  const std::string licences = "/usr/share/common-licenses/";
  const auto argument = [&](int k, const std::string& unless) {
    return argc > k ? argv[k] : unless;
  };
  const int steps = std::stoi(argument(1, "600"));
  const Tensor text = read_letters(argument(2, licences + "GPL-2"));
  const Tensor other = read_letters(argument(3, licences + "CC0-1.0"));
  set_seed(1);
  nn::TextDecoder gpt(
      {.vocabulary = kLetters, .positions = 128, .dim = 64, .layers = 2, .heads = 4, .dropout = 0});
  const auto step = function([](nn::TextDecoder& model, optim::AdamW& optimizer, const Tensor& w) {
    const auto [cost, slopes] =
        value_with_gradient([&](const nn::TextDecoder& m) { return loss(m, w); }, model);
    optimizer.update(model, slopes);
    return cost;
  });
  const auto bits = [&](const Tensor& of) {
    return loss(gpt, windows(of)).item<float>() / 0.6931F;
  };
  const auto learn = [&](const char* name, const Tensor& of, int count) {
    optim::AdamW adam({.lr = optim::cosine(4e-3, count)});
    const float before = bits(of);
    for (int k = 0; k < count; ++k) step(gpt, adam, windows(of));
    std::printf("%s: %.2f bits a letter, then %.2f\n%s\n\n", name, before, bits(of),
                go_on(gpt, argument(4, "The "), 100).c_str());
  };
  learn("learnt", text, steps);
  learn("tuned", other, std::max(1, steps / 10));
} catch (const Error& error) {
  std::fprintf(stderr, "gpt: %s\n", error.what());
  return 1;
}
