// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "etude/autodiff/tape/tape.h"
#include "etude/core/context/context.h"
#include "etude/ops.h"
#include "etude/ops/linalg/einsum_equation.h"

namespace etude::einsum_test {
namespace {

Tensor random_tensor(const Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> values(static_cast<std::size_t>(shape.count()));
  for (double& v : values) v = uniform(random);
  return Tensor(values, shape);
}

// The sum by its definition: every index of every label.
std::vector<double> by_definition(const ops::EinsumEquation& equation,
                                  const std::vector<Tensor>& xs) {
  std::map<int, int64_t> size, at;
  std::vector<std::vector<double>> values;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    values.push_back(xs[i].to_vector<double>());
    for (std::size_t a = 0; a < equation.operands[i].size(); ++a) {
      int64_t& n = size.try_emplace(equation.operands[i][a], 1).first->second;
      if (n == 1) n = xs[i].shape()[static_cast<int>(a)];
    }
  }
  int64_t count = 1;
  for (const int label : equation.result) count *= size[label];
  std::vector<double> out(static_cast<std::size_t>(count));
  std::vector<int> labels;
  for (const auto& [label, n] : size) labels.push_back(label);
  const std::function<void(std::size_t)> walk = [&](std::size_t depth) {
    if (depth < labels.size()) {
      for (int64_t i = 0; i < size[labels[depth]]; ++i) {
        at[labels[depth]] = i;
        walk(depth + 1);
      }
      return;
    }
    double term = 1;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      int64_t place = 0;
      for (std::size_t a = 0; a < equation.operands[i].size(); ++a) {
        const int64_t n = xs[i].shape()[static_cast<int>(a)];
        place = place * n + (n == 1 ? 0 : at[equation.operands[i][a]]);
      }
      term *= values[i][static_cast<std::size_t>(place)];
    }
    int64_t place = 0;
    for (const int label : equation.result) place = place * size[label] + at[label];
    out[static_cast<std::size_t>(place)] += term;
  };
  walk(0);
  return out;
}

struct Row {
  const char* equation;
  std::vector<Shape> shapes;
  Shape result;
};

const std::vector<Row> kRows = {
    {"bik,bkj->bij", {{2, 3, 4}, {2, 4, 5}}, {2, 3, 5}},
    {"ij,jk", {{2, 3}, {3, 4}}, {2, 4}},
    {"ba", {{2, 3}}, {3, 2}},
    {"ii", {{3, 3}}, {}},
    {"ii->i", {{3, 3}}, {3}},
    {"iij->ji", {{3, 3, 2}}, {2, 3}},
    {"iii->i", {{3, 3, 3}}, {3}},
    {"ijij->ji", {{2, 3, 2, 3}}, {3, 2}},
    {"i,i", {{4}, {4}}, {}},
    {"i,i->i", {{4}, {4}}, {4}},
    {"i,j->ji", {{4}, {3}}, {3, 4}},
    {"ij->", {{2, 3}}, {}},
    {"->", {{}}, {}},
    {",->", {{}, {}}, {}},
    {"ij,kl->", {{2, 3}, {4, 5}}, {}},
    {"...ij,...jk->...ik", {{5, 1, 2, 3}, {4, 3, 2}}, {5, 4, 2, 2}},
    {"...,...", {{2, 3}, {3}}, {2, 3}},
    {"i...->...i", {{2, 3, 4}}, {3, 4, 2}},
    {"...ii->...i", {{2, 3, 3}}, {2, 3}},
    {"ab,bc,cd->ad", {{2, 30}, {30, 4}, {4, 5}}, {2, 5}},
    {"ab,bc,cd,da->", {{2, 3}, {3, 4}, {4, 5}, {5, 2}}, {}},
    {"bhqd,bhkd->bhqk", {{2, 2, 3, 4}, {2, 2, 5, 4}}, {2, 2, 3, 5}},
    {" i j , j k -> i k ", {{2, 3}, {3, 4}}, {2, 4}},
    {"aB,Bc->Bac", {{2, 3}, {3, 4}}, {3, 2, 4}},
    {"ij,jk->ik", {{2, 0}, {0, 3}}, {2, 3}},
    {"i,i,i->i", {{3}, {3}, {3}}, {3}},
};

