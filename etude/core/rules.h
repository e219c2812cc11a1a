// SPDX-License-Identifier: Apache-2.0
// The functions of an op record: type rules, kernels and what prepares them, derivatives,
// lowerings; what each is given and what it gives back. Part of op.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "etude/base/error.h"
#include "etude/core/attrs.h"
#include "etude/core/values.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Op;

// Where a call runs: on the device of its operands, which type inference makes sure is one, or on
// the default one if there are none. Null stands for an absent operand.
Device device_of(std::span<const Type* const> types);
Device device_of(Operands operands);

// What a type rule sees.
struct TypeCall {
  const Op& op;
  std::span<const Type* const> types;  // null for an absent operand
  const Attrs& attrs;

  bool has(std::size_t i) const { return i < types.size() && types[i] != nullptr; }
  const Shape& shape(std::size_t i) const { return types[i]->shape(); }
  DType dtype(std::size_t i) const { return types[i]->dtype(); }
  int rank(std::size_t i) const { return types[i]->rank(); }
  Device device() const { return device_of(types); }
  // A type on the device of the operands.
  const Type* make(DType dtype, const Shape& shape) const {
    return intern_type(dtype, shape, device());
  }
};
using TypeRule = Types (*)(const TypeCall&);

// The order in which a device that works beside the host does what it is given. A kernel puts its
// work into the stream of its call and may return before that is done; work of one stream happens
// in the order in which it came. A CPU has no streams: its kernels are done when they return, so
// the handle is null.
struct Stream {
  void* handle = nullptr;  // of the library of the device
};

// What all runs of a prepared call have in common.
struct KernelState {
  const void* params = nullptr;
  Stream stream = {};
};
// One run of a kernel: data pointers on the device of the call. Absent operands are null.
struct KernelCall : KernelState {
  void* const* out;
  const void* const* in;
};
// Runs on data that has been checked. Does not throw; false after report_fault().
using KernelFn = bool (*)(const KernelCall&);
// Says why a kernel gives up on this data, for example an index outside. cost: a string.
bool report_fault(ErrorCode code, std::string message);

// What a kernel needs besides pointers, made once per (types, attributes). Each word of it is
// written whole or not at all, since compiling ahead of time tells addresses by words: a struct
// that is copied into it has no gap between its fields (WordOf). The test of the op matrix in
// tests/ops/params_test.cc holds it.
struct KernelParams : internal::RefCounted {};

// A flag, a kind or a small number in a word of its own.
template <class T>
class WordOf {
 public:
  constexpr WordOf(T value)  // NOLINT(google-explicit-constructor): reads as a T
      : value_(static_cast<int64_t>(value)) {}
  constexpr operator T() const {  // NOLINT(google-explicit-constructor): as above
    return static_cast<T>(value_);
  }

 private:
  int64_t value_;
};

// A call made ready for one set of types and attributes.
struct Prepared : internal::RefCounted {
  KernelFn run = nullptr;
  KernelState state;
  internal::RefPtr<const internal::RefCounted> owner;  // keeps `state.params` alive
  Types results;
  uint64_t in_place = 0;  // bit i: result 0 may be written over operand i (same type)
  internal::InlineVector<int8_t, 4> results_over;  // of several results: the operand, or -1
  bool never_faults = false;                       // `run` gives true for all elements
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
    out.state.params = static_cast<const P*>(params.get());
    out.owner = internal::RefPtr<const internal::RefCounted>(params.get());
  }
  void view(int operand, int64_t byte_offset = 0) const {
    out.view_of = operand;
    out.view_offset = byte_offset;
  }
};
using PrepareRule = void (*)(const PrepareCall&);
// What makes calls ready, by kind of device: a column each. Null: no kernel there.
struct Kernels {
  PrepareRule cpu = nullptr;

  PrepareRule on(Device::Kind kind) const noexcept {
    return kind == Device::Kind::kCpu ? cpu : nullptr;
  }
  friend bool operator==(const Kernels&, const Kernels&) = default;
};
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
  Tensor* const* sums = nullptr;  // by operand: see take_sum()

  // The sum of the cotangents that have reached operand i so far, for rules of records with
  // `takes_sums`. What the rule then gives for it is that sum with its own cotangents added one by
  // one, in the order in which the calls that it stands for would. Absent if there is none.
  Tensor take_sum(std::size_t i) const {
    return sums == nullptr || sums[i] == nullptr ? Tensor() : std::move(*sums[i]);
  }
  bool wants(std::size_t i) const { return (wanted >> (i < 63 ? i : 63)) & 1; }
  const Tensor& ct() const { return cotangents[0]; }
};
// One entry per operand; absent where not wanted or where there is none.
using VjpRule = Values (*)(const VjpCall&);

// The call that a tape makes in the place of one with `attrs`: it has further results behind the
// others, which only the reverse rule reads. `wanted` as in VjpCall.
struct KeptCall {
  Attrs attrs;
  uint64_t reads = 0;  // bit i: the rule reads operand i; bit 63: all from 63 on
};
using KeepRule = KeptCall (*)(std::span<const Type* const> operands, const Attrs& attrs,
                              uint64_t wanted);

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

// What a rewrite rule sees: a call in a graph that is made ready to run.
struct RewriteCall {
  const Op& op;
  const Attrs& attrs;
  std::span<const Type* const> types;        // of the operands; null for an absent one
  std::span<const uint32_t> values;          // the operands: equal numbers are one value
  std::span<const Tensor* const> constants;  // their values where they are known, else null
  const Attrs* inner;  // of the call that made operand 0, in a rule that names one
  const Type* source;  // of the value that is read in the place of operand 0
  const Type* result;
};

// A shorter way to the same bits, a row of the record of the call that goes. The call reads a
// source: what operand 0 of it was made of, if the rule names the op that made it, else an operand.
// It becomes a call on the source, or the source itself if that is of the type of the result.
struct RewriteDef {
  std::string_view name;        // for switching it off
  std::string_view inner = "";  // the op that made operand 0: the source is operand 0 of that
  std::size_t source = 0;       // without `inner`: which operand
  bool (*when)(const RewriteCall&) = nullptr;  // null: always
  // The op that the source, and the operands behind operand 0, are given to; "": none.
  std::string_view to = "";
  Attrs (*attrs)(const RewriteCall&) = nullptr;  // of that call
  DTypeSet dtypes = kAnyDType;                   // of the source
  // A graph to which it applies; T stands for each of `dtypes` in turn (tests/passes).
  std::string_view sample = "";
};

// What a batching rule sees: a call on one example, made for a batch of them at once. Operands that
// are `batched` have the examples along a new axis 0; the others are the same for all examples.
struct BatchCall {
  const Op& op;
  Operands in;
  uint64_t batched;  // bit i: operand i; bit 63: all from 63 on. At least one is
  int64_t size;      // how many examples
  const Attrs& attrs;

  bool is_batched(std::size_t i) const { return ((batched >> (i < 63 ? i : 63)) & 1) != 0; }
  // Of one example.
  Shape shape(std::size_t i) const;
  int rank(std::size_t i) const { return in[i].rank() - (is_batched(i) ? 1 : 0); }
};
// The results for all examples, along a new axis 0 each, or without it what all have in common;
// they are those of the examples one by one. Calls ops in the context around the batch. Absent
// results: the rule does not cover this call, and the examples run one by one.
using BatchRule = Values (*)(const BatchCall&);

}  // namespace etude
