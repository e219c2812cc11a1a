// SPDX-License-Identifier: Apache-2.0
// The record of an op: everything the system knows about one operation. Records are written in
// etude/ops/, one file per family; contexts, tests and generators read them and name none. What the
// functions of a record take and give is in rules.h.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "etude/base/error.h"
#include "etude/base/scalar_program.h"
#include "etude/core/attrs.h"
#include "etude/core/rules.h"
#include "etude/core/values.h"
#include "etude/version.h"

namespace ETUDE_API etude {

enum class Kind : uint8_t {
  kElementwise,  // `scalar`; the type rule, kernels and both derivatives follow
  kLinear,       // linear in each differentiable operand: `type`, kernel, `transpose`
  kComposition,  // `lower` in public ops; a kernel may serve eagerly, with the same bits
  kGeneral,      // `type`, kernel, and `vjp` where it has a derivative
};

// An operand: "x" is required, "bias?" may be absent, "xs..." stands for any number (last only).
// Operands without dtypes of their own share one dtype, to which the call promotes.
struct OperandDef {
  std::string_view name;
  DTypeSet dtypes;  // empty: the record's dtypes, shared with the other such operands
  bool optional = false;
  bool variadic = false;

  OperandDef(const char* text)
      : OperandDef(text, DTypeSet{}) {
  }  // NOLINT(google-explicit-constructor): a name is an operand
  OperandDef(const char* text, DTypeSet own);
};

// Kernel of a program on float32 values; operands and results marked as truths are bool bytes.
// All operands have n elements.
using ProgramKernel = void (*)(void* out, const void* const* in, const double* params,
                               std::size_t n);
// A program and its float32 kernels on CPUs by instruction set (portable, AVX2, AVX-512); a null
// one sends float32 through the tile interpreter, as all other dtypes.
struct PartialsDef;
struct ScalarDef {
  const scalar::Program* program = nullptr;
  std::array<ProgramKernel, 3> by_isa{};
  Kernels kernels = {};                  // of calls: broadcasting, all dtypes
  const PartialsDef* derived = nullptr;  // what a record has for partials unless it writes them
};
// How a tangent t of each operand moves the result: programs on (operands..., result, t).
struct PartialsDef {
  std::array<ScalarDef, 3> by_operand{};
};

enum class ResultDType : uint8_t { kSame, kBool };

// What a call does beside giving results.
enum class Effect : uint8_t {
  kNone,
  kReads,    // the result is what the resource holds that is operand 0 (core/resource.h)
  kWrites,   // operand 1 is what the resource holds from then on, and the result
  kOutside,  // the world sees it, as a print or a failure: it happens once, in the program's order
};

// A call for the test matrix: operand types like "[2, 3]" (the dtype under test), "int32[4]", or
// "-" for an absent one; attributes by name. Integer operands take values from their range.
struct Sample {
  std::vector<std::string_view> operands = {};
  std::vector<std::pair<std::string_view, AttrValue>> attrs = {};
  std::vector<std::pair<double, double>> ranges = {};  // by operand ([-2, 2]), then diagonals
};
// A call for ops that take graphs.
struct GraphSample {
  std::vector<Tensor> operands;
  std::vector<std::pair<std::string_view, AttrValue>> attrs;
};
struct Samples {
  std::vector<Sample> calls = {};  // element-wise ops have a standard set as well
  std::vector<std::pair<double, double>> ranges = {};  // by operand, for all calls
  std::vector<double> avoid = {};           // points near which derivatives are not checked
  double ulp = 2;                           // of a float32 result against the double reference
  std::string_view no_gradient_check = "";  // reason why the numeric check is left out
  // A call that runs `graph` on `inputs` in some way.
  GraphSample (*around)(const AttrObject& graph, std::span<const Tensor> inputs) = nullptr;
};
// A call that must fail, and a part of its message.
struct ErrorCase {
  std::vector<std::string_view> operands = {};
  std::string_view fragment;
  std::vector<std::pair<std::string_view, AttrValue>> attrs = {};
  ErrorCode code = ErrorCode::kInvalidArgument;
};

// What an op that runs graphs in steps says of a call.
struct LoopFacts {
  // That many last operands are the last inputs of each graph of LoopDef::graphs, the same in all
  // steps. More may be added behind them.
  std::size_t fixed = 0;
  int64_t least_steps = 0;
};
struct LoopDef {
  LoopFacts (*facts)(std::size_t operands, const Attrs& attrs) = nullptr;
  std::vector<std::string_view> graphs = {};  // the attributes that hold the graphs of a step
};

struct OpDef {
  std::string_view name;
  std::string_view space = "";  // "nn", "random": the C++ namespace; "internal": no public function
  std::string_view symbol = "";  // "+": the C++ operator, beside the function
  Kind kind = Kind::kGeneral;
  std::string_view doc;
  std::vector<OperandDef> operands;
  std::vector<AttrDef> attrs = {};
  std::vector<std::string_view> results = {"y"};  // {"ys..."}: as many as the type rule gives
  DTypeSet dtypes = kAnyDType;
  ResultDType result_dtype = ResultDType::kSame;  // element-wise ops
  bool casts_integers = false;  // integer operands become float32 first, as in true division
  TypeRule type = nullptr;
  ScalarDef scalar = {};
  PartialsDef partials = {};  // derived from `scalar` unless written here
  Kernels kernels = {};       // element-wise ops have those of `scalar` where there is none here
  DataRule data = nullptr;
  LowerRule lower = nullptr;
  TransposeRule transpose = nullptr;
  VjpRule vjp = nullptr;
  KeepRule keep = nullptr;  // where `vjp` reads more than operands and results
  bool takes_sums = false;  // `vjp` adds to what has reached an operand: VjpCall::take_sum()
  JvpRule jvp = nullptr;
  BatchRule batch = nullptr;  // element-wise ops and compositions need none (core/batching.h)
  Effect effect = Effect::kNone;
  // The attribute that is a graph of which a call stands for the nodes, given the same operands.
  std::string_view body = "";
  // The attribute that is the name of the op for which an internal op works: errors name that.
  std::string_view works_for = "";
  LoopDef loop = {};
  // A few sweeps over operands and results, so that a plan may compute it again where a result
  // would be kept for long. Element-wise ops and views are cheap without it.
  bool is_cheap = false;
  // The op that gives the first result from the operands and the other results, by the same
  // attributes and with the same bits, where it takes their dtype: what a plan computes again then.
  std::string_view again = "";
  std::vector<RewriteDef> rewrites = {};
  std::string_view no_derivative = "";  // reason: results do not depend smoothly on operands
  // Bit i: element by element and linear in operand i, so that a sparse operand i stays sparse
  // while the others are single numbers. Elsewhere sparse operands become dense.
  uint64_t accepts_slices = 0;
  Samples samples = {};
  std::vector<ErrorCase> errors = {};
};

// A registered record. Lives for ever; compare addresses. thread-safe.
class Op {
 public:
  const OpDef& def() const noexcept { return def_; }
  std::string_view name() const noexcept { return def_.name; }
  // With its namespace: "nn.relu".
  std::string full_name() const;
  uint32_t index() const noexcept { return index_; }
  const Attrs& default_attrs() const noexcept { return default_attrs_; }

