// SPDX-License-Identifier: Apache-2.0
// The checks for every call of every op. Each function checks one call (or one record) and reports
// differences; none names an op.
#pragma once

#include <array>
#include <complex>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/autodiff/jvp.h"
#include "etude/autodiff/tape/tape.h"
#include "tests/ops/calls.h"

namespace etude::matrix {

// Notes one check; if it does not hold, a failure "LABEL: MESSAGE" of the running test.
void expect(bool holds, const std::string& label, const std::function<std::string()>& message);
// A second derivative next to a kink, which differences cannot check.
void note_kink();
// "matrix: 213 ops, 48,112 checks, ...".
std::string summary(std::size_t ops);

// ---- helpers on tensors, computed on the host
Tensor deep_copy(const Tensor& x);
// x + h * v.
Tensor moved(const Tensor& x, double h, const Tensor& v);
// Real part of the sum of conj(a) * b; nothing counts as zeros.
double inner_product(const Tensor& a, const Tensor& b);
std::vector<std::complex<double>> numbers(const Tensor& x);
bool same_bits(const Tensor& a, const Tensor& b);  // also both absent
std::string show(const Tensor& x);

// ---- helpers on calls
Values run(const Call& call);
bool may_move(const Call& call, std::size_t i);  // operand i has a dtype with derivatives
bool is_smooth(const Tensor& y);                 // result with a dtype with derivatives
std::string operand_label(const Call& call, std::size_t i);
// One cotangent per result, absent for those without derivatives.
std::vector<Tensor> cotangents(const Call& call, const Values& y);
// Gradients for all operands with these cotangents of the results; dense, some absent.
std::vector<Tensor> gradients(const Call& call, const std::vector<Tensor>& seeds);
bool is_checked_numerically(const Call& call);

// A failure for each tensor whose bits differ.
void compare_lists(const Call& call, std::string_view mode, std::span<const Tensor> got,
                   std::span<const Tensor> want);

// The operands that are there, as the inputs of graph_of(call).
std::vector<Tensor> inputs_of(const Call& call);
// The results of the call, sparse results made dense.
Values dense_results(const Call& call);
// The results of the plan of a graph.
std::vector<Tensor> run_plan(const Graph& graph, const std::vector<Tensor>& inputs);

// ---- values
void check_eager(const Call& call);      // types as inferred, equal bits again, in place, lowered
void check_guards(const Call& call);     // kernels write nothing but their results
void check_reference(const Call& call);  // element-wise: against doubles
void check_special(const Op& op, DType dtype);  // element-wise: zeros, infinities, NaN
void check_threads(const Call& call);           // 1, 2 and 7 threads
void check_large(const Op& op, DType dtype);    // element-wise: more than one chunk
void check_shared(const Call& call);            // one tensor for several operands

// ---- devices
// A second CPU device, and a device that runs calls later.
std::array<Device, 2> other_devices();
// Whether the types of graphs fix the devices of the operands, or operands are state.
bool fixes_devices(const Call& call);
void check_device(const Call& call);           // there, and in a scope: the same bits
void check_device_gradient(const Call& call);  // gradients, tangents and second order there

// ---- contexts
void check_tape(const Call& call);  // values under a tape, gradient types, absent ones
void check_jvp(const Call& call);   // against central differences
void check_vjp(const Call& call);   // against jvp by the inner product
void check_second_order(const Call& call);
void check_snapshot(const Call& call);   // operands written after the call
void check_recording(const Call& call);  // record, replay, also gradients
void check_staged(const Call& call);     // as a graph: its plan, its gradient
void check_tiers(const Call& call);      // in a run of element-wise calls, on tiles and as code
void check_lazy(const Call& call);       // recorded and run later: values and gradient
void check_graph(const Call& call);      // a graph of one node: verified, printed, parsed, run
void check_symbolic(const Call& call);   // as a graph at its sizes, made from graphs at others
void check_batch(const Call& call);      // all operands or one with three examples; gradients

// ---- records
void check_error(const Op& op, std::size_t index);
void check_lazy_error(const Op& op, std::size_t index);
void check_samples(const Op& op);
// The calls that throw are listed in refusals.txt, with their reasons.
void check_refusals(const Op& op);
// Rewrites refusals.txt and symbolic_refusals.txt from all records.
void write_lists();
void check_undifferentiable(const Call& call);
// The outcomes of the ways to vary the sizes of a call.
struct SymbolicCount {
  int served = 0;                 // a symbolic graph has its graph
  int refused = 0;                // there is no symbolic graph, or it refuses
  int fixed = 0;                  // the op takes no other sizes: its attributes hold them
  std::set<std::string> reasons;  // of those refused
};
SymbolicCount count_families(const Call& call);
// Refusals of symbolic graphs are listed in symbolic_refusals.txt, with their reasons.
void check_symbolic_shapes(const Op& op);

}  // namespace etude::matrix
