// SPDX-License-Identifier: Apache-2.0
// Errors, profiles and recordings show the user's line: here that is always one of this file.
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/data/idx.h"
#include "etude/etude.h"
#include "tests/recording.h"

namespace etude::lines_test {
namespace {

struct Net {
  nn::Conv2D conv{{3, 3}, 1, 4, {.padding = "same", .activation = nn::relu}};
  nn::BatchNorm norm{4};
  nn::MaxPool2D pool{2};
  nn::Dropout dropout{0.5};
  nn::Dense hidden{64, 8, {.activation = nn::gelu}};
  nn::Sequential<nn::Dense, nn::Lambda> last{
      nn::Dense{8, 8, {.weight_init = nn::orthogonal(), .bias_init = nn::random_normal()}},
      nn::Lambda{[](const Arg& x) { return tanh(x); }}};

  Tensor operator()(const Tensor& x) const {
    const Tensor y = dropout(pool(norm(conv(x))));
    return last(nn::sequenced(y, nn::Flatten(), hidden));
  }
};

data::Samples samples() {
  const SeedScope seed(7);
  return {.inputs = random::uniform({40, 8, 8, 1}), .labels = random::randint({40}, 0, 8)};
}

std::string text_of(CallSite where) {
  return std::string(where.file) + ":" + std::to_string(where.line);
}

void expect_own_lines(const Profile& profile) {
  EXPECT_FALSE(profile.entries().empty());
  for (const ProfileEntry& entry : profile.entries()) {
    EXPECT_STREQ(entry.where.file, __FILE__) << entry.op << " at " << text_of(entry.where);
  }
}

TEST(Lines, OfAProfileOfTrainingAreTheUsers) {
  const ProfileScope scope;
  data::Loader data(samples(), {.batch = 8, .seed = 1});
  Net model;
  optim::AdamW adam({.lr = 1e-3});
  optim::SGD sgd({.lr = 1e-3, .momentum = 0.9});
  optim::Lion lion({.lr = 1e-4});
  nn::summary(model, {1, 8, 8, 1});
  const auto validate = [&] {
    return nn::evaluate(model, data::batches(samples(), 10), nn::softmax_cross_entropy);
  };
  nn::fit(model, adam, data, nn::softmax_cross_entropy, {.epochs = 1, .validation = validate});
  nn::fit(model, sgd, data, nn::softmax_cross_entropy, {.epochs = 2});
  nn::fit(model, lion, data, nn::softmax_cross_entropy, {.epochs = 3});
  nn::infer(model, samples().inputs);
  expect_own_lines(scope.profile());
}

TEST(Lines, OfAProfileOfOperatorsAreTheUsers) {
  const ProfileScope scope;
  const Tensor x({0.5, 1.5, -0.5});
  const auto f = [](const Tensor& y) { return sum(y * y * nn::sigmoid(y)); };
  gradient(f, x);
  jvp(f, x, x);
  vjp(f, x, Tensor(1.0));
  hvp(f, x, x);
  jacobian(tanh, x);
  hessian(f, x);
  vmap([](const Tensor& y) { return y.at(0) * y; })(Tensor({{1.0, 2.0}, {3.0, 4.0}}));
  nn::huber_loss(x, 0.25);
  nn::binary_cross_entropy(nn::sigmoid(x), 1.0);
  random::normal({3}, {.mean = x, .stddev = Tensor(2.0)});
  random::choice(x, {2});
  Tensor y = x;
  y.at(0) = 3.0;
  y.at(slice(1, 3)) += x.at(slice(0, 2));
  y += x.at(1);
  Variable v(x);
  v.assign_add(v.at(2));
  expect_own_lines(scope.profile());
}

TEST(Lines, OfARecordingAreTheUsers) {
  const nn::Dense layer(3, 2, {.activation = nn::relu});
  const Tensor x({{0.5, 1.5, -0.5}});
  tests::RecordingContext context(std::span(&x, 1));
  const Tensor y = nn::mean_squared_error(layer(x), 0.5);
  const tests::Recording recording = context.finish(std::span(&y, 1));
  std::istringstream lines(recording.to_string());
  std::size_t calls = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("  # ") == std::string::npos) continue;
    ++calls;
    EXPECT_NE(line.find(std::string("  # ") + __FILE__), std::string::npos) << line;
  }
  EXPECT_EQ(calls, recording.size());
}

struct Failing {
  const char* name;
  std::function<void()> run;
};

