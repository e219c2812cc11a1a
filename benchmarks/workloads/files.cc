// SPDX-License-Identifier: Apache-2.0
// Workloads on files: a table of text, a folder of images as batches, a checkpoint. The peers read
// the same files; the first of them writes the files.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "benchmarks/workloads/values.h"
#include "benchmarks/workloads/workload.h"
#include "etude/data/dataset_sources.h"
#include "etude/io/csv.h"
#include "etude/io/png.h"
#include "etude/io/safetensors.h"
#include "etude/ops.h"

namespace etude::bench {
namespace {

std::filesystem::path folder() {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "etude_bench_files";
  std::filesystem::create_directories(path);
  return path;
}

// Written aside and renamed, so that a file is whole where it is there.
template <class Write>
std::string made(const std::string& name, const Write& write) {
  const std::filesystem::path path = folder() / name;
  if (!std::filesystem::exists(path)) {
    const std::filesystem::path aside = path.string() + "." + std::to_string(::getpid());
    write(aside.string());
    std::filesystem::rename(aside, path);
  }
  return path.string();
}

// A million rows: a count, two numbers with three and four decimal places, a word.
class Csv final : public Instance {
 public:
  static constexpr int64_t kRows = 1000000;

  std::vector<double> check() override {
    const io::CsvTable table = io::read_csv(path_, {.texts = {"word"}});
    std::vector<double> out = {static_cast<double>(table.rows)};
    for (const char* name : {"count", "x", "y"}) {
      out.push_back(mean(astype(table.column(name).values, kFloat64)).item<double>());
    }
    return out;
  }
  void run() override { keep(io::read_csv(path_, {.texts = {"word"}}).columns[0].values); }

 private:
  static void write(const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "w");
    std::fputs("count,x,y,word\n", file);
    for (int64_t i = 0; i < kRows; ++i) {
      std::fprintf(file, "%ld,%.3f,%.4f,word%ld\n", static_cast<long>(i),
                   static_cast<double>(i * 7919 % 8000) / 8,
                   static_cast<double>(i * 104729 % 32001 - 16000) / 16, static_cast<long>(i % 10));
    }
    std::fclose(file);
  }

  std::string path_ = made("million.csv", write);
};

// 512 images of 96 by 96 in four classes, decoded, scaled to [0, 1], in batches of 32.
class Images final : public Instance {
 public:
  static constexpr int64_t kImages = 512, kSide = 96;

  std::vector<double> check() override {
    double total = 0;
    for (const data::Samples& batch : data_) total += mean(batch.inputs).item<double>();
    return {total};
  }
  void run() override {
    for (const data::Samples& batch : data_) keep(batch.inputs);
  }

 private:
  static void write(const std::string& path) {
    for (int64_t i = 0; i < kImages; ++i) {
      const std::string of_class = path + "/" + std::to_string(i % 4);
      std::filesystem::create_directories(of_class);
      // Smooth shades with some noise, as pictures have.
      std::vector<float> values = hashed_values(static_cast<uint64_t>(i), kSide * kSide * 3, .05);
      for (int64_t k = 0; k < kSide * kSide * 3; ++k) {
        values[static_cast<std::size_t>(k)] +=
            .5F + .4F * std::sin(static_cast<float>(k / 3 % kSide + i) * .07F);
      }
      io::write_png(of_class + "/" + std::to_string(i) + ".png", Tensor(values, {kSide, kSide, 3}));
    }
  }

  std::string path_ = made("images", write);
  data::Dataset<data::Samples> data_ =
      data::from_list(io::image_folder(path_).files)
          .map([](const io::ImageFile& f) { return io::load_image(f); }, {.parallel = 8})
          .batch(32);
};

// 256 MiB as sixteen tensors.
class Checkpoint final : public Instance {
 public:
  explicit Checkpoint(bool loads) : loads_(loads) {
    for (uint64_t i = 0; i < 16; ++i) {
      all_["layers/" + std::to_string(i)] = hashed(i, {1024, 4096});
    }
    if (loads_) save();
  }
  ~Checkpoint() override { std::filesystem::remove(path_); }

  std::vector<double> check() override {
    if (!loads_) save();
    const io::NamedTensors back = io::load_safetensors(path_).tensors;
    return digest({back.at("layers/3")});
  }
  void run() override {
    if (!loads_) return save();
    // One number of each page.
    const io::NamedTensors back = io::load_safetensors(path_).tensors;
    for (const auto& [name, x] : back)
      keep(sum(slice(x, {0, 0}, {1024, 4096}, {.step = {1, 1024}})));
  }

 private:
  void save() const { io::save_safetensors(path_, all_); }

  bool loads_;
  std::string path_ = (folder() / ("etude_" + std::to_string(::getpid()))).string();
  io::NamedTensors all_;
};

}  // namespace

std::vector<Workload> file_workloads() {
  return {{.name = "csv_1e6", .make = [] { return std::make_unique<Csv>(); }},
          {.name = "png_batches", .make = [] { return std::make_unique<Images>(); }},
          {.name = "save_256m", .make = [] { return std::make_unique<Checkpoint>(false); }},
          {.name = "load_256m", .make = [] { return std::make_unique<Checkpoint>(true); }}};
}

}  // namespace etude::bench
