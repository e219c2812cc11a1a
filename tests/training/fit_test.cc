// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/fit/fit.h"

#include <gtest/gtest.h>

#include "etude/base/error.h"
#include "etude/codegen/compiler.h"
#include "etude/core/buffer.h"
#include "etude/data/loader.h"
#include "etude/io/checkpoint/checkpoint.h"
#include "etude/nn/layers/layers.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"
#include "etude/optim/sgd.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude::fit_test {
namespace {

struct Net {
  nn::Dense hidden{3, 8, {.activation = nn::relu}};
  nn::Dropout dropout{0.2};
  nn::Dense output{8, 2};
  Tensor operator()(const Tensor& x) const { return output(dropout(hidden(x))); }
};

// The class is whether the numbers of a row sum to more than 0.
data::Samples samples(int64_t n) {
  std::vector<float> inputs;
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < n; ++i) {
    float sum = 0;
    for (int64_t k = 0; k < 3; ++k) {
      inputs.push_back(std::sin(static_cast<float>(7 * i + 5 * k * k + i * k)));
      sum += inputs.back();
    }
    labels.push_back(sum > 0 ? 1 : 0);
  }
  return {Tensor(inputs, {n, 3}), Tensor(labels)};
}

struct Training {
  Net model;
  optim::AdamW optimizer{{.lr = optim::cosine(3e-2, 60), .amsgrad = true}};
  data::Loader<data::Samples> data{samples(160), {.batch = 8, .seed = 4}};
};

Training fresh(uint64_t seed = 11) {
  set_seed(seed);
  return {};
}

void expect_equal(const Net& a, const Net& b) {
  EXPECT_TRUE(same_value(a.hidden.weight, b.hidden.weight));
  EXPECT_TRUE(same_value(a.hidden.bias, b.hidden.bias));
  EXPECT_TRUE(same_value(a.output.weight, b.output.weight));
  EXPECT_TRUE(same_value(a.output.bias, b.output.bias));
}

// spec: F1.a
TEST(Fit, Learns) {
  Training run = fresh();
  const nn::History history =
      nn::fit(run.model, run.optimizer, run.data, nn::softmax_cross_entropy, {.epochs = 3});
  ASSERT_EQ(history.epochs.size(), 3u);
  EXPECT_EQ(history.batch_losses.size(), 60u);
  EXPECT_LT(history.epochs[2].loss, 0.5 * history.epochs[0].loss);
  const data::Samples all = samples(160);
  const nn::Evaluation result =
      nn::evaluate(run.model, data::batches(all, 50), nn::softmax_cross_entropy);
  EXPECT_GT(result.accuracy, 0.9);
  EXPECT_EQ(result.confusion.samples(), 160);
}

// spec: F1.d
TEST(Fit, TheLoopByHandGivesEqualNumbers) {
  Training fitted = fresh();
  nn::fit(fitted.model, fitted.optimizer, fitted.data, nn::softmax_cross_entropy, {.epochs = 3});
  Training run = fresh();
  while (run.data.position().epoch < 3) {
    const auto batch = run.data.next();
    const PhaseScope training(Phase::kTraining);
    auto [loss, grads] = value_with_gradient(
        [&](const Net& m) { return nn::softmax_cross_entropy(m(batch.inputs), batch.labels); },
        run.model);
    run.optimizer.update(run.model, grads);
  }
  expect_equal(fitted.model, run.model);
}

// spec: K3.c
TEST(Fit, ResumesFromACheckpointBitForBit) {
  const internal::TempFolder folder;
  const auto path = folder.path() / "run.safetensors";
  Training whole = fresh();
  nn::fit(whole.model, whole.optimizer, whole.data, nn::softmax_cross_entropy, {.epochs = 3});
  for (const int stop : {1, 19, 20, 33}) {
    Training first = fresh();
    int left = stop;
    const nn::Callback cancel = [&](nn::Event event, nn::FitState& state) {
      if (event == nn::Event::kBatchEnd && --left == 0) state.cancel = nn::Cancel::kFit;
    };
    const nn::History history =
        nn::fit(first.model, first.optimizer, first.data, nn::softmax_cross_entropy,
                {.epochs = 3, .callbacks = {cancel}});
    EXPECT_TRUE(history.was_cancelled);
    EXPECT_EQ(history.batch_losses.size(), static_cast<std::size_t>(stop));
    io::save_checkpoint(path, first.model, first.optimizer, first.data);

    Training second = fresh(999);  // everything comes from the file
    io::load_checkpoint(path, second.model, second.optimizer, second.data);
    nn::fit(second.model, second.optimizer, second.data, nn::softmax_cross_entropy, {.epochs = 3});
    expect_equal(whole.model, second.model);
    EXPECT_EQ(second.optimizer.updates(), 60);
  }
}

