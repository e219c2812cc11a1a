// SPDX-License-Identifier: Apache-2.0
// Saved functions and models of ONNX: calls of loaded functions, saves and loads.
#include <memory>
#include <string>
#include <vector>

#include "etude/onnx/onnx.h"
#include "tests/failures/jobs.h"

namespace etude::failures {
namespace saved_parts {

using Folder = std::shared_ptr<internal::TempFolder>;

struct Line {
  Tensor w = counted({3}), b = Tensor(0.5F), count = Tensor(int64_t{0});
};

Tensor predicted(const Line& line, const Tensor& x) { return matmul(x, line.w) + line.b; }

// Changes all of the bound state, and a Variable.
auto step_with(const Variable& calls) {
  return function(
      [calls](Line& line, const Tensor& x) {
        calls.assign(calls.read() + 1.0F);
        line.w = line.w + x;
        line.b = line.b * 2.0F;
        line.count = line.count + int64_t{1};
        return sum(line.w);
      },
      {.name = "step", .arg_names = {"line", "x"}});
}

// A program with graphs for many sizes, a training step, an object and host arguments.
void save_program(const std::string& path, float scale) {
  Line line{.w = counted({3}) * scale};
  const Variable calls(scale, {.name = "calls"});
  const auto predict = function(predicted, {.name = "predict", .arg_names = {"line", "x"}});
  const auto power = function([](const Tensor& x, int n) { return n == 2 ? x * x : x; },
                              {.name = "power", .arg_names = {"x", "n"}});
  const auto step = step_with(calls);
  for (const int64_t n : {2, 3}) predict(line, zeros({n, 3}));
  for (const int n : {1, 2}) power(zeros({2}), n);
  Line scratch;
  step(scratch, ones({3}));
  saved::save(path,
              {{"predict", saved::bind(predict, line)},
               {"step", saved::bind(step, line)},
               {"power", power},
               {"calls", calls}},
              {.signatures = {"predict"}});
}

std::string state_of(const saved::Program& program) {
  std::string out;
  for (const auto& [path, variable] : program.variables()) {
    out += path + " " + bits(variable.read()) + "\n";
  }
  return out;
}

// The state that a reader of the folder finds.
std::string found_in(const std::string& path) {
  if (!saved::is_saved(path)) return "none";
  const saved::Program program = saved::load(path);
  const auto predict = program.function("predict").as<Tensor(const Tensor&)>();
  return bits(predict(counted({2, 3}))) + state_of(program);
}

struct Loaded {
  Folder folder = std::make_shared<internal::TempFolder>();
  saved::Program program = load();

  std::string path() const { return (folder->path() / "program").string(); }

 private:
  saved::Program load() const {
    save_program(path(), 1);
    return saved::load(path());
  }
};

Run call_of_predict() {
  auto all = std::make_shared<Loaded>();
  const saved::Function f = all->program.function("predict");
  const auto predict =
      std::make_shared<saved::TypedFunction<Tensor(const Tensor&)>>(f.as<Tensor(const Tensor&)>());
  return {[=] {
            std::string out;
            for (const int64_t n : {2, 5, 1}) out += bits((*predict)(counted({n, 3})));
            for (const auto& [name, x] : f.call_named({{"x", counted({4, 3})}})) {
              out += name + bits(x);
            }
            return out;
          },
          [=] { return state_of(all->program); }};
}

// The argument n is a host value.
Run call_by_parts() {
  auto all = std::make_shared<Loaded>();
  const auto power = std::make_shared<saved::TypedFunction<Tensor(const Tensor&, int)>>(
      all->program.function("power").as<Tensor(const Tensor&, int)>());
  return {[=] { return bits((*power)(counted({2}), 1)) + bits((*power)(counted({2}), 2)); },
          [=] { return state_of(all->program); }};
}

// A call that changes four Variables changes all of them, or none.
Run call_of_step() {
  auto all = std::make_shared<Loaded>();
  const auto step = std::make_shared<saved::TypedFunction<Tensor(const Tensor&)>>(
      all->program.function("step").as<Tensor(const Tensor&)>());
  return {[=] {
            const Tensor out = (*step)(ones({3}));
            return quietly([&] { return bits(out); });
          },
          [=] { return state_of(all->program); }};
}

// An optimiser that steps two Variables.
Run update_of_variables() {
  auto all = std::make_shared<Loaded>();
  const std::vector<Variable> weights = {all->program.variable("line/w"),
                                         all->program.variable("line/b")};
  return {[=] {
            optim::SGD sgd({.lr = 0.5});
            saved::update(sgd, weights, {ones({3}), Tensor(2.0F)});
            return quietly([&] { return state_of(all->program); });
          },
          [=] { return state_of(all->program); }};
}

// Over an older program.
Run save_functions() {
  auto folder = std::make_shared<internal::TempFolder>();
  const std::string path = (folder->path() / "program").string();
  save_program(path, 1);
  auto newer = std::make_shared<Loaded>();
  newer->program.function("step").as<Tensor(const Tensor&)>()(ones({3}));
  return {[=] {
            saved::save(path, newer->program);
            return quietly([&] { return found_in(path); });
          },
          [=] { return found_in(path) + state_of(newer->program); }};
}

// A save of staged functions makes their graphs ready.
Run save_staged() {
  auto folder = std::make_shared<internal::TempFolder>();
  const std::string path = (folder->path() / "program").string();
  return {[=] {
            save_program(path, 2);
            return quietly([&] { return found_in(path); });
          },
          [=] { return saved::is_saved(path) ? found_in(path) : std::string(); }};
}

Run load_functions() {
  auto all = std::make_shared<Loaded>();
  return {[=] {
            const saved::Program program = saved::load(all->path());
            return quietly([&] { return state_of(program); });
          },
          [=] { return found_in(all->path()); }};
}

std::string found_in_model(const std::string& file) {
  const saved::Program program = onnx::load(file);
  return bits(program.function("predict").as<Tensor(const Tensor&)>()(counted({2, 3}))) +
         state_of(program);
}

Run save_model() {
  auto all = std::make_shared<Loaded>();
  const std::string file = (all->folder->path() / "model.onnx").string();
  onnx::save(file, all->program.function("predict"));
  all->program.variable("line/b").assign(7.0F);
  return {[=] {
            onnx::save(file, all->program.function("predict"));
            return quietly([&] { return found_in_model(file); });
          },
          [=] { return found_in_model(file) + state_of(all->program); }};
}

Run load_model() {
  auto all = std::make_shared<Loaded>();
  const std::string file = (all->folder->path() / "model.onnx").string();
  onnx::save(file, all->program.function("predict"));
  return {[=] {
            const saved::Program program = onnx::load(file);
            return quietly([&] { return state_of(program); });
          },
          [=] { return found_in_model(file) + state_of(all->program); }};  // keeps the folder
}

}  // namespace saved_parts

std::vector<Job> saved_jobs() {
  using namespace saved_parts;
  return {
      {"saved: calls", call_of_predict},
      {"saved: calls by parts", call_by_parts},
      {"saved: a step", call_of_step},
      {"saved: an update", update_of_variables},
      {"saved: functions are saved", save_staged},
      {"saved: functions are loaded", load_functions},
      {"saved: ONNX is loaded", load_model},
  };
}

std::vector<Job> saving_program_jobs() {
  using namespace saved_parts;
  return {{"save: a program", save_functions}, {"save: ONNX", save_model}};
}

}  // namespace etude::failures
