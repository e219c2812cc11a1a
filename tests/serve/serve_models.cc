// SPDX-License-Identifier: Apache-2.0
// Writes the models that the tests of the server load: serve_models FOLDER writes FOLDER/net,
// FOLDER/lenet and so on; serve_models FOLDER NAME SEED writes one of them to FOLDER.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "etude/etude.h"
#include "etude/saved/saved.h"
#include "examples/lenet.h"

using namespace etude;

namespace {

struct Net {
  nn::Dense hidden{4, 8, {.activation = nn::relu}};
  nn::Dense output{8, 3};
  Tensor operator()(const Tensor& x) const { return nn::softmax(output(hidden(x))); }
};

// A model of one input for all batch sizes.
template <class M>
void save_model(const std::string& folder, const M& model, const Shape& one) {
  const auto predict =
      function([](const M& m, const Tensor& x) { return m(x); }, {.arg_names = {"model", "x"}});
  for (const int64_t rows : {2, 5}) {
    std::vector<int64_t> sizes = {rows};
    sizes.insert(sizes.end(), one.begin(), one.end());
    predict(model, zeros(sizes));
  }
  saved::save(folder, {{"predict", saved::bind(predict, model)}}, {.signatures = {"predict"}});
}

template <class F>
void save_function(const std::string& folder, const F& f, float example = 1) {
  const auto g = function(f, {.arg_names = {"x"}});
  g(full({2, 4}, example));
  g(full({5, 4}, example));
  saved::save(folder, {{"f", g}});
}

// Twice each of its inputs, one of each dtype.
struct AllDTypes {
  Tensor b, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64;
};
AllDTypes twice(const AllDTypes& x) {
  return {logical_not(x.b), x.i8 + x.i8,   x.i16 + x.i16, x.i32 + x.i32, x.i64 + x.i64,
          x.u8 + x.u8,      x.u16 + x.u16, x.u32 + x.u32, x.u64 + x.u64, x.f16 + x.f16,
          x.bf16 + x.bf16,  x.f32 + x.f32, x.f64 + x.f64};
}

void save_dtypes(const std::string& folder) {
  const auto f = function(twice, {.arg_names = {"x"}});
  for (const int64_t n : {2, 3}) {
    const auto of = [n](DType dtype) { return zeros({n}, {.dtype = dtype}); };
    f({of(kBool), of(kInt8), of(kInt16), of(kInt32), of(kInt64), of(kUInt8), of(kUInt16),
       of(kUInt32), of(kUInt64), of(kFloat16), of(kBFloat16), of(kFloat32), of(kFloat64)});
  }
  saved::save(folder, {{"twice", f}});
}

// Runs as many steps as its input, for tests of deadlines.
Tensor count_to(const Tensor& n) {
  return while_loop([n](const Tensor& i) { return i < n; }, [](const Tensor& i) { return i + 1; },
                    zeros({}, {.dtype = kInt64}));
}

// Calls with ones never end. The server makes such a call when it loads the model.
Tensor count_long(const Tensor& x) {
  const Tensor steps = astype(sum(x), kInt64) * Tensor(int64_t{1'000'000'000'000'000});
  return x + astype(count_to(steps), kFloat32);
}

using Writer = std::function<void(const std::string&)>;
const std::map<std::string, Writer>& writers() {
  static const std::map<std::string, Writer> kAll = {
      {"net", [](const std::string& folder) { save_model(folder, Net{}, {4}); }},
      {"lenet",
       [](const std::string& folder) {
         save_model(folder, LeNet{}, {28, 28, 1});
       }},
      {"dtypes", save_dtypes},
      // The rows of its result depend on each other, which its signature does not show.
      {"centred",
       [](const std::string& folder) {
         save_function(
             folder, [](const Tensor& x) { return x - mean(x, {.axis = {0}, .keepdims = true}); });
       }},
      // Rows depend on each other for inputs of rank 3 only.
      {"ranks",
       [](const std::string& folder) {
         const auto f = function(
             [](const Tensor& x) {
               return x.rank() == 2 ? x * 2.0 : x - mean(x, {.axis = {0}, .keepdims = true});
             },
             {.arg_names = {"x"}});
         for (const int64_t rows : {2, 5}) f(ones({rows, 4}));
         for (const int64_t rows : {2, 5}) f(ones({rows, 2, 2}));
         saved::save(folder, {{"f", f}});
       }},
      {"logarithm",
       [](const std::string& folder) {
         save_function(folder, [](const Tensor& x) { return log(x); });
       }},
      // Its result has as many rows and columns as its input has rows.
      {"pairs",
       [](const std::string& folder) {
         save_function(folder, [](const Tensor& x) { return matmul(x, x, {.transpose_y = true}); });
       }},
      {"checked",
       [](const std::string& folder) {
         save_function(folder, [](const Tensor& x) {
           assert_true(all(x > 0.0), "x must be positive");
           return sqrt(x);
         });
       }},
      {"slow",
       [](const std::string& folder) {
         const auto f = function(count_to, {.arg_names = {"n"}});
         f(Tensor(int64_t{3}) + zeros({}, {.dtype = kInt64}));
         saved::save(folder, {{"count_to", f}}, {.signatures = {"count_to"}});
       }},
  };
  return kAll;
}

void run(int argc, char** argv) {
  const std::filesystem::path folder = argv[1];
  if (argc == 4) {
    set_seed(static_cast<uint64_t>(std::atoi(argv[3])));
    const std::string name = argv[2];
    if (name == "endless") return save_function(folder.string(), count_long, 0);
    writers().at(name)(folder.string());
    return;
  }
  for (const auto& [name, write] : writers()) {
    set_seed(1);
    write((folder / name).string());
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2 || argc == 4) run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return argc == 2 || argc == 4 ? 0 : 2;
}
