// SPDX-License-Identifier: Apache-2.0
#include "tests/failures/jobs.h"

namespace etude::failures {
namespace training_parts {

struct Plain {
  nn::Dense hidden{2, 4, {.activation = nn::tanh}};
  nn::Dropout dropout{0.2};
  nn::Dense output{4, 2};
  Tensor operator()(const Tensor& x) const { return output(dropout(hidden(x))); }
};
struct Net {
  nn::Dense hidden{2, 4, {.activation = nn::tanh}};
  nn::BatchNorm norm{4};
  nn::Dropout dropout{0.2};
  nn::Dense output{4, 2};
  Tensor operator()(const Tensor& x) const { return output(dropout(norm(hidden(x)))); }
};

data::Samples samples() {
  return {.inputs = sin(counted({12, 2})), .labels = astype(arange(12) % 2, kInt32)};
}

template <class Model>
std::string values_of(const Model& model) {
  std::string out;
  for (const auto& [name, x] : io::named_tensors(model)) out += name + " " + bits(x) + "\n";
  return out;
}

// Before the first update, states are 0, whether they exist or not.
std::string values_of(const optim::State& state) {
  if (state.at("updates").item<int64_t>() == 0) return "no updates";
  std::string out;
  for (const auto& [name, x] : state) out += name + " " + bits(x) + "\n";
  return out;
}

template <class Optimizer, class Model = Net>
struct Training {
  explicit Training(Optimizer with) : optimizer(std::move(with)) {}
  Model net;
  Optimizer optimizer;
  data::Loader<data::Samples> data{samples(), {.batch = 4, .seed = 2, .prefetch = 0}};
  std::string state() const {
    return values_of(net) + values_of(optimizer.state()) + std::to_string(data.position().epoch) +
           " " + std::to_string(data.position().step) + " " +
           std::to_string(ambient().generator.position);
  }
};

template <class Model = Net, class Optimizer>
std::shared_ptr<Training<Optimizer, Model>> trained(Optimizer optimizer) {
  set_seed(3);
  return std::make_shared<Training<Optimizer, Model>>(std::move(optimizer));
}

template <class Model>
Tensor loss_of(const Model& net) {
  return nn::softmax_cross_entropy(net(sin(counted({4, 2}))),
                                   Tensor(std::vector<int32_t>{0, 1, 1, 0}));
}

// An update by gradients that exist, after a first update that made the state. Without state of
// layers, which is set after the step.
template <class Optimizer>
Run update(Optimizer optimizer, bool is_lazy = false) {
  auto t = trained<Plain>(std::move(optimizer));
  const PhaseScope training(Phase::kTraining);
  const auto slopes = std::make_shared<tangent_t<Plain>>(gradient(loss_of<Plain>, t->net));
  t->optimizer.update(t->net, *slopes);
  const auto goal = std::make_shared<int64_t>(t->optimizer.updates() + 1);
  return {[=] {
            if (t->optimizer.updates() == *goal) return quietly([&] { return t->state(); });
            if (is_lazy) {
              const LazyScope lazy;
              t->optimizer.update(t->net, *slopes);  // records the calls, or none of them
              quietly([] { lazy_barrier(); });
            } else {
              t->optimizer.update(t->net, *slopes);
            }
            return quietly([&] { return t->state(); });
          },
          [=] { return t->state(); }};
}

// A step as a staged function, with model and optimiser as in-out arguments.
Run staged_step() {
  auto t = trained(optim::Adam({.lr = 1e-2}));
  auto step = std::make_shared<Function<Tensor(Net&, optim::Adam&)>>(
      function<Tensor(Net&, optim::Adam&)>([](Net& net, optim::Adam& adam) {
        const PhaseScope training(Phase::kTraining);
        const auto [loss, slopes] = value_with_gradient(loss_of<Net>, net);
        adam.update(net, slopes);
        return loss;
      }));
  (*step)(t->net, t->optimizer);
  return {[=] {
            if (t->optimizer.updates() == 1) (*step)(t->net, t->optimizer);
            return quietly([&] { return t->state(); });
          },
          [=] { return t->state(); }};
}

// A whole fit of two epochs. A failure leaves it after any of its batches.
Job fit_job(const char* name, nn::Mode mode) {
  const auto run = [mode](nn::Callback callback) {
    auto t = trained(optim::SGD({.lr = 0.1, .momentum = 0.9}));
    nn::FitOptions options{.epochs = 2, .mode = mode};
    if (callback) options.callbacks = {callback};
    return Run{[=] {
                 nn::fit(t->net, t->optimizer, t->data, nn::softmax_cross_entropy, options);
                 return quietly([&] { return values_of(t->net); });
               },
               [t] { return values_of(t->net) + values_of(t->optimizer.state()); }};
  };
  return {name, [run] { return run(nullptr); },
          [run] {
            std::vector<std::string> states;
            Run* one = nullptr;
            Run watched = run([&](nn::Event event, nn::FitState&) {
              if (event == nn::Event::kBatchStart || event == nn::Event::kFitEnd) {
                states.push_back(one->state());
              }
            });
            one = &watched;
            watched.go();
            return states;
          },
          true, mode == nn::Mode::kLazy};
}

std::string measured() {
  nn::Metric accuracy = nn::metrics::accuracy();
  nn::Mean mean;
  const Tensor predicted = sin(counted({4, 2})), labels(std::vector<int32_t>{0, 1, 1, 0});
  accuracy.update(predicted, labels);
  mean.update(2.0, 3.0);
  return std::to_string(accuracy.result()) + " " + std::to_string(mean.result());
}

std::string loaded(int prefetch) {
  data::Loader<data::Samples> loader(samples(), {.batch = 4, .seed = 2, .prefetch = prefetch});
  std::string out;
  for (int i = 0; i < 4; ++i) out += bits(loader.next().inputs);
  return out;
}

std::string pipeline() {
  auto walk = data::count_up(40)
                  .filter([](int64_t i) { return i % 3 == 1; })
                  .shuffle(5, 7)
                  .map([](int64_t i) { return Tensor(static_cast<float>(i * i)); })
                  .batch(4)
                  .iterate();
  std::string out;
  while (const auto batch = walk.next()) out += bits(*batch);
  return out;
}

auto stages() {
  return data::count_up(40)
      .filter([](int64_t i) { return i % 3 == 1; })
      .shuffle(5, 7)
      .map([](int64_t i) { return Tensor(static_cast<float>(i * i)); })
      .batch(2);
}

// One step of an iteration, after two batches.
Job walk_job(const char* name, Tensor (*step)(data::DatasetIterator<Tensor>& walk)) {
  return {name, [step] {
            auto walk = std::make_shared<data::DatasetIterator<Tensor>>(stages().iterate());
            walk->next();
            walk->next();
            return Run{[=] {
                         const Tensor batch = step(*walk);
                         return quietly([&] { return bits(batch); });
                       },
                       [=] { return std::to_string(walk->position()); }};
          }};
}

// The last batch of an epoch, and the first of the next.
Run epochs() {
  auto batches = std::make_shared<data::DatasetLoader<Tensor>>(stages());
  batches->seek({3, batches->steps_per_epoch() - 1});
  const auto out = std::make_shared<std::vector<Tensor>>();
  out->reserve(2);
  return {[=] {
            while (out->size() < 2) out->push_back(batches->next());
            return quietly([&] { return bits(out->at(0)) + bits(out->at(1)); });
          },
          [=] {
            const data::Position at = batches->position();
            return std::to_string(at.epoch * batches->steps_per_epoch() + at.step -
                                  static_cast<int64_t>(out->size()));
          }};
}

std::vector<Job> training_jobs() {
  return {
      {"update: SGD", [] { return update(optim::SGD({.lr = 0.1, .momentum = 0.9})); }},
      {"update: Adam", [] { return update(optim::Adam({.lr = 1e-2})); }},
      {"update: AdamW, lazy", [] { return update(optim::AdamW({.lr = 1e-2}), true); }},
      {"update: RMSprop", [] { return update(optim::RMSProp({.lr = 1e-2})); }},
      {"update: staged step", staged_step},
      fit_job("fit: eager", nn::Mode::kEager),
      fit_job("fit: staged", nn::Mode::kStaged),
      fit_job("fit: lazy", nn::Mode::kLazy),
      plain_job("metrics", measured),
      plain_job("loader", [] { return loaded(0); }),
      plain_job("loader: prefetching", [] { return loaded(2); }),
      anywhere(plain_job("loader: prefetching, any thread", [] { return loaded(2); })),
      plain_job("pipeline", pipeline),
      walk_job("pipeline: position", [](auto& walk) { return *walk.next(); }),
      walk_job("pipeline: seek on",
               [](auto& walk) {
                 walk.seek(4);
                 return quietly([&] { return Tensor(walk.position()); });
               }),
      walk_job("pipeline: seek back",
               [](auto& walk) {
                 walk.seek(1);
                 return quietly([&] { return Tensor(walk.position()); });
               }),
      {"pipeline: epochs", epochs},
  };
}

}  // namespace training_parts

std::vector<Job> training_jobs() { return training_parts::training_jobs(); }

}  // namespace etude::failures
