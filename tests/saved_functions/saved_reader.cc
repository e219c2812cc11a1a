// SPDX-License-Identifier: Apache-2.0
// Loads the functions in FOLDER, which saved_writer.cc saved, and compares their results with those
// in FILE, bit for bit. Knows neither their source nor their model.
#include <cstdio>
#include <exception>
#include <string>

#include "etude/io/safetensors.h"
#include "etude/ops.h"
#include "etude/saved/saved.h"

using namespace etude;

namespace {

int wrong = 0;

void compare(const std::string& what, const Tensor& got, const Tensor& want) {
  if (got.type() == want.type() && array_equal(got, want).item<bool>()) return;
  std::printf("%s differs\n", what.c_str());
  ++wrong;
}

void read(const char* folder, const char* file) {
  const io::NamedTensors values = io::load_safetensors(file).tensors;
  const saved::Program program = saved::load(folder);
  const auto predict = program.function("predict").as<Tensor(const Tensor&)>();
  const auto train = program.function("train").as<Tensor(const Tensor&, const Tensor&)>();
  const Tensor &x = values.at("x"), &labels = values.at("labels");
  compare("scores", predict(x), values.at("scores"));
  set_seed(5);
  for (int i = 0; i < 3; ++i) {
    const std::string name = "loss" + std::to_string(i);
    compare(name, train(x, labels), values.at(name));
  }
  compare("trained", predict(x), values.at("trained"));
  compare("one", predict(x.at(Slice(0, 1))), values.at("one"));
  compare("weight", program.variable("net/hidden/weight").read(), values.at("net/hidden/weight"));
  saved::save(folder, program);  // the trained state
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 3) read(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  if (wrong == 0) std::puts("same");
  return argc == 3 && wrong == 0 ? 0 : 2;
}