  // Attributes from values in the order of the definitions. An absent value means the default.
  // cost: 10 to 20 ns for a set that this thread asked for lately.
  Attrs attrs(std::initializer_list<AttrView> values) const;
  Attrs attrs(std::span<const AttrValue> values) const;
  // The same by name. throws: kInvalidArgument for an unknown name, a wrong kind or a missing
  // value.
  Attrs attrs_by_name(const std::vector<std::pair<std::string_view, AttrValue>>& values) const;
  // Number of operands the record names; a variadic one counts as one.
  std::size_t arity() const noexcept { return def_.operands.size(); }
  bool is_variadic() const noexcept {
    return !def_.operands.empty() && def_.operands.back().variadic;
  }
  // The definition that operand i of a call falls under.
  const OperandDef& operand(std::size_t i) const {
    return def_.operands[std::min(i, def_.operands.size() - 1)];
  }
  DTypeSet operand_dtypes(std::size_t i) const {
    return operand(i).dtypes.empty() ? def_.dtypes : operand(i).dtypes;
  }
  // What makes a call ready on a kind of device; null: there is no kernel. The one place where
  // kernels of records are looked up.
  PrepareRule kernel(Device::Kind device) const noexcept {
    const PrepareRule own = def_.kernels.on(device);
    const bool has_own = own != nullptr || def_.kind != Kind::kElementwise;
    return has_own ? own : def_.scalar.kernels.on(device);
  }
  // Whether calls there run as the calls of the lowering: there is no kernel.
  bool is_composed(Device::Kind device) const noexcept;
  // Whether any rule can carry a derivative through this op.
  bool is_differentiable() const noexcept;
  // Whether all operands are required and share one dtype out of def().dtypes.
  bool is_uniform() const noexcept { return uniform_; }

 private:
  friend class Registry;
  Op(OpDef def, uint32_t index);
  Attrs find_attrs(std::span<const AttrView> values) const;
  Attrs make_attrs(std::vector<AttrValue> values) const;

  OpDef def_;
  uint32_t index_;
  bool uniform_;
  Attrs default_attrs_;
  mutable std::atomic<uint32_t> numbered_sets_{0};  // sets of attributes that have a dispatch_id
};

}  // namespace etude
