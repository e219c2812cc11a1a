// SPDX-License-Identifier: Apache-2.0
// Random calls of random ops: for any dtypes, shapes and attributes they return results of the
// inferred types, equal to a plain reference and to the bits of other devices, or throw an Error
// that names the op and the line. Case n is made from seed n alone. A failure prints its seed:
//
//   ETUDE_TEST_SEED=4711 ETUDE_TEST_CASES=1 build/dev/bin/random_ops_test
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/core/buffer.h"
#include "etude/core/context/context.h"
#include "etude/core/internal/convert.h"
#include "etude/core/op/registry.h"
#include "etude/ops.h"
#include "tests/ops/checks.h"

namespace etude {
namespace {

constexpr int64_t kLimitBytes = int64_t{64} << 20;

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  T pick(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(static_cast<int64_t>(list.size())))];
  }

 private:
  std::mt19937_64 engine_;
};

DType random_dtype(Random& random, DTypeSet likely) {
  for (int tries = 0; tries < 20; ++tries) {
    const auto d = static_cast<DType>(random.below(kDTypeCount));
    if (likely.contains(d) || random.chance(3)) return d;
  }
  return kFloat32;
}

Shape random_shape(Random& random) {
  Shape shape;
  for (int64_t rank = random.below(5); rank > 0; --rank) {
    shape.push_back(random.chance(10) ? 0 : 1 + random.below(4));
  }
  // No element, but a loop over the other axes would not end.
  const bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  if (is_empty && random.chance(20)) {
    const auto axis = static_cast<int>(random.below(shape.rank()));
    if (shape[axis] != 0) shape.set(axis, int64_t{1} << (32 + random.below(8)));
  }
  return shape;
}

// Mostly small, now and then absurd.
int64_t random_integer(Random& random) {
  if (random.chance(85)) return random.below(7) - 2;
  return random.pick<int64_t>({int64_t{1} << 31, int64_t{1} << 40,
                               std::numeric_limits<int64_t>::max(),
                               std::numeric_limits<int64_t>::min(), -1000, 1000});
}
double random_real(Random& random) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  return random.pick<double>({0, 0.5, 1, -1, 2, 1e300, -1e300, kInf, -kInf, std::nan("")});
}

AttrValue random_attr(Random& random, const AttrDef& def, const AttrValue& sample) {
  if (random.chance(50) && sample.index() != 0) return sample;
  switch (def.kind) {
    case AttrKind::kFlag:
      return random.chance(50);
    case AttrKind::kInt:
      return random_integer(random);
    case AttrKind::kReal:
      return random_real(random);
    case AttrKind::kDType:
      return static_cast<DType>(random.below(kDTypeCount));
    case AttrKind::kText:
      return random.chance(50) ? sample : AttrValue(std::string("no such thing"));
    case AttrKind::kInts: {
      std::vector<int64_t> list;
      for (int64_t n = random.below(5); n > 0; --n) list.push_back(random_integer(random));
      return list;
    }
    case AttrKind::kReals: {
      std::vector<double> list;
      for (int64_t n = random.below(4); n > 0; --n) list.push_back(random_real(random));
      return list;
    }
    default:
      return sample;
  }
}

struct RandomCall {
  const Op* op;
  std::vector<Tensor> operands;
  std::vector<AttrValue> attrs;

  std::string text() const {
    std::string out = std::string(op->name()) + "(";
    for (const Tensor& x : operands) out += (x.has_value() ? x.type()->to_string() : "-") + ", ";
    for (std::size_t i = 0; i < attrs.size(); ++i) {
      out += fmt::format("{}={}, ", op->def().attrs[i].name, to_string(attrs[i]));
    }
    return out + ")";
  }
};

Tensor random_tensor(Random& random, DType dtype, const Shape& shape) {
  Tensor out = internal::make_tensor(intern_type(dtype, shape));
  std::vector<double> values;
  for (int64_t i = 0; i < out.size(); ++i) {
    values.push_back(random.chance(2) ? random_real(random)
                                      : static_cast<double>(random.below(9) - 3) / 2);
  }
  internal::convert_elements(TensorAccess::writable(out), dtype, values.data(), kFloat64,
                             out.size());
  return out;
}

