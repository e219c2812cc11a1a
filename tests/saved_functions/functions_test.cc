// SPDX-License-Identifier: Apache-2.0
// The graphs of saved functions: saved graphs, the graph that serves a call, and results.
#include <string>
#include <tuple>
#include <vector>

#include "tests/expect_error.h"
#include "tests/saved_functions/saved_folder.h"
#include "tests/warnings.h"

namespace etude::saved_functions_test {
namespace {

using tests::expect_error;

class SavedGraphs : public SavedFolder {};

Tensor scaled_sum(const Tensor& x, const Tensor& y) { return x * y + 1; }

// spec: SV-01.a
TEST_F(SavedGraphs, APlainFunction) {
  const auto f = function(scaled_sum, {.name = "f", .arg_names = {"x", "y"}});
  const Tensor a({1.0, 2.0}), b({3.0, 5.0});
  const Tensor want = f(a, b);
  saved::save(path("f"), {{"f", f}});
  const saved::Function loaded = saved::load(path("f")).function("f");
  EXPECT_TRUE(same(loaded.as<OfTwo>()(a, b), want));
  EXPECT_TRUE(same(loaded(Parts::fields({{"y", b}, {"x", a}})).tensor(""), want));
  EXPECT_TRUE(same(loaded(Parts::list({Parts(a), Parts(b)})).tensor(""), want));
  EXPECT_TRUE(same(loaded.call_named({{"x", a}, {"y", b}}).at("output"), want));
  EXPECT_EQ(loaded.name(), "f");
  EXPECT_EQ(loaded.arguments(), (std::vector<std::string>{"x", "y"}));
  EXPECT_TRUE(tests::contains(loaded.explain(), "graph 1 (x: float32[2], y: float32[2]), 2 nodes"));
  EXPECT_TRUE(tests::contains(loaded.explain(), "functions_test.cc:"));
}

// Each round loads the program of the round before: outputs, values of Variables and bytes agree.
// spec: SV-01.a, SV-01.b, SV-01.c
TEST_F(SavedGraphs, ThreeRoundsAgree) {
  const Variable total(Tensor({0.0, 0.0}), {.name = "total"});
  const auto add = function([&](const Tensor& x) { return total.assign_add(x); }, {.name = "add"});
  const Tensor x({1.0, 2.0});
  add(x);
  saved::save(path("0"), {{"add", add}, {"total", total}});
  std::vector<Tensor> results, values;
  for (int round = 0; round < 3; ++round) {
    const saved::Program program = saved::load(path(std::to_string(round)));
    saved::save(path(std::to_string(round + 1)), program);
    EXPECT_EQ(files_of(path(std::to_string(round + 1))), files_of(path("0")));
    results.push_back(program.function("add").as<OfOne>()(x));
    values.push_back(program.variable("total").read());
  }
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(same(results[static_cast<std::size_t>(round)], Tensor({2.0, 4.0})));
    EXPECT_TRUE(same(values[static_cast<std::size_t>(round)], Tensor({2.0, 4.0})));
  }
}

// spec: SV-02.a, SV-02.b
TEST_F(SavedGraphs, OnlyTracedSignaturesAreSaved) {
  const auto f = function([](const Tensor& x) { return x + x; }, {.name = "f", .arg_names = {"x"}});
  f(Tensor(std::vector<int32_t>{7}, Shape{}));
  f(Tensor({1.0, 2.0}));
  saved::save(path("f"), {{"f", f}});
  const auto loaded = saved::load(path("f")).function("f").as<OfOne>();
  EXPECT_TRUE(same(loaded(Tensor({1.0, 2.0})), Tensor({2.0, 4.0})));
  expect_error(
      [&] {
        loaded(Tensor({1.0, 2.0, 3.0}));
      },
      ErrorCode::kInvalidArgument,
      {"function 'f' has no graph for (x: float32[3])",
       "the nearest first:\n"
       "  (x: float32[2])\n  (x: int32[])",
       "functions_test.cc:"});
  expect_error(
      [&] {
        loaded(Tensor(std::vector<int32_t>{1, 2}));
      },
      ErrorCode::kInvalidArgument,
      {"no graph for (x: int32[2])", "the nearest first:\n  (x: int32[])"});
}

struct Mode {
  bool training = true;
  float rate = 0.5F;
};

// spec: SV-03.a
TEST_F(SavedGraphs, HostArgumentsMatchByValue) {
  const auto f =
      function([](const Tensor& x, const Mode& mode) { return mode.training ? x * mode.rate : x; },
               {.name = "f", .arg_names = {"x", "mode"}});
  const Tensor x({2.0, 4.0});
  f(x, Mode{});
  saved::save(path("f"), {{"f", f}});
  const saved::Function loaded = saved::load(path("f")).function("f");
  const auto typed = loaded.as<Tensor(const Tensor&, const Mode&)>();
  EXPECT_TRUE(same(typed(x, Mode{}), Tensor({1.0, 2.0})));
  expect_error([&] { typed(x, Mode{.training = false}); }, ErrorCode::kInvalidArgument,
               {"no graph for (x: float32[2], mode/training: false, mode/rate: 0.5)",
                "\n  (x: float32[2], mode/training: true, mode/rate: 0.5)"});
  expect_error([&] { typed(x, Mode{.rate = 0.25F}); }, ErrorCode::kInvalidArgument,
               {"mode/rate: 0.25"});
}

// A graph that fits exactly comes before a graph that fits after a number became a tensor.
// spec: SV-03.b
TEST_F(SavedGraphs, AnExactGraphIsPreferredToAConversion) {
  const auto f = function<Parts(Parts&)>(
      [](Parts& p) {
        const bool is_host = p.leaf(1).kind == LeafKind::kHost;
        return Parts(is_host ? p.tensor("x") * 10 : p.tensor("x") * p.tensor("by"));
      },
      {.name = "f", .arg_names = {"args"}});
  const Tensor x({1.0, 2.0});
  Parts tensors = Parts::fields({{"x", x}, {"by", Tensor(3.0)}});
  Parts host = Parts::fields({{"x", x}, {"by", Described(3.0)}});
  f(tensors);
  saved::save(path("one"), {{"f", f}});
  f(host);
  saved::save(path("two"), {{"f", f}});
  const auto call = [&](const std::string& folder, const Parts& args) {
    return saved::load(path(folder)).function("f")(Parts::fields({{"args", args}})).tensor("");
  };
  EXPECT_TRUE(same(call("one", host), Tensor({3.0, 6.0})));  // 3.0 becomes a tensor
  EXPECT_TRUE(same(call("two", host), Tensor({10.0, 20.0})));
  EXPECT_TRUE(same(call("two", tensors), Tensor({3.0, 6.0})));
  expect_error(
      [&] {
        call("one", Parts::fields({{"x", x}, {"by", Described(true)}}));
      },
      ErrorCode::kInvalidArgument, {"args/by: true", "args/by: float32[]"});
}

// A host number becomes a scalar tensor if the dtype has the number.
// spec: SV-03.b
TEST_F(SavedGraphs, HostNumbersBecomeTensorsInTheRangeOfTheDtype) {
  const auto args = [](const auto& by) {
    return Parts::fields({{"args", Parts::fields({{"by", by}})}});
  };
  const DType all[] = {kInt8, kUInt8, kInt64, kUInt64, kFloat16, kFloat32};
  for (const DType dtype : all) {
    const auto f =
        function<Parts(Parts&)>([](Parts& p) { return Parts(p.tensor("by") + p.tensor("by")); },
                                {.name = "f", .arg_names = {"args"}});
    Parts given = Parts::fields({{"by", ones({}, {.dtype = dtype})}});
    f(given);
    saved::save(path(std::string(name(dtype))), {{"f", f}});
  }
  const auto twice = [&](DType dtype, const Described& by) {
    const Tensor y = saved::load(path(std::string(name(dtype)))).function("f")(args(by)).tensor("");
    EXPECT_EQ(y.dtype(), dtype);
    return y.to_vector<double>()[0];
  };
  const auto refuses = [&](DType dtype, const Described& by) {
    expect_error([&] { twice(dtype, by); }, ErrorCode::kInvalidArgument,
                 {"args/by: " + by.text(), "args/by: " + std::string(name(dtype)) + "[]"});
  };
  EXPECT_EQ(twice(kInt64, Described(int64_t{20'000'000})), 40'000'000);
  EXPECT_EQ(twice(kInt64, Described(-3.0)), -6);
  EXPECT_EQ(twice(kUInt64, Described(int64_t{1} << 40)), static_cast<double>(int64_t{1} << 41));
  EXPECT_EQ(twice(kInt8, Described(-64)), -128);
  EXPECT_EQ(twice(kUInt8, Described(127)), 254);
  EXPECT_EQ(twice(kFloat32, Described(0.1)), static_cast<double>(0.2F));
  EXPECT_EQ(twice(kFloat16, Described(2048)), 4096);
  refuses(kInt8, Described(128));
  refuses(kInt8, Described(0.5));
  refuses(kUInt8, Described(-1));
  refuses(kUInt64, Described(-1));
  refuses(kInt64, Described((int64_t{1} << 60) + 1));
  refuses(kFloat16, Described(2049));
  refuses(kFloat32, Described(true));
}

// spec: SV-04.a, SV-04.b
TEST_F(SavedGraphs, AFunctionThatWasNeverTraced) {
  const auto f = function([](const Tensor& x) { return x + 1; }, {.name = "f"});
  const std::vector<std::string> told = tests::warnings_of([&] {
    saved::save(path("f"), {{"f", f}});
  });
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(tests::contains(told[0], "function 'f' has no graph")) << told[0];
  EXPECT_TRUE(tests::contains(told[0], "Call it once before it is saved, or give it a signature"));
  const auto loaded = saved::load(path("f")).function("f").as<OfOne>();
  expect_error([&] { loaded(Tensor(1.0)); }, ErrorCode::kFailedPrecondition,
               {"function 'f' was saved without a graph", "functions_test.cc:"});
}

// spec: SV-04.a
TEST_F(SavedGraphs, ASignatureIsTracedWhenItIsSaved) {
  const auto norm = function([](const Tensor& x) { return sqrt(sum(x * x)); },
                             {.name = "norm", .signature = Signature{{"x", TensorSpec{{kAny}}}}});
  EXPECT_TRUE(tests::warnings_of([&] { saved::save(path("f"), {{"norm", norm}}); }).empty());
  const auto loaded = saved::load(path("f")).function("norm").as<OfOne>();
  EXPECT_EQ(loaded(Tensor({3.0, 4.0})).item<float>(), 5.0F);
  EXPECT_EQ(loaded(Tensor({3.0, 0.0, 4.0})).item<float>(), 5.0F);
  EXPECT_EQ(loaded(Tensor({7.0})).item<float>(), 7.0F);
}

// One entry serves all batch sizes, with the bits of the live function: it is found again from the
// graphs in the file, and batches of 1 and 0 have graphs that saving makes.
// spec: SV-01.a, SV-02.a
TEST_F(SavedGraphs, OneGraphServesAllBatchSizes) {
  set_seed(1);
  const Tensor w = random::normal({3, 4});
  const auto f = function(
      [&](const Tensor& x) {
        return nn::softmax(matmul(x, w)) - mean(x, {.axis = {0, 1}, .keepdims = true});
      },
      {.name = "f", .arg_names = {"x"}});
  f(ones({2, 3}));
  f(ones({5, 3}));
  saved::save(path("f"), {{"f", f}});
  const saved::Function loaded = saved::load(path("f")).function("f");
  ASSERT_EQ(loaded.signatures().size(), 1U);
  EXPECT_EQ(loaded.signatures()[0].to_string(), "(x: float32[n,3])");
  const saved::Port input = loaded.signatures()[0].inputs[0];
  EXPECT_EQ(input.dtype, kFloat32);
  EXPECT_EQ(input.sizes, (std::vector<saved::PortSize>{{-1, "n"}, {3}}));
  const saved::Port output = loaded.signatures()[0].outputs[0];
  EXPECT_EQ(output.dtype, kFloat32);
  EXPECT_EQ(output.sizes, std::nullopt);  // not known without a call
  for (const int64_t n : {1, 2, 3, 5, 64}) {
    const Tensor x = random::normal({n, 3});
    EXPECT_TRUE(same(loaded.as<OfOne>()(x), f(x))) << n;
  }
  expect_error(
      [&] {
        loaded.as<OfOne>()(ones({2, 4}));
      },
      ErrorCode::kInvalidArgument, {"no graph for (x: float32[2,4])", "(x: float32[n,3])"});
}

// The graphs for sizes of 1 and 0 are traced in the phase of the graph for many sizes, not in the
// phase in which the function is saved.
// spec: SV-02.a
TEST_F(SavedGraphs, SpecialSizesKeepThePhaseOfTheirFunction) {
  const nn::Dropout dropout(0.5);
  const auto f = function([&](const Tensor& x) { return dropout(x) + 1.0F; },
                          {.name = "f", .arg_names = {"x"}});
  f(ones({2, 3}));
  f(ones({5, 3}));
  {
    const PhaseScope training(Phase::kTraining);
    saved::save(path("f"), {{"f", f}});
  }
  const auto loaded = saved::load(path("f")).function("f").as<OfOne>();
  for (const int64_t n : {0, 1, 2, 9}) EXPECT_TRUE(same(loaded(ones({n, 3})), full({n, 3}, 2.0F)));
  const PhaseScope training(Phase::kTraining);
  expect_error([&] { loaded(ones({1, 3})); }, ErrorCode::kInvalidArgument, {"no graph for"});
}

// Two open sizes: each may be 1.
// spec: SV-02.a
TEST_F(SavedGraphs, TwoOpenSizesMayEachBeOne) {
  const auto f = function(
      [](const Tensor& x) { return x - mean(x, {.axis = 1, .keepdims = true}); }, {.name = "f"});
  f(ones({2, 3}));
  f(ones({4, 5}));
  const auto told = tests::warnings_of([&] { saved::save(path("f"), {{"f", f}}); });
  EXPECT_TRUE(told.empty());  // of traces that saving makes
  const auto loaded = saved::load(path("f")).function("f").as<OfOne>();
  set_seed(2);
  for (const auto& [n, m] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {1, 2}, {1, 9}, {2, 1}, {9, 1}, {3, 3}, {7, 2}}) {
    const Tensor x = random::normal({n, m});
    EXPECT_TRUE(same(loaded(x), f(x))) << n << " " << m;
  }
}

