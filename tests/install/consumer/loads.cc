// SPDX-License-Identifier: Apache-2.0
// Runs the functions that tests/saved_functions/saved_writer.cc saved to FOLDER, and compares their
// results with FILE, bit for bit. Links the loader, which has no layers and no optimisers: calls,
// state, random numbers, derivatives and staged functions do not need them.
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>

#include "etude/autodiff/tensor_operators.h"
#include "etude/io/npy.h"
#include "etude/io/safetensors.h"
#include "etude/ops.h"
#include "etude/saved/saved.h"
#include "etude/stage/function.h"

using namespace etude;

namespace {

int wrong = 0;

void expect(const std::string& what, bool is_right) {
  if (is_right) return;
  std::printf("%s: wrong\n", what.c_str());
  ++wrong;
}
void compare(const std::string& what, const Tensor& got, const Tensor& want) {
  expect(what, got.type() == want.type() && array_equal(got, want).item<bool>());
}

void load(const std::string& folder, const std::string& file) {
  const io::NamedTensors values = io::load_safetensors(file).tensors;
  const Tensor &x = values.at("x"), &labels = values.at("labels");
  const saved::Program program = saved::load(folder);
  const auto predict = program.function("predict").as<Tensor(const Tensor&)>();
  compare("scores", predict(x), values.at("scores"));

  // The gradient of the loaded function, eager and within a staged function.
  const auto loss = [&](const Tensor& input) { return -mean(log(predict(input).at(kAll, 0))); };
  const Tensor slope = gradient(loss, x);
  const auto staged = function([&](const Tensor& input) { return gradient(loss, input); });
  compare("gradient in a staged function", staged(x), slope);
  const float step = 1e-2F;
  const float along = (loss(x + step) - loss(x - step)).item<float>() / (2 * step);
  expect("gradient", std::abs(sum(slope).item<float>() - along) < 1e-3F);

  const auto train = program.function("train").as<Tensor(const Tensor&, const Tensor&)>();
  set_seed(5);
  for (int i = 0; i < 3; ++i) {
    const std::string name = "loss" + std::to_string(i);
    compare(name, train(x, labels), values.at(name));
  }
  compare("trained", predict(x), values.at("trained"));
  saved::save(folder + "_again", program);
  const saved::Program again = saved::load(folder + "_again");
  compare("saved again", again.function("predict").as<Tensor(const Tensor&)>()(x),
          values.at("trained"));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 3) load(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  if (argc == 3 && wrong == 0) std::puts("loaded");
  return argc == 3 && wrong == 0 ? 0 : 2;
}