RandomCall random_call(Random& random, const std::vector<const Op*>& ops) {
  RandomCall call{random.pick(ops), {}, {}};
  const OpDef& def = call.op->def();
  const Sample sample = def.samples.calls.empty() ? Sample{} : random.pick(def.samples.calls);
  const DType dtype = random_dtype(random, def.dtypes);
  const Shape common = random_shape(random);
  const bool like_sample = !sample.operands.empty() && random.chance(40);
  const std::size_t count = like_sample ? sample.operands.size()
                            : call.op->is_variadic()
                                ? call.op->arity() - 1 + static_cast<std::size_t>(random.below(4))
                                : call.op->arity();
  for (std::size_t i = 0; i < count; ++i) {
    const OperandDef& operand = call.op->operand(i);
    if ((operand.optional && random.chance(40)) || random.chance(1)) {
      call.operands.emplace_back();
      continue;
    }
    const DType mine =
        random.chance(4) || !operand.dtypes.empty() ? random_dtype(random, operand.dtypes) : dtype;
    if (like_sample && sample.operands[i] == "-") {
      call.operands.emplace_back();
    } else if (like_sample) {
      const Type* type = parse_type(sample.operands[i], mine);
      call.operands.push_back(random_tensor(random, type->dtype(), type->shape()));
    } else {
      call.operands.push_back(
          random_tensor(random, mine, random.chance(60) ? common : random_shape(random)));
    }
  }
  for (const AttrDef& a : def.attrs) {
    AttrValue value = a.default_value;
    for (const auto& [key, given] : sample.attrs) value = key == a.name ? given : value;
    call.attrs.push_back(random.chance(like_sample ? 80 : 40) && value.index() != 0
                             ? value
                             : random_attr(random, a, value));
  }
  return call;
}

// The fault of a call's error, or "".
std::string fault_of(const RandomCall& call, const Error& error) {
  if (error.code() == ErrorCode::kInternal) return error.what();
  // An op that works for several functions names the function, once its kernel runs.
  const std::string_view attr = call.op->def().works_for;
  const bool names_function = !attr.empty() && error.op() == call.op->attrs(call.attrs).text(attr);
  if (error.op() != call.op->name() && !names_function)
    return fmt::format("the error names '{}': {}", error.op(), error.what());
  if (!error.is_located()) return fmt::format("no line: {}", error.what());
  return "";
}

// Whether no operand is converted on the way to the kernel, so that the reference gets the same
// operands.
bool is_plain(const RandomCall& call) {
  std::optional<DType> shared;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    const Tensor& x = call.operands[i];
    if (!x.has_value()) continue;
    if (!call.op->operand_dtypes(i).contains(x.dtype())) return false;
    if (!call.op->operand(i).dtypes.empty()) continue;
    if (shared && *shared != x.dtype()) return false;
    shared = x.dtype();
  }
  return true;
}

// The fault of a call, or "". Wrong values are failures of the running test.
std::string fault_of(const RandomCall& call) {
  Attrs attrs;
  try {
    attrs = call.op->attrs(call.attrs);
  } catch (const Error& error) {
    return error.code() == ErrorCode::kInternal ? error.what() : "";
  }
  try {
    const OperandList list{std::span<const Tensor>(call.operands)};
    const Values y = execute(*call.op, list.view(), attrs, CallSite::here());
    for (const Tensor& r : y) {
      if (!r.has_value()) return "a result is absent";
      if (r.to_string().empty()) return "a result cannot be printed";
    }
  } catch (const Error& error) {
    return fault_of(call, error);
  } catch (const std::exception& error) {
    return fmt::format("{}: {}", typeid(error).name(), error.what());
  }
  if (!is_plain(call)) return "";
  const DType dtype =
      call.operands.empty() || !call.operands[0].has_value() ? kFloat32 : call.operands[0].dtype();
  const matrix::Call same{call.op, dtype, 0, call.operands, attrs};
  try {
    matrix::check_eager(same);
    matrix::check_guards(same);
    matrix::check_reference(same);
    matrix::check_device(same);
  } catch (const Error& error) {  // two results at once may be too much
    if (error.code() != ErrorCode::kResourceExhausted)
      return fmt::format("a second time: {}", error.what());
  }
  return "";
}

class Limit {
 public:
  explicit Limit(int64_t bytes) { set_memory_limit(bytes); }
  Limit(const Limit&) = delete;
  ~Limit() { set_memory_limit(0); }
};

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* given = std::getenv(name);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

// Calls `check(seed)` for all seeds of this run, until ten of them failed.
template <class F>
void each_seed(uint64_t cases, const F& check) {
  const uint64_t first = number_from_environment("ETUDE_TEST_SEED", 0);
  cases = number_from_environment("ETUDE_TEST_CASES", cases);
  fmt::print("seeds {} to {}\n", first, first + cases - 1);
  int failures = 0;
  for (uint64_t seed = first; seed < first + cases && failures < 10; ++seed) {
    const int before =
        testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
    check(seed);
    const int after =
        testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
    failures += after > before ? 1 : 0;
  }
}

std::string trace(uint64_t seed, const RandomCall& call) {
  return fmt::format("ETUDE_TEST_SEED={} ETUDE_TEST_CASES=1: {}", seed, call.text());
}

// spec: IM-12.a
TEST(RandomOps, GiveRightResultsOrNamedErrors) {
  std::vector<const Op*> ops;
  for (const Op* op : Registry::global().ops()) {
    const auto& defs = op->def().attrs;
    const bool has_program = std::any_of(defs.begin(), defs.end(), [](const AttrDef& a) {
      return a.kind == AttrKind::kProgram;  // cannot be made up
    });
    if (!has_program) ops.push_back(op);
  }
  const Limit limit(kLimitBytes);
  each_seed(10000, [&](uint64_t seed) {
    Random random(seed);
    const RandomCall call = random_call(random, ops);
    SCOPED_TRACE(trace(seed, call));
    const std::string fault = fault_of(call);
    if (!fault.empty()) ADD_FAILURE() << fault;
  });
}