struct Batch {
  Tensor image;
  std::vector<Tensor> labels;
};
struct Scores {
  Tensor loss;
  std::map<std::string, Tensor> parts;
  std::optional<Tensor> none;
  int64_t count = 3;
};

// spec: SV-01.a
TEST_F(SavedGraphs, StructuresOfArgumentsAndResults) {
  const auto f = function(
      [](const Batch& b, std::pair<Tensor, float> more) {
        return Scores{.loss = sum(b.image) + more.first * more.second,
                      .parts = {{"a", b.labels[0]}, {"b", b.labels[1] * 2}}};
      },
      {.name = "f", .arg_names = {"batch", "more"}});
  const Batch batch{Tensor({1.0, 2.0}), {Tensor(3.0), Tensor(4.0)}};
  const Scores want = f(batch, {Tensor(5.0), 2.0F});
  saved::save(path("f"), {{"f", f}});
  const saved::Function loaded = saved::load(path("f")).function("f");
  const auto typed = loaded.as<Scores(const Batch&, std::pair<Tensor, float>)>();
  const Scores got = typed(batch, {Tensor(5.0), 2.0F});
  EXPECT_TRUE(same(got.loss, want.loss));
  EXPECT_TRUE(same(got.parts.at("b"), want.parts.at("b")));
  EXPECT_FALSE(got.none.has_value());
  EXPECT_EQ(got.count, 3);
  const Parts parts =
      loaded(Parts::fields({{"batch", parts_of(batch)},
                            {"more", Parts::list({Parts(Tensor(5.0)), Parts(Described(2.0))})}}));
  EXPECT_TRUE(same(parts.tensor("parts/a"), Tensor(3.0)));
  EXPECT_EQ(parts.host("count").get<int>(), 3);
}

