// SPDX-License-Identifier: Apache-2.0
// The workloads of Etude and the tensors they share. Used by etude-bench.
#pragma once

#include <cstdint>
#include <vector>

#include "benchmarks/worker.h"
#include "etude/core/tensor.h"

namespace etude::bench {

// All workloads, by family.
std::vector<Workload> small_workloads();    // add_*, tape*, matmul_many_*, scan
std::vector<Workload> dynamic_workloads();  // l2hmc_*, rnn_fb
std::vector<Workload> network_workloads();  // mlp_*, lenet_*, epoch
std::vector<Workload> deep_workloads();     // resnet56_*, transformer
std::vector<Workload> array_workloads();    // ew_*
std::vector<Workload> product_workloads();  // gemm_*, conv3x3_*, two_branches
std::vector<Workload>
sequence_workloads();                     // lstm_fb, gru_fb, attention_*, embedding_adam, adam_500
std::vector<Workload> layer_workloads();  // depthwise_fb, .., layer_norm_fb
std::vector<Workload> numeric_workloads();  // fft_*, cholesky_*, solve_*, qr_*, svd_*, eigh_*
std::vector<Workload> file_workloads();     // csv_1e6, png_batches, save_256m, load_256m

// Tensors of the numbers in values.h.
Tensor hashed(uint64_t seed, const Shape& shape, double scale = 1);
Tensor glorot(uint64_t seed, const Shape& shape);
Tensor labels(int64_t n);
Tensor rotation(int64_t n);
std::vector<double> digest(const std::vector<Tensor>& arrays);

// Counts as a use of x: neither the compiler nor a lazy program drops its computation.
void keep(const Tensor& x);
void keep(const std::vector<Tensor>& all);
// The workload in mode `lazy`: a run is recorded and ends with a barrier.
Workload with_lazy_mode(Workload workload);

}  // namespace etude::bench
