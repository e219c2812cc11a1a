// SPDX-License-Identifier: Apache-2.0
// Random clusters and loops, as machine code of each width and tier, against one element after the
// other: programs by the precompiled kernels, products, folds and moves by plain loops.
//
//   ETUDE_TEST_SEED=12 build/dev/bin/codegen_test --gtest_filter="Codegen/Clusters*"
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/codegen/cluster_request.h"
#include "etude/codegen/compile.h"
#include "etude/codegen/test_programs.h"
#include "etude/device/cpu/float_mode.h"
#include "tests/expect_error.h"

namespace etude::codegen {
namespace {

using etude::internal::Cluster;
using etude::internal::SmallCall;
using Kind = SmallCall::Kind;
using Combine = SmallCall::Combine;

float at(const Bytes& x, std::size_t i) {
  float y;
  std::memcpy(&y, x.data() + i * sizeof y, sizeof y);
  return y;
}
void put(Bytes& x, std::size_t i, float y) { std::memcpy(x.data() + i * sizeof y, &y, sizeof y); }

float combine(Combine how, float x, float y) {
  if (how == Combine::kSum) return x + y;
  if (how == Combine::kProd) return x * y;
  // As bits: the one instruction for it would make zeros of denormals.
  const bool is_first = x != x || (how == Combine::kMax ? x > y : x < y);
  return std::bit_cast<float>(is_first ? std::bit_cast<uint32_t>(x) : std::bit_cast<uint32_t>(y));
}
float identity(Combine how) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  return how == Combine::kSum    ? -0.0f
         : how == Combine::kProd ? 1.0f
         : how == Combine::kMax  ? -kInf
                                 : kInf;
}

// The tree that kernels/cpu/reduce/reduce.h describes.
Bytes combine_pass(Combine how, const Bytes& x, const SmallCall::Axes& axes) {
  Bytes out(std::size_t{axes.outer} * axes.inner * sizeof(float));
  for (uint32_t o = 0; o < axes.outer; ++o) {
    for (uint32_t i = 0; i < axes.inner; ++i) {
      const auto row = [&](uint32_t r) { return at(x, (o * axes.size + r) * axes.inner + i); };
      float sum = identity(how);
      if (axes.inner == 1) {
        std::vector<float> partial(64, identity(how));
        for (uint32_t r = 0; r < axes.size; ++r)
          partial[r % 64] = combine(how, partial[r % 64], row(r));
        for (std::size_t width = axes.size <= 16 ? 8 : 32; width >= 1; width /= 2) {
          for (std::size_t j = 0; j < width; ++j) {
            partial[j] = combine(how, partial[j], partial[j + width]);
          }
        }
        sum = partial[0];
      } else {
        uint32_t r = 0;
        for (; r + 4 <= axes.size; r += 4) {
          const float low = combine(how, row(r), row(r + 1)),
                      high = combine(how, row(r + 2), row(r + 3));
          sum = combine(how, sum, combine(how, low, high));
        }
        for (; r < axes.size; ++r) sum = combine(how, sum, row(r));
      }
      put(out, o * axes.inner + i, sum);
    }
  }
  return out;
}

Bytes elements_of(const Bytes& x, const SmallCall::List& list, bool is_bool) {
  const std::size_t bytes = element_bytes(is_bool);
  Bytes out;
  for (const uint16_t i : list) {
    out.insert(out.end(), x.begin() + static_cast<std::ptrdiff_t>(i * bytes),
               x.begin() + static_cast<std::ptrdiff_t>((i + 1) * bytes));
  }
  return out;
}

Bytes want_of(const Cluster& cluster, const Cluster::Call& call, const std::vector<Bytes>& values,
              etude::internal::Isa isa) {
  const SmallCall& what = call.what;
  const std::size_t count = cluster.values[call.result].count;
  std::vector<Bytes> in;
  for (const uint32_t v : call.operands) in.push_back(values[v]);
  if (what.kind == Kind::kProgram) {
    for (std::size_t o = 0; o < in.size(); ++o) {
      const bool is_bool = cluster.values[call.operands[o]].is_bool;
      if (!what.at[o].empty()) in[o] = elements_of(in[o], what.at[o], is_bool);
    }
    return run_precompiled(*what.program, isa, in, what.params, count);
  }
  if (what.kind == Kind::kMove) {
    Bytes all;
    for (const Bytes& x : in) all.insert(all.end(), x.begin(), x.end());
    return elements_of(all, what.at[0], cluster.values[call.result].is_bool);
  }
  Bytes out(count * sizeof(float));
  if (what.kind == Kind::kProduct) {
    for (std::size_t i = 0; i < count; ++i) {
      float sum = 0;
      for (uint32_t k = 0; k < what.depth; ++k) {
        sum = std::fma(at(in[0], what.at[0][i] + k * what.strides[0]),
                       at(in[1], what.at[1][i] + k * what.strides[1]), sum);
      }
      put(out, i, sum);
    }
    return out;
  }
  out = in[0];
  for (const auto& axes : what.passes) out = combine_pass(what.combine, out, axes);
  if (what.divisor == 1) return out;
  for (std::size_t i = 0; i < count; ++i) put(out, i, at(out, i) / what.divisor);
  return out;
}

// Grows a cluster whose values have these sizes, among others.
class Grower {
 public:
  Grower(std::mt19937& random, std::size_t size) : random_(random), size_(size) {}

