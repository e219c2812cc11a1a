// SPDX-License-Identifier: Apache-2.0
// Bytes and samples per second of the readers, each result checked first.
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>

#include <benchmark/benchmark.h>

#include "etude/data/dataset_sources.h"
#include "etude/files/crc32c.h"
#include "etude/io/checkpoint/object_checkpoint.h"
#include "etude/io/csv.h"
#include "etude/io/png.h"

namespace etude::io {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  explicit Folder(const char* name) : path_(fs::temp_directory_path() / name) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

// Four columns of decimal numbers, three of whole ones, one of text, as pandas is timed on.
std::string table_text(int rows) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::string text = "a,b,c,d,i,j,k,s\n";
  char line[200];
  for (int row = 0; row < rows; ++row) {
    const double uniform = static_cast<double>(random()) * 0x1p-64;
    std::snprintf(line, sizeof(line), "%.6f,%.16g,%.3f,%.4f,%d,%d,%d,%s\n", normal(random), uniform,
                  1e6 * uniform, 100 * normal(random), row, static_cast<int>(random() % 100),
                  static_cast<int>(random() % 2000000000) - 1000000000,
                  random() % 2 == 0 ? "green" : "red");
    text += line;
  }
  return text;
}

void csv(benchmark::State& state) {
  const int rows = static_cast<int>(state.range(0));
  const std::string text = table_text(rows);
  const CsvTable table = parse_csv(text, "table");
  if (table.rows != rows || table.column("b").values.dtype() != kFloat64 ||
      table.column("k").values.dtype() != kInt64 || table.column("s").texts.empty()) {
    return state.SkipWithError("another table came out");
  }
  for (auto _ : state) benchmark::DoNotOptimize(parse_csv(text, "table"));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
  state.SetItemsProcessed(state.iterations() * rows);
}
BENCHMARK(csv)->Arg(1000)->Arg(1000000)->Unit(benchmark::kMillisecond);

// A folder of 256 images to batches of 32, with so many in work at a time.
void image_folder_to_batches(benchmark::State& state) {
  constexpr int kImages = 256, kSize = 64;
  const Folder folder("etude_bench_images");
  fs::create_directory(folder.path() + "/class");
  std::mt19937 random(1);
  for (int i = 0; i < kImages; ++i) {
    std::vector<uint8_t> levels(kSize * kSize * 3);
    for (auto& level : levels) level = static_cast<uint8_t>(random() % 64);
    write_png(folder.path() + "/class/" + std::to_string(i) + ".png",
              Tensor(levels, {kSize, kSize, 3}));
  }
  const auto data =
      data::from_list(image_folder(folder.path()).files)
          .map([](const ImageFile& file) { return load_image(file); }, {.parallel = state.range(0)})
          .batch(32);
  for (auto _ : state) {
    int64_t seen = 0;
    for (const data::Samples& batch : data) seen += batch.inputs.shape()[0];
    if (seen != kImages) return state.SkipWithError("images are missing");
  }
  state.SetItemsProcessed(state.iterations() * kImages);
}
BENCHMARK(image_folder_to_batches)->Arg(1)->Arg(16)->Unit(benchmark::kMillisecond)->UseRealTime();

void checksum(benchmark::State& state) {
  const std::vector<uint8_t> bytes(1 << 24, 7);
  if (etude::internal::crc32c(0, bytes) != etude::internal::crc32c_by_table(0, bytes)) {
    return state.SkipWithError("two checksums of the same bytes");
  }
  for (auto _ : state) benchmark::DoNotOptimize(etude::internal::crc32c(0, bytes));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes.size()));
}
BENCHMARK(checksum);

// 256 MiB in 16 tensors; `save` waits for the disk.
void checkpoint(benchmark::State& state, bool save) {
  const Folder folder("etude_bench_checkpoint");
  std::vector<Tensor> tensors;
  for (int i = 0; i < 16; ++i)
    tensors.emplace_back(std::vector<float>(1 << 22, static_cast<float>(i)));
  Checkpoint all{{"tensors", tensors}};
  all.write(folder.path());
  all.restore(folder.path()).assert_consumed();
  for (auto _ : state) {
    if (save) {
      all.write(folder.path());
    } else {
      all.restore(folder.path());
    }
  }
  state.SetBytesProcessed(state.iterations() * (int64_t{16} << 24));
}
BENCHMARK_CAPTURE(checkpoint, save, true)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(checkpoint, load, false)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace etude::io