// An error in the middle of a batch: the batch was taken and dropout has drawn its mask, but
// nothing is updated. The same run goes on, and so does one from a checkpoint, as if there had been
// no error.
//
// spec: K3.c
TEST(Fit, ResumesAfterAnErrorInTheMiddleOfABatch) {
  const internal::TempFolder folder;
  const auto path = folder.path() / "run.safetensors";
  Training whole = fresh();
  nn::fit(whole.model, whole.optimizer, whole.data, nn::softmax_cross_entropy, {.epochs = 3});
  for (const nn::Mode mode : {nn::Mode::kEager, nn::Mode::kStaged, nn::Mode::kLazy}) {
    for (const int stop : {1, 20, 21, 33}) {
      Training run = fresh();
      int left = stop;
      const nn::Callback fail = [&](nn::Event event, nn::FitState&) {
        if (event == nn::Event::kUpdateStart && --left == 0) throw std::runtime_error("stop");
      };
      EXPECT_THROW(nn::fit(run.model, run.optimizer, run.data, nn::softmax_cross_entropy,
                           {.epochs = 3, .mode = mode, .callbacks = {fail}}),
                   std::runtime_error);
      const data::Position at = run.data.position();
      EXPECT_EQ(at.epoch * run.data.steps_per_epoch() + at.step, stop - 1);
      EXPECT_EQ(run.optimizer.updates(), stop - 1);
      io::save_checkpoint(path, run.model, run.optimizer, run.data);
      nn::fit(run.model, run.optimizer, run.data, nn::softmax_cross_entropy,
              {.epochs = 3, .mode = mode});
      expect_equal(whole.model, run.model);

      Training again = fresh(999);  // everything comes from the file
      io::load_checkpoint(path, again.model, again.optimizer, again.data);
      nn::fit(again.model, again.optimizer, again.data, nn::softmax_cross_entropy,
              {.epochs = 3, .mode = mode});
      expect_equal(whole.model, again.model);
    }
  }
}

// spec: F1.b
TEST(Fit, EventsComeInOrder) {
  Training run = fresh();
  std::string order;
  const nn::Callback note = [&](nn::Event event, nn::FitState&) {
    order += "FfEeTtVvBbui"[static_cast<int>(event)];
  };
  data::Loader<data::Samples> two(samples(16), {.batch = 8});
  nn::fit(run.model, run.optimizer, two, nn::softmax_cross_entropy,
          {.epochs = 1, .validation = [] { return nn::Evaluation(); }, .callbacks = {note}});
  EXPECT_EQ(order, "FETBiubBiubtVivef");
}

struct Trace {
  std::size_t batches = 0, epochs = 0, updates = 0;
  int validations = 0;
};
Trace run_with(nn::Event at, nn::Cancel what) {
  Training run = fresh();
  Trace trace;
  const nn::Callback cancel = [&](nn::Event event, nn::FitState& state) {
    if (event == at && state.epoch == 0 && state.cancel == nn::Cancel::kNothing) {
      state.cancel = what;
    }
  };
  const nn::History history = nn::fit(run.model, run.optimizer, run.data, nn::softmax_cross_entropy,
                                      {.epochs = 2,
                                       .validation =
                                           [&] {
                                             ++trace.validations;
                                             return nn::Evaluation();
                                           },
                                       .callbacks = {cancel}});
  trace.batches = history.batch_losses.size();
  trace.epochs = history.epochs.size();
  trace.updates = static_cast<std::size_t>(run.optimizer.updates());
  return trace;
}

// An epoch has 20 batches.
// spec: F1.c
TEST(Fit, CallbacksCallOffBatchPartEpochOrAll) {
  const Trace part = run_with(nn::Event::kBatchEnd, nn::Cancel::kPart);
  EXPECT_EQ(part.batches, 21u);
  EXPECT_EQ(part.validations, 2);
  const Trace epoch = run_with(nn::Event::kBatchEnd, nn::Cancel::kEpoch);
  EXPECT_EQ(epoch.batches, 21u);
  EXPECT_EQ(epoch.validations, 1);
  const Trace all = run_with(nn::Event::kBatchEnd, nn::Cancel::kFit);
  EXPECT_EQ(all.batches, 1u);
  EXPECT_EQ(all.validations, 0);
  const Trace update = run_with(nn::Event::kUpdateStart, nn::Cancel::kBatch);
  EXPECT_EQ(update.batches, 40u);
  EXPECT_EQ(update.updates, 20u);
}

