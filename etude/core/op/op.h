// SPDX-License-Identifier: Apache-2.0
// The record of an op: everything the system knows about one operation. Records are written in
// etude/ops/, one file per family. Contexts, tests and generators read records and name no op. The
// types of the functions in a record are in rules.h.
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
#include "etude/base/scalars/scalar_program.h"
#include "etude/core/call/values.h"
#include "etude/core/op/attrs.h"
#include "etude/core/op/rules.h"
#include "etude/version.h"

namespace ETUDE_API etude {

enum class Kind : uint8_t {
  kElementwise,  // `scalar`; the type rule, kernels and both derivatives follow
  kLinear,       // linear in each differentiable operand: `type`, kernel, `transpose`
  kComposition,  // `lower` in public ops; a kernel may replace it in eager mode, with the same bits
  kGeneral,      // `type`, kernel, and `vjp` if differentiable
};

// An operand: "x" is required, "bias?" may be absent, "xs..." is any number of operands (last
// only). "key@host" is read on the host whatever the device of the call. Operands without dtypes of
// their own are promoted to one common dtype.
struct OperandDef {
  std::string_view name;
  DTypeSet dtypes;  // empty: the record's dtypes, shared with other such operands
  bool optional = false;
  bool variadic = false;
  bool on_host = false;  // stays on cpu:0, and does not decide the device of the call

  OperandDef(const char* text) : OperandDef(text, DTypeSet{}) {}
  OperandDef(const char* text, DTypeSet own);
};

// The kernel of a program on float32 values. Operands and results marked as bools are bool bytes.
// All operands have n elements.
using ProgramKernel = void (*)(void* out, const void* const* in, const double* params,
                               std::size_t n);
// A program and its float32 kernels for CPUs, one for each instruction set (portable, AVX2,
// AVX-512). If a kernel is null, float32 runs in the tile interpreter, as all other dtypes do.
struct PartialsDef;
struct ScalarDef {
  const scalar::Program* program = nullptr;
  std::array<ProgramKernel, 3> by_isa{};
  Kernels kernels = {};                  // of calls: broadcasting, all dtypes
  const PartialsDef* derived = nullptr;  // the derived partials, unless the record writes its own
};
// The derivative of the result by each operand: programs on (operands..., result, t) that return
// the change of the result for a tangent t of the operand.
struct PartialsDef {
  std::array<ScalarDef, 3> by_operand{};
};

enum class ResultDType : uint8_t { kSame, kBool };

// The side effect of a call.
enum class Effect : uint8_t {
  kNone,
  kReads,    // the result is the value of operand 0, a resource (core/context/resource.h)
  kWrites,   // operand 1 becomes the value of the resource, and is the result
  kOutside,  // visible outside, like a print or a failure: runs once, in program order
};

// A call for the test matrix. Operand types are texts like "[2, 3]" (the dtype under test),
// "int32[4]", or "-" for an absent operand. Attributes are given by name. Integer operands take
// values from their range.
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
  std::vector<Sample> calls = {};                      // element-wise ops also have a standard set
  std::vector<std::pair<double, double>> ranges = {};  // by operand, for all calls
  std::vector<double> avoid = {};           // points near which derivatives are not checked
  double ulp = 2;                           // of a float32 result against the double reference
  std::string_view no_gradient_check = "";  // reason for skipping the numeric check
  // Builds a call that runs `graph` on `inputs`.
  GraphSample (*around)(const AttrObject& graph, std::span<const Tensor> inputs) = nullptr;
};
// A call that must fail, with a fragment of its message.
struct ErrorCase {
  std::vector<std::string_view> operands = {};
  std::string_view fragment;
  std::vector<std::pair<std::string_view, AttrValue>> attrs = {};
  ErrorCode code = ErrorCode::kInvalidArgument;
};

// The properties of a call of a loop op.
struct LoopFacts {
  // The number of loop-invariant operands. They are the last operands of the call, and the last
  // inputs of each graph of LoopDef::graphs. More may be appended.
  std::size_t fixed = 0;
  int64_t least_steps = 0;
};
struct LoopDef {
  LoopFacts (*facts)(std::size_t operands, const Attrs& attrs) = nullptr;
  std::vector<std::string_view> graphs = {};  // the attributes that hold the graphs of a step
};

// Makes a call of version `from` of the op a call of version from + 1 (core/op/upgrade.h).
struct StoredCall;
struct UpgradeDef {
  int from = 0;
  void (*run)(StoredCall& call) = nullptr;
  // Attributes of version `from` that version from + 1 lacks, or has with another kind. They are
  // needed since texts and old containers store names of attributes without their kinds.
  std::vector<AttrDef> former = {};
};

