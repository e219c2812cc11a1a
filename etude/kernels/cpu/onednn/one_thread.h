// SPDX-License-Identifier: Apache-2.0
// Keeps oneDNN and LAPACK on the calling thread, although their packages use OpenMP. Used around
// every call of them.
#pragma once

// Declares functions of the OpenMP runtime, since <omp.h> is not installed for every compiler.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int count);
}

namespace etude::kernels::cpu::onednn {

// While alive, parallel regions that this thread enters have one thread. cost: nanoseconds.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }

 private:
  int before_;
};

}  // namespace etude::kernels::cpu::onednn
