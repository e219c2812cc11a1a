// SPDX-License-Identifier: Apache-2.0
// Trains LeNet on Fashion-MNIST: 60,000 images, ten classes. Ctrl-C saves a checkpoint, and
// --resume continues bit for bit. Run it with ./dev train [--epochs N] [--mode staged|lazy].
#include "examples/lenet.h"

#include <csignal>
#include <cstdio>

#include <CLI/CLI.hpp>

using namespace etude;

volatile std::sig_atomic_t interrupted = 0;

int main(int argc, char** argv) try {
  int64_t epochs = 10, steps = -1;
  uint64_t seed = 1;
  int threads = 0;
  std::string save = "lenet.checkpoint", resume, mode = "eager";
  CLI::App app("Trains LeNet on Fashion-MNIST");
  app.add_option("--epochs", epochs, "epochs to train for");
  app.add_option("--steps", steps, "stop after that many steps, as Ctrl-C does");
  app.add_option("--seed", seed, "of weights and order");
  app.add_option("--threads", threads, "default: all processors; results do not depend on it");
  app.add_option("--mode", mode)->check(CLI::IsMember({"eager", "staged", "lazy"}));
  app.add_option("--save", save, "where the checkpoint goes");
  app.add_option("--resume", resume, "checkpoint to go on from; same --epochs and --seed as then");
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGINT, [](int) {
    interrupted = 1;
    std::signal(SIGINT, SIG_DFL);  // a second Ctrl-C ends at once
  });
  set_thread_count(threads);
  set_seed(seed);

  const data::FashionMnist images = data::fashion_mnist();
  data::Loader data(images.train, {.batch = 128, .seed = seed});
  LeNet model;
  optim::AdamW optimizer({.lr = optim::cosine(3e-3, epochs * data.steps_per_epoch())});
  const auto& loss = nn::softmax_cross_entropy;
  const auto evaluate = [&] { return nn::evaluate(model, data::batches(images.test, 500), loss); };
  if (!resume.empty()) io::load_checkpoint(resume, model, optimizer, data);
  std::puts(nn::summary(model, {1, 28, 28, 1}).to_string().c_str());
  const nn::Callback stop = [&](nn::Event event, nn::FitState& state) {
    const bool ends = event == nn::Event::kBatchEnd && (interrupted || --steps == 0);
    if (ends) state.cancel = nn::Cancel::kFit;
  };
  nn::FitOptions options{.epochs = epochs, .validation = evaluate};
  options.callbacks = {nn::progress(), stop};
  if (mode == "staged") options.mode = nn::Mode::kStaged;
  if (mode == "lazy") options.mode = nn::Mode::kLazy;
  const nn::History history = nn::fit(model, optimizer, data, loss, options);
  io::save_checkpoint(save, model, optimizer, data);
  std::printf("loss by step\n%s\n", nn::draw_curve(history.batch_losses).c_str());
  if (history.was_cancelled) {
    std::printf("stopped; go on with --resume %s\n", save.c_str());
    return 0;
  }
  const nn::Evaluation result = evaluate();
  std::printf("%s\n", result.confusion.to_string(data::kFashionMnistClasses).c_str());
  std::printf("test accuracy %.4f\n", result.accuracy);
} catch (const Error& error) {
  std::fprintf(stderr, "lenet: %s\n", error.what());
  return 1;
}
