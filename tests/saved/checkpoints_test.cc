// SPDX-License-Identifier: Apache-2.0
// Checkpoints that earlier releases wrote: a run as one safetensors file, and a folder of an object
// graph. They load, and the run goes on.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude::saved_test {
namespace {

namespace fs = std::filesystem;

std::string old_file(const std::string& name) { return ETUDE_SAVED_FILES + name; }

struct Net {
  nn::Dense hidden{2, 3, {.activation = nn::tanh}};
  nn::Dense output{3, 2};
  Tensor operator()(const Tensor& x) const { return output(hidden(x)); }
};

data::Samples samples() {
  std::vector<float> inputs;
  std::vector<int32_t> labels;
  for (int i = 0; i < 8; ++i) {
    inputs.push_back(0.25F * static_cast<float>(i) - 1);
    inputs.push_back(0.5F - 0.125F * static_cast<float>(i));
    labels.push_back(i % 3 == 0 ? 1 : 0);
  }
  return {Tensor(inputs, {8, 2}), Tensor(labels)};
}

struct SavedRun {
  Net net;
  optim::Adam adam{{.lr = 1e-2}};
  data::Loader<data::Samples> data{samples(), {.batch = 2, .seed = 7, .prefetch = 0}};
};

// The sums of the saved tensors, as that release printed them.
void expect_saved(const SavedRun& run) {
  EXPECT_FLOAT_EQ(sum(run.net.hidden.weight).item<float>(), 0.6294384F);
  EXPECT_FLOAT_EQ(sum(run.net.hidden.bias).item<float>(), 0.0347610116F);
  EXPECT_FLOAT_EQ(sum(run.net.output.weight).item<float>(), 0.766611218F);
  EXPECT_EQ(run.adam.updates(), 6);
  EXPECT_EQ(run.data.position(), (data::Position{1, 2}));
}

TEST(SavedCheckpoints, ARunInOneFileGoesOn) {
  set_seed(99);
  SavedRun run;
  io::load_checkpoint(old_file("run_v1.safetensors"), run.net, run.adam, run.data);
  expect_saved(run);
  EXPECT_FLOAT_EQ(random::uniform({}).item<float>(), 0.133433F);  // the generator is restored
  nn::fit(run.net, run.adam, run.data, nn::softmax_cross_entropy, {.epochs = 2});
  EXPECT_EQ(run.adam.updates(), 8);
}

// Saving to the path of such a file puts a folder in its place.
TEST(SavedCheckpoints, ARunInOneFileIsReplaced) {
  const internal::TempFolder folder;
  const std::string path = (folder.path() / "run.safetensors").string();
  fs::copy_file(old_file("run_v1.safetensors"), path);
  SavedRun run, again;
  io::load_checkpoint(path, run.net, run.adam, run.data);
  io::save_checkpoint(path, run.net, run.adam, run.data);
  EXPECT_TRUE(fs::is_directory(path));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  io::load_checkpoint(path, again.net, again.adam, again.data);
  expect_saved(again);
}

TEST(SavedCheckpoints, AnObjectGraphIsRestored) {
  SavedRun run;
  io::Checkpoint checkpoint{{"net", run.net}, {"adam", run.adam}, {"data", run.data}};
  checkpoint.restore(old_file("object_v1")).assert_consumed();
  expect_saved(run);
}

}  // namespace
}  // namespace etude::saved_test
