// SPDX-License-Identifier: Apache-2.0
// The functions of an op record: type rules, kernels and their preparation, derivatives, lowerings,
// with their parameters and results. Part of op.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "etude/base/error.h"
#include "etude/core/call/values.h"
#include "etude/core/op/attrs.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Op;

// The device of a call. It is the attribute `device` if the call has it, else the device of the
// operands that are not read on the host (type inference checks that they share one device), else
// cpu:0. An entry of `types` is null for an absent operand.
Device device_of(const Op& op, std::span<const Type* const> types, const Attrs& attrs);
Device device_of(const Op& op, Operands operands, const Attrs& attrs);

// The argument of a type rule.
struct TypeCall {
  const Op& op;
  std::span<const Type* const> types;  // null for an absent operand
  const Attrs& attrs;

  bool has(std::size_t i) const { return i < types.size() && types[i] != nullptr; }
  const Shape& shape(std::size_t i) const { return types[i]->shape(); }
  DType dtype(std::size_t i) const { return types[i]->dtype(); }
  int rank(std::size_t i) const { return types[i]->rank(); }
  Device device() const { return device_of(op, types, attrs); }
  // A type on the device of the operands.
  const Type* make(DType dtype, const Shape& shape) const {
    return intern_type(dtype, shape, device());
  }
};
using TypeRule = Types (*)(const TypeCall&);

// A queue of work on an asynchronous device. A kernel enqueues its work on the stream of its call
// and may return before the work is done. The work of one stream runs in order. A CPU has no
// streams: its kernels are done when they return, and the handle is null.
struct Stream {
  void* handle = nullptr;  // the stream handle of the device library
};

// The state that all runs of a prepared call share.
struct KernelState {
  const void* params = nullptr;
  Stream stream = {};
};
// One run of a kernel, with data pointers on the device of the call. Absent operands are null.
struct KernelCall : KernelState {
  void* const* out;
  const void* const* in;
};
// Runs on checked data. Does not throw: returns false after report_fault().
using KernelFn = bool (*)(const KernelCall&);
// Records the reason why a kernel refuses the data, for example an index out of range. cost: a
// string.
bool report_fault(ErrorCode code, std::string message);

// The parameters of a kernel besides its data pointers, made once for each combination of types and
// attributes. Every word is written completely or not at all, since ahead-of-time compilation looks
// for addresses word by word. So a struct that is copied into the parameters must not have padding
// (WordOf). tests/ops/params_test.cc checks this for the op matrix.
struct KernelParams : internal::RefCounted {};

// A flag, an enumerator or a small number that fills a whole word.
template <class T>
class WordOf {
 public:
  constexpr WordOf(T value) : value_(static_cast<int64_t>(value)) {}
  constexpr operator T() const { return static_cast<T>(value_); }

 private:
  int64_t value_;
};

// A call prepared for one combination of types and attributes.
struct Prepared : internal::RefCounted {
  KernelFn run = nullptr;
  KernelState state;
  internal::RefPtr<const internal::RefCounted> owner;  // keeps `state.params` alive
  Types results;
  uint64_t in_place = 0;  // bit i: result 0 may overwrite operand i (same type)
  internal::InlineVector<int8_t, 4> results_over;  // of several results: the operand, or -1
  bool never_faults = false;                       // `run` returns true for all elements
  int view_of = -1;  // result 0 is operand view_of with another type, view_offset bytes in
  int64_t view_offset = 0;
};
struct PrepareCall {
  const Op& op;
  std::span<const Type* const> types;
  const Attrs& attrs;
  Prepared& out;  // the rule fills in everything but `results`

  const Shape& shape(std::size_t i) const { return types[i]->shape(); }
  DType dtype(std::size_t i) const { return types[i]->dtype(); }
  bool has(std::size_t i) const { return i < types.size() && types[i] != nullptr; }
  // Sets the kernel and its parameters: prepare.set(run, make_ref<MyParams>(...)).
  template <class P>
  void set(KernelFn run, const internal::RefPtr<P>& params) const {
    out.run = run;
    out.state.params = static_cast<const P*>(params.get());
    out.owner = internal::RefPtr<const internal::RefCounted>(params.get());
  }
  void view(int operand, int64_t byte_offset = 0) const {
    out.view_of = operand;
    out.view_offset = byte_offset;
  }
};
using PrepareRule = void (*)(const PrepareCall&);
// The preparation functions by kind of device. Null: no kernel for the device.
struct Kernels {
  PrepareRule cpu = nullptr;
  PrepareRule any = nullptr;  // runs on the host for all devices: copies between memories

  PrepareRule on(Device::Kind kind) const noexcept {
    return any != nullptr ? any : kind == Device::Kind::kCpu ? cpu : nullptr;
  }
  friend bool operator==(const Kernels&, const Kernels&) = default;
};
// Computes results whose shape depends on data. Runs at once, on dense operands with values.
using DataRule = Values (*)(Operands in, const Attrs& attrs);

