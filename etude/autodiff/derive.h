// SPDX-License-Identifier: Apache-2.0
// Derivative rules of an op, from its record or derived from its kind, and the values that they
// read. Used by the tape and jvp contexts. Rules run in the innermost context at the time of the
// call.
#pragma once

#include "etude/core/op/op.h"

namespace etude::internal {

// Whether a reverse rule exists; if not, a context runs the lowering instead.
bool has_vjp(const Op& op);
bool has_jvp(const Op& op);

// Cotangents of the wanted operands; entries may be absent.
// throws: kInvalidArgument if the rule returns a wrong number of them.
Values run_vjp(const Op& op, const VjpCall& call);
// The result of run_vjp() for an element-wise call whose operands and result have one real type and
// whose values are available, by the same kernels on a shorter path. `values`: operands, result.
// Returns false, with nothing done, for any other call or if a context watches. Consumes `ct`.
bool run_partials(const Op& op, std::span<const Tensor* const> values, Tensor& ct, uint64_t wanted,
                  Values& out);
// Tangents of the results by the reverse rule, for records whose forward rule covers only some
// calls.
Values transposed_jvp(const Op& op, const JvpCall& call);
// Whether the op runs graphs that are its attributes: a call, a branch, a loop.
bool runs_graphs(const OpDef& def);
// Whether the forward rule runs the call itself and returns results, then tangents. Ops that carry
// graphs do so, since one run computes both; `out` of the call is empty.
bool pushes_results(const Op& op);
// Tangents of the results; entries may be absent.
Values run_jvp(const Op& op, const JvpCall& call);

// Bit i: the reverse rule for these wanted operands reads the value of operand (result) i. Found by
// running the rule on abstract tensors; cached per thread.
struct Reads {
  uint64_t operands = 0;
  uint64_t results = 0;
};
Reads find_reads(const Op& op, const Attrs& attrs, std::span<const Type* const> operands,
                 uint64_t wanted);

}  // namespace etude::internal
