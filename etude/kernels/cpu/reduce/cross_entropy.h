// SPDX-License-Identifier: Apache-2.0
// Fused softmax cross entropy on rows. Used by ops/network/cross_entropy.cc.
#pragma once

#include "etude/core/op/op.h"

namespace etude::kernels::cpu {

// Operands: logits [rows, n]; labels, either probabilities [rows, n] or class numbers [rows];
// optionally class weights [n]. Attributes "label_smoothing" and "ignore_index". Result: losses
// [rows].
void prepare_cross_entropy(const PrepareCall& call);
// The same operands, then cotangents [rows]. Result: the cotangent of the logits.
void prepare_cross_entropy_grad(const PrepareCall& call);

}  // namespace etude::kernels::cpu
