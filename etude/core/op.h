// SPDX-License-Identifier: Apache-2.0
// The record of an op: everything the system knows about one operation. Records are written in
// etude/ops/, one file per family; contexts, tests and generators read them and name none.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "etude/base/error.h"
#include "etude/core/attrs.h"
#include "etude/core/scalar.h"
#include "etude/core/values.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Op;

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

// What a type rule sees.
struct TypeCall {
  const Op& op;
  std::span<const Type* const> types;  // null for an absent operand
  const Attrs& attrs;

  bool has(std::size_t i) const { return i < types.size() && types[i] != nullptr; }
  const Shape& shape(std::size_t i) const { return types[i]->shape(); }
  DType dtype(std::size_t i) const { return types[i]->dtype(); }
  int rank(std::size_t i) const { return types[i]->rank(); }
  Device device() const;
  // A type on the device of the operands.
  const Type* make(DType dtype, const Shape& shape) const {
    return intern_type(dtype, shape, device());
  }
};
using TypeRule = Types (*)(const TypeCall&);

// Data pointers of one run of a kernel. Absent operands are null.
struct KernelCall {
  void* const* out;
  const void* const* in;
  const void* params;
};
// Runs on data that has been checked. Does not throw; false after report_fault().
using KernelFn = bool (*)(const KernelCall&);
// Says why a kernel gives up on this data, for example an index outside. cost: a string.
bool report_fault(ErrorCode code, std::string message);

// What a kernel needs besides pointers, made once per (types, attributes).
struct KernelParams : internal::RefCounted {};

// A call made ready for one set of types and attributes.
struct Prepared : internal::RefCounted {
  KernelFn run = nullptr;
  internal::RefPtr<const internal::RefCounted> owner;  // keeps `params` alive
  const void* params = nullptr;
  Types results;
  uint64_t in_place = 0;  // bit i: result 0 may be written over operand i (same type)
  internal::InlineVector<int8_t, 4> results_over;  // of several results: the operand, or -1
  int view_of = -1;  // result 0 is operand view_of under another type, at view_offset bytes
  int64_t view_offset = 0;
};
struct PrepareCall {
  const Op& op;
  std::span<const Type* const> types;
  const Attrs& attrs;
  Prepared& out;  // `results` is filled in

  const Shape& shape(std::size_t i) const { return types[i]->shape(); }
  DType dtype(std::size_t i) const { return types[i]->dtype(); }
  bool has(std::size_t i) const { return i < types.size() && types[i] != nullptr; }
  // Hands parameters to the kernel: prepare.set(run, make_ref<MyParams>(...)).
  template <class P>
  void set(KernelFn run, const internal::RefPtr<P>& params) const {
    out.run = run;
    out.params = static_cast<const P*>(params.get());
    out.owner = internal::RefPtr<const internal::RefCounted>(params.get());
  }
  void view(int operand, int64_t byte_offset = 0) const {
    out.view_of = operand;
    out.view_offset = byte_offset;
  }
};
using PrepareRule = void (*)(const PrepareCall&);
// For results whose shape depends on data: computes them at once, on dense operands with values.
using DataRule = Values (*)(Operands in, const Attrs& attrs);

// What a reverse rule sees. An operand or result that the rule did not read when it was tried on
// symbols has a type but no value.
struct VjpCall {
  Operands in;
  Operands out;
  Operands cotangents;  // of the results; some may be absent, never all
  const Attrs& attrs;
  uint64_t wanted;  // bit i: the cotangent of operand i is asked for; bit 63: of all from 63 on

  bool wants(std::size_t i) const { return (wanted >> (i < 63 ? i : 63)) & 1; }
  const Tensor& ct() const { return cotangents[0]; }
};
// One entry per operand; absent where not wanted or where there is none.
using VjpRule = Values (*)(const VjpCall&);

