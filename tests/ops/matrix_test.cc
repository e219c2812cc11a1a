// SPDX-License-Identifier: Apache-2.0
// The op matrix: every record of the registry by every mode, dtype and sample. Names no op: a new
// record is tested by being there.
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/ops/checks.h"

namespace etude::matrix {
namespace {

class Matrix : public testing::TestWithParam<const Op*> {
 protected:
  const Op& op() const { return *GetParam(); }

  // Runs `check` on every call that the record allows; stops at the third failure of the op.
  void each_call(
      void (*check)(const Call&), bool (*takes)(DType) = [](DType) { return true; }) {
    int failures = 0;
    for (const DType dtype : dtypes_of(op())) {
      if (!takes(dtype)) continue;
      for (const Call& call : calls_of(op(), dtype)) {
        if (failures >= 3 || !is_allowed(call)) continue;
        try {
          check(call);
        } catch (const std::exception& error) {
          ADD_FAILURE() << call.label("call") << ": unexpected error: " << error.what();
        }
        failures += HasFailure() ? 1 : 0;
      }
    }
  }

 private:
  // A type rule may refuse some dtypes of a sample; check_refusals checks which.
  static bool is_allowed(const Call& call) {
    try {
      run(call);
      return true;
    } catch (const Error&) {
      return false;
    }
  }
};

bool has_derivative(DType dtype) { return is_differentiable(dtype); }

TEST_P(Matrix, Samples) { check_samples(op()); }
TEST_P(Matrix, Refusals) { check_refusals(op()); }
TEST_P(Matrix, Eager) { each_call(check_eager); }
TEST_P(Matrix, Guards) { each_call(check_guards); }
TEST_P(Matrix, Reference) {
  each_call(check_reference);
  for (const DType dtype : dtypes_of(op())) check_special(op(), dtype);
}
TEST_P(Matrix, Threads) {
  each_call(check_threads);
  check_large(op(), dtypes_of(op()).front());
  for (const DType dtype : dtypes_of(op())) {
    if (dtype == kFloat32) check_large(op(), dtype);
  }
}
TEST_P(Matrix, SharedOperands) { each_call(check_shared); }
TEST_P(Matrix, Recording) { each_call(check_recording); }
TEST_P(Matrix, Staged) { each_call(check_staged); }
TEST_P(Matrix, Tiers) {
  each_call(check_tiers, [](DType dtype) { return dtype == kFloat32; });
}
TEST_P(Matrix, Lazy) { each_call(check_lazy); }
TEST_P(Matrix, Graph) { each_call(check_graph); }
TEST_P(Matrix, SymbolicGraph) { each_call(check_symbolic); }
TEST_P(Matrix, SymbolicShapes) { check_symbolic_shapes(op()); }
TEST_P(Matrix, Device) { each_call(check_device); }
TEST_P(Matrix, DeviceGradient) { each_call(check_device_gradient, has_derivative); }
TEST_P(Matrix, Batch) { each_call(check_batch); }
TEST_P(Matrix, Tape) { each_call(check_tape); }
TEST_P(Matrix, Jvp) { each_call(check_jvp, has_derivative); }
TEST_P(Matrix, Vjp) { each_call(check_vjp, has_derivative); }
TEST_P(Matrix, SecondOrder) { each_call(check_second_order, has_derivative); }
TEST_P(Matrix, Snapshots) { each_call(check_snapshot, has_derivative); }
TEST_P(Matrix, NoDerivative) { each_call(check_undifferentiable); }
TEST_P(Matrix, Errors) {
  for (std::size_t i = 0; i < op().def().errors.size(); ++i) {
    check_error(op(), i);
    check_lazy_error(op(), i);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Matrix, testing::ValuesIn(Registry::global().ops()),
                         [](const auto& info) { return std::string(info.param->name()); });

// A refusal is no failure of the columns above, so they would hold without any symbolic graph.
TEST(MatrixFamilies, ServeNearlyAllCalls) {
  SymbolicCount all;
  int ops = 0;
  for (const Op* op : Registry::global().ops()) {
    SymbolicCount own;
    for (const Call& call : calls_of(*op, dtypes_of(*op).front())) {
      const SymbolicCount count = count_families(call);
      own.served += count.served;
      own.refused += count.refused;
      own.fixed += count.fixed;
    }
    ops += own.served > 0 ? 1 : 0;
    all.served += own.served;
    all.refused += own.refused;
    all.fixed += own.fixed;
  }
  fmt::print(
      "symbolic graphs serve {} variations of sizes, of {} ops; refused: {}; fixed by attributes: "
      "{}\n",
      all.served, ops, all.refused, all.fixed);
  EXPECT_GE(all.served, 1750);
  EXPECT_GE(ops, 210);
  EXPECT_GE(all.served, 50 * all.refused);
}

class Summary : public testing::Environment {
 public:
  void SetUp() override {
    if (std::getenv("ETUDE_UPDATE") != nullptr) write_lists();
  }
  void TearDown() override { fmt::print("{}\n", summary(Registry::global().ops().size())); }
};
const testing::Environment* const added = testing::AddGlobalTestEnvironment(new Summary);

}  // namespace
}  // namespace etude::matrix