  Cluster grow(int calls, bool is_loop) {
    cluster_.is_loop = is_loop;
    cluster_.is_reverse = is_loop && below(2) == 0;
    for (int i = 0; i < 3; ++i) load(size(), false);
    load(size_, true);
    for (int c = 0; c < 2 && is_loop; ++c) carry(c == 0 ? size_ : size());
    for (int i = 0; i < calls; ++i) add_call();
    for (auto& c : cluster_.carried) c.after = result_like(c.before);
    const auto first = is_loop ? 0 : cluster_.calls.front().result;  // of the stored values
    for (uint32_t v = first; v < cluster_.values.size(); ++v) {
      Cluster::Place place = new_place(v);
      if (is_loop) place.stride = static_cast<int64_t>(bytes_of(v));
      cluster_.stores.push_back(place);
    }
    return cluster_;
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  std::size_t size() {
    constexpr std::size_t kSizes[] = {1, 1, 2, 3, 4, 7, 16, 17, 24, 64};
    return below(2) == 0 ? size_ : kSizes[below(std::size(kSizes))];
  }
  std::size_t bytes_of(uint32_t v) const {
    return cluster_.values[v].count * element_bytes(cluster_.values[v].is_bool);
  }
  uint32_t add_value(std::size_t count, bool is_bool) {
    cluster_.values.push_back({static_cast<uint32_t>(count), is_bool});
    return static_cast<uint32_t>(cluster_.values.size() - 1);
  }
  Cluster::Place new_place(uint32_t v) { return {.value = v, .slot = slots_++}; }
  void load(std::size_t count, bool is_bool) {
    Cluster::Place place = new_place(add_value(count, is_bool));
    if (cluster_.is_loop && below(2) == 0)
      place.stride = static_cast<int64_t>(bytes_of(place.value));
    cluster_.loads.push_back(place);
  }
  void carry(std::size_t count) {
    const uint32_t v = add_value(count, false);
    cluster_.carried.push_back({v, v, new_place(v), new_place(v)});
    cluster_.carried.back().from.value = v;
  }
  uint32_t any(bool is_bool) {
    for (;;) {
      const auto v = static_cast<uint32_t>(below(cluster_.values.size()));
      if (cluster_.values[v].is_bool == is_bool) return v;
    }
  }
  // The last value of this size; it may be the one itself.
  uint32_t result_like(uint32_t v) const {
    for (auto w = static_cast<uint32_t>(cluster_.values.size()); w-- > 0;) {
      const Cluster::Value &a = cluster_.values[v], &b = cluster_.values[w];
      if (a.count == b.count && a.is_bool == b.is_bool) return w;
    }
    return v;
  }
  SmallCall::List list(std::size_t count, std::size_t of) {
    SmallCall::List out;
    const std::size_t step = below(3), first = below(of);
    for (std::size_t i = 0; i < count; ++i) {
      out.push_back(static_cast<uint16_t>(step == 2 ? below(of) : (first + i * step) % of));
    }
    return out;
  }

  void add_call() {
    Cluster::Call call;
    std::size_t count = size();
    bool is_bool = false;
    switch (below(6)) {
      case 0:
        count = product(call);
        break;
      case 1:
        call.operands = {any(false)};
        if (cluster_.values[call.operands[0]].count == 1) return;  // there is nothing to combine
        count = combine(call);
        break;
      case 2: {
        is_bool = below(4) == 0;
        call.operands = {any(is_bool), any(is_bool)};
        std::size_t of = 0;
        for (const uint32_t v : call.operands) of += cluster_.values[v].count;
        call.what.at = {list(count, of)};
        break;
      }
      default:
        is_bool = program(call, count);
        break;
    }
    call.result = add_value(count, is_bool);
    cluster_.calls.push_back(call);
  }
  bool program(Cluster::Call& call, std::size_t count) {
    call.what.kind = Kind::kProgram;
    call.what.program =
        std::make_shared<scalar::Program>(random_program(random_, 1 + static_cast<int>(below(4))));
    call.what.params = {0.75, -1.5};
    for (int o = 0; o < call.what.program->operands; ++o) {
      const uint32_t v = any(((call.what.program->bools >> o) & 1) != 0);
      call.operands.push_back(v);
      const std::size_t of = cluster_.values[v].count;
      call.what.at.push_back(of == count ? SmallCall::List() : list(count, of));
    }
    return call.what.program->is_bool;
  }
  std::size_t product(Cluster::Call& call) {
    call.what.kind = Kind::kProduct;
    call.operands = {any(false), any(false)};
    const std::size_t x = cluster_.values[call.operands[0]].count;
    const std::size_t y = cluster_.values[call.operands[1]].count;
    const std::size_t k = 1 + below(std::min<std::size_t>({x, y, 8}));
    const std::size_t m = x / k, n = y / k;
    const std::size_t rows = std::min<std::size_t>(m, 64 / n);
    call.what.depth = static_cast<uint32_t>(k);
    call.what.strides = {1, static_cast<uint32_t>(n)};
    call.what.at.resize(2);
    for (std::size_t i = 0; i < rows * n; ++i) {
      call.what.at[0].push_back(static_cast<uint16_t>(i / n * k));
      call.what.at[1].push_back(static_cast<uint16_t>(i % n));
    }
    return rows * n;
  }
  std::size_t combine(Cluster::Call& call) {
    call.what.kind = Kind::kCombine;
    call.what.combine = static_cast<Combine>(below(4));
    const uint32_t count = cluster_.values[call.operands[0]].count;
    std::vector<uint32_t> sizes;
    for (uint32_t d = 2; d <= count; ++d) {
      if (count % d == 0) sizes.push_back(d);
    }
    const uint32_t size = sizes[below(sizes.size())];
    const uint32_t inner = below(2) == 0 ? 1 : count / size;
    const uint32_t outer = count / size / inner;
    call.what.passes = {{outer, size, inner}};
    call.what.divisor = below(2) == 0 ? 1.0f : static_cast<float>(size);
    return std::size_t{outer} * inner;
  }

  std::mt19937& random_;
  std::size_t size_;
  Cluster cluster_;
  uint32_t slots_ = 0;
};

// Values of a cluster on random elements, compared with the results of its code. After each place
// there are bytes that must not be written.
class Trial {
 public:
  static constexpr std::size_t kSteps = 3, kBehind = 64;