struct JvpCall {
  Operands in;
  Operands out;
  Operands tangents;  // of the operands; absent where nothing moves
  const Attrs& attrs;
};
// One tangent per result; absent: none.
using JvpRule = Values (*)(const JvpCall&);
using LowerRule = Values (*)(Operands in, const Attrs& attrs);
// The cotangent of operand `wrt` of a linear op. It does not read in[wrt] but for its type.
using TransposeRule = Tensor (*)(Operands in, int wrt, const Tensor& ct, const Attrs& attrs);

// Kernel of a program on float32 values; operands and results marked as truths are bool bytes.
// All operands have n elements.
using ProgramKernel = void (*)(void* out, const void* const* in, const double* params,
                               std::size_t n);
// A program and its float32 kernels by instruction set (portable, AVX2, AVX-512); a null kernel
// sends float32 through the tile interpreter, as all other dtypes.
struct ScalarDef {
  const scalar::Program* program = nullptr;
  std::array<ProgramKernel, 3> kernels{};
  PrepareRule prepare = nullptr;  // the eager kernel of a call: broadcasting, all dtypes
};
// How a tangent t of each operand moves the result: programs on (operands..., result, t).
struct PartialsDef {
  std::array<ScalarDef, 3> by_operand{};
};

enum class ResultDType : uint8_t { kSame, kBool };

// A call for the test matrix: operand types like "[2, 3]" (the dtype under test), "int32[4]", or
// "-" for an absent one; attributes by name. Integer operands take values from their range.
struct Sample {
  std::vector<std::string_view> operands = {};
  std::vector<std::pair<std::string_view, AttrValue>> attrs = {};
  std::vector<std::pair<double, double>> ranges = {};  // by operand; default [-2, 2]
};
struct Samples {
  std::vector<Sample> calls = {};  // element-wise ops have a standard set as well
  std::vector<std::pair<double, double>> ranges = {};  // by operand, for all calls
  std::vector<double> avoid = {};           // points near which derivatives are not checked
  double ulp = 2;                           // of a float32 result against the double reference
  std::string_view no_gradient_check = "";  // reason why the numeric check is left out
};
// A call that must fail, and a part of its message.
struct ErrorCase {
  std::vector<std::string_view> operands = {};
  std::string_view fragment;
  std::vector<std::pair<std::string_view, AttrValue>> attrs = {};
  ErrorCode code = ErrorCode::kInvalidArgument;
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
  PartialsDef partials = {};
  PrepareRule kernel = nullptr;
  DataRule data = nullptr;
  LowerRule lower = nullptr;
  TransposeRule transpose = nullptr;
  VjpRule vjp = nullptr;
  JvpRule jvp = nullptr;
  std::string_view no_derivative = "";  // reason: results do not depend smoothly on operands
  bool accepts_slices = false;          // operands may hold sparse slices
  Samples samples = {};
  std::vector<ErrorCase> errors = {};
};

namespace internal {

// Which values a reverse rule reads, per wanted operand; found by running the rule on symbols.
struct Needs {
  struct Row {
    uint64_t operands = 0;
    uint64_t results = 0;
  };
  std::vector<Row> by_operand;
};

}  // namespace internal

// A registered record. Lives for ever; compare addresses. thread-safe.
class Op {
 public:
  const OpDef& def() const noexcept { return def_; }
  std::string_view name() const noexcept { return def_.name; }
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
  // Whether any rule can carry a derivative through this op.
  bool is_differentiable() const noexcept;
  // Whether all operands are required and share one dtype out of def().dtypes.
  bool is_uniform() const noexcept { return uniform_; }

 private:
  friend class Registry;
  friend struct OpAccess;
  Op(OpDef def, uint32_t index);
  Attrs find_attrs(std::span<const AttrView> values) const;
  Attrs make_attrs(std::vector<AttrValue> values) const;

  OpDef def_;
  uint32_t index_;
  bool uniform_;
  Attrs default_attrs_;
};

}  // namespace etude