std::vector<Failing> failing_calls_of_data() {
  static const Tensor x({1.0, 2.0});
  static Tensor changing({1.0, 2.0});
  static data::Loader<Tensor> epochs(x, {.batch = 1});
  static Variable variable(x);
  static nn::Dense dense(2, 3);
  static optim::Adam adam;
  return {
      {"at", [] { x.at(5); }},
      {"at of a variable", [] { Tensor y = changing.at(5); }},
      {"at of a temporary", [] { Tensor({1.0}).at(5); }},
      {"at, assigned", [] { changing.at(5) = 1.0; }},
      {"at, read", [] { changing.at(5).item<float>(); }},
      {"at, as an operand", [] { abs(changing.at(5)); }},
      {"at of a Variable", [] { Tensor y = variable.at(5); }},
      {"Loader", [] { data::Loader(x, {.batch = 0}); }},
      {"Loader of nothing", [] { data::Loader(Tensor(1.0)); }},
      {"seek",
       [] {
         epochs.seek({0, 9});
       }},
      {"batches", [] { data::batches(Tensor(1.0), 3); }},
      {"take_rows", [] { data::take_rows(x, std::vector<int64_t>{7}); }},
      {"slice_rows", [] { data::slice_rows(x, 1, 9); }},
      {"stack_rows", [] { data::stack_rows({}); }},
      {"read_idx", [] { data::read_idx("none"); }},
      {"fashion_mnist", [] { data::fashion_mnist({.folder = "none"}); }},
      {"save", [] { io::save(dense, "none/none"); }},
      {"load", [] { io::load(dense, "none"); }},
      {"save_safetensors", [] { io::save_safetensors("none/none", {}); }},
      {"load_safetensors", [] { io::load_safetensors("none"); }},
      {"assign_tensors", [] { io::assign_tensors(dense, {}); }},
      {"save_checkpoint", [] { io::save_checkpoint("none/none", dense, adam, epochs); }},
      {"load_checkpoint", [] { io::load_checkpoint("none", dense, adam, epochs); }},
      {"checkpoints", [] { io::checkpoints("none", dense, adam, epochs, {.keep = -1}); }},
      {"from_json", [] { io::from_json("x"); }},
      {"to_json", [] { io::to_json(Tensor()); }},
      {"describe", [] { io::describe(Tensor()); }},
  };
}

std::vector<Failing> failing_calls_of_models() {
  static const Tensor x({1.0, 2.0});
  static nn::Dense dense(2, 3);
  static optim::Adam adam;
  static nn::Confusion confusion;
  return {
      {"Dense", [] { nn::Dense(0, 1); }},
      {"Dense, called", [] { dense(Tensor({{1.0}})); }},
      {"Conv2D",
       [] {
         nn::Conv2D({3, 3}, 0, 1);
       }},
      {"MaxPool2D",
       [] {
         nn::MaxPool2D({1, 2, 3});
       }},
      {"AvgPool2D", [] { nn::AvgPool2D(0); }},
      {"BatchNorm", [] { nn::BatchNorm(0); }},
      {"Dropout", [] { nn::Dropout(1.5); }},
      {"Lambda", [] { nn::Lambda({}); }},
      {"summary",
       [] {
         nn::summary(dense, {1, 7});
       }},
      {"infer", [] { nn::infer(dense, Tensor({{1.0}})); }},
      {"accuracy", [] { nn::accuracy(Tensor(1.0), Tensor(1)); }},
      {"Confusion", [] { confusion.update(Tensor(1.0), Tensor(1)); }},
      {"huber_loss", [] { nn::huber_loss(x, x, {.delta = -1}); }},
      {"l1_loss",
       [] {
         nn::l1_loss(x, Tensor({1.0, 2.0, 3.0}));
       }},
      {"variance_scaling", [] { nn::variance_scaling({.scale = -1}); }},
      {"cosine", [] { optim::cosine(0.1, 0); }},
      {"piecewise",
       [] {
         optim::piecewise({1, 2}, {0.1});
       }},
      {"Adam", [] { optim::Adam({.beta1 = 1.5}); }},
      {"restore", [] { adam.restore({}); }},
      {"update",
       [] {
         Tensor w = x;
         adam.update(w, Tensor({1.0}));
       }},
      {"random::uniform", [] { random::uniform({2}, {.low = Tensor(2.0), .high = Tensor(1.0)}); }},
      {"random::split",
       [] {
         random::split(Tensor({1.0, 2.0, 3.0}));
       }},
      {"random::fold_in", [] { random::fold_in(Tensor(1.0), 1); }},
  };
}

void expect_own_line(const std::vector<Failing>& calls) {
  for (const Failing& failing : calls) {
    try {
      failing.run();
      ADD_FAILURE() << failing.name << " throws nothing";
    } catch (const Error& error) {
      EXPECT_STREQ(error.where().file, __FILE__) << failing.name << ": " << error.what();
    }
  }
}

TEST(Lines, OfErrorsAreTheUsers) {
  expect_own_line(failing_calls_of_data());
  expect_own_line(failing_calls_of_models());
}

}  // namespace
}  // namespace etude::lines_test