// The types of the call's operands, with some sizes made huge. None if an operand gets too large,
// or if execute() refuses such a call before any rule runs.
std::optional<std::vector<const Type*>> huge_types(Random& random, const RandomCall& call) {
  std::vector<const Type*> types;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    const Tensor& x = call.operands[i];
    if (!x.has_value()) {
      if (!call.op->operand(i).optional) return std::nullopt;
      types.push_back(nullptr);
      continue;
    }
    if (!call.op->operand_dtypes(i).contains(x.dtype())) return std::nullopt;
    Shape shape = x.shape();
    if (shape.rank() > 0 && random.chance(60)) {
      shape.set(static_cast<int>(random.below(shape.rank())),
                int64_t{1} << (20 + random.below(28)));
    }
    try {
      types.push_back(intern_type(x.dtype(), shape));
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  if (types.size() != call.op->arity() && !call.op->is_variadic()) return std::nullopt;
  return types;
}

// Types alone may be huge: inference must not overflow, allocate or loop.
// spec: IM-12.b
TEST(RandomOps, TypesOfHugeShapesAreInferredOrRefused) {
  const std::vector<const Op*> ops = Registry::global().ops();
  each_seed(10000, [&](uint64_t seed) {
    Random random(seed);
    const RandomCall call = random_call(random, ops);
    const auto types = huge_types(random, call);
    if (!types || call.op->def().data != nullptr) return;
    SCOPED_TRACE(trace(seed, call));
    const MemoryScope scope;
    try {
      for (const Type* type : infer_types(*call.op, *types, call.op->attrs(call.attrs))) {
        EXPECT_GE(type->count(), 0);
      }
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << typeid(error).name() << ": " << error.what();
    }
    EXPECT_LT(scope.stats().peak_bytes, 1 << 20);
  });
}

// Each of these needs 64 MiB or far more: the call fails, names itself and its line, keeps no
// memory, and the next call runs.
// spec: IM-12.b
TEST(RandomOps, TheProgramGoesOnAfterMemoryRanOut) {
  const int64_t huge = int64_t{1} << 44;
  const Tensor kept = full(Shape{1000}, 2.0), column = reshape(kept, {1000, 1});
  const struct {
    std::string_view op;
    std::function<Tensor()> run;
  } calls[] = {
      {"full",
       [] {
         return full(Shape{1 << 20, 16}, 1.0);
       }},
      {"full", [&] { return full(Shape{huge}, 1.0); }},
      {"zeros", [&] { return zeros(Shape{huge}); }},
      {"arange", [&] { return arange(1e14); }},
      {"broadcast_to",
       [&] {
         return broadcast_to(kept, {huge >> 10, 1000});
       }},
      {"tile", [&] { return tile(kept, std::vector<int64_t>{huge >> 10}); }},
      {"repeat", [&] { return repeat(kept, huge >> 10); }},
      {"pad", [&] { return pad(kept, huge); }},
      {"pad", [&] { return pad(kept, huge, {.mode = "edge"}); }},
      {"pad", [&] { return pad(kept, huge, {.mode = "wrap"}); }},
      {"add",
       [&] {
         return broadcast_to(kept, {1000, 1000}) + reshape(kept, {1000, 1, 1});
       }},
      {"one_hot", [&] { return one_hot(astype(kept, kInt32), 1 << 20); }},
      {"segment_sum", [&] { return segment_sum(kept, astype(kept, kInt32), huge); }},
  };
  const Limit limit(int64_t{16} << 20);
  for (const auto& call : calls) {
    SCOPED_TRACE(call.op);
    for (int i = 0; i < 20; ++i) {
      const MemoryScope scope;
      try {
        call.run();
        FAIL() << "it fits into 16 MiB";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << error.what();
        EXPECT_EQ(error.op(), call.op) << error.what();
        EXPECT_NE(std::string(error.what()).find("random_ops_test.cc"), std::string::npos)
            << error.what();
      }
      EXPECT_EQ(scope.stats().live_bytes, 0);
      EXPECT_EQ((kept + kept).data<float>()[999], 4);
    }
  }
  EXPECT_EQ(full(Shape{1 << 20, 3}, 1.0).data<float>()[0], 1);
}

// Without a limit the host sets one, and a request beyond it touches no page.
// spec: IM-12.b
TEST(RandomOps, MoreThanTheHostHasIsAnErrorAtOnce) {
  for (int i = 0; i < 100; ++i) {
    try {
      full(Shape{int64_t{1} << 44}, 1.0);
      FAIL() << "64 TiB were handed out";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << error.what();
    }
  }
}

}  // namespace
}  // namespace etude