// spec: SV-02.b
TEST_F(SavedGraphs, WrongArgumentsAreNamed) {
  const auto f = function(scaled_sum, {.name = "f", .arg_names = {"x", "y"}});
  f(Tensor(1.0), Tensor(2.0));
  saved::save(path("f"), {{"f", f}});
  const saved::Function loaded = saved::load(path("f")).function("f");
  expect_error(
      [&] {
        loaded(Parts::fields({{"x", Tensor(1.0)}, {"z", Tensor(1.0)}}));
      },
      ErrorCode::kInvalidArgument, {"function 'f' has no parameter 'z'. It has: x, y"});
  expect_error(
      [&] {
        loaded(Parts::fields({{"x", Tensor(1.0)}}));
      },
      ErrorCode::kInvalidArgument, {"function 'f': argument 'y' is missing"});
  expect_error([&] { loaded(Parts::list({Parts(Tensor(1.0))})); }, ErrorCode::kInvalidArgument,
               {"function 'f' has 2 parameters (x, y), but 1 arguments were given"});
  expect_error([&] { loaded(Parts(Tensor(1.0))); }, ErrorCode::kInvalidArgument,
               {"has 2 parameters (x, y): pass fields with these names, or a list"});
  expect_error([&] { loaded.as<OfOne>(); }, ErrorCode::kInvalidArgument,
               {"has 2 parameters (x, y), but the signature has 1"});
  expect_error([&] { saved::load(path("f")).function("g"); }, ErrorCode::kNotFound,
               {"has no function 'g'. It has: f"});
}

