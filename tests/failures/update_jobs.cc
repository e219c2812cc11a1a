// SPDX-License-Identifier: Apache-2.0
// Updates of all kinds of optimisers, transforms and models.
#include "etude/autodiff/gradient_tape.h"
#include "etude/diff/freezable.h"
#include "tests/failures/jobs.h"

namespace etude::failures {
namespace update_parts {

struct Model {
  Tensor matrix = counted({3, 2}) * 0.1F;
  Freezable<Tensor> frozen{ones({4})};
  Tensor vector = ones({5}), unused = ones({2});
};

template <class Optimizer>
struct Trained {
  Model model;
  Optimizer optimizer;
  tangent_t<Model> slopes = zero_tangent(Model());
  int64_t calls = 0;

  explicit Trained(Optimizer with) : optimizer(std::move(with)) {
    slopes[&Model::matrix] = counted({3, 2}) * 0.01F;
    slopes[&Model::vector] = counted({5}) * -0.02F;
    slopes[&Model::unused] = Tensor();
    freeze(model, "frozen");
  }
  void update() {
    optimizer.update(model, slopes);
    ++calls;
  }
  std::string state() const {
    std::string out = bits(model.matrix) + bits(model.frozen.value) + bits(model.vector);
    for (const auto& [name, x] : optimizer.state()) out += name + " " + bits(x) + "\n";
    return out + std::to_string(ambient().generator.position);
  }
};

// The third update. With `is_shared`, copies of model and optimiser share all tensors.
template <class Optimizer>
Job update_of(const char* name, Optimizer (*make)(), std::vector<optim::Transform> transforms = {},
              bool is_shared = false) {
  return {name, [=] {
            set_seed(3);
            auto t = std::make_shared<Trained<Optimizer>>(make());
            t->optimizer.add(transforms);
            for (int i = 0; i < 2; ++i) t->update();
            const auto twin = is_shared ? std::make_shared<Trained<Optimizer>>(*t) : nullptr;
            return Run{[=] {
                         if (t->calls == 2) t->update();
                         return quietly([&] { return t->state() + (twin ? twin->state() : ""); });
                       },
                       [=] { return t->state() + (twin ? twin->state() : ""); }};
          }};
}

template <class Optimizer>
Optimizer made() {
  return Optimizer();
}

// While a tape records, and in a derivative of an update.
Job taped() {
  return {"update: on a tape", [] {
            auto t = std::make_shared<Trained<optim::Adam>>(optim::Adam());
            t->update();
            return Run{[=] {
                         if (t->calls == 1) {
                           GradientTape tape;
                           tape.watch(t->model.vector);
                           t->update();
                         }
                         return quietly([&] { return t->state(); });
                       },
                       [=] { return t->state(); }};
          }};
}

Job of_parts() {
  return {"update: Parts", [] {
            struct Both {
              Parts model = Parts::fields({{"matrix", counted({3, 2})}, {"vector", ones({5})}});
              Parts slopes = zero_tangent(model);
              optim::AdamW optimizer;
              bool is_done = false;
              void update() { optimizer.update(model, slopes); }
              std::string state() {
                std::string out = bits(model.tensor("matrix")) + bits(model.tensor("vector"));
                for (const auto& [name, x] : optimizer.state()) out += name + " " + bits(x) + "\n";
                return out;
              }
            };
            auto t = std::make_shared<Both>();
            t->slopes.tensor("matrix") = counted({3, 2}) * 0.01F;
            t->update();
            return Run{[=] {
                         if (!t->is_done) t->update();
                         t->is_done = true;
                         return quietly([&] { return t->state(); });
                       },
                       [=] { return t->state(); }};
          }};
}

std::vector<Job> update_jobs() {
  using namespace optim;
  return {
      update_of("update: SGD, shared", made<SGD>, {}, true),
      update_of("update: Adam, shared", made<Adam>, {}, true),
      update_of("update: Lion", made<Lion>),
      update_of("update: Rprop", made<Rprop>),
      update_of("update: ASGD", made<ASGD>),
      update_of("update: ScheduleFreeAdamW", made<ScheduleFreeAdamW>),
      update_of("update: FTRL", made<FTRL>),
      update_of("update: AdaDelta", made<AdaDelta>),
      update_of("update: LARS", made<LARS>),
      update_of("update: Muon", made<Muon>),        // with one matrix
      update_of("update: Shampoo", made<Shampoo>),  // with one matrix
      update_of("update: clipped", made<Adam>, {clip_by_value(.02), clip_by_global_norm(.01)}),
      update_of("update: noise", made<SGD>, {centralize(), add_noise(.1)}),
      update_of("update: accumulate, due", made<AdamW>, {accumulate(3)}),
      update_of("update: accumulate, not due", made<AdamW>, {accumulate(2)}, true),
      update_of("update: loss_scaling", made<SGD>, {loss_scaling({.initial = 4})}),
      update_of("update: averages", made<Adam>, {ema(.9), swa(1), lookahead(3)}),
      update_of("update: averages, shared", made<Adam>, {ema(.9), swa(1), lookahead(3)}, true),
      taped(),
      of_parts(),
  };
}

}  // namespace update_parts

std::vector<Job> update_jobs() { return update_parts::update_jobs(); }

}  // namespace etude::failures
