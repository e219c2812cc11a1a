// SPDX-License-Identifier: Apache-2.0
// Random calls of random ops: whatever dtypes, shapes and attributes they get, they give results of
// the inferred types or an Error that names the op and the line. A failure prints the seed.
#include <cstdlib>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/core/buffer.h"
#include "etude/core/context.h"
#include "etude/core/convert.h"
#include "etude/core/registry.h"
#include "etude/ops.h"

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

// The fault of a call, or "".
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
    return "";
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) return error.what();
    if (error.op() != call.op->name())
      return fmt::format("the error names '{}': {}", error.op(), error.what());
    if (!error.is_located()) return fmt::format("no line: {}", error.what());
    return "";
  } catch (const std::exception& error) {
    return fmt::format("{}: {}", typeid(error).name(), error.what());
  }
}

class Limit {
 public:
  explicit Limit(int64_t bytes) { set_memory_limit(bytes); }
  Limit(const Limit&) = delete;
  ~Limit() { set_memory_limit(0); }
};

// spec: IM-12
TEST(RandomOps, GiveResultsOrNamedErrors) {
  const char* given = std::getenv("ETUDE_TEST_SEED");
  const uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 0;
  const int cases = given != nullptr ? 1 : 10000;
  std::vector<const Op*> ops;
  for (const Op* op : Registry::global().ops()) {
    bool has_program = false;  // attributes that cannot be made up
    for (const AttrDef& a : op->def().attrs)
      has_program = has_program || a.kind == AttrKind::kProgram;
    if (!has_program) ops.push_back(op);
  }
  const Limit limit(kLimitBytes);
  int failures = 0;
  for (int i = 0; i < cases && failures < 10; ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    Random random(seed);
    const RandomCall call = random_call(random, ops);
    const std::string fault = fault_of(call);
    if (fault.empty()) continue;
    ++failures;
    ADD_FAILURE() << "ETUDE_TEST_SEED=" << seed << " " << call.text() << "\n" << fault;
  }
}

// Types alone may be huge: inference must not overflow, allocate or loop.
TEST(RandomOps, TypesOfHugeShapesAreInferredOrRefused) {
  const std::vector<const Op*> ops = Registry::global().ops();
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    Random random(seed);
    RandomCall call = random_call(random, ops);
    std::vector<const Type*> types;
    try {
      for (const Tensor& x : call.operands) {
        if (!x.has_value()) {
          types.push_back(nullptr);
          continue;
        }
        Shape shape = x.shape();
        if (shape.rank() > 0 && random.chance(60)) {
          shape.set(static_cast<int>(random.below(shape.rank())),
                    int64_t{1} << (20 + random.below(28)));
        }
        types.push_back(intern_type(x.dtype(), shape));
      }
    } catch (const Error&) {
      continue;  // the operand itself is too large
    }
    bool complete = types.size() == call.op->arity() || call.op->is_variadic();
    for (std::size_t i = 0; i < types.size(); ++i) {
      const bool fits = types[i] == nullptr
                            ? call.op->operand(i).optional
                            : call.op->operand_dtypes(i).contains(types[i]->dtype());
      complete = complete && fits;
    }
    if (!complete || call.op->def().data != nullptr)
      continue;  // execute() refuses these before any rule runs
    const MemoryScope scope;
    try {
      for (const Type* type : infer_types(*call.op, types, call.op->attrs(call.attrs))) {
        EXPECT_GE(type->count(), 0) << call.text();
      }
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal)
          << "seed " << seed << " " << call.text() << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << " " << call.text() << typeid(error).name() << ": "
                    << error.what();
    }
    EXPECT_LT(scope.stats().peak_bytes, 1 << 20) << call.text();
  }
}

TEST(RandomOps, TheProgramGoesOnAfterMemoryRanOut) {
  const Tensor kept = full(2.0, Shape{1000});
  {
    const Limit limit(int64_t{8} << 20);
    for (int i = 0; i < 100; ++i) {
      try {
        full(1.0, Shape{1 << 20, 16});
        FAIL() << "64 MiB fit into 8";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted) << error.what();
        EXPECT_NE(std::string(error.what()).find("full"), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("random_ops_test.cc"), std::string::npos)
            << error.what();
      }
      EXPECT_EQ((kept + kept).data<float>()[999], 4);
    }
  }
  EXPECT_EQ(full(1.0, Shape{1 << 20, 4}).data<float>()[0], 1);
}

}  // namespace
}  // namespace etude
