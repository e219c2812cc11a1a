// SPDX-License-Identifier: Apache-2.0
// The rows of the table of saved functions, compiled ahead of time. table.py compiles this program
// with the headers and objects that `etude compile` writes. It links nothing of Etude.
#include <string>

#include "benchmarks/saved/rows.h"
#if __has_include("lenet.h")
#include "lenet.h"
#endif
#if __has_include("resnet56.h")
#include "resnet56.h"
#endif
#if __has_include("transformer.h")
#include "transformer.h"
#endif
#if __has_include("lstm.h")
#include "lstm.h"
#endif

namespace etude::bench {
namespace {

struct Compiled {
  int (*run)(const void* const*, void* const*, void*);
  const char* (*error)();
  std::size_t results, scratch_bytes;
};

#define COMPILED(name, NAME, batch)                                              \
  Compiled {                                                                     \
    name##_##batch##_run, name##_##batch##_error, NAME##_##batch##_OUTPUT_COUNT, \
        NAME##_##batch##_SCRATCH_BYTES                                           \
  }

// The model of a row; without a function if it was not compiled.
Compiled compiled(const SavedRow& row) {
  const std::string& name = row.model.name;
  const bool is_one = row.batch == 1;
#if __has_include("lenet.h")
  if (name == "lenet") return is_one ? COMPILED(lenet, LENET, 1) : COMPILED(lenet, LENET, 32);
#endif
#if __has_include("resnet56.h")
  if (name == "resnet56")
    return is_one ? COMPILED(resnet56, RESNET56, 1) : COMPILED(resnet56, RESNET56, 32);
#endif
#if __has_include("transformer.h")
  if (name == "transformer")
    return is_one ? COMPILED(transformer, TRANSFORMER, 1) : COMPILED(transformer, TRANSFORMER, 32);
#endif
#if __has_include("lstm.h")
  if (name == "lstm") return is_one ? COMPILED(lstm, LSTM, 1) : COMPILED(lstm, LSTM, 32);
#endif
  return {};
}

class Answer final : public Instance {
 public:
  Answer(const Compiled& model, SavedRow row) : model_(model), row_(std::move(row)) {}

  std::vector<double> check() override {
    run();
    return store_answer(row_, "ahead", y_);
  }
  void run() override {
    const void* const inputs[] = {x_.data()};
    void* const outputs[] = {y_.data()};
    if (model_.run(inputs, outputs, scratch_.data()) != 0) throw std::runtime_error(model_.error());
  }

 private:
  Compiled model_;
  SavedRow row_;
  std::vector<float> x_ = row_.input(), y_ = std::vector<float>(model_.results);
  std::vector<unsigned char> scratch_ = std::vector<unsigned char>(model_.scratch_bytes);
};

}  // namespace
}  // namespace etude::bench

int main(int argc, char** argv) {
  using namespace etude::bench;
  const auto make = [](const SavedRow& row) -> std::function<std::unique_ptr<Instance>()> {
    const Compiled model = compiled(row);
    if (model.run == nullptr) return nullptr;
    return [model, row] { return std::make_unique<Answer>(model, row); };
  };
  return run_worker(argc, argv, {"ahead", "compiled ahead of time"}, saved_workloads(make));
}