// The phase is a part of the signature, and random keys are drawn at each call.
// spec: SV-02.a
TEST_F(SavedGraphs, PhasesAndRandomKeys) {
  const nn::Dropout dropout(0.5);
  const auto f =
      function([&](const Tensor& x) { return dropout(x); }, {.name = "f", .arg_names = {"x"}});
  const Tensor x = ones({64});
  {
    const PhaseScope training(Phase::kTraining);
    f(x);
  }
  saved::save(path("f"), {{"f", f}});
  const auto loaded = saved::load(path("f")).function("f").as<OfOne>();
  expect_error([&] { loaded(x); }, ErrorCode::kInvalidArgument,
               {"(x: float32[64])", "(x: float32[64]) in the training phase"});
  const PhaseScope training(Phase::kTraining);
  set_seed(3);
  const Tensor first = loaded(x), second = loaded(x);
  EXPECT_FALSE(same(first, second));
  set_seed(3);
  EXPECT_TRUE(same(f(x), first));
  EXPECT_TRUE(same(f(x), second));
}

// spec: SV-01.a
TEST_F(SavedGraphs, InOutArgumentsAreChanged) {
  const auto f = function(
      [](Tensor& x, const Tensor& y) {
        x = x + y;
        return x * 2;
      },
      {.name = "f", .arg_names = {"x", "y"}});
  Tensor x(1.0);
  f(x, Tensor(2.0));
  saved::save(path("f"), {{"f", f}});
  const saved::Function loaded = saved::load(path("f")).function("f");
  Tensor mine(1.0);
  EXPECT_EQ((loaded.as<Tensor(Tensor&, const Tensor&)>()(mine, Tensor(2.0)).item<float>()), 6.0F);
  EXPECT_EQ(mine.item<float>(), 3.0F);
  EXPECT_EQ(loaded.signatures()[0].changed, std::vector<std::string>{"x"});
}

}  // namespace
}  // namespace etude::saved_functions_test
