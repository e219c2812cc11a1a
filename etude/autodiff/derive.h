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
// A shorter path of run_vjp() with the same kernels, for an element-wise call whose operands and
// result have one real type and available values. `values`: operands, then the result. For any
// other call, or if a context records calls, does nothing and returns false. Consumes `ct`.
bool run_partials(const Op& op, std::span<const Tensor* const> values, Tensor& ct, uint64_t wanted,
                  Values& out);
// Computes tangents of the results from the reverse rule, for records whose forward rule covers
// only some calls.
Values transposed_jvp(const Op& op, const JvpCall& call);
// Whether the op runs graphs that are its attributes: a call, a branch, a loop.
bool runs_graphs(const OpDef& def);
// Whether the forward rule runs the call itself and returns the results, followed by the tangents.
// Rules of ops with graphs do this, since one run computes both; `out` of the call is then empty.
bool pushes_results(const Op& op);
// Tangents of the results; entries may be absent.
Values run_jvp(const Op& op, const JvpCall& call);

// The values that the reverse rule reads for the wanted operands. Bit i of `operands` means operand
// i, and bit i of `results` means result i. find_reads() finds them by running the rule on abstract
// tensors; each thread caches them.
struct Reads {
  uint64_t operands = 0;
  uint64_t results = 0;
};
Reads find_reads(const Op& op, const Attrs& attrs, std::span<const Type* const> operands,
                 uint64_t wanted);

}  // namespace etude::internal
