// SPDX-License-Identifier: Apache-2.0
// The rows of the table of saved functions, as a deployed program computes them: it links the
// loader, and has no source of the models.
//
//   saved-answers --serve               the rows, by the protocol of worker.h
//   saved-answers --first MODEL         seconds from the call of load to the first answer
//   saved-answers --disk FOLDER ROUNDS  seconds to save and load 1 GiB, and to copy a file of 1 GiB
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "benchmarks/saved/rows.h"
#include "etude/codegen/compiler.h"
#include "etude/device/cpu/parallel.h"
#include "etude/ops.h"
#include "etude/saved/saved.h"
#include "etude/stage/function.h"
#include "etude/version.h"

namespace etude::bench {
namespace {

using Predict = saved::TypedFunction<Tensor(const Tensor&)>;

Predict loaded(const SavedModel& model) {
  const saved::Program program = saved::load(saved_folder() + "/" + model.name);
  return program.function("predict").as<Tensor(const Tensor&)>();
}
Tensor input(const SavedRow& row) { return Tensor(row.input(), Shape(row.shape())); }

class Answer final : public Instance {
 public:
  explicit Answer(SavedRow row) : row_(std::move(row)) {}

  std::vector<double> check() override {
    return store_answer(row_, "loaded", predict_(x_).to_vector<float>());
  }
  void run() override {
    const Tensor y = predict_(x_);
    const void* volatile sink = y.ref();
    static_cast<void>(sink);
  }

 private:
  SavedRow row_;
  Predict predict_ = loaded(row_.model);
  Tensor x_ = input(row_);
};

// The clock starts before any other use of the library.
void first_answer(const std::string& name) {
  for (const SavedModel& model : saved_models()) {
    if (model.name != name) continue;
    const SavedRow row{model, 1};
    const std::vector<float> numbers = row.input();
    const double begin = sample_seconds();
    const Tensor y = loaded(model)(Tensor(numbers, Shape(row.shape())));
    const double taken = sample_seconds() - begin;
    store_answer(row, "first", y.to_vector<float>());
    std::printf("%.9f\n", taken);
    return;
  }
  throw std::runtime_error("no model is called " + name);
}

// 1 GiB as sixteen matrices.
struct Weights {
  static constexpr int64_t kSide = 4096;
  std::vector<Tensor> matrices;
};
Tensor product(const Weights& weights, const Tensor& x) {
  Tensor y = x;
  for (const Tensor& w : weights.matrices) y = matmul(y, w);
  return y;
}

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

// Copies a file by read and write. `durable`: and waits until it is on the disk, as save() does.
void copy_file(const std::string& from, const std::string& to, bool durable) {
  std::vector<char> room(std::size_t{1} << 20);
  const int source = ::open(from.c_str(), O_RDONLY);
  if (source < 0) fail(from);
  const int sink = ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666);
  if (sink < 0) fail(to);
  for (ssize_t n = 0; (n = ::read(source, room.data(), room.size())) != 0;) {
    if (n < 0) fail(from);
    if (::write(sink, room.data(), static_cast<std::size_t>(n)) != n) fail(to);
  }
  if (durable && ::fsync(sink) != 0) fail(to);
  ::close(source);
  ::close(sink);
}

// The only file of the tensors of a folder.
std::string tensor_file(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") return entry.path().string();
  }
  throw std::runtime_error(folder + " has no file of tensors");
}

class Disk {
 public:
  explicit Disk(std::string folder) : folder_(std::move(folder)) {
    for (uint64_t i = 0; i < 16; ++i) {
      const auto count = static_cast<std::size_t>(Weights::kSide * Weights::kSide);
      weights_.matrices.emplace_back(hashed_values(i, count, 0.03),
                                     Shape{Weights::kSide, Weights::kSide});
    }
    answer_ = product_(weights_, x_);
  }

  nlohmann::json run(int rounds) {
    nlohmann::json out;
    for (int i = 0; i < rounds; ++i) {
      std::filesystem::remove_all(folder_);
      std::filesystem::create_directories(folder_);
      ::sync();  // earlier rounds have nothing left to write
      out["save"].push_back(timed([&] {
        saved::save(model_, {{"product", saved::bind(product_, weights_)}});
      }));
      out["copy_durable"].push_back(
          timed([&] { copy_file(tensor_file(model_), folder_ + "/durable", true); }));
      out["load"].push_back(timed([&] { load(); }));
      check();
      out["copy"].push_back(
          timed([&] { copy_file(tensor_file(model_), folder_ + "/copy", false); }));
    }
    std::filesystem::remove_all(folder_);
    return out;
  }

 private:
  template <class F>
  static double timed(const F& f) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  void load() { loaded_.emplace(saved::load(model_)); }
  void check() {
    const auto f = loaded_->function("product").as<Tensor(const Tensor&)>();
    if (!array_equal(f(x_), answer_).item<bool>()) {
      throw std::runtime_error("the loaded function computes something else");
    }
    loaded_.reset();
  }

  std::string folder_, model_ = folder_ + "/model";
  Weights weights_;
  Function<Tensor(const Weights&, const Tensor&)> product_ =
      function(product, {.arg_names = {"weights", "x"}});
  Tensor x_ = ones({1, Weights::kSide}), answer_;
  std::optional<saved::Program> loaded_;
};

int run(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "--first" && argc == 3) {
    first_answer(argv[2]);
    return 0;
  }
  if (mode == "--disk" && argc == 4) {
    std::printf("%s\n", Disk(argv[2]).run(std::atoi(argv[3])).dump().c_str());
    return 0;
  }
  const auto make = [](const SavedRow& row) -> std::function<std::unique_ptr<Instance>()> {
    return [row] { return std::make_unique<Answer>(row); };
  };
  return run_worker(argc, argv, {"loaded", version(), wait_for_compile}, saved_workloads(make));
}

}  // namespace
}  // namespace etude::bench

int main(int argc, char** argv) {
  try {
    if (const char* threads = std::getenv("BENCH_THREADS")) {
      etude::set_thread_count(std::atoi(threads));
    }
    return etude::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