  Trial(const Cluster& cluster, std::mt19937& random) : cluster_(cluster) {
    const auto add = [&](const Cluster::Place& place, bool is_filled) {
      const Cluster::Value& value = cluster_.values[place.value];
      const std::size_t bytes = value.count * element_bytes(value.is_bool);
      const std::size_t all = bytes * (place.stride == 0 ? 1 : kSteps);
      if (slots_.size() <= place.slot) slots_.resize(place.slot + 1);
      Bytes& slot = slots_[place.slot];
      slot.assign(all + kBehind, std::byte{0x5a});
      if (!is_filled) return;
      if (value.is_bool) {
        for (std::size_t i = 0; i < all; ++i) slot[i] = std::byte(random() & 1);
      } else {
        const std::vector<float> numbers = random_values(random, all / sizeof(float));
        std::memcpy(slot.data(), numbers.data(), all);
      }
    };
    for (const auto& place : cluster.loads) add(place, true);
    for (const auto& c : cluster.carried) {
      add(c.from, true);
      add(c.to, false);
    }
    for (const auto& place : cluster.stores) add(place, false);
  }

  std::vector<Bytes> run(const CompiledCluster& code) const {
    std::vector<Bytes> memory = slots_;
    std::vector<void*> at;
    for (Bytes& slot : memory) at.push_back(slot.data());
    const std::vector<double> params = cluster_.params();
    code.run()(at.data(), params.data(), cluster_.is_loop ? kSteps : 1);
    return memory;
  }

