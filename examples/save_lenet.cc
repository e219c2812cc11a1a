// SPDX-License-Identifier: Apache-2.0
// Writes the network that ./dev train has trained as a graph, for `etude compile`
// (docs/ahead_of_time.md):
//   ./dev train && ./dev run save_lenet --checkpoint lenet.checkpoint --output lenet.graph
#include <cstdio>
#include <fstream>

#include <CLI/CLI.hpp>

#include "examples/lenet.h"

using namespace etude;

int main(int argc, char** argv) try {
  std::string checkpoint, output = "lenet.graph";
  int64_t batch = 1;
  CLI::App app("Writes LeNet as a graph");
  app.add_option("--checkpoint", checkpoint,
                 "of ./dev train; without, weights are as at its start");
  app.add_option("--batch", batch, "images in one call")->check(CLI::PositiveNumber);
  app.add_option("--output", output, "file for the graph");
  CLI11_PARSE(app, argc, argv);
  set_seed(1);
  LeNet model;
  if (!checkpoint.empty()) {
    io::Checkpoint{{"model", model}}
        .restore(checkpoint)
        .assert_existing_objects_matched()
        .expect_partial();  // the run has more than its model
  }
  const auto predict = function([&](const Tensor& images) { return model(images); },
                                {.name = "lenet", .arg_names = {"images"}});
  predict(zeros({batch, 28, 28, 1}));
  const auto trace = predict.traces()[0];
  std::ofstream(output, std::ios::binary)
      << to_binary(*closed_graph(trace.graph(), trace.captures()));
  std::printf("%s: compile it with etude compile %s -o lenet\n", output.c_str(), output.c_str());
} catch (const Error& error) {
  std::fprintf(stderr, "save_lenet: %s\n", error.what());
  return 1;
}