// spec: T11
TEST(Einsum, EqualsItsDefinition) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.equation);
    std::vector<Tensor> xs;
    std::vector<int> ranks;
    for (const Shape& shape : row.shapes) {
      xs.push_back(random_tensor(shape, static_cast<uint32_t>(xs.size()) + 1));
      ranks.push_back(shape.rank());
    }
    const Tensor y = einsum(row.equation, xs);
    ASSERT_EQ(y.shape(), row.result);
    const std::vector<double> want = by_definition(ops::parse_einsum(row.equation, ranks), xs);
    const std::vector<double> got = y.to_vector<double>();
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-12) << i;
  }
}

// Each operand enters once, so that central differences are exact but for rounding.
TEST(Einsum, GradientsEqualDifferences) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.equation);
    std::vector<Tensor> xs;
    for (const Shape& shape : row.shapes)
      xs.push_back(random_tensor(shape, static_cast<uint32_t>(xs.size()) + 1));
    Tape tape;
    Tensor y;
    {
      const TapeContext context(tape);
      for (const Tensor& x : xs) tape.watch(x);
      y = einsum(row.equation, xs);
    }
    const std::vector<Tensor> g = tape.gradient({&y, 1}, xs);
    for (std::size_t wrt = 0; wrt < xs.size(); ++wrt) {
      if (xs[wrt].size() == 0) continue;
      ASSERT_EQ(g[wrt].shape(), xs[wrt].shape());
      std::vector<double> values = xs[wrt].to_vector<double>();
      double sides[2];
      for (int side = 0; side < 2; ++side) {
        std::vector<double> moved = values;
        moved.back() += side == 0 ? -0.01 : 0.01;
        std::vector<Tensor> at = xs;
        at[wrt] = Tensor(moved, xs[wrt].shape());
        sides[side] = sum(einsum(row.equation, at)).item<double>();
      }
      EXPECT_NEAR(g[wrt].to_vector<double>().back(), (sides[1] - sides[0]) / 0.02, 1e-9)
          << "operand " << wrt;
    }
  }
}

// The sizes of the intermediate matrices that matmul makes.
class SizesContext final : public Context {
 public:
  Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) override {
    Values out = parent()->execute(op, operands, attrs, where);
    if (op.name() == "matmul") largest = std::max(largest, out[0].size());
    return out;
  }
  int64_t largest = 0;
};

// From left to right, the first product would have 100 x 100 elements.
TEST(Einsum, ContractsTheCheapestPairFirst) {
  const std::vector<Tensor> xs = {random_tensor({100, 2}, 1), random_tensor({2, 100}, 2),
                                  random_tensor({100, 1}, 3)};
  SizesContext sizes;
  ContextStack::push(sizes);
  const Op& op = internal::op("einsum");
  const Values y = op.def().lower(OperandList(std::span<const Tensor>(xs)).view(),
                                  op.attrs({std::string("ab,bc,cd->ad")}));
  ContextStack::remove(sizes);
  EXPECT_EQ(y[0].shape(), (Shape{100, 1}));
  EXPECT_EQ(sizes.largest, 100);
}

TEST(Einsum, ErrorsSayWhatIsWrong) {
  const Tensor x = full({2, 3}, 1.0f);
  const struct {
    const char* equation;
    const char* part;
  } rows[] = {{"ij->ik", "'k', which no operand has"},
              {"ij->ijj", "'j' twice"},
              {"ij,jk", "2 terms"},
              {"i", "names 1"},
              {"...i->i", "no '...'"},
              {"i..j", "may hold letters"},
              {"ij->i->j", "may hold letters"},
              {"......", "two ellipses"},
              {"ii->", "'i' has size 3"},
              {"i\x01j", "byte 0x01"},
              {"", "operand 0 has 2 axes"},
              {"ijk...", "at least 3"}};
  for (const auto& row : rows) {
    try {
      einsum(row.equation, {x});
      ADD_FAILURE() << row.equation;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(row.part), std::string::npos)
          << row.equation << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace etude::einsum_test
