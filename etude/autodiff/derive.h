// SPDX-License-Identifier: Apache-2.0
// Derivative rules of an op, given by its record or derived from its kind, and what they read. Used
// by the tape and jvp contexts. Rules run in the context that is innermost when they are called.
#pragma once

#include "etude/core/op/op.h"

namespace etude::internal {

// Whether a reverse rule exists; if not, a context runs the lowering instead.
bool has_vjp(const Op& op);
bool has_jvp(const Op& op);

// Cotangents of the wanted operands; entries may be absent.
// throws: kInvalidArgument if the rule returns a wrong number of them.
Values run_vjp(const Op& op, const VjpCall& call);
// What run_vjp() gives for an element-wise call whose operands and result have one real type and
// whose values are at hand, by the same kernels without the detours; `values`: operands, result.
// False, with nothing done, when the call is of another sort or somebody watches. `ct` is used up.
bool run_partials(const Op& op, std::span<const Tensor* const> values, Tensor& ct, uint64_t wanted,
                  Values& out);
// Tangents of the results by the reverse rule, for rules of records that cover some calls only.
Values transposed_jvp(const Op& op, const JvpCall& call);
// Whether the op runs graphs that are its attributes: a call, a branch, a loop.
bool runs_graphs(const OpDef& def);
// Whether the forward rule runs the call itself: it gives the results, and then their tangents. So
// do ops that carry graphs, where one run has both; `out` of the call is empty.
bool pushes_results(const Op& op);
// Tangents of the results; entries may be absent.
Values run_jvp(const Op& op, const JvpCall& call);

// Bit i: the reverse rule for these wanted operands reads the value of operand (result) i. Found by
// running the rule on symbols; cached per thread.
struct Reads {
  uint64_t operands = 0;
  uint64_t results = 0;
};
Reads find_reads(const Op& op, const Attrs& attrs, std::span<const Type* const> operands,
                 uint64_t wanted);

}  // namespace etude::internal