// The argument of a reverse rule. When a record is registered, its rule runs once on symbols.
// Operands and results that it did not read in that run have a type but no value.
struct VjpCall {
  Operands in;
  Operands out;
  Operands cotangents;  // of the results; some may be absent, but not all
  const Attrs& attrs;
  uint64_t wanted;  // bit i: the cotangent of operand i is needed; bit 63: of all from 63 on
  Tensor* const* sums = nullptr;  // by operand: see take_sum()

  // Takes the running cotangent sum of operand i, for records with `takes_sums`. Absent if there is
  // none. A rule that takes the sum must return it with its own cotangents added one by one, in the
  // order of the unrolled calls.
  Tensor take_sum(std::size_t i) const {
    return sums == nullptr || sums[i] == nullptr ? Tensor() : std::move(*sums[i]);
  }
  bool wants(std::size_t i) const { return (wanted >> (i < 63 ? i : 63)) & 1; }
  const Tensor& ct() const { return cotangents[0]; }
};
// Returns one cotangent per operand; absent where not wanted or zero.
using VjpRule = Values (*)(const VjpCall&);

// The call that a tape makes instead of a call with `attrs`. It has additional results at the end,
// which only the reverse rule reads. `wanted` as in VjpCall.
struct ResidualCall {
  Attrs attrs;
  uint64_t reads = 0;  // bit i: the rule reads operand i; bit 63: all from 63 on
};
using ResidualRule = ResidualCall (*)(std::span<const Type* const> operands, const Attrs& attrs,
                                      uint64_t wanted);

struct JvpCall {
  Operands in;
  Operands out;
  Operands tangents;  // of the operands; absent: zero
  const Attrs& attrs;
};
// Returns one tangent per result; absent: zero.
using JvpRule = Values (*)(const JvpCall&);
using LowerRule = Values (*)(Operands in, const Attrs& attrs);
// Returns the cotangent of operand `wrt` of a linear op. The rule may read only the type of
// in[wrt], not its elements.
using TransposeRule = Tensor (*)(Operands in, int wrt, const Tensor& ct, const Attrs& attrs);

// The argument of a rewrite rule: a call in a graph that is being prepared to run.
struct RewriteCall {
  const Op& op;
  const Attrs& attrs;
  std::span<const Type* const> types;        // of the operands; null for an absent operand
  std::span<const uint32_t> values;          // the operands; equal numbers are the same value
  std::span<const Tensor* const> constants;  // the values of constant operands, else null
  const Attrs* inner;  // attributes of the call that made operand 0, if the rule sets `inner`
  const Type* source;  // the type of the source (see RewriteDef)
  const Type* result;
};

// A rewrite of a call to a cheaper call with the same bits, stored in the record of the call that
// is replaced. The source is an operand of the call; if the rule sets `inner`, the source is
// operand 0 of the call that made operand 0. The result is a call on the source, or the source
// itself if it has the type of the result.
struct RewriteDef {
  std::string_view name;        // for disabling the rule
  std::string_view inner = "";  // the op that made operand 0; its operand 0 is the source
  std::size_t source = 0;       // without `inner`: the index of the source
  bool (*when)(const RewriteCall&) = nullptr;  // null: always
  // The op of the new call. Its operands are the source and the operands after operand 0. "": no
  // new call, the source is the result.
  std::string_view to = "";
  Attrs (*attrs)(const RewriteCall&) = nullptr;  // of the new call
  DTypeSet dtypes = kAnyDType;                   // of the source
  // A graph to which the rule applies, for each T of `dtypes` (tests/passes).
  std::string_view sample = "";
};

// The argument of a batching rule: a call on one example, to be made for a whole batch. Operands
// marked in `batched` have the examples along a new axis 0. The other operands are equal for all
// examples.
struct BatchCall {
  const Op& op;
  Operands in;
  uint64_t batched;  // bit i: operand i; bit 63: all from 63 on; at least one bit is set
  int64_t size;      // the number of examples
  const Attrs& attrs;

  bool is_batched(std::size_t i) const { return ((batched >> (i < 63 ? i : 63)) & 1) != 0; }
  // The shape in one example.
  Shape shape(std::size_t i) const;
  int rank(std::size_t i) const { return in[i].rank() - (is_batched(i) ? 1 : 0); }
};
// Returns the results for all examples, equal to the results of the examples one by one. A result
// is stacked along a new axis 0, or returned once without that axis if it is equal for all
// examples. The ops that the rule calls run in the context around the batch. A rule that does not
// cover the call returns absent results; the examples then run one by one.
using BatchRule = Values (*)(const BatchCall&);

}  // namespace etude
