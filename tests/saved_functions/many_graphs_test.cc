// SPDX-License-Identifier: Apache-2.0
// Loaded functions with many graphs: each call finds its graph, and looks at few others.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "etude/saved/graph_index.h"
#include "tests/expect_error.h"
#include "tests/saved_functions/saved_folder.h"

namespace etude::saved_functions_test {
namespace {

using saved::internal::CallLeaf;
using saved::internal::GraphIndex;
using saved::internal::HostValues;
using tests::expect_error;

constexpr int kGraphs = 1000;

class ManySavedGraphs : public SavedFolder {
 protected:
  template <class R, class... A>
  saved::Function loaded(const Function<R(A...)>& f) const {
    saved::save(path("f"), {{"f", f}});
    return saved::load(path("f")).function("f");
  }
  static std::shared_ptr<const GraphIndex> index_of(const saved::Function& f) {
    return saved::Entry("f", f).loaded()->functions[0].index;
  }
};

// Graphs that differ in a host value.
TEST_F(ManySavedGraphs, OfHostValues) {
  const auto f = function([](int k, const Tensor& x) { return x * static_cast<float>(k); },
                          {.name = "f", .arg_names = {"k", "x"}});
  for (int k = 0; k < kGraphs; ++k) f(k, ones({2}));
  const saved::Function g = loaded(f);
  const auto typed = g.as<Tensor(int, const Tensor&)>();
  for (int i = 0; i < 100; ++i) {
    const int k = (i * 7919) % kGraphs;
    EXPECT_EQ(typed(k, ones({2})).to_vector<float>(), std::vector<float>(2, static_cast<float>(k)));
  }
  expect_error([&] { typed(kGraphs, ones({2})); }, ErrorCode::kInvalidArgument,
               {"function 'f' has no graph for (k: 1000, x: float32[2])"});
  expect_error(
      [&] {
        typed(1, ones({2, 2}));
      },
      ErrorCode::kInvalidArgument, {"function 'f' has no graph for"});
  Tensor x = ones({2});
  const Described seven(7);
  std::vector<CallLeaf> leaves = {{.path = "x", .argument = 1, .tensor = &x},
                                  {.path = "k", .argument = 0, .host = &seven}};
  EXPECT_EQ(index_of(g)->of_leaves(leaves, HostValues::kOfCall, false), GraphIndex::Numbers{7});
  EXPECT_EQ(index_of(g)->of_leaves(leaves, HostValues::kOfCall, true), GraphIndex::Numbers{});
  leaves.pop_back();  // by names: the first graph has the value of k
  EXPECT_EQ(index_of(g)->of_leaves(leaves, HostValues::kOfGraph, false).size(), kGraphs);
  EXPECT_EQ(g.call_named({{"x", ones({2})}}).at("output").to_vector<float>()[0], 0);
}

// Graphs of tensors: each number of axes and each dtype has its own.
TEST_F(ManySavedGraphs, OfTensors) {
  const auto f = function([](const Tensor& x, const Tensor& y) { return x * 2 + y; },
                          {.name = "f", .arg_names = {"x", "y"}});
  std::vector<DType> dtypes = {kFloat32, kFloat64, kInt32, kInt64, kFloat16, kBFloat16};
  for (const DType dtype : dtypes) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {3}, {2, 3}}) {
      f(ones(shape, {.dtype = dtype}), ones({}, {.dtype = dtype}));
    }
  }
  const saved::Function g = loaded(f);
  const auto typed = g.as<OfTwo>();
  const auto expect_bits = [&](const Tensor& x, const Tensor& y) {
    EXPECT_TRUE(same(typed(x, y), f(x, y))) << x.type()->to_string();
  };
  for (const DType dtype : dtypes) {
    const Tensor y = astype(full({}, 3), dtype);
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {3}, {2, 3}}) {
      const Tensor x = astype(full(shape, 2), dtype);
      expect_bits(x, y);
      const Tensor* both[] = {&x, &y};
      EXPECT_EQ(index_of(g)->of_tensors(both, false).size(), 1U);
      EXPECT_TRUE(same(g.call_named({{"x", x}, {"y", y}}).at("output"), f(x, y)));
    }
  }
  // A number becomes a tensor of the graph that fits.
  const auto with_number = g.as<Tensor(const Tensor&, double)>();
  const Tensor x = astype(full({2, 3}, 2), kInt32);
  EXPECT_TRUE(same(with_number(x, 3.0), f(x, astype(full({}, 3), kInt32))));
  expect_error([&] { with_number(x, 3.5); }, ErrorCode::kInvalidArgument,
               {"function 'f' has no graph for (x: int32[2,3], y: 3.5)"});
  expect_error([&] { typed(ones({4}), ones({})); }, ErrorCode::kInvalidArgument,
               {"function 'f' has no graph for (x: float32[4], y: float32[])"});
}

// Graphs for many sizes, a structure with tensors that may be absent, and phases, among others.
TEST_F(ManySavedGraphs, OfManyKinds) {
  struct Options {
    Tensor scale, shift;
  };
  const auto f = function(
      [](const Tensor& x, const Options& options, int k) {
        Tensor out = x * static_cast<float>(k);
        if (options.scale.has_value()) out = out * options.scale;
        if (options.shift.has_value()) out = out + options.shift;
        return is_training() ? -out : out;
      },
      {.name = "f", .arg_names = {"x", "options", "k"}});
  const Tensor two(2.0F), row = ones({3});
  const std::vector<Options> options = {{}, {two, {}}, {{}, row}, {two, row}};
  for (int k = 1; k <= 5; ++k) {
    for (const Options& each : options) {
      for (const int64_t n : {4, 5}) f(ones({n, 3}), each, k);
    }
  }
  {
    const PhaseScope training(Phase::kTraining);
    for (const int64_t n : {4, 5}) f(ones({n, 3}), options[3], 2);
  }
  const auto g = loaded(f).as<Tensor(const Tensor&, const Options&, int)>();
  const auto expect_all = [&](const std::vector<int>& numbers, const std::vector<Options>& given) {
    for (const int k : numbers) {
      for (const Options& each : given) {
        for (const int64_t n : {4, 7, 1}) {
          const Tensor x = arange(3 * n, {.dtype = kFloat32});
          EXPECT_TRUE(same(g(reshape(x, {n, 3}), each, k), f(reshape(x, {n, 3}), each, k))) << k;
        }
      }
    }
  };
  expect_all({1, 2, 3, 4, 5}, options);
  const PhaseScope training(Phase::kTraining);
  expect_all({2}, {options[3]});
  expect_error(
      [&] {
        g(ones({4, 3}), options[0], 2);
      },
      ErrorCode::kInvalidArgument, {"function 'f' has no graph for"});
}

}  // namespace
}  // namespace etude::saved_functions_test