struct OpDef {
  std::string_view name;
  std::string_view space = "";  // "nn", "random": the C++ namespace; "internal": no public function
  std::string_view symbol = "";  // "+": the C++ operator, in addition to the function
  Kind kind = Kind::kGeneral;
  std::string_view doc;
  std::vector<OperandDef> operands;
  std::vector<AttrDef> attrs = {};
  std::vector<std::string_view> results = {"y"};  // {"ys..."}: the type rule decides the number
  // Files store the version of each op that they call. A change that alters the meaning of stored
  // calls needs a new version, and an upgrade from the version before (CONTRIBUTING, "Change an
  // op"). Upgrades are sorted by version; upgrades from the oldest versions may be missing.
  int version = 1;
  std::vector<UpgradeDef> upgrades = {};
  DTypeSet dtypes = kAnyDType;
  ResultDType result_dtype = ResultDType::kSame;  // element-wise ops
  bool casts_integers = false;  // integer operands become float32 first, as in true division
  TypeRule type = nullptr;
  ScalarDef scalar = {};
  PartialsDef partials = {};  // derived from `scalar` unless written here
  Kernels kernels = {};       // element-wise ops default to the kernels of `scalar`
  DataRule data = nullptr;
  LowerRule lower = nullptr;
  TransposeRule transpose = nullptr;
  VjpRule vjp = nullptr;
  ResidualRule residuals = nullptr;  // if `vjp` reads more than operands and results
  bool takes_sums = false;           // `vjp` adds to the sum of an operand: VjpCall::take_sum()
  JvpRule jvp = nullptr;
  BatchRule batch =
      nullptr;  // not needed for element-wise ops and compositions (core/op/batching.h)
  Effect effect = Effect::kNone;
  // The name of the attribute that holds the graph which the call runs on its operands. Such a call
  // can be inlined.
  std::string_view body = "";
  // For an internal op: the name of the attribute that holds the name of a public op. Errors name
  // that public op.
  std::string_view works_for = "";
  LoopDef loop = {};
  // Set if the op costs only a few passes over operands and results: a plan may then recompute the
  // result instead of storing it for long. Element-wise ops and views are cheap without this flag.
  bool is_cheap = false;
  // The op that plans run to recompute the first result. It computes the same bits from the
  // operands and the other results, with the same attributes. Not used for dtypes that this op does
  // not accept.
  std::string_view again = "";
  std::vector<RewriteDef> rewrites = {};
  std::string_view no_derivative = "";  // reason why results do not depend smoothly on operands
  // Bit i is set if the op is element-wise and linear in operand i. A sparse operand i then stays
  // sparse if the other operands are single numbers. All other sparse operands are made dense.
  uint64_t accepts_slices = 0;
  Samples samples = {};
  std::vector<ErrorCase> errors = {};
};

// A registered record. Never destroyed; compare addresses. threads: thread-safe.
class Op {
 public:
  const OpDef& def() const noexcept { return def_; }
  std::string_view name() const noexcept { return def_.name; }
  // The name with its namespace: "nn.relu".
  std::string full_name() const;
  uint32_t index() const noexcept { return index_; }
  const Attrs& default_attrs() const noexcept { return default_attrs_; }

  // Attributes from values in the order of the definitions. An absent value means the default.
  // cost: 10 to 20 ns for a set that this thread requested recently.
  Attrs attrs(std::initializer_list<AttrView> values) const;
  Attrs attrs(std::span<const AttrValue> values) const;
  // The same by name.
  // throws: kInvalidArgument for an unknown name, a wrong kind or a missing value.
  Attrs attrs_by_name(const std::vector<std::pair<std::string_view, AttrValue>>& values) const;
  // The number of operands in the record; a variadic operand counts once.
  std::size_t arity() const noexcept { return def_.operands.size(); }
  bool is_variadic() const noexcept {
    return !def_.operands.empty() && def_.operands.back().variadic;
  }
  // The definition of operand i of a call.
  const OperandDef& operand(std::size_t i) const {
    return def_.operands[std::min(i, def_.operands.size() - 1)];
  }
  DTypeSet operand_dtypes(std::size_t i) const {
    return operand(i).dtypes.empty() ? def_.dtypes : operand(i).dtypes;
  }
  // Returns the function that prepares calls on a kind of device; null: no kernel. Every lookup of
  // a kernel calls this function.
  PrepareRule kernel(Device::Kind device) const noexcept {
    const PrepareRule own = def_.kernels.on(device);
    const bool has_own = own != nullptr || def_.kind != Kind::kElementwise;
    return has_own ? own : def_.scalar.kernels.on(device);
  }
  // Whether calls on the device run their lowering because there is no kernel.
  bool is_composed(Device device) const noexcept;
  // Whether calls run on the device: by a kernel, or as their lowering. Ops whose result sizes
  // depend on data run on every device, since their elements are read at cpu:0.
  bool runs_on(Device device) const noexcept;
  // Whether the op moves elements between devices, so that its operands stay where they are.
  bool moves_devices() const noexcept { return def_.kernels.any != nullptr; }
  // The index of the attribute `device` in a record that creates tensors; -1 if there is none.
  int device_attr() const noexcept { return device_attr_; }
  // Whether a rule can carry a derivative through this op.
  bool is_differentiable() const noexcept;
  // Whether all operands are required and share one dtype from def().dtypes.
  bool is_uniform() const noexcept { return uniform_; }
  // Whether an operand is read on the host.
  bool has_host_operands() const noexcept { return has_host_operands_; }

 private:
  friend class Registry;
  Op(OpDef def, uint32_t index);
  Attrs find_attrs(std::span<const AttrView> values) const;
  Attrs make_attrs(std::vector<AttrValue> values) const;

  OpDef def_;
  uint32_t index_;
  bool uniform_;
  bool has_host_operands_ = false;
  int device_attr_ = -1;
  Attrs default_attrs_;
  mutable std::atomic<uint32_t> numbered_sets_{0};  // sets of attributes with a dispatch_id
};

}  // namespace etude
