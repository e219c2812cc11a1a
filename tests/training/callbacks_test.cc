// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/fit/callbacks.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "etude/base/warning.h"
#include "etude/data/loader.h"
#include "etude/io/checkpoint/checkpoint.h"
#include "etude/lazy/lazy.h"
#include "etude/lazy/metrics.h"
#include "etude/nn/fit/event_file.h"
#include "etude/nn/fit/fit.h"
#include "etude/nn/layers/layers.h"
#include "etude/nn/losses/losses.h"
#include "etude/nn/losses/task_losses.h"
#include "etude/nn/metrics/metric_kinds.h"
#include "etude/ops.h"
#include "etude/optim/adam.h"
#include "etude/optim/sgd.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"
#include "tests/training/events_in.h"
#include "tests/warnings.h"

namespace etude::callbacks_test {
namespace {

using etude::tests::events_in;
using etude::tests::expect_error;

struct Net {
  nn::Dense hidden{3, 8, {.activation = nn::relu}};
  nn::Dense output{8, 2};
  Tensor operator()(const Tensor& x) const { return output(hidden(x)); }
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
  optim::SGD optimizer{{.lr = 0.1}};
  data::Loader<data::Samples> data{samples(80), {.batch = 8, .seed = 4}};
};

Training fresh() {
  set_seed(11);
  return {};
}

// A validation that returns one loss after the other.
std::function<nn::Evaluation()> losses(std::vector<double> values) {
  auto next = std::make_shared<std::size_t>(0);
  return [values, next] {
    return nn::Evaluation{.loss = values[std::min((*next)++, values.size() - 1)]};
  };
}

nn::History run(Training& training, int64_t epochs, std::vector<nn::Callback> callbacks,
                std::function<nn::Evaluation()> validation = {}) {
  return nn::fit(
      training.model, training.optimizer, training.data, nn::softmax_cross_entropy,
      {.epochs = epochs, .validation = std::move(validation), .callbacks = std::move(callbacks)});
}

// spec: F2
TEST(Callbacks, EarlyStopping) {
  Training training = fresh();
  const nn::History history =
      run(training, 20, {nn::early_stopping({.monitor = {.min_delta = .1}, .patience = 3})},
          losses({1, .5, .45, .7, .44, .1}));
  EXPECT_EQ(history.epochs.size(), 5U);
  EXPECT_TRUE(history.was_cancelled);
  EXPECT_EQ(history.why, "validation_loss has not improved for 3 epochs");
  // Accuracy is better where it is higher.
  Training other = fresh();
  const auto rises = [n = std::make_shared<double>(0)] {
    return nn::Evaluation{.loss = 1, .accuracy = .1 * ++*n};
  };
  EXPECT_EQ(
      run(other, 6,
          {nn::early_stopping({.monitor = {.name = "validation_accuracy"}, .patience = 1})}, rises)
          .epochs.size(),
      6U);
  expect_error([&] { run(other, 7, {nn::early_stopping({.monitor = {.name = "auc"}})}); },
               ErrorCode::kInvalidArgument,
               {"an epoch has no number 'auc', but loss, accuracy, seconds"});
}

// spec: F2
TEST(Callbacks, KeepBestGivesTheBestModelBack) {
  Training training = fresh();
  std::vector<Tensor> after;
  const nn::Callback note = [&](nn::Event event, nn::FitState&) {
    if (event == nn::Event::kEpochEnd) after.push_back(training.model.output.weight);
  };
  run(training, 4, {note, nn::keep_best(training.model)}, losses({3, 1, 2, 4}));
  EXPECT_TRUE(same_value(training.model.output.weight, after[1]));
  EXPECT_FALSE(same_value(after[1], after[3]));
}

// spec: LR11, F2
TEST(Callbacks, ReduceOnPlateauIsPartOfTheOptimiser) {
  Training training = fresh();
  std::vector<double> rates;
  const nn::Callback note = [&](nn::Event event, nn::FitState&) {
    if (event == nn::Event::kEpochEnd) rates.push_back(training.optimizer.rate());
  };
  const nn::PlateauOptions options{.factor = .5, .patience = 2, .cooldown = 1, .min_scale = .125};
  run(training, 14, {nn::reduce_on_plateau(training.optimizer, options), note},
      losses({1, 1, 1, 1, 1, 1, .5, .5, .5, .5, .5}));
  // Down after epochs 3 and 6, each with one epoch of rest; the loss of the rest counts as best.
  const std::vector<double> want = {.1,   .1,    .05,   .05,   .05,   .025,  .025,
                                    .025, .0125, .0125, .0125, .0125, .0125, .0125};
  ASSERT_EQ(rates.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(rates[i], want[i], 1e-12) << i;
  optim::SGD resumed({.lr = .1});
  resumed.restore(training.optimizer.state());
  EXPECT_NEAR(resumed.rate(), .0125, 1e-12);
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// spec: F2, F3
TEST(Callbacks, CsvLogHasARowPerEpoch) {
  const internal::TempFolder temp;
  const auto path = temp.path() / "log.csv";
  Training training = fresh();
  nn::FitOptions options{.epochs = 2,
                         .validation = losses({.75, .5}),
                         .callbacks = {nn::csv_log(path)},
                         .metrics = {{"top1", nn::metrics::top_k(1)}}};
  const auto again = [&] {
    return nn::fit(training.model, training.optimizer, training.data, nn::softmax_cross_entropy,
                   options);
  };
  const nn::History history = again();
  options.epochs = 3;
  options.callbacks = {nn::csv_log(path, {.append = true})};
  again();
  std::istringstream lines(text_of(path));
  std::string header, first, second, third, rest;
  std::getline(lines, header);
  std::getline(lines, first);
  std::getline(lines, second);
  std::getline(lines, third);
  EXPECT_FALSE(std::getline(lines, rest));
  EXPECT_EQ(header, "epoch,loss,top1,validation_loss,validation_accuracy,seconds");
  double epoch = 0, mean = 0, top1 = 0, validation = 0;
  char comma = 0;
  std::istringstream(first) >> epoch >> comma >> mean >> comma >> top1 >> comma >> validation;
  EXPECT_EQ(epoch, 1);
  EXPECT_NEAR(mean, history.epochs[0].loss, 1e-8);
  EXPECT_EQ(top1, history.epochs[0].metrics.at("top1"));
  EXPECT_EQ(validation, .75);
  EXPECT_TRUE(second.starts_with("2,") && third.starts_with("3,"));
  options.epochs = 4;
  options.metrics.clear();
  expect_error(again, ErrorCode::kFailedPrecondition,
               {"csv_log: '", "has the columns epoch,loss,top1"});
  options.epochs = 5;
  options.callbacks = {nn::csv_log("/nowhere/log.csv")};
  expect_error(again, ErrorCode::kFailedPrecondition, {"csv_log: cannot write '/nowhere/log.csv'"});
}

// spec: F2
TEST(Callbacks, TimeLimitAndProfile) {
  const internal::TempFolder temp;
  const auto path = temp.path() / "steps.json";
  Training training = fresh();
  const nn::History history = run(training, 100000, {nn::time_limit(.05)});
  EXPECT_TRUE(history.was_cancelled);
  EXPECT_EQ(history.why, "the time limit of 0.05 s was reached");
  EXPECT_LT(history.epochs.size(), 10000U);
  // Without the limit, which a busy machine reaches in the first steps.
  Training profiled = fresh();
  run(profiled, 5, {nn::profile_steps(path, {.first = 2, .steps = 3})});
  const std::string trace = text_of(path);
  EXPECT_NE(trace.find("matmul"), std::string::npos);
  EXPECT_THROW(nn::time_limit(0), Error);
}

// Batches 3 and 13 of the run have a loss that is no number.
struct Faulty {
  std::shared_ptr<int> calls = std::make_shared<int>(0);
  Tensor operator()(const Tensor& y, const Tensor& labels) const {
    const Tensor loss = nn::softmax_cross_entropy(y, labels);
    return ++*calls % 10 == 3 ? loss * NAN : loss;
  }
};

nn::History run_faulty(Training& training, nn::NonFinite policy, nn::Mode mode) {
  return nn::fit(training.model, training.optimizer, training.data, Faulty(),
                 {.epochs = 2, .mode = mode, .on_non_finite = policy});
}

bool is_finite(const Net& model) {
  return all(isfinite(model.hidden.weight)).item<bool>() &&
         all(isfinite(model.output.weight)).item<bool>();
}

// spec: F2
TEST(NonFinite, IsStoppedSkippedOrRestored) {
  for (const nn::Mode mode : {nn::Mode::kEager, nn::Mode::kLazy}) {
    Training goes_on = fresh();
    run_faulty(goes_on, nn::NonFinite::kGoOn, mode);
    EXPECT_FALSE(is_finite(goes_on.model));

    Training stopped = fresh();
    const nn::History stop = run_faulty(stopped, nn::NonFinite::kStop, mode);
    EXPECT_TRUE(stop.was_cancelled);
    EXPECT_NE(stop.why.find("the loss is nan in epoch 1, batch 3"), std::string::npos) << stop.why;
    EXPECT_EQ(stop.batch_losses.size(), 3U);
    EXPECT_EQ(stopped.optimizer.updates(), 2);
    EXPECT_TRUE(is_finite(stopped.model));

    Training skipped = fresh();
    const nn::History skip = run_faulty(skipped, nn::NonFinite::kSkip, mode);
    EXPECT_EQ(skip.skipped_batches, 2);
    EXPECT_EQ(skipped.optimizer.updates(), 18);
    EXPECT_TRUE(std::isfinite(skip.epochs[1].loss));
    EXPECT_TRUE(is_finite(skipped.model));

    // Of the first epoch that is the start, of the second the end of the first: each leaves out the
    // two updates before the fault, and the count goes back with the state.
    Training restored = fresh();
    const nn::History restore = run_faulty(restored, nn::NonFinite::kRestoreBest, mode);
    EXPECT_EQ(restore.skipped_batches, 2);
    EXPECT_EQ(restored.optimizer.updates(), 14);
    EXPECT_TRUE(is_finite(restored.model));
  }
}

// The same with a graph, whose faults come from the data.
// spec: F2
TEST(NonFinite, IsSkippedInGraphs) {
  const data::Samples good = samples(80);
  std::vector<float> inputs = good.inputs.to_vector<float>();
  inputs[31] = NAN;
  const data::Samples bad{Tensor(inputs, {80, 3}), good.labels};
  const auto trained = [&](nn::Mode mode) {
    Training training = fresh();
    data::Loader<data::Samples> data(bad, {.batch = 8, .seed = 4});
    const nn::History history =
        nn::fit(training.model, training.optimizer, data, nn::softmax_cross_entropy,
                {.epochs = 2, .mode = mode, .on_non_finite = nn::NonFinite::kSkip});
    EXPECT_EQ(history.skipped_batches, 2);
    EXPECT_EQ(training.optimizer.updates(), 18);
    return training.model;
  };
  const Net eager = trained(nn::Mode::kEager), staged = trained(nn::Mode::kStaged);
  EXPECT_TRUE(is_finite(eager));
  EXPECT_TRUE(same_value(eager.hidden.weight, staged.hidden.weight));
}

// spec: F2, F3
TEST(FitOptions, MetricsAndGradientNormsInAllModes) {
  std::vector<nn::History> all;
  for (const nn::Mode mode : {nn::Mode::kEager, nn::Mode::kStaged, nn::Mode::kLazy}) {
    Training training = fresh();
    all.push_back(nn::fit(
        training.model, training.optimizer, training.data, nn::softmax_cross_entropy,
        {.epochs = 2,
         .mode = mode,
         .metrics = {{"accuracy", nn::metrics::accuracy()}, {"auc", nn::metrics::roc_auc()}},
         .gradient_norms = true}));
    EXPECT_EQ(all.back().gradient_norms.size(), 20U);
    EXPECT_EQ(all.back().gradient_norms, all[0].gradient_norms);
    EXPECT_EQ(all.back().epochs[1].metrics, all[0].epochs[1].metrics);
    EXPECT_EQ(all.back().epochs[1].metrics.size(), 2U);
  }
  // By hand.
  Training training = fresh();
  const auto batch = training.data.next();
  const auto slope = gradient(
      [&](const Net& m) { return nn::softmax_cross_entropy(m(batch.inputs), batch.labels); },
      training.model);
  double squares = 0;
  for_each_leaf<Tensor>(slope, [&](const Tensor& g) { squares += sum(square(g)).item<double>(); });
  EXPECT_NEAR(all[0].gradient_norms[0], std::sqrt(squares), 1e-6);
}

// A loss that is 1e25 times as large has gradients that are, too.
TEST(FitOptions, GradientNormsWhereSquaresLeaveTheRange) {
  const auto norms_of = [](double factor) {
    Training training = fresh();
    training.optimizer = optim::SGD({.lr = 0});
    const auto loss = [factor](const Tensor& y, const Tensor& labels) {
      return nn::softmax_cross_entropy(y, labels) * factor;
    };
    return nn::fit(training.model, training.optimizer, training.data, loss,
                   {.epochs = 1, .gradient_norms = true})
        .gradient_norms;
  };
  const std::vector<float> usual = norms_of(1), large = norms_of(1e25), small = norms_of(1e-25);
  ASSERT_EQ(usual.size(), 10U);
  for (std::size_t i = 0; i < usual.size(); ++i) {
    EXPECT_NEAR(large[i] / 1e25, usual[i], 1e-5 * usual[i]) << i;
    EXPECT_NEAR(small[i] / 1e-25, usual[i], 1e-5 * usual[i]) << i;
  }
}

// spec: F3
TEST(Evaluate, AnySetOfMetricsForClassesLabelsAndNumbers) {
  Training training = fresh();
  const data::Samples all = samples(80);
  const auto classes =
      nn::evaluate(training.model, data::batches(all, 32), nn::softmax_cross_entropy,
                   {{"accuracy", nn::metrics::accuracy()},
                    {"f1", nn::metrics::f1()},
                    {"auc", nn::metrics::roc_auc()}});
  EXPECT_EQ(
      classes.metrics.at("accuracy"),
      nn::evaluate(training.model, data::batches(all, 80), nn::softmax_cross_entropy).accuracy);
  EXPECT_GE(classes.metrics.at("auc"), 0);
  EXPECT_EQ(classes.confusion.samples(), 0);
  const data::Samples labels{all.inputs, astype(all.inputs > 0.0, kFloat32)};
  const nn::Dense model(3, 3);
  const auto several = nn::evaluate(
      model, data::batches(labels, 32), nn::sigmoid_cross_entropy,
      {{"right", nn::metrics::binary_accuracy(0)}, {"f1", nn::metrics::f1({.threshold = 0})}});
  const Tensor predicted = nn::predict(model, data::batches(labels, 32));
  EXPECT_EQ(predicted.shape(), Shape({80, 3}));
  EXPECT_TRUE(same_value(predicted, nn::predict(model, std::vector{all.inputs})));
  EXPECT_NEAR(several.metrics.at("right"),
              mean(astype((predicted > 0.0) == (labels.labels > 0.5), kFloat32)).item<double>(),
              1e-6);
  const data::Samples numbers{all.inputs, all.inputs};
  const auto errors =
      nn::evaluate(model, data::batches(numbers, 32), nn::mean_squared_error,
                   {{"mse", nn::metrics::mean_squared_error()}, {"r2", nn::metrics::r2()}});
  EXPECT_NEAR(errors.metrics.at("mse"), errors.loss, 1e-6);
  EXPECT_LT(errors.metrics.at("r2"), 1);
  expect_error([&] { nn::predict(model, std::vector<Tensor>()); }, ErrorCode::kInvalidArgument,
               {"predict: there are no batches", "callbacks_test.cc"});
}

// In a lazy scope: pending calls run before the first batch, then each batch once its update is
// recorded; a batch of evaluate is one segment. Eagerly there is nothing to run.
// spec: F4, Z12.a
TEST(Fit, BarriersAtItsStartAndAfterEachBatch) {
  Training training = fresh();
  const LazyMetrics counts;
  const LazyScope lazy;
  training.model.hidden.weight = training.model.hidden.weight * 0.5;
  nn::fit(training.model, training.optimizer, training.data, nn::softmax_cross_entropy, {});
  EXPECT_EQ(counts.counts().barrier_cuts, 1 + 10);
  LazyMetrics of_evaluate;
  nn::evaluate(training.model, data::batches(samples(80), 16), nn::softmax_cross_entropy);
  EXPECT_EQ(of_evaluate.counts().barrier_cuts, 5);
  EXPECT_EQ(of_evaluate.counts().observation_cuts, 0);
}

// Classes that are rare count more: with weights the rare one is found.
// spec: F2
TEST(Fit, ClassWeightsAndAccumulatedGradients) {
  const data::Samples all = samples(80);
  const Tensor weights = nn::balanced_class_weights(all.labels, 2);
  const auto loss = [&](const Tensor& y, const Tensor& labels) {
    return nn::softmax_cross_entropy(y, labels, {.class_weights = weights});
  };
  Training training = fresh();
  nn::fit(training.model, training.optimizer, training.data, loss, {.epochs = 20});
  const auto recall = [&](const nn::Evaluation& result) { return result.metrics.at("recall"); };
  EXPECT_GT(recall(nn::evaluate(training.model, data::batches(all, 80), loss,
                                {{"recall", nn::metrics::recall()}})),
            .8);
  // Two batches of 8 equal a batch of 16, up to rounding of the mean.
  Training whole = fresh(), parts = fresh();
  whole.data = data::Loader<data::Samples>(all, {.batch = 16, .shuffle = false});
  parts.data = data::Loader<data::Samples>(all, {.batch = 8, .shuffle = false});
  parts.optimizer.add(optim::accumulate(2));
  nn::fit(whole.model, whole.optimizer, whole.data, nn::softmax_cross_entropy, {.epochs = 2});
  nn::fit(parts.model, parts.optimizer, parts.data, nn::softmax_cross_entropy, {.epochs = 2});
  EXPECT_EQ(parts.optimizer.updates(), whole.optimizer.updates());
  const Tensor off = max(abs(whole.model.hidden.weight - parts.model.hidden.weight));
  EXPECT_LT(off.item<double>(), 1e-5);
}

// 10 batches are three updates of 3 and one gradient that is left out.
// spec: O15.a
TEST(Fit, WarnsOfGradientsThatWaitAtTheEnd) {
  for (const nn::Mode mode : {nn::Mode::kEager, nn::Mode::kStaged, nn::Mode::kLazy}) {
    const tests::Warnings heard;
    for (const int64_t n : {2, 3}) {
      Training training = fresh();
      training.optimizer.add(optim::accumulate(n));
      nn::fit(training.model, training.optimizer, training.data, nn::softmax_cross_entropy,
              {.epochs = 1, .mode = mode});
      EXPECT_EQ(training.optimizer.waiting(), n - 2);
      EXPECT_EQ(heard.told.size(), static_cast<std::size_t>(n - 2));
    }
    ASSERT_EQ(heard.told.size(), 1U);
    EXPECT_NE(heard.told[0].find("callbacks_test.cc:"), std::string::npos) << heard.told[0];
    EXPECT_NE(heard.told[0].find(": 1 gradient waits for an update by accumulate()"),
              std::string::npos)
        << heard.told[0];
  }
}

// A scale that is a power of 2 changes no bit.
// spec: O15.a
TEST(Fit, ScalesTheLossForTheOptimiser) {
  for (const nn::Mode mode : {nn::Mode::kEager, nn::Mode::kStaged, nn::Mode::kLazy}) {
    Training plain = fresh(), scaled = fresh();
    scaled.optimizer.add(optim::loss_scaling({.initial = 1024, .every = 7}));
    const auto history = [&](Training& t) {
      return nn::fit(t.model, t.optimizer, t.data, nn::softmax_cross_entropy,
                     {.epochs = 1, .mode = mode});
    };
    EXPECT_EQ(history(plain).batch_losses, history(scaled).batch_losses);
    EXPECT_TRUE(same_value(plain.model.hidden.weight, scaled.model.hidden.weight));
    EXPECT_EQ(scaled.optimizer.loss_scale().item<double>(), 2048);
  }
}

// spec: F2
TEST(FindRate, TellsWhereTheLossFallsFastest) {
  Training training = fresh();
  const Tensor before = training.model.hidden.weight;
  training.data.next();
  const nn::RateSearch search =
      nn::find_rate(training.model, training.optimizer, training.data, nn::softmax_cross_entropy,
                    {.low = 1e-5, .high = 1e3, .steps = 60});
  ASSERT_EQ(search.rates.size(), search.losses.size());
  EXPECT_LE(search.rates.size(), 60U);
  EXPECT_DOUBLE_EQ(search.rates[0], 1e-5);
  EXPECT_GT(search.suggested, 1e-3);
  EXPECT_LT(search.suggested, 100);
  // Nothing of the run has moved.
  EXPECT_TRUE(same_value(training.model.hidden.weight, before));
  EXPECT_EQ(training.optimizer.updates(), 0);
  EXPECT_EQ(training.data.position().step, 1);
  expect_error(
      [&] {
        nn::find_rate(training.model, optim::SGD({.lr = 0}), training.data,
                      nn::softmax_cross_entropy);
      },
      ErrorCode::kInvalidArgument,
      {"find_rate: the rate of the optimiser is 0", "callbacks_test.cc"});
}

// spec: F2
TEST(EventFile, IsReadByAnotherReader) {
  const internal::TempFolder temp;
  const auto folder = temp.path() / "events";
  {
    nn::EventFile file(folder);
    file.scalar("loss", .125, 1);
    file.scalar("loss", -3, int64_t{1} << 40);
    file.histogram("w", Tensor({1.0, 2.0, 2.0, 4.0, INFINITY}), 2);
    file.histogram("flat", Tensor({5.0, 5.0}), 3);
    file.text("note", "two words", 0);
    file.image("grey", Tensor({{0.0, 0.5, 2.0}, {NAN, -1.0, 1.0}}), 4);
    file.image("large", full({200, 150, 3}, 1.0), 5);
    file.image("bytes", astype(reshape(arange(8.0), {2, 1, 4}), kUInt8), 6);
  }
  EXPECT_EQ(events_in(folder),
            "brain.Event:2\n"
            "1 loss scalar 0.125\n"
            "1099511627776 loss scalar -3\n"
            "2 w histogram 1 4 4 9 25 buckets 30\n"
            "3 flat histogram 5 5 2 10 50 buckets 1\n"
            "0 note text two words\n"
            "4 grey image 2x3 channels 1 color 0 sum 638 [0, 128, 255, 0, 0, 255]\n"
            "5 large image 200x150 channels 3 color 2 sum 22950000 [255, 255, 255, 255, 255, 255]\n"
            "6 bytes image 2x1 channels 4 color 6 sum 28 [0, 1, 2, 3, 4, 5]\n");
  expect_error([&] { nn::EventFile(folder).image("x", ones({2}), 0); }, ErrorCode::kInvalidArgument,
               {"EventFile::image: the image is float32[2], but must be [height, width]",
                "callbacks_test.cc"});
  expect_error([] { nn::EventFile("/proc/none"); }, ErrorCode::kFailedPrecondition,
               {"EventFile: cannot write '/proc/none/events.out.tfevents.",
                ": No such file or directory. Give a folder", "callbacks_test.cc"});
  std::ofstream(temp.path() / "file") << "x";
  expect_error([&] { nn::EventFile(temp.path() / "file" / "logs"); },
               ErrorCode::kFailedPrecondition, {": Not a directory. Give a folder"});
}

// spec: F2
TEST(EventFile, CallbackLogsBatchesEpochsAndTensors) {
  const internal::TempFolder temp;
  const auto folder = temp.path() / "runs";
  Training training = fresh();
  nn::fit(training.model, training.optimizer, training.data, nn::softmax_cross_entropy,
          {.epochs = 2,
           .callbacks = {nn::tensorboard(folder, training.model, {.every_steps = 5})},
           .gradient_norms = true});
  const std::string text = events_in(folder);
  for (const char* line :
       {"\n5 batch/loss scalar ", "\n20 batch/gradient_norm scalar ", "\n1 epoch/loss scalar ",
        "\n2 epoch/accuracy scalar ", "\n2 model/hidden/weight histogram ",
        "\n1 model/output/bias histogram "}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << " is not in " << text;
  }
  EXPECT_EQ(text.find("\n6 batch/loss"), std::string::npos);
}

}  // namespace
}  // namespace etude::callbacks_test