  std::vector<Bytes> want(etude::internal::Isa isa) const {
    std::vector<Bytes> memory = slots_, values(cluster_.values.size());
    for (std::size_t step = 0; step < (cluster_.is_loop ? kSteps : 1); ++step) {
      const std::size_t row = cluster_.is_reverse ? kSteps - 1 - step : step;
      const auto begin = [&](const Cluster::Place& place) {
        return memory[place.slot].begin() + static_cast<std::ptrdiff_t>(row) * place.stride;
      };
      const auto bytes = [&](const Cluster::Place& place) {
        const Cluster::Value& value = cluster_.values[place.value];
        return static_cast<std::ptrdiff_t>(value.count * element_bytes(value.is_bool));
      };
      std::map<uint32_t, Bytes> next;
      for (const auto& c : cluster_.carried) {
        if (step > 0) next[c.before] = values[c.after];
        if (step == 0) next[c.before] = Bytes(begin(c.from), begin(c.from) + bytes(c.from));
      }
      for (const auto& [v, carried] : next) values[v] = carried;
      for (const auto& place : cluster_.loads) {
        values[place.value] = Bytes(begin(place), begin(place) + bytes(place));
      }
      for (const auto& call : cluster_.calls) {
        values[call.result] = want_of(cluster_, call, values, isa);
      }
      for (const auto& place : cluster_.stores) {
        std::ranges::copy(values[place.value], begin(place));
      }
      for (const auto& c : cluster_.carried) {
        std::ranges::copy(values[c.after], memory[c.to.slot].begin());
      }
    }
    return memory;
  }

  void expect_same(const std::vector<Bytes>& got, const std::vector<Bytes>& want) const {
    std::vector<bool> is_bool(slots_.size(), false);
    for (const auto& place : cluster_.stores) {
      is_bool[place.slot] = cluster_.values[place.value].is_bool;
    }
    for (const auto& place : cluster_.loads) {
      is_bool[place.slot] = cluster_.values[place.value].is_bool;
    }
    for (std::size_t s = 0; s < got.size(); ++s) {
      const std::ptrdiff_t where = first_difference(got[s], want[s], is_bool[s]);
      const auto bits = [&](const std::vector<Bytes>& memory) {
        const auto i = static_cast<std::size_t>(std::max<std::ptrdiff_t>(where, 0));
        return is_bool[s] ? 0u : std::bit_cast<uint32_t>(at(memory[s], i));
      };
      ASSERT_EQ(where, -1) << fmt::format("slot {}: got {:x}, want {:x} in\n", s, bits(got),
                                          bits(want))
                           << to_string(cluster_);
    }
  }