// spec: V35.c
TEST(Fit, LiveTensorsAreBalanced) {
  Training run = fresh();
  // Without a thread that prepares batches, since the counters cover all threads.
  data::Loader<data::Samples> data(samples(160), {.batch = 8, .prefetch = 0});
  nn::fit(run.model, run.optimizer, data, nn::softmax_cross_entropy, {.epochs = 1});
  wait_for_compile();  // of programs of other tests, whose constants are tensors
  const MemoryScope scope;
  nn::fit(run.model, run.optimizer, data, nn::softmax_cross_entropy, {.epochs = 15});
  EXPECT_EQ(scope.stats().live_tensors, 0);
  EXPECT_EQ(scope.stats().deep_copies, 0);
}

// spec: V23.b, V43.a
TEST(Fit, UpdatesAfterAGradientAreInPlace) {
  Training run = fresh();
  nn::fit(run.model, run.optimizer, run.data, nn::softmax_cross_entropy, {.epochs = 1});
  const void* before = run.model.hidden.weight.data<float>().data();
  nn::fit(run.model, run.optimizer, run.data, nn::softmax_cross_entropy, {.epochs = 2});
  EXPECT_EQ(run.model.hidden.weight.data<float>().data(), before);
}

template <class Fn>
void expect_text(Fn fn, const std::string& text) {
  try {
    fn();
    ADD_FAILURE() << "no error: " << text;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    EXPECT_STREQ(error.where().file, __FILE__) << error.what();
  }
}

// A run must resume with the settings of its start.
// spec: K3.a
TEST(Checkpoint, AnotherSeedOrNumberOfEpochsIsNamed) {
  const internal::TempFolder folder;
  const auto path = folder.path() / "run.safetensors";
  const auto go_on = [&](data::LoaderOptions options, nn::FitOptions fit) {
    Training run = fresh();
    data::Loader<data::Samples> data(run.data.next(), options);
    io::load_checkpoint(path, run.model, run.optimizer, data);
    nn::fit(run.model, run.optimizer, data, nn::softmax_cross_entropy, fit);
    return data.position().epoch;
  };
  Training run = fresh();
  const data::LoaderOptions options{.batch = 2, .seed = 5};
  data::Loader<data::Samples> data(run.data.next(), options);
  const nn::Callback stop = [](nn::Event event, nn::FitState& state) {
    if (event == nn::Event::kBatchEnd) state.cancel = nn::Cancel::kFit;
  };
  nn::fit(run.model, run.optimizer, data, nn::softmax_cross_entropy,
          {.epochs = 3, .callbacks = {stop}});
  io::save_checkpoint(path, run.model, run.optimizer, data);

  EXPECT_EQ(go_on(options, {.epochs = 3}), 3);
  expect_text([&] { go_on({.batch = 2, .seed = 6}, {.epochs = 3}); },
              "made with 5, but here the seed of the data is 6");
  expect_text([&] { go_on({.batch = 1, .seed = 5}, {.epochs = 3}); },
              "made with 2, but here the batch is 1");
  expect_text([&] { go_on({.batch = 2, .seed = 5, .shuffle = false}, {.epochs = 3}); },
              "made with 1, but here shuffle is 0");
  expect_text([&] { go_on(options, {.epochs = 4}); }, "fit: epochs is 4, but the checkpoint '");
  expect_text([&] { go_on(options, {.epochs = 2}); },
              "was made in a run of 3. Pass .epochs = 3, or .prolong = true");
  EXPECT_EQ(go_on(options, {.epochs = 4, .prolong = true}), 4);
}

// spec: K3.a
TEST(Checkpoint, AnotherFileOrModelIsNamed) {
  const internal::TempFolder folder;
  const auto path = folder.path() / "model.safetensors";
  Training run = fresh();
  io::save(run.model, path);
  tests::expect_error([&] { io::load_checkpoint(path, run.model, run.optimizer, run.data); },
                      ErrorCode::kInvalidArgument, {path.string(), "hidden/weight"});
}

}  // namespace
}  // namespace etude::fit_test
