// SPDX-License-Identifier: Apache-2.0
// Generated code compared to the precompiled kernels of its nodes, run tile by tile, and the cost
// of compiling. Three programs: two transcendental functions, a program that is bound by memory,
// and a chain of functions that wait for each other. A result is compared bit for bit before
// anything is timed; items are elements.
#include <array>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "etude/base/scalars/expression_math.h"
#include "etude/codegen/compile.h"
#include "etude/codegen/test_programs.h"
#include "etude/core/op/registry.h"

namespace etude::codegen {
namespace {

using benchmark::State;
using scalar::Fn;
using scalar::Program;

const std::vector<double> kParams = {0.75, -0.5};

struct Subject {
  const char* name;
  Program program;  // of one operand and two parameters
};

constexpr auto kGate = [](auto x, auto a, auto b) {
  return math::tanh(a * x + b) * math::exp(-(x * x));
};
constexpr auto kRelu = [](auto x, auto s, auto t) { return math::maximum(x * s + t, 0.0); };

const std::array kSubjects = {
    Subject{"tanh(a*x+b)*exp(-x*x)", scalar::build<decltype(kGate), 1, 2>()},
    Subject{"relu(x*s+t)", scalar::build<decltype(kRelu), 1, 2>()},
    Subject{"y=tanh(0.9y)+x, 20 times", chain_of(Fn::kTanh, 20)},
};

// Node by node on tiles that stay in the L1 cache, as without generated code.
class Tiles {
 public:
  explicit Tiles(const Program& program) : program_(program) {
    for (int k = 0; k < program.size; ++k) {
      const scalar::Node& node = program.nodes[static_cast<std::size_t>(k)];
      values_.emplace_back(kTile);
      kernels_.push_back(nullptr);
      if (node.fn == Fn::kParam || node.fn == Fn::kConstant) {
        const double number = node.fn == Fn::kParam ? kParams[node.args[0]] : node.constant;
        values_.back().assign(kTile, static_cast<float>(number));
      } else if (node.fn != Fn::kOperand) {
        const ScalarDef& def = Registry::global().at(scalar::info(node.fn).op).def().scalar;
        kernels_.back() = def.by_isa[static_cast<std::size_t>(internal::best_isa())];
      }
    }
  }

  void run(float* out, const float* in, std::size_t n) {
    for (std::size_t at = 0; at < n; at += kTile) {
      const std::size_t count = std::min(kTile, n - at);
      for (int k = 0; k < program_.size; ++k) step(k, out + at, in + at, count);
    }
  }

 private:
  static constexpr std::size_t kTile = 1024;

  void step(int k, float* out, const float* in, std::size_t count) {
    const scalar::Node& node = program_.nodes[static_cast<std::size_t>(k)];
    if (kernels_[static_cast<std::size_t>(k)] == nullptr) return;
    std::array<const void*, 3> args{};
    for (int a = 0; a < scalar::info(node.fn).arity; ++a) {
      const auto arg = node.args[static_cast<std::size_t>(a)];
      args[static_cast<std::size_t>(a)] =
          program_.nodes[arg].fn == Fn::kOperand ? in : values_[arg].data();
    }
    float* to = k + 1 == program_.size ? out : values_[static_cast<std::size_t>(k)].data();
    kernels_[static_cast<std::size_t>(k)](to, args.data(), nullptr, count);
  }

  const Program& program_;
  std::vector<std::vector<float>> values_;
  std::vector<ProgramKernel> kernels_;
};

std::vector<float> operand(std::size_t n) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-3, 3);
  std::vector<float> x(n);
  for (float& v : x) v = uniform(random);
  return x;
}

void count(State& state, std::size_t n) {
  const auto elements = static_cast<double>(state.iterations()) * static_cast<double>(n);
  state.counters["s/element"] =
      benchmark::Counter(elements, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(n));
}

void run_code(State& state, const Subject& subject, Tier tier) {
  if (!is_available()) return state.SkipWithError("this build generates no code");
  const auto n = static_cast<std::size_t>(state.range(0));
  const std::vector<float> x = operand(n);
  std::vector<float> y(n), want(n);
  const CompiledProgram code = compile_cached(subject.program, {.tier = tier});
  const void* in[] = {x.data()};
  code.dense()(y.data(), in, kParams.data(), n);
  Tiles(subject.program).run(want.data(), x.data(), n);
  if (std::memcmp(y.data(), want.data(), n * sizeof(float)) != 0) {
    return state.SkipWithError("the result differs from that of the precompiled kernels");
  }
  for (auto _ : state) {
    code.dense()(y.data(), in, kParams.data(), n);
    benchmark::ClobberMemory();
  }
  count(state, n);
}

void run_tiles(State& state, const Subject& subject) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const std::vector<float> x = operand(n);
  std::vector<float> y(n);
  Tiles tiles(subject.program);
  for (auto _ : state) {
    tiles.run(y.data(), x.data(), n);
    benchmark::ClobberMemory();
  }
  count(state, n);
}

void compile_one(State& state, const Program& program, Tier tier) {
  if (!is_available()) return state.SkipWithError("this build generates no code");
  compile(program, {.tier = tier});  // the first one prepares LLVM
  for (auto _ : state) benchmark::DoNotOptimize(compile(program, {.tier = tier}));
}

// As many as fit a program.
Program sum_of_sines() {
  std::array<scalar::Node, scalar::kMaxRawNodes> nodes;
  scalar::Builder builder(nodes.data(), nodes.size());
  scalar::Symbol sum = scalar::operand(builder, 0);
  for (int k = 0; k < 15; ++k) sum = sum + scalar::sin(sum * (k + 2.0));
  return scalar::finish(builder, sum.node_in(builder), 1, 0, true);
}

void register_all() {
  constexpr int64_t kInCache = 2048, kInMemory = 1 << 24;
  for (const Subject& subject : kSubjects) {
    const std::string name = subject.name;
    for (const Tier tier : {Tier::kFast, Tier::kBest}) {
      const std::string label = name + ", tier " + std::to_string(static_cast<int>(tier));
      benchmark::RegisterBenchmark(label.c_str(), run_code, subject, tier)
          ->Arg(kInCache)
          ->Arg(kInMemory);
      benchmark::RegisterBenchmark(("compile " + label).c_str(), compile_one, subject.program, tier)
          ->Unit(benchmark::kMillisecond);
    }
    benchmark::RegisterBenchmark((name + ", tiles").c_str(), run_tiles, subject)
        ->Arg(kInCache)
        ->Arg(kInMemory);
  }
  for (const Tier tier : {Tier::kFast, Tier::kBest}) {
    const std::string label = ", tier " + std::to_string(static_cast<int>(tier));
    benchmark::RegisterBenchmark(("compile x1 + x2" + label).c_str(), compile_one,
                                 program_of(Fn::kAdd), tier)
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("compile 15 sines" + label).c_str(), compile_one, sum_of_sines(),
                                 tier)
        ->Unit(benchmark::kMillisecond);
  }
}

[[maybe_unused]] const bool kRegistered = (register_all(), true);

}  // namespace
}  // namespace etude::codegen