 private:
  const Cluster& cluster_;
  std::vector<Bytes> slots_;
};

class Clusters : public ::testing::TestWithParam<bool> {};

TEST_P(Clusters, GiveTheBitsOfTheirCalls) {
  if (!is_available()) GTEST_SKIP() << "this build generates no code";
  const FloatModeScope float_mode;
  const char* const given = std::getenv("ETUDE_TEST_SEED");
  const unsigned seed = given == nullptr ? 0 : static_cast<unsigned>(std::atoi(given));
  for (const std::size_t size : {1, 2, 3, 7, 16, 17, 64}) {
    for (const etude::internal::Isa isa : isas()) {
      const unsigned number = static_cast<unsigned>(size) * 3 + static_cast<unsigned>(isa);
      std::mt19937 random(1000 * seed + number);
      const Cluster cluster = Grower(random, size).grow(GetParam() ? 6 : 10, GetParam());
      check(cluster);
      const Tier tier = (size + static_cast<std::size_t>(isa)) % 2 == 0 ? Tier::kFast : Tier::kBest;
      SCOPED_TRACE(etude::internal::name(isa));
      const CompiledCluster code = compile_cluster(cluster, {.tier = tier, .isa = isa});
      for (int trial = 0; trial < 3; ++trial) {
        const Trial values(cluster, random);
        values.expect_same(values.run(code), values.want(isa));
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codegen, Clusters, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "InLoops" : "InOneStep"; });

// As the compiler gets them.
TEST(Cluster, IsReadAsItWasWritten) {
  std::mt19937 random(2);
  for (int round = 0; round < 20; ++round) {
    const Cluster cluster =
        Grower(random, 1 + static_cast<std::size_t>(round)).grow(8, round % 2 == 1);
    const std::string source = request_of(Product::kObject, cluster, {}).source;
    EXPECT_EQ(to_string(read_cluster(source)), to_string(cluster));
    EXPECT_EQ(request_of(Product::kObject, read_cluster(source), {}).source, source);
    for (std::size_t end = 0; end < source.size(); ++end) {
      EXPECT_THROW(read_cluster(source.substr(0, end)), Error) << end;
    }
  }
  tests::expect_error([] { read_cluster("0 0 5"); }, ErrorCode::kInvalidArgument,
                      {"an invalid cluster: '5' where a number is needed"});
  tests::expect_error([] { read_cluster("0 0 5000 1 "); }, ErrorCode::kInvalidArgument,
                      {"an invalid cluster: a list of 5000 in 2 characters"});
  tests::expect_error([] { read_cluster("0 0 0 0 0 0 0 0 "); }, ErrorCode::kInvalidArgument,
                      {"the compiler was sent more than a cluster: '0 '"});
}

// A value without a maker, a value with two makers, an element outside.
TEST(Cluster, RefusesWhatBreaksItsInvariants) {
  std::mt19937 random(1);
  const Cluster fine = Grower(random, 7).grow(5, false);
  const auto expect_broken = [](const Cluster& cluster, std::string_view text) {
    tests::expect_error([&] { compile_cluster(cluster); }, ErrorCode::kInternal, {text});
  };
  Cluster broken = fine;
  broken.loads.pop_back();
  expect_broken(broken, "of a cluster is");
  broken = fine;
  broken.calls.push_back(broken.calls.front());
  expect_broken(broken, "is given twice");
  broken = fine;
  broken.values[0].count = 65;
  expect_broken(broken, "a cluster");
  Cluster move;
  move.values = {{3, false}, {1, false}};
  move.loads = {{.value = 0}};
  move.calls = {{SmallCall(), {0}, 1}};
  move.calls[0].what.at = {{3}};
  expect_broken(move, "element 3 of 3 is read in a cluster");
}

}  // namespace
}  // namespace etude::codegen
